"""What a text is worth, as integers that become state variables of a chain."""
