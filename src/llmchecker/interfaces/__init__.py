"""Interfaces: command line, Python library, Snakemake workflow."""
