"""Answers to queries: values, certain bounds, verdicts, and witness texts."""
