"""Models that transformers loads: batches, caches and checkpoint checks."""
