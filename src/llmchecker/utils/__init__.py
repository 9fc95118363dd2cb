"""Atomic files, processes, job logs and number formats."""
