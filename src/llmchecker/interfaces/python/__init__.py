"""The Python library: the names of `import llmchecker`."""
