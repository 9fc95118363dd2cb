"""Verification: candidates, verification conditions, Z3, Spacer and ESBMC."""
