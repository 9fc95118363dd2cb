"""Verdicts for people: figures, evidence and notes, as text and as HTML."""

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmchecker.checking.evidence import COUNTEREXAMPLE, WITNESS
from llmchecker.checking.verdicts import Verdict

_HEADINGS = {
    WITNESS: "Texts that satisfy it, most probable first:",
    COUNTEREXAMPLE: "Texts that violate it, most probable first:",
}


def aligned(rows: Mapping[str, str]) -> list[str]:
    """A line for each row: its name, then its value, all values in one column."""
    return [f"{name:<13}{value}" for name, value in rows.items()]


def verdict_rows(verdict: Verdict) -> dict[str, str]:
    """The figures of a verdict, each by its name."""
    return {
        "query": " ".join(verdict.query.split()),
        "value": _figure(verdict.value),
        "whole model": _interval(verdict),
        **_estimated(verdict),
        "states": f"{verdict.states:,}",
        "transitions": f"{verdict.transitions:,}",
    }


def verdict_details(verdict: Verdict) -> list[str]:
    """The notes on a verdict and the texts that decide the query, as lines."""
    lines = [f"note         {note}" for note in verdict.notes]
    if verdict.witnesses:
        lines += ["", _heading(verdict.witnesses)]
    for witness in verdict.witnesses:
        lines.append(f"  {witness['probability']:<12.6g}{_quoted(witness)}")
    return lines


def verdict_as_text(verdict: Verdict) -> str:
    """A verdict as text: a line for each figure, then the notes and the texts that decide it."""
    return "\n".join([*aligned(verdict_rows(verdict)), *verdict_details(verdict)])


def verdict_as_html(verdict: Verdict) -> str:
    """A verdict as part of a page. Queries and texts are escaped, since they are data."""
    rows = "".join(
        f'<tr><th style="text-align: left">{html.escape(name)}</th>'
        f'<td style="text-align: left">{html.escape(value)}</td></tr>'
        for name, value in verdict_rows(verdict).items()
    )
    parts = [f"<table>{rows}</table>", *(f"<p>{html.escape(note)}</p>" for note in verdict.notes)]
    if verdict.witnesses:
        texts = "".join(
            f"<tr><td>{witness['probability']:.4g}</td>"
            f'<td style="text-align: left">{html.escape(_quoted(witness))}</td></tr>'
            for witness in verdict.witnesses
        )
        parts.append(f"<p>{_heading(verdict.witnesses)}</p><table>{texts}</table>")
    return "".join(parts)


def _heading(witnesses: Sequence[Mapping[str, Any]]) -> str:
    """The heading above the texts that decide the query, all of which are of one kind."""
    return _HEADINGS[witnesses[0]["kind"]]


def _quoted(witness: Mapping[str, Any]) -> str:
    """The text of a witness on one line in quotation marks, and whether it goes on in `rest`."""
    goes_on = " and a token that was not selected" if witness["rest"] else ""
    return json.dumps(witness["text"], ensure_ascii=False) + goes_on


def _figure(value: float | bool | None) -> str:
    if value is None:
        return "unknown"
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}"


def _interval(verdict: Verdict) -> str:
    """The bounds for the whole model; for a query without =?, whether it holds there."""
    lower, upper = verdict.lower, verdict.upper
    if isinstance(lower, bool):
        return _figure(lower) if lower == upper else "unknown"
    low = "-infinity" if lower is None else _figure(lower)
    high = "infinity" if upper is None else _figure(upper)
    return f"[{low}, {high}]"


def _estimated(verdict: Verdict) -> dict[str, str]:
    """The estimate and its interval; nothing where nothing was estimated."""
    if verdict.confidence is None:
        return {}
    if verdict.samples == 0:  # an interval of certain width 0 would look like a statistical one
        return {"estimate": "not needed: every text is decided"}
    return {
        "estimate": _figure(verdict.estimate),
        "interval": f"[{_figure(verdict.low)}, {_figure(verdict.high)}] with confidence "
        f"{verdict.confidence:g}, from {verdict.samples:,} samples",
    }
