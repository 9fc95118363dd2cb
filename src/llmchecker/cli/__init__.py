"""The command line: `llmchecker check`, `tree` and `verify`."""
