"""Conversion of promptfoo configurations to suites."""
