"""Experiments on sets of programs, and the probability of provable proposals."""
