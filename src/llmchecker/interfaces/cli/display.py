"""The rows of an answer: by rich on a terminal, else as plain text."""

from llmchecker.checking.figures import Rows, format_rows
from llmchecker.interfaces.cli.output import is_terminal, print_answer


def show_rows(rows: Rows) -> None:
    """Print figures, notes and texts: with colours and bars on a terminal, else as text."""
    if not is_terminal():
        print_answer(format_rows(rows))
        return
    # Imported here, because an answer in a pipe needs no rich.
    from llmchecker.interfaces.cli.terminal import print_rows

    print_rows(rows)
