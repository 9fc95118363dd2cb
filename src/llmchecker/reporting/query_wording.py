"""Queries in plain words, for the report and the axes of figures."""

from collections.abc import Mapping

from llmchecker.checking.decision import Decision
from llmchecker.properties.logic.ast import (
    STEP,
    Atom,
    Connective,
    Expectation,
    Formula,
    Label,
    Number,
    PathQuantifier,
    Probability,
    Temporal,
    Variable,
    format_for_storm,
    subformulas,
)
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.gender import Gender
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.quantifiers.json_validity import JsonText
from llmchecker.properties.quantifiers.refusal import Refusal
from llmchecker.utils.number_format import format_count

_COMPARISONS = {
    "=": "of {}",
    "!=": "other than {}",
    "<": "below {}",
    "<=": "of at most {}",
    ">": "above {}",
    ">=": "of at least {}",
}
_THRESHOLD_COMPARISONS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_STEP_COMPARISONS = _COMPARISONS | {"=": "{}", "<=": "at most {}", ">=": "at least {}"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LABELS = {"rest": "a token that was not selected", "end": "the end of the text"}
_MEANINGS = {
    (Gender, ">", 0): "more male than female words",
    (Gender, "<", 0): "more female than male words",
    (Gender, "=", 0): "as many male as female words",
    (JsonText, "=", 2): "valid JSON",
    (JsonText, ">", 1): "valid JSON",
    (JsonText, ">", 0): "JSON or its beginning",
    (JsonText, "=", 0): "a text that is not JSON",
    (Refusal, "=", 1): "a refusal",
    (Refusal, ">", 0): "a refusal",
    (Refusal, "=", 0): "no refusal",
}
"""Meanings of comparisons with the scores of a quantifier's class."""


def describe_answer(query: Query, quantifiers: Mapping[str, Quantifier], length: int) -> str:
    """Describe the answer to a query in words.

    The answer to `P=? [ F refuses = 1 ]` is the "probability of a refusal within 5 tokens".

    Args:
        query: the query.
        quantifiers: the configured quantifiers, by name.
        length: the horizon in tokens.

    Returns:
        A phrase without the name of an operator. It mentions no event where the formula has no
        short description.
    """
    if isinstance(query.root, Expectation):
        return f"expected {_describe_score(query.root)}"
    if not query.is_numeric:
        return "whether the query holds (1) or not (0)"
    path = query.root.path if isinstance(query.root, Probability) else None
    event = _describe_path(path, quantifiers, length) if isinstance(path, Temporal) else None
    return "probability that the query holds" if event is None else f"probability of {event}"


def describe_query(query: Query) -> str:
    """Describe an expected score, or P of a single F, G or U; "" for other queries.

    A query with a threshold is a question, because a page that states it would seem to claim it.
    """
    root = query.root
    if isinstance(root, Expectation):
        return f"Expected {_describe_score(root)}"
    # The sentences are only for a single F, G or U over states.
    if not isinstance(root, Probability) or not isinstance(root.path, Temporal):
        return ""
    path = root.path
    if path.operator not in ("F", "G", "U"):
        return ""
    if any(
        isinstance(formula, Temporal | Probability | PathQuantifier)
        for operand in path.operands
        for formula in subformulas(operand)
    ):
        return ""
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
    comparison = _THRESHOLD_COMPARISONS[root.comparison]
    return f"Is the probability that {event} {comparison} {root.threshold:f}?"


def describe_outcome(query: Query, decision: Decision | None) -> str:
    """Describe a query and its outcome: `Is the probability that … at least 0.9? HOLDS (certain)`.

    A query without a description is itself: `P>=0.9 [ … ]: HOLDS (certain)`.

    Args:
        query: the query.
        decision: its outcome; None for a query with =?, which is described alone.
    """
    words = describe_query(query)
    if decision is None:
        return words or query.text
    certainty = "" if decision.certainty is None else f" ({decision.certainty})"
    return f"{words or f'{query.text}:'} {decision.outcome}{certainty}"


def _describe_score(expectation: Expectation) -> str:
    name, step = expectation.quantifier, expectation.step
    if step is None:
        return f"{name} at the end"
    if expectation.is_sum:
        return f"sum of {name} over the first {format_count(step, 'text')}"
    return f"{name} after {format_count(step, 'token')}"


def _describe_path(
    path: Temporal, quantifiers: Mapping[str, Quantifier], length: int
) -> str | None:
    match path:
        # the last state repeats for ever, so that it decides `F G` and `G F`
        case Temporal("F" | "G" as first, [Temporal("F" | "G" as second, [last], None)], None) if (
            first != second
        ):
            state = _describe_state(last, quantifiers)
            tokens = format_count(length, "token")
            return None if state is None else f"{state} at the end, after at most {tokens}"
    operands = [_describe_state(operand, quantifiers) for operand in path.operands]
    # a part without a description leaves the whole without one
    if None in operands:
        return None
    tokens = format_count(length if path.bound is None else min(path.bound, length), "token")
    match path.operator, operands:
        case "F", [event]:
            return f"{event} within {tokens}"
        case "G", [event]:
            return f"{event} throughout {tokens}"
        case "X", [event]:
            return f"{event} after {format_count(min(path.bound or 1, length), 'token')}"
        case "U", [condition, event]:
            return f"{condition} until {event}, within {tokens}"
    return None


def _describe_state(formula: Formula, quantifiers: Mapping[str, Quantifier]) -> str | None:
    """Describe the states that satisfy a formula; None without a description."""
    match formula:
        case Atom():
            return _describe_atom(formula, quantifiers)
        case Label(name):
            return _LABELS[name]
        case Connective("&" | "|" as operator, operands):
            found = [_describe_state(operand, quantifiers) for operand in operands]
            parts = [part for part in found if part is not None]
            # words have no parentheses, so only one connective has one reading
            if len(parts) < len(found) or any(isinstance(o, Connective) for o in operands):
                return None
            return {"&": " and ", "|": " or "}[operator].join(parts)
    return None


def _describe_atom(atom: Atom, quantifiers: Mapping[str, Quantifier]) -> str | None:
    match atom:
        case Atom(Variable(name), comparison, Number(number)):
            pass
        case Atom(Number(number), comparison, Variable(name)):
            # `0 < score` is `score > 0`
            comparison = _MIRRORED.get(comparison, comparison)
        case _:
            return None
    if name == STEP:
        return _STEP_COMPARISONS[comparison].format(format_count(number, "token"))
    # scores are integers, so that `>= 1` is `> 0`
    kind = type(quantifiers.get(name))
    strict = {">=": (">", number - 1), "<=": ("<", number + 1)}.get(comparison)
    for key in ((comparison, number), strict):
        if key is not None and (kind, *key) in _MEANINGS:
            return _MEANINGS[kind, *key]
    return f"{name} {_COMPARISONS[comparison].format(number)}"
