"""Readable comparisons, as text and as HTML."""

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING

from llmchecker.checking.decision import ComparisonOutcome
from llmchecker.checking.formatting import (
    align_rows,
    build_forecast_row,
    format_figures,
    format_interval,
)
from llmchecker.checking.interval import Interval
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.query import Query
from llmchecker.utils.number_format import format_number

# imported for types only: the module imports Storm and torch, which take seconds to load
if TYPE_CHECKING:
    from llmchecker.checking.answer import Answer
    from llmchecker.checking.anytime.comparison import Comparison

_NAMES = {ComparisonOutcome.FIRST: "the first", ComparisonOutcome.VERSUS: "the second"}


def format_certainty(comparison: "Comparison") -> str | None:
    """Format how the outcome is known: `certain`, or `with confidence 0.99`.

    Returns:
        None for an unknown outcome.
    """
    if comparison.outcome == ComparisonOutcome.UNKNOWN:
        return None
    if comparison.is_certain:
        return "certain"
    return f"with confidence {format_number(comparison.confidence)}"


def _format_outcome(query: Query, comparison: "Comparison") -> str:
    """Format the outcome: `the first is more likely, with confidence 0.99`."""
    if comparison.outcome == ComparisonOutcome.UNKNOWN:
        return "undecided"
    is_score = isinstance(query.root, Expectation)
    if comparison.outcome == ComparisonOutcome.EQUAL:
        outcome = "both are equal" if is_score else "both are equally likely"
    else:
        outcome = f"{_NAMES[comparison.outcome]} is {'greater' if is_score else 'more likely'}"
    return f"{outcome}, {format_certainty(comparison)}"


def build_rows(query: Query, comparison: "Comparison", sides: Mapping[str, str]) -> dict[str, str]:
    """Build the figures of a comparison, each by its name.

    Args:
        query: the query of both sides.
        comparison: the comparison.
        sides: the description of the side `first` and of the side `versus`.
    """
    rows = {
        "query": " ".join(query.text.split()),
        "verdict": _format_outcome(query, comparison),
        "difference": _format_difference(comparison),
    }
    letter = "E" if isinstance(query.root, Expectation) else "P"
    for name, description in sides.items():
        rows[name] = description
        rows[f"{letter}({name})"] = _format_side(getattr(comparison, name))
    return rows | {
        "passes": f"{comparison.passes:,}",
        "seconds": f"{comparison.seconds:.1f}",
        **build_forecast_row(comparison.forecast),
    }


def format_as_text(query: Query, comparison: "Comparison", sides: Mapping[str, str]) -> str:
    """Format a comparison as lines; the arguments are those of `build_rows`."""
    return "\n".join(align_rows(build_rows(query, comparison, sides), collect_notes(comparison)))


def format_as_html(query: Query, comparison: "Comparison", sides: Mapping[str, str]) -> str:
    """Format a comparison as part of a page; the arguments are those of `build_rows`."""
    cells = "".join(
        f'<tr><th style="text-align: left">{html.escape(name)}</th>'
        f'<td style="text-align: left">{html.escape(value)}</td></tr>'
        for name, value in build_rows(query, comparison, sides).items()
    )
    notes = (f"<p>{html.escape(note)}</p>" for note in collect_notes(comparison))
    return "".join([f"<table>{cells}</table>", *notes])


def collect_notes(comparison: "Comparison") -> list[str]:
    """Return the notes of both sides, each once."""
    return list(dict.fromkeys(comparison.first.notes + comparison.versus.notes))


def _format_difference(comparison: "Comparison") -> str:
    """Format the bounds and the interval of the first answer minus the second."""
    certain = f"certain {format_interval(Interval(comparison.lower, comparison.upper))}"
    # without samples there is no interval with confidence
    if comparison.low is None:
        return certain
    interval = format_interval(Interval(comparison.low, comparison.high))
    confidence = format_number(comparison.confidence)
    return f"{certain}; estimate {interval} with confidence {confidence}"


def _format_side(answer: "Answer") -> str:
    """Format the bounds and the interval of one side."""
    figures = format_figures(answer)
    certain = f"certain {figures.bounds}"
    if figures.interval is None:
        return certain
    return f"{certain}; estimate {figures.interval} with confidence {figures.confidence}"
