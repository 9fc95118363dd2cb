"""The configuration of a run. It is checked as a whole before anything runs."""
