"""Readable comparisons: their figures, which each output renders.

both            smollm2-135m, user "Is it so?"
first           temperature 0.2
versus          temperature 0.5
first − versus  certain [-0.02, 0]; estimate [-0.01, 0] with confidence 0.99
"""

from collections.abc import Sequence

from llmchecker.checking.answer import Answer
from llmchecker.checking.comparison import Comparison, SideLabel
from llmchecker.checking.decision import ComparisonOutcome
from llmchecker.checking.figures import Bar, Figure, Row, Rows, build_text_rows
from llmchecker.checking.formatting import (
    CERTAIN_MEANING,
    UNKNOWN,
    build_forecast_row,
    escape_definitions,
    format_interval,
    format_start,
    list_continuations,
)
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.properties.logic.ast import Expectation
from llmchecker.utils.interval import DIFFERENCES, PROBABILITIES, Interval
from llmchecker.utils.number_format import format_number

_NAMES = {ComparisonOutcome.FIRST: "the first", ComparisonOutcome.VERSUS: "the second"}
_ORDINALS = {"first": "first", "versus": "second"}
_MAX_TEXTS = 5
"""Maximum number of texts of each side."""


def _list_parts(side: SideLabel) -> tuple[str, ...]:
    """List the words of the model, the decoding, the system prompt and the other prompt."""
    prompt, system = side.prompt, "no system prompt"
    if isinstance(prompt, Chat) and prompt.messages[0][0] == "system":
        system = f"system {format_start(prompt.messages[0][1])}"
        prompt = Chat(prompt.messages[1:])
    return side.model, side.decoding or "temperature 1, uncut", system, format_start(prompt)


def describe_sides(sides: Sequence[SideLabel]) -> dict[str, str]:
    """Describe what both sides have in common, and what differs; empty without words."""
    if not sides:
        return {}
    first, versus = map(_list_parts, sides)
    pairs = list(zip(first, versus, strict=True))
    # the system prompt and the decoding of both are shown only if there are any
    hidden = _list_parts(SideLabel("", "", ""))
    same = [one for one, other in pairs if one == other and one not in hidden]
    differing = [pair for pair in pairs if pair[0] != pair[1]] or [(first[0], versus[0])]
    if first == versus:
        # two models of one name
        same = same[1:]
    words = [", ".join(side) for side in zip(*differing, strict=True)]
    shared = {"both": ", ".join(same)} if same else {}
    return {**shared, "first": words[0], "versus": words[1]}


def _format_outcome(comparison: Comparison) -> str:
    """Format the outcome: `the first is more likely, with confidence 0.99`."""
    if comparison.outcome == ComparisonOutcome.UNKNOWN:
        return "undecided: the difference may be 0"
    is_score = isinstance(comparison.first.query.root, Expectation)
    if comparison.outcome == ComparisonOutcome.EQUAL:
        outcome = "both are equal" if is_score else "both are equally likely"
    else:
        outcome = f"{_NAMES[comparison.outcome]} is {'greater' if is_score else 'more likely'}"
    meaning = f" ({CERTAIN_MEANING})" if comparison.is_certain else ""
    return f"{outcome}, {comparison.certainty}{meaning}"


def build_rows(comparison: Comparison) -> Rows:
    """Build the rows of a comparison: outcome, difference, both sides, costs and texts."""
    query = comparison.first.query
    is_score = isinstance(query.root, Expectation)
    outcome = Figure(_format_outcome(comparison), outcome=comparison.outcome.value)
    # an expected score has no axis
    rows = {
        **build_text_rows(
            {
                "query": " ".join(query.text.split()),
                **escape_definitions(comparison.first),
                **describe_sides(comparison.sides),
            }
        ),
        "verdict": (outcome,),
        "first − versus": _build_difference(comparison, None if is_score else DIFFERENCES),
    }
    letter = "E" if is_score else "P"
    answers = {"first": comparison.first, "versus": comparison.versus}
    for name, answer in answers.items():
        rows[f"{letter}({name})"] = _build_side(answer, None if is_score else PROBABILITIES)
    rows |= build_text_rows(_describe_horizons(comparison))
    costs = {}
    if not (comparison.first.is_text_only and comparison.versus.is_text_only):
        costs["passes"] = f"{comparison.passes:,}"
    if comparison.answers is not None:
        costs["answers"] = f"{comparison.answers:,}"
    costs["seconds"] = f"{comparison.seconds:.1f}"
    rows |= build_text_rows(costs) | build_forecast_row(comparison.forecast)
    lists = [
        each
        for name, answer in answers.items()
        for each in list_continuations(
            query, answer.witnesses[:_MAX_TEXTS], f"Continuations of the {_ORDINALS[name]} side"
        )
    ]
    return Rows(rows, comparison.notes, tuple(lists))


def _describe_horizons(comparison: Comparison) -> dict[str, str]:
    """Describe the horizon, and how much of the answers of each side had ended there."""
    first, versus = comparison.first.about, comparison.versus.about
    if first == versus:
        return {"horizon": first}
    return {"horizon(first)": first, "horizon(versus)": versus}


def _build_difference(comparison: Comparison, axis: Interval | None) -> Row:
    """Build the bounds and the interval of the first answer minus the second."""
    difference = comparison.difference
    # texts alone leave every probability of their side possible
    is_bounded = not (comparison.first.is_text_only or comparison.versus.is_text_only)
    certain = difference.certain if is_bounded else None
    # without samples there is no interval with confidence
    sampled = None if comparison.confidence is None else difference.sampled
    return _build_intervals(certain, sampled, comparison.confidence, axis)


def _build_side(answer: Answer, axis: Interval | None) -> Row:
    """Build the bounds and the interval of one side."""
    certain = None if answer.is_text_only else answer.certain
    if answer.sampled is None:
        return _build_intervals(certain, None, None, axis)
    return _build_intervals(certain, answer.sampled.interval, answer.sampled.confidence, axis)


def _build_intervals(
    certain: Interval | None,
    sampled: Interval | None,
    confidence: float | None,
    axis: Interval | None,
) -> Row:
    """Build the figures of certain bounds and of an interval that is narrower."""
    detail = "" if confidence is None else f" with confidence {format_number(confidence)}"
    intervals = (
        ("certain", certain, ""),
        ("estimate", None if sampled == certain else sampled, detail),
    )
    figures = tuple(
        Figure(
            f"{word} {format_interval(interval)}",
            addition,
            None if axis is None else Bar(interval, axis),
        )
        for word, interval, addition in intervals
        if interval is not None
    )
    return figures or (Figure(UNKNOWN),)
