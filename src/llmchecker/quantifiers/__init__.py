"""Quantifiers: they give texts integer scores, which become state variables of a chain."""
