"""Language models: distributions of the next token after a text."""
