"""The part of a workflow of llmchecker on programs: section of the configuration, and files."""
