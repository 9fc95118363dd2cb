"""Execution of programs: single steps, simulation, accelerated loops."""
