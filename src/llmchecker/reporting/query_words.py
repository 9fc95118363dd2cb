"""Queries and their figures in words, for the report and the tables."""

from llmchecker.checking import witnesses
from llmchecker.properties.logic.ast import Expectation, Probability, format_for_storm
from llmchecker.properties.logic.query import Query
from llmchecker.utils.number_format import format_count

_COMPARISON_WORDS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


def name_bounded_figure(query: Query) -> str:
    """Name the figure of the bounded process: a probability, a score or a verdict."""
    if not query.is_numeric:
        return "verdict (bounded)"
    return "score (bounded)" if isinstance(query.root, Expectation) else "probability (bounded)"


def describe_query(query: Query) -> str:
    """Describe an expected score, or P of a single F, G or U; "" for other queries."""
    root = query.root
    if isinstance(root, Expectation):
        return f"Expected {root.quantifier} after {format_count(root.step, 'token')}"
    # The sentences are only for a single F, G or U over states.
    if not (isinstance(root, Probability) and witnesses.has_witnesses(query)):
        return ""
    path = root.path
    operands = [format_for_storm(operand, str) for operand in path.operands]
    match path.operator:
        case "F":
            event = f"{operands[0]} eventually holds"
        case "G":
            event = f"{operands[0]} always holds"
        case _:
            event = f"{operands[0]} holds until {operands[1]}"
    if path.bound is not None:
        event += f" within {format_count(path.bound, 'token')}"
    if root.threshold is None:
        return f"Probability that {event}"
    comparison = _COMPARISON_WORDS[root.comparison]
    return f"The probability that {event} is {comparison} {root.threshold:f}"
