"""Exit statuses of the answers."""

from llmchecker.checking.answer import Answer
from llmchecker.checking.decision import EXIT_STATUS


def get_exit_status(answer: Answer) -> int:
    """Return the exit status for an answer: 0 for a number, else that of its outcome."""
    return 0 if answer.decision is None else EXIT_STATUS[answer.decision.outcome]
