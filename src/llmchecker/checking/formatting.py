"""Readable answers: the parts of an answer and the format of each number.

`Rows` are what the shell, notebooks and Python show. The report lays out the same figures itself.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.figures import (
    Bar,
    Figure,
    Row,
    Rows,
    TextList,
    build_text_rows,
)
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.witnesses import (
    COUNTEREXAMPLE,
    WITNESS,
    Witness,
    compute_decisive_mass,
    find_start_text,
    has_witnesses,
)
from llmchecker.models.decoding.chat_template import Start
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.query import Query
from llmchecker.utils.interval import Interval
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
CERTAIN_MEANING = "proven for the whole model"
"""The meaning of `certain`, which each output states once."""
_UNLIMITED = ("-infinity", "infinity")
"""The lower and the upper end of an interval without a limit."""
_NOT_NEEDED = "not needed: every text is decided"

_VERBS = {WITNESS: "satisfy", COUNTEREXAMPLE: "violate"}


def format_value(value: float | bool | None, digits: int = DIGITS) -> str:
    """Format a value or an estimate: a number, `true`, `false` or `unknown`."""
    if value is None:
        return UNKNOWN
    # bool first: it is also an int, and would be formatted as a number
    return str(value).lower() if isinstance(value, bool) else format_number(value, digits)


def format_interval(interval: Interval, digits: int = DIGITS) -> str:
    """Format an interval, whose ends are rounded outwards."""
    return f"[{', '.join(_format_ends(interval, digits))}]"


def _format_ends(
    interval: Interval, digits: int, unlimited: tuple[str, str] = _UNLIMITED
) -> tuple[str, str]:
    # an expected score may have no limit on a side
    return (
        unlimited[0] if interval.lower == -math.inf else format_lower(interval.lower, digits),
        unlimited[1] if interval.upper == math.inf else format_upper(interval.upper, digits),
    )


def format_bounds(
    answer: Answer, digits: int = DIGITS, unlimited: tuple[str, str] = _UNLIMITED
) -> str:
    """Format the certain bounds; for a query without =?, the certain answer or `unknown`.

    Args:
        answer: the answer.
        digits: number of significant digits.
        unlimited: the lower and the upper end of bounds without a limit.
    """
    if answer.query.is_numeric:
        return f"[{', '.join(_format_ends(answer.certain, digits, unlimited))}]"
    return format_value(answer.lower) if answer.certain.is_exact else UNKNOWN


def format_progress(progress: Progress, *, is_text_only: bool = False) -> str:
    """Format the intervals of a run at one time, and its passes or answers."""
    if is_text_only:
        return _format_answer_progress(progress)
    parts = [f"certain {format_interval(progress.certain, _PROGRESS_DIGITS)}"]
    # without samples there is no interval with confidence
    if progress.sampled is not None:
        parts.append(f"estimate {format_interval(progress.sampled, _PROGRESS_DIGITS)}")
    return ", ".join([*parts, format_count(progress.passes, "pass")])


def _format_answer_progress(progress: Progress) -> str:
    """Format the interval of a model that returns texts alone at one time, and its answers."""
    parts = []
    if progress.sampled is not None:
        parts.append(f"estimate {format_interval(progress.sampled, _PROGRESS_DIGITS)}")
    return ", ".join([*parts, format_count(progress.passes, "answer")])


def build_figures(answer: Answer) -> dict[str, Row]:
    """Build the figures of an answer by name: verdict or certain, estimate, bounded, and sizes."""
    rows = _build_answer_rows(answer)
    # texts without probabilities have no chain
    if answer.is_text_only:
        return rows | build_text_rows({"answers": _describe_answers(answer)})
    # a conversation is no chain of tokens
    if answer.turns is not None:
        return rows | build_text_rows({"passes": f"{answer.passes:,}"})
    counts = {"states": answer.costs.states, "transitions": answer.costs.transitions}
    # the stored answer of a whole model has no sizes
    sizes = {name: f"{count:,}" for name, count in counts.items() if count is not None}
    # a tree that was built for its bounds has no bounded figure, which belongs to alpha and k
    if answer.passes is not None:
        return rows | build_text_rows(sizes | {"passes": f"{answer.passes:,}"})
    bounded = {name_bounded_figure(answer.query): format_value(answer.bounded)}
    return rows | build_text_rows(bounded | sizes)


def escape_definitions(answer: Answer) -> dict[str, str]:
    """Return `Answer.definitions` in printable form, each on one line."""
    return {name: escape_unprintable(text) for name, text in answer.definitions.items()}


def _describe_answers(answer: Answer) -> str:
    """Describe the answers of a model that returns texts alone, and how many satisfy the query."""
    text = f"{answer.costs.answers:,}"
    if answer.tally is None or not answer.samples:
        return text
    if answer.turns is not None:
        text += f" in {format_count(answer.samples, 'conversation')}"
    satisfying, violating = answer.tally
    return f"{text}, of which {satisfying:,} satisfy the formula and {violating:,} violate it"


def name_bounded_figure(query: Query) -> str:
    """Name the figure of the bounded process: a probability, a score or a verdict."""
    if not query.is_numeric:
        return "verdict (bounded)"
    return "score (bounded)" if isinstance(query.root, Expectation) else "probability (bounded)"


def _build_answer_rows(answer: Answer) -> dict[str, Row]:
    """Build the rows of the query, its certain answer and any estimate."""
    rows = build_text_rows({"query": _join_lines(answer.query.text), **escape_definitions(answer)})
    # an expected score has no axis
    has_axis = not isinstance(answer.query.root, Expectation)
    # a query without =? has one answer, which is certain or not
    if answer.is_text_only and answer.sampled is None:
        rows["estimate"] = (Figure(UNKNOWN),)
    if answer.decision is None and answer.has_bounds:
        bar = Bar(answer.certain) if has_axis else None
        rows["certain"] = (Figure(format_bounds(answer), bar=bar),)
    elif answer.decision is not None:
        outcome = answer.decision.outcome.value
        rows["verdict"] = (Figure(str(answer.decision), outcome=outcome),)
    is_exact = answer.query.is_numeric and answer.certain.is_exact
    # an interval of an exact number would look like a statistical one
    if (sampled := answer.sampled) is not None and (sampled.samples == 0 or is_exact):
        rows["estimate"] = (Figure(format_exactness(answer)),)
    elif sampled is not None:
        threshold = find_threshold(answer.query)
        limit = None if threshold is None else float(threshold.number)
        bar = Bar(sampled.interval, threshold=limit) if has_axis else None
        parts = [f" with confidence {format_number(sampled.confidence)}"]
        # the estimate of a query without =? is a truth, which the verdict contains
        if answer.decision is None:
            parts.append(f"point estimate {format_value(answer.estimate)}")
        detail = ", ".join([*parts, f"from {format_count(sampled.samples, 'sample')}"])
        rows["estimate"] = (Figure(format_interval(sampled.interval), detail, bar),)
    return rows | build_text_rows({"horizon": answer.about})


def format_exactness(answer: Answer) -> str:
    """Format the estimate of an exact answer, with the rounding error of its bounds.

    Its interval would look like a statistical interval.
    """
    width = answer.certain.width
    # a query without =? has truth values as bounds, and an unlimited score has no width
    if not answer.query.is_numeric or not 0 < width < math.inf:
        return _NOT_NEEDED
    return f"{_NOT_NEEDED}, up to a rounding error of {format_upper(width, 1)}"


def build_forecast_row(forecast: Forecast | None) -> dict[str, Row]:
    """Build the row of a forecast; empty for None."""
    return {} if forecast is None else build_text_rows({"forecast": str(forecast)})


def format_start(start: Start) -> str:
    """Format a start string in quotes, or each message of a chat, on one line."""
    if isinstance(start, str):
        return _quote(start)
    return ", ".join(f"{role} {_quote(text)}" for role, text in start.messages)


def name_formula(query: Query) -> str:
    """Name what the texts of an answer satisfy or violate: `it`, or the path formula.

    A text that satisfies the formula of `P<=0.1 [ F leaks > 0 ]` is one against the requirement.
    """
    threshold = find_threshold(query)
    if threshold is None or threshold.comparison not in ("<=", "<"):
        return "it"
    return _join_lines(query.path_text)


def summarize_witnesses(answer: Answer) -> str:
    """Summarize the kind of an answer's witnesses and their share of the mass."""
    query = answer.query
    if not has_witnesses(query):
        return "No single text decides a query of this form."
    if not answer.witnesses:
        return "No text decides it."
    # all witnesses of an answer are of one kind
    kind = answer.witnesses[0].kind
    shown_mass = math.fsum(witness.probability for witness in answer.witnesses)
    what = f"{_VERBS[kind]} {name_formula(query)}"
    summary = f"Texts that {what}, together {format_number(shown_mass, FEW_DIGITS)}"
    mass = compute_decisive_mass(query, kind, answer.bounded if query.is_numeric else None)
    # without a value the share cannot be computed
    if mass is None:
        return f"{summary}:"
    decisive_mass = format_number(mass, FEW_DIGITS)
    # for P=? the decisive mass is a total, for a threshold it is a limit
    share = f"of {decisive_mass}" if query.is_numeric else f"against a bound of {decisive_mass}"
    return f"{summary} {share}:"


