"""Exit statuses of the answers."""

from llmchecker.checking.answer import Answer
from llmchecker.checking.decision import EXIT_STATUS
from llmchecker.utils.exit_status import ExitStatus


def get_exit_status(answer: Answer) -> ExitStatus:
    """Return the exit status for an answer: 0 for a number, else that of its outcome."""
    return ExitStatus.SUCCESS if answer.decision is None else EXIT_STATUS[answer.decision.outcome]
