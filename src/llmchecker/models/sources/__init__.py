"""Sources of models, prompts and data sets: download, checksums, pinning."""
