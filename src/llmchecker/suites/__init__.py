"""Suites: requirements for many prompts, with one confidence for all verdicts."""
