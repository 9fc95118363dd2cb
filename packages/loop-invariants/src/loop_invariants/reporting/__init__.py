"""Tables and figures of verified programs and proposals."""
