"""Execution of programs: single steps and simulation."""
