"""Conditions that a program and its runs suggest as loop invariants; nothing is proven here."""
