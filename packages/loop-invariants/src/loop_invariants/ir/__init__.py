"""Intermediate representation of C programs: expressions and statements."""
