"""The command `llmchecker`, as `python -m llmchecker`."""

from llmchecker.interfaces.cli.entry import run

# a process that multiprocessing spawns imports this module under another name
if __name__ == "__main__":
    run()
