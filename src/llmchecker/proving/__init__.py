"""Loop invariants: proof obligations, the candidates that pass them, and verification."""
