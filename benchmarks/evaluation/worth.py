"""Whether it is worth it: intervals and decisions next to statistical model checking."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from plain_sampling import MAX_SAMPLES, PlainPool, TextFormula
from speed import count_passes, get_interval

from evaluation.baselines import INTERVALS, compute_betting_ends, find_decision
from evaluation.subjects import QUERIES, Row, Subject, measure_answer

PACKAGE = "LLMChecker"
WALD = "Wald"


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        lengths: horizons in tokens.
        passes: equal passes of each comparison.
        seconds: equal seconds of each comparison.
        margins: distances of thresholds from the estimate.
        queries: names of queries.
        confidence: confidence of intervals and decisions.
        rows: number of texts in a batch of `generate`.
    """

    lengths: Sequence[int]
    passes: int
    seconds: float
    margins: Sequence[float]
    queries: Sequence[str] = tuple(QUERIES)
    confidence: float = 0.99
    rows: int = 64


def measure(
    subject: Subject, decoding: str, sizes: Sizes, report: Callable[[str], None] = print
) -> Iterator[Row]:
    """Yield a row for each horizon, query, budget and method.

    A row of `passes` or `seconds` has the width of an interval, one of `decision` the passes until
    a threshold is decided.
    """
    for length in sizes.lengths:
        for query in sizes.queries:
            label = {
                "model": subject.name,
                "decoding": decoding,
                "query": query,
                "horizon": length,
            }
            for row in _measure_query(subject, QUERIES[query], length, sizes):
                yield label | row
            report(f"{subject.name}, {decoding}, {query}, {length} tokens")


def _measure_query(
    subject: Subject, formula: TextFormula, length: int, sizes: Sizes
) -> Iterator[Row]:
    pool = subject.build_pool(length)
    options: dict[str, Any] = {"passes": sizes.passes, "confidence": sizes.confidence}
    answer, _, problem = measure_answer(subject, formula, length, **options)
    low, high = (0.0, 1.0) if answer is None else get_interval(answer)
    yield (
        {"budget": "passes", "amount": sizes.passes, "method": PACKAGE}
        | _interval(low, high)
        | {
            "samples": 0 if answer is None else answer.samples or 0,
            "problem": problem,
        }
    )
    number, _ = pool.find_number(formula, sizes.passes)
    bits = pool.find_truths(formula, number)
    yield from _compare(bits, "passes", sizes.passes, sizes.confidence)
    if subject.network is not None:
        yield from _measure_seconds(subject, formula, length, sizes)
    # the threshold of a conditional needs a condition that samples meet
    if answer is None or "||" in formula.query:
        return
    estimate = (low + high) / 2
    for margin in sizes.margins:
        yield from _measure_decisions(subject, pool, formula, length, sizes, estimate, margin)


def _compare(bits: Sequence[bool], budget: str, amount: float, confidence: float) -> Iterator[Row]:
    """Yield the intervals of the same bits."""
    for name, find_interval in INTERVALS.items():
        label = {"budget": budget, "amount": amount, "method": name, "samples": len(bits)}
        yield label | _interval(*find_interval(bits, confidence))


def _interval(low: float, high: float) -> Row:
    return {"low": low, "high": high, "width": high - low}


def _measure_seconds(
    subject: Subject, formula: TextFormula, length: int, sizes: Sizes
) -> Iterator[Row]:
    """Yield the intervals in equal seconds: samples are those of `generate`, judged for nothing."""
    settings = subject.decoding or {}
    # `generate` has no grammars
    if not set(settings) <= {"temperature", "top_k", "top_p"}:
        return
    options: dict[str, Any] = {"confidence": sizes.confidence}
    # a first answer computes what depends on the vocabulary alone
    measure_answer(subject, formula, length, passes=20)
    answer, taken, problem = measure_answer(
        subject, formula, length, seconds=sizes.seconds, **options
    )
    low, high = (0.0, 1.0) if answer is None else get_interval(answer)
    yield (
        {"budget": "seconds", "amount": taken, "method": PACKAGE}
        | _interval(low, high)
        | {
            "samples": 0 if answer is None else answer.samples or 0,
            "problem": problem,
        }
    )
    pool = PlainPool(
        subject.network,
        subject.model,
        subject.start,
        length,
        sizes.rows,
        quantifiers=subject.quantifiers,
        decoding=settings,
    )
    # the first batch of a size allocates
    pool.draw_batch()
    pool.seconds, drawn = 0.0, 1
    while pool.seconds < taken and drawn * sizes.rows < MAX_SAMPLES:
        pool.draw_batch()
        drawn += 1
    number = round((drawn - 1) * sizes.rows * min(1.0, taken / pool.seconds))
    bits = pool.find_truths(formula, max(1, number))
    yield from _compare(bits, "seconds", taken, sizes.confidence)


def _measure_decisions(
    subject: Subject,
    pool: PlainPool,
    formula: TextFormula,
    length: int,
    sizes: Sizes,
    estimate: float,
    margin: float,
) -> Iterator[Row]:
    """Yield the passes until each method decides a threshold on a side of the estimate."""
    side = 1 if estimate < 0.5 else -1
    threshold = round(estimate + side * margin, 4)
    query = formula.query.replace("P=?", f"P>={threshold}")
    began = time.perf_counter()
    answer = subject.ask(
        query, formula.quantifier, length, passes=sizes.passes, confidence=sizes.confidence
    )
    label = {"budget": "decision", "amount": threshold, "margin": margin}
    yield label | {
        "method": PACKAGE,
        "verdict": _format_verdict(answer.holds),
        "passes": count_passes(answer),
        "seconds": time.perf_counter() - began,
    }
    number, _ = pool.find_number(formula, sizes.passes)
    bits, counts = pool.find_truths(formula, number), pool.count_passes(formula)
    decisions: Mapping[str, tuple[bool | None, int]] = {
        WALD: find_decision(bits, threshold, margin, 1 - sizes.confidence),
        "betting": _decide_by_betting(bits, threshold, sizes.confidence),
    }
    for name, (verdict, needed) in decisions.items():
        yield label | {
            "method": name,
            "verdict": _format_verdict(verdict),
            "passes": counts[max(1, needed) - 1],
            "samples": needed,
        }


def _decide_by_betting(
    bits: Sequence[bool], threshold: float, confidence: float
) -> tuple[bool | None, int]:
    """Decide by the first interval of bits that excludes the threshold."""
    lows, highs = compute_betting_ends(bits, confidence)
    decided = np.flatnonzero((lows >= threshold) | (highs < threshold))
    if not len(decided):
        return None, len(bits)
    return bool(lows[decided[0]] >= threshold), int(decided[0]) + 1


def _format_verdict(holds: bool | None) -> str:
    return "UNKNOWN" if holds is None else "HOLDS" if holds else "VIOLATED"
