"""How texts grow: turns, and the parts of a text."""
