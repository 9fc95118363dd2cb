"""What `import llmchecker` offers: a thin layer, in terms of a caller's own Python objects."""