def build_rows(answer: Answer, figures: Mapping[str, Row] | None = None) -> Rows:
    """Build the rows of an answer: its figures, notes and witnesses.

    Args:
        answer: the answer.
        figures: the figures; None for those of `build_figures`, a forecast and the start string.
    """
    witnesses = answer.witnesses
    if figures is None:
        figures = build_figures(answer) | build_forecast_row(answer.forecast)
        if witnesses and answer.turns is None:
            figures |= build_text_rows({"start": _quote(find_start_text(witnesses))})
    rows = dict(figures)
    for name, row in figures.items():
        if name == "certain" or (name == "verdict" and str(row[0]).endswith(", certain")):
            meaning = f"{row[0].detail} ({CERTAIN_MEANING})"
            rows[name] = (replace(row[0], detail=meaning), *row[1:])
    if answer.turns is None:
        return Rows(rows, answer.remarks, list_continuations(answer.query, witnesses))
    texts = list_continuations(answer.query, witnesses, "Conversations", _join_messages)
    return Rows(rows, answer.remarks, texts)


def list_continuations(
    query: Query,
    witnesses: Sequence[Witness],
    noun: str = "Continuations",
    format_text: Callable[[Witness], str] | None = None,
) -> tuple[TextList, ...]:
    """List the continuations of an answer's witnesses; empty without one.

    Args:
        query: the query that they decide.
        witnesses: the witnesses, most probable first.
        noun: the first words of the heading.
        format_text: formats each text on one line; None for quotation marks around it.
    """
    if not witnesses:
        return ()
    # all witnesses of an answer are of one kind
    what = f"{_VERBS[witnesses[0].kind]} {name_formula(query)}"
    heading = f"{noun} that {what}, most probable first:"
    texts = tuple(
        (format_number(each.probability), (format_text or _quote_continuation)(each))
        for each in witnesses
    )
    return (TextList(heading, texts),)


def _quote_continuation(witness: Witness) -> str:
    """Return the quoted continuation, marked if it continues in `rest`."""
    suffix = " and a token that was not selected" if witness.rest else ""
    # a `rest` has no text of its own, so its parent's text is shown
    return _quote(witness.continuation) + suffix


def _join_messages(witness: Witness) -> str:
    """Return the messages of a conversation, each of which is a JSON string, on one line."""
    return escape_unprintable(" · ".join(witness.continuation.split("\n")))


def _quote(text: str) -> str:
    """Return a text on one line in quotation marks, without control characters."""
    return escape_unprintable(json.dumps(text, ensure_ascii=False))


def _join_lines(query: str) -> str:
    """Return a query with single spaces for its white space."""
    return " ".join(query.split())
