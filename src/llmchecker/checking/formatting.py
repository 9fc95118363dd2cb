"""Readable answers: the parts of an answer and the format of each number.

The shell and notebooks print complete answers, as text and HTML. The report lays out the same
`Figures` itself.
"""

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llmchecker.checking.decision import Decision, Outcome
from llmchecker.checking.interval import Interval
from llmchecker.checking.verdict import Verdict
from llmchecker.checking.witnesses import (
    COUNTEREXAMPLE,
    WITNESS,
    compute_decisive_mass,
    has_witnesses,
)
from llmchecker.models.decoding.chat_template import Start
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.utils.number_format import (
    DIGITS,
    format_count,
    format_lower,
    format_number,
    format_upper,
)
from llmchecker.utils.printable_text import escape_unprintable

FEW_DIGITS = 4
"""The significant digits of a number in a table, in the report and in a log."""
_PROGRESS_DIGITS = 3
UNKNOWN = "unknown"
"""The text of an unknown value or truth."""
_NOT_NEEDED = "not needed: every text is decided"

_NAME_WIDTH = 13
"""The smallest width of the column of names in a text."""
_VERBS = {WITNESS: "satisfy", COUNTEREXAMPLE: "violate"}


class IntervalProgress(Protocol):
    """The intervals of a check at one time, as of `AnytimeProgress`."""

    passes: int
    lower: float
    upper: float
    low: float | None
    high: float | None


def format_value(value: float | bool | None, digits: int = DIGITS) -> str:
    """Format a value or an estimate: a number, `true`, `false` or `unknown`."""
    if value is None:
        return UNKNOWN
    # bool first: it is also an int, and would be formatted as a number
    return str(value).lower() if isinstance(value, bool) else format_number(value, digits)


def format_interval(interval: Interval, digits: int = DIGITS) -> str:
    """Format an interval, whose ends are rounded outwards."""
    return f"[{format_lower(interval.lower, digits)}, {format_upper(interval.upper, digits)}]"


@dataclass(frozen=True)
class Figures:
    """The formatted figures of an answer.

    Attributes:
        value: the value of the bounded process.
        lower, upper: the ends of the bounds for the whole model.
        bounds: both ends; for a query without =?, the certain answer or `unknown`.
        estimate, low, high: the estimate and the ends of its interval, or None for each.
        interval: both ends of that interval, or None.
        confidence: the confidence of the interval, or None.
        samples: the number of samples with its noun, or None.
    """

    value: str
    lower: str
    upper: str
    bounds: str
    estimate: str | None = None
    low: str | None = None
    high: str | None = None
    interval: str | None = None
    confidence: str | None = None
    samples: str | None = None


def format_figures(
    verdict: Verdict,
    digits: int = DIGITS,
    unlimited: tuple[str, str] = ("-infinity", "infinity"),
) -> Figures:
    """Format the figures of a verdict.

    Args:
        verdict: the answer.
        digits: number of significant digits.
        unlimited: the lower and the upper end of bounds without a limit.
    """
    lower, upper = verdict.lower, verdict.upper
    if isinstance(lower, bool):
        # a query without =? has truth values as ends
        ends = format_value(lower), format_value(upper)
        bounds = ends[0] if lower == upper else UNKNOWN
    else:
        # None is an expected score without a limit on that side
        is_unbounded_below = lower is None or lower == -math.inf
        is_unbounded_above = upper is None or upper == math.inf
        ends = (
            unlimited[0] if is_unbounded_below else format_lower(lower, digits),
            unlimited[1] if is_unbounded_above else format_upper(upper, digits),
        )
        bounds = f"[{', '.join(ends)}]"
    figures = (format_value(verdict.value, digits), *ends, bounds)
    # only an estimate has a confidence
    if verdict.confidence is None:
        return Figures(*figures)
    return Figures(
        *figures,
        estimate=format_value(verdict.estimate, digits),
        low=format_lower(verdict.low, digits),
        high=format_upper(verdict.high, digits),
        interval=format_interval(Interval(verdict.low, verdict.high), digits),
        confidence=format_number(verdict.confidence),
        samples=format_count(verdict.samples, "sample"),
    )


def format_certainty(decision: Decision) -> str | None:
    """Format how an outcome is known: `certain`, or `with confidence 0.99`.

    Returns:
        None for an unknown outcome.
    """
    if decision.outcome == Outcome.UNKNOWN:
        return None
    if decision.confidence is None:
        return "certain"
    return f"with confidence {format_number(decision.confidence)}"


def format_decision(decision: Decision) -> str:
    """Format an outcome and how it is known: `HOLDS, certain`, `UNKNOWN`."""
    certainty = format_certainty(decision)
    # nothing is known of an unknown outcome
    return decision.outcome.value if certainty is None else f"{decision.outcome}, {certainty}"


