"""The command line: `loop-invariants`, and the command `llmchecker verify`."""
