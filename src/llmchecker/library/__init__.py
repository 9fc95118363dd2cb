"""The names that `import llmchecker` offers: a thin layer over a caller's own Python objects."""