def describe_decision(decision: Decision | None) -> dict[str, str | None]:
    """Return the decision as fields for JSON; both are None for a query with =?."""
    if decision is None:
        return {"outcome": None, "certainty": None}
    return {"outcome": decision.outcome.value, "certainty": format_certainty(decision)}


def format_progress(progress: IntervalProgress, has_answer: bool = True) -> str:
    """Format the intervals of a check at one time, and its passes.

    Args:
        progress: the intervals.
        has_answer: whether they contain the answer. If samples cannot estimate it, their difference
            is only the undecided probability.
    """
    if has_answer:
        certain = Interval(progress.lower, progress.upper)
        parts = [f"certain {format_interval(certain, _PROGRESS_DIGITS)}"]
    else:
        parts = [f"undecided {format_upper(progress.upper - progress.lower, _PROGRESS_DIGITS)}"]
    # without samples there is no interval with confidence
    if progress.low is not None:
        interval = format_interval(Interval(progress.low, progress.high), _PROGRESS_DIGITS)
        parts.append(f"estimate {interval}")
    return ", ".join([*parts, format_count(progress.passes, "pass")])


def align_rows(rows: Mapping[str, str], notes: Sequence[str]) -> list[str]:
    """Return a line for each row and note: its name, then its value in one column."""
    pairs = [*rows.items(), *(("note", note) for note in notes)]
    width = max(_NAME_WIDTH, *(len(name) + 2 for name in rows))
    return [f"{name:<{width}}{value}" for name, value in pairs]


def build_verdict_rows(verdict: Verdict) -> dict[str, str]:
    """Build the figures of a verdict by name: verdict, certain, estimate, bounded."""
    figures = format_figures(verdict)
    return {
        **_build_answer_rows(verdict, figures),
        name_bounded_figure(parse(verdict.query)): figures.value,
        **_build_size_rows(verdict),
    }


def anytime_rows(verdict: Verdict, passes: int) -> dict[str, str]:
    """Build the figures of an answer without a truncation, each by its name.

    The bounded figure is left out: that of a tree that was built for its bounds belongs to no alpha
    and k.
    """
    return {
        **_build_answer_rows(verdict, format_figures(verdict)),
        **_build_size_rows(verdict),
        "passes": f"{passes:,}",
    }


def name_bounded_figure(query: Query) -> str:
    """Name the figure of the bounded process: a probability, a score or a verdict."""
    if not query.is_numeric:
        return "verdict (bounded)"
    return "score (bounded)" if isinstance(query.root, Expectation) else "probability (bounded)"


def _build_answer_rows(verdict: Verdict, figures: Figures) -> dict[str, str]:
    """Build the rows of the query, its certain answer and any estimate."""
    rows = {"query": _join_lines(verdict.query)}
    # a query without =? has one answer, which is certain or not
    if verdict.decision is None:
        rows["certain"] = figures.bounds
    else:
        rows["verdict"] = format_decision(verdict.decision)
    is_exact = verdict.decision is None and verdict.lower == verdict.upper
    # an interval of an exact number would look like a statistical one
    if verdict.samples == 0 or (figures.estimate is not None and is_exact):
        rows["estimate"] = format_exactness(verdict)
    elif figures.estimate is not None:
        rows["estimate"] = _format_estimate(verdict, figures)
    return rows


def format_exactness(verdict: Verdict) -> str:
    """Format the estimate of an exact answer, with the rounding error of its bounds.

    Its interval would look like a statistical interval.
    """
    lower, upper = verdict.lower, verdict.upper
    # a query without =? has truth values as bounds, and an unlimited score has no width
    if isinstance(lower, bool) or None in (lower, upper) or not 0 < upper - lower < math.inf:
        return _NOT_NEEDED
    return f"{_NOT_NEEDED}, up to a rounding error of {format_upper(upper - lower, 1)}"


def _format_estimate(verdict: Verdict, figures: Figures) -> str:
    """Format the interval, its confidence, its point estimate and its samples."""
    parts = [f"{figures.interval} with confidence {figures.confidence}"]
    # the estimate of a query without =? is a truth, which the verdict contains
    if verdict.decision is None:
        parts.append(f"point estimate {figures.estimate}")
    return ", ".join([*parts, f"from {figures.samples}"])


def _build_size_rows(verdict: Verdict) -> dict[str, str]:
    return {"states": f"{verdict.states:,}", "transitions": f"{verdict.transitions:,}"}


def build_forecast_row(forecast: object | None) -> dict[str, str]:
    """Build the row of a `forecast.Forecast`; empty for None."""
    return {} if forecast is None else {"forecast": str(forecast)}


