"""C programs and their loop invariants."""
