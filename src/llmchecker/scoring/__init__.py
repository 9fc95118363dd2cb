"""Scoring: how a config names and sets up quantifiers, and the scores of a tree's texts."""
