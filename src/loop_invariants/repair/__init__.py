"""Repair of proposals by counterexamples."""
