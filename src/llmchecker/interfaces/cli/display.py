"""The display of an answer: by rich on a terminal, else as plain text."""

from llmchecker.checking.figures import Display, format_display
from llmchecker.interfaces.cli.output import is_terminal, print_answer


def show_display(display: Display) -> None:
    """Print figures, notes and texts: with colours and bars on a terminal, else as text."""
    if not is_terminal():
        print_answer(format_display(display))
        return
    # Imported here, because an answer in a pipe needs no rich.
    from llmchecker.interfaces.cli.terminal import print_display

    print_display(display)
