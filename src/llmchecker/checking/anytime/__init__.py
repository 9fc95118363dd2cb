"""Anytime answers: refinement and sampling of a tree within a budget."""
