"""The bounded text tree: selection, expansion, storage and distribution cache."""
