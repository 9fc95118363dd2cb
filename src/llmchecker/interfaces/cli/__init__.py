"""The command line: `llmchecker check`, `tree`, `verify` and `repair`."""
