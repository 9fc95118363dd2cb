"""Quantifiers: functions from texts to integers, the chain's state variables."""
