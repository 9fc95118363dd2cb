"""Readable comparisons: their figures, which each output renders."""

from collections.abc import Mapping

from llmchecker.checking.answer import Answer
from llmchecker.checking.comparison import Comparison
from llmchecker.checking.decision import ComparisonOutcome
from llmchecker.checking.figures import Bar, Display, Figure, Row, build_text_rows
from llmchecker.checking.formatting import UNKNOWN, build_forecast_row, format_interval
from llmchecker.checking.interval import DIFFERENCES, PROBABILITIES, Interval
from llmchecker.properties.logic.ast import Expectation
from llmchecker.utils.number_format import format_number

_NAMES = {ComparisonOutcome.FIRST: "the first", ComparisonOutcome.VERSUS: "the second"}


def _format_outcome(comparison: Comparison) -> str:
    """Format the outcome: `the first is more likely, with confidence 0.99`."""
    if comparison.outcome == ComparisonOutcome.UNKNOWN:
        return "undecided"
    is_score = isinstance(comparison.first.query.root, Expectation)
    if comparison.outcome == ComparisonOutcome.EQUAL:
        outcome = "both are equal" if is_score else "both are equally likely"
    else:
        outcome = f"{_NAMES[comparison.outcome]} is {'greater' if is_score else 'more likely'}"
    return f"{outcome}, {comparison.certainty}"


def build_display(comparison: Comparison, sides: Mapping[str, str]) -> Display:
    """Build the display of a comparison: outcome, difference, both sides and costs.

    Args:
        comparison: the comparison.
        sides: the description of the side `first` and of the side `versus`.
    """
    query = comparison.first.query
    is_score = isinstance(query.root, Expectation)
    outcome = Figure(_format_outcome(comparison), outcome=comparison.outcome.value)
    # an expected score has no axis
    rows = {
        **build_text_rows({"query": " ".join(query.text.split())}),
        "verdict": (outcome,),
        "difference": _build_difference(comparison, None if is_score else DIFFERENCES),
    }
    letter = "E" if is_score else "P"
    answers = {"first": comparison.first, "versus": comparison.versus}
    for name, answer in answers.items():
        rows |= build_text_rows({name: sides[name]})
        rows[f"{letter}({name})"] = _build_side(answer, None if is_score else PROBABILITIES)
    rows |= build_text_rows(_describe_horizons(comparison))
    costs = {}
    if not (comparison.first.is_text_only and comparison.versus.is_text_only):
        costs["passes"] = f"{comparison.passes:,}"
    if comparison.answers is not None:
        costs["answers"] = f"{comparison.answers:,}"
    costs["seconds"] = f"{comparison.seconds:.1f}"
    rows |= build_text_rows(costs) | build_forecast_row(comparison.forecast)
    return Display(rows, comparison.notes)


def _describe_horizons(comparison: Comparison) -> dict[str, str]:
    """Describe the horizon, and how much of the answers of each side had ended there."""
    first, versus = comparison.first.about, comparison.versus.about
    if first == versus:
        return {"horizon": first}
    return {"horizon": f"first {first}; versus {versus}"}


def _build_difference(comparison: Comparison, axis: Interval | None) -> Row:
    """Build the bounds and the interval of the first answer minus the second."""
    difference = comparison.difference
    # texts alone leave every probability of their side possible
    is_bounded = not (comparison.first.is_text_only or comparison.versus.is_text_only)
    figures = (_build_figure("certain", difference.certain, axis),) if is_bounded else ()
    # without samples there is no interval with confidence
    if comparison.confidence is None:
        return figures or (Figure(UNKNOWN),)
    detail = _format_confidence(comparison.confidence)
    return (*figures, _build_figure("estimate", difference.sampled, axis, detail))


def _build_side(answer: Answer, axis: Interval | None) -> Row:
    """Build the bounds and the interval of one side."""
    figures = () if answer.is_text_only else (_build_figure("certain", answer.certain, axis),)
    if answer.sampled is None:
        return figures or (Figure(UNKNOWN),)
    detail = _format_confidence(answer.sampled.confidence)
    return (*figures, _build_figure("estimate", answer.sampled.interval, axis, detail))


def _build_figure(word: str, interval: Interval, axis: Interval | None, detail: str = "") -> Figure:
    bar = None if axis is None else Bar(interval, axis)
    return Figure(f"{word} {format_interval(interval)}", detail, bar)


def _format_confidence(confidence: float) -> str:
    return f" with confidence {format_number(confidence)}"
