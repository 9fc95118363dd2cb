"""Symbolic execution of the original C text: all runs, byte by byte."""
