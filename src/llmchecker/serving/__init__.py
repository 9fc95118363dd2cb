"""Models that a running server answers for: what is asked of it, and what is taken."""
