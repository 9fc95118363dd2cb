"""Language models: the distribution of the next token after a text."""