def build_start_rows(witnesses: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Build the row of the witnesses' start string; empty without witnesses."""
    return {"start": _quote(find_start_text(witnesses))} if witnesses else {}


def format_start(start: Start) -> str:
    """Format a start string in quotes, or each message of a chat, on one line."""
    if isinstance(start, str):
        return _quote(start)
    return ", ".join(f"{role} {_quote(text)}" for role, text in start.messages)


def find_start_text(witnesses: Sequence[Mapping[str, Any]]) -> str:
    """Return the start string of all witnesses; empty without witnesses."""
    # a tokenizer may rewrite its last characters, so only the longest one is complete
    return max((witness["text"][: witness["kept"]] for witness in witnesses), key=len, default="")


def continuation_text(witness: Mapping[str, Any]) -> str:
    """Return the part of a witness's text after the start string."""
    return witness["text"][witness["kept"] :]


def summarize_witnesses(query: Query, verdict: Verdict) -> str:
    """Summarize the kind of a verdict's witnesses and their share of the mass."""
    if not has_witnesses(query):
        return "No single text decides a query of this form."
    if not verdict.witnesses:
        return "No text decides it."
    # all witnesses of a verdict are of one kind
    kind = verdict.witnesses[0]["kind"]
    mass = math.fsum(witness["probability"] for witness in verdict.witnesses)
    summary = f"Texts that {_VERBS[kind]} it, together {format_number(mass, FEW_DIGITS)}"
    # without a value the share cannot be computed
    if query.is_numeric and verdict.value is None:
        return f"{summary}:"
    decisive_mass = format_number(compute_decisive_mass(query, kind, verdict.value), FEW_DIGITS)
    # for P=? the decisive mass is a total, for a threshold it is a limit
    share = f"of {decisive_mass}" if query.is_numeric else f"against a bound of {decisive_mass}"
    return f"{summary} {share}:"


def _format_witness_lines(witnesses: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format witnesses as lines after an empty line and a heading; empty without any."""
    if not witnesses:
        return []
    lines = [f"  {probability:<12}{text}" for probability, text in build_witness_rows(witnesses)]
    return ["", select_heading(witnesses), *lines]


def build_witness_rows(witnesses: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Build the probability and the quoted continuation of each witness."""
    return [(format_number(w["probability"]), _quote_continuation(w)) for w in witnesses]


def format_verdict_as_text(verdict: Verdict) -> str:
    """Format a verdict as text: its figures, notes and witnesses."""
    return format_rows_as_text(
        build_verdict_rows(verdict) | build_start_rows(verdict.witnesses), verdict
    )


def format_rows_as_text(rows: Mapping[str, str], verdict: Verdict) -> str:
    """Format named figures of a verdict as lines, then its notes and witnesses."""
    lines = [*align_rows(rows, verdict.notes), *_format_witness_lines(verdict.witnesses)]
    return "\n".join(lines)


def format_verdict_as_html(verdict: Verdict) -> str:
    """Format a verdict as part of a page, with escaped queries and texts."""
    return format_rows_as_html(
        build_verdict_rows(verdict) | build_start_rows(verdict.witnesses), verdict
    )


def format_rows_as_html(rows: Mapping[str, str], verdict: Verdict) -> str:
    """Format named figures, notes and texts of a verdict as HTML; escape all."""
    cells = "".join(
        f'<tr><th style="text-align: left">{html.escape(name)}</th>'
        f'<td style="text-align: left">{html.escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    parts = [f"<table>{cells}</table>", *(f"<p>{html.escape(note)}</p>" for note in verdict.notes)]
    if verdict.witnesses:
        witness_rows = "".join(
            f"<tr><td>{format_number(witness['probability'], FEW_DIGITS)}</td>"
            f'<td style="text-align: left">{html.escape(_quote_continuation(witness))}</td></tr>'
            for witness in verdict.witnesses
        )
        parts.append(f"<p>{select_heading(verdict.witnesses)}</p><table>{witness_rows}</table>")
    return "".join(parts)


def select_heading(witnesses: Sequence[Mapping[str, Any]]) -> str:
    """Return the heading above the witnesses, all of which are of one kind."""
    return f"Continuations that {_VERBS[witnesses[0]['kind']]} it, most probable first:"


def _quote_continuation(witness: Mapping[str, Any]) -> str:
    """Return the quoted continuation, marked if it continues in `rest`."""
    suffix = " and a token that was not selected" if witness["rest"] else ""
    # a `rest` has no text of its own, so its parent's text is shown
    return _quote(continuation_text(witness)) + suffix


def _quote(text: str) -> str:
    """Return a text on one line in quotation marks, without control characters."""
    return escape_unprintable(json.dumps(text, ensure_ascii=False))


def _join_lines(query: str) -> str:
    """Return a query with single spaces for its white space."""
    return " ".join(query.split())
