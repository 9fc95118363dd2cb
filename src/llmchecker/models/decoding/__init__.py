"""Chat templates, and the decoding of logits into sampling probabilities."""
