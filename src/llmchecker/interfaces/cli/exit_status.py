"""Exit statuses of the answers."""

from llmchecker.checking.decision import EXIT_STATUS, Outcome
from llmchecker.checking.verdict import Verdict
from llmchecker.properties.logic.query import Query
from llmchecker.utils.exit_status import ExitStatus


def get_exit_status(query: Query, verdict: Verdict) -> ExitStatus:
    """Return the exit status for a verdict: 0 for a number, else that of its outcome."""
    if query.is_numeric:
        return ExitStatus.SUCCESS
    # without bounds and estimate nothing is known
    outcome = Outcome.UNKNOWN if verdict.decision is None else verdict.decision.outcome
    return EXIT_STATUS[outcome]
