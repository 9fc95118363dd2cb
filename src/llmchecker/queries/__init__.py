"""Queries: formulas of PCTL and LTL over quantifiers, their parser, and their meaning on texts."""
