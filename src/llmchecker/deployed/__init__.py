"""How a deployed model is asked: messages that it answers, and how it chooses its next tokens."""
