"""Generation of unproven candidates from a program's text and its runs."""
