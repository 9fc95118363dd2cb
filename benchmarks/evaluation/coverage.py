"""Whether intervals hold: misses over many seeds, at every stop, with each kind of access.

The truth is enumerated by the oracle of the tests, in fractions.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

import llmchecker as lc
from evaluation.baselines import compute_betting_ends
from evaluation.row_claims import count_misses
from evaluation.subjects import Row

sys.path.append(str(Path(__file__).parents[2] / "tests"))

from helpers.anytime_checks import Kind, spread_model
from helpers.conversations import ChatTable
from helpers.random_tables import READ_QUANTIFIERS, START
from helpers.served_tables import ServedTable
from helpers.text_sampler import TextSampler

PACKAGE = "LLMChecker, every stop"
ACCESSES = ("logits", "top_logprobs", "texts")
BITS = "bits"
"""The access of the baselines, which see the truth of each text alone."""
ROWS = "rows"
"""In place of an access, the claims about many rows."""
KINDS = {
    "reachability": Kind(("F", None, ("atom", "gender", ">", 1)), length=4),
    "LTL": Kind(("F", None, ("G", None, ("atom", "gender", ">", 0))), length=4),
}
LISTED_TOKENS = 2
ROUNDING = 1e-9
_LIMITS = (0.1, 0.9)
"""Limits of the truth of a table."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        seeds: runs of each query and confidence.
        confidences: the nominal confidences.
        tables: number of tables.
        passes: budget of a run, in passes or answers.
    """

    seeds: int
    confidences: Sequence[float] = (0.8, 0.99)
    tables: int = 5
    passes: int = 40


def measure(access: str, sizes: Sizes, report: Callable[[str], None] = print) -> Iterator[Row]:
    """Yield a row for each query and confidence: the runs whose interval ever misses the truth.

    Args:
        access: a kind of access of `ACCESSES`, `BITS` for the baselines, or `ROWS`.
        sizes: how much is measured.
        report: a function that receives the progress.
    """
    if access == ROWS:
        yield from _measure_rows(sizes, report)
        return
    for name, kind in KINDS.items():
        tables = find_tables(kind, sizes.tables)
        for confidence in sizes.confidences:
            label = {"access": access, "query": name, "confidence": confidence, "runs": sizes.seeds}
            if access == BITS:
                truths = [float(tables[seed % len(tables)][1]) for seed in range(sizes.seeds)]
                counts = _count_baseline_misses(truths, confidence, sizes.passes)
            else:
                counts = {PACKAGE: _count_misses(access, kind, tables, confidence, sizes)}
            for method, (misses, certain_misses) in counts.items():
                yield label | {
                    "method": method,
                    "misses": misses,
                    "share": misses / sizes.seeds,
                    "nominal": 1 - confidence,
                    "certain_misses": certain_misses,
                }
                report(f"{access}, {name}, {confidence}: {method} misses {misses}")


def _measure_rows(sizes: Sizes, report: Callable[[str], None]) -> Iterator[Row]:
    """Yield a row for each claim about many rows and confidence."""
    for confidence in sizes.confidences:
        for claim, misses in count_misses(sizes.seeds, confidence, report):
            yield {
                "access": ROWS,
                "query": claim,
                "confidence": confidence,
                "runs": sizes.seeds,
                "method": f"{claim}, every stop",
                "misses": misses,
                "share": misses / sizes.seeds,
                "nominal": 1 - confidence,
                "certain_misses": 0,
            }


def find_tables(kind: Kind, number: int) -> list[tuple[lc.TableModel, Fraction]]:
    """Return the first random tables whose truth is far from 0 and 1, with the truth."""
    found: list[tuple[lc.TableModel, Fraction]] = []
    seed = 0
    while len(found) < number:
        table = spread_model(seed)
        truth = kind.find_truth(table)
        if _LIMITS[0] <= truth <= _LIMITS[1]:
            table.distribution = cache(table.distribution)
            found.append((table, truth))
        seed += 1
    return found


def _count_misses(
    access: str,
    kind: Kind,
    tables: Sequence[tuple[lc.TableModel, Fraction]],
    confidence: float,
    sizes: Sizes,
) -> tuple[int, int]:
    """Count the runs whose interval, and those whose certain bounds, miss the truth at any stop."""
    misses = certain_misses = 0
    for seed in range(sizes.seeds):
        table, truth = tables[seed % len(tables)]
        stops: list[Any] = []
        budget = {"answers" if access == "texts" else "passes": sizes.passes}
        answer = lc.check(
            kind.query,
            _open(access, table, seed),
            START,
            length=kind.length,
            seed=seed,
            confidence=confidence,
            quantifiers=READ_QUANTIFIERS,
            watch=stops.append,
            **budget,
        )
        stops += answer.history
        misses += any(_misses(stop.sampled, truth) for stop in stops)
        certain_misses += any(_misses(stop.certain, truth) for stop in stops)
    return misses, certain_misses


def _open(access: str, table: lc.TableModel, seed: int) -> Any:
    """Return the table with a kind of access."""
    if access == "logits":
        return table
    if access == "top_logprobs":
        chat = ChatTable(table.vocabulary, table.distribution, table.end_tokens)
        return _ListedTable(chat, LISTED_TOKENS)
    assert access == "texts"
    prompt = table.encode(START)

    def write(stream: Any, chance: random.Random) -> tuple[str, bool]:
        tokens: list[int] = []
        while len(tokens) < stream.length:
            weights = table.distribution((*prompt, *tokens))
            tokens += chance.choices(range(table.vocabulary_size), weights)
            if tokens[-1] in table.end_tokens:
                return table.decode([tokens])[0], True
        return table.decode([tokens])[0], False

    return TextSampler(write, seed)


class _ListedTable(ServedTable):
    """A table that lists few tokens of each distribution, and continues start strings."""

    encode = lc.TableModel.encode


def _misses(interval: Any, truth: Fraction) -> bool:
    if interval is None:
        return False
    return not interval.lower - ROUNDING <= truth <= interval.upper + ROUNDING


def _count_baseline_misses(
    truths: Sequence[float], confidence: float, samples: int
) -> dict[str, tuple[int, int]]:
    """Count the runs of samples whose intervals miss: after the last bit, and after any."""
    chance = np.random.default_rng(0)
    bits = chance.random((len(truths), samples)) < np.array(truths)[:, None]
    counts, numbers = bits.cumsum(axis=1), np.arange(1, samples + 1)
    error = (1 - confidence) / 2
    # Clopper and Pearson 1934
    lows = np.nan_to_num(beta.ppf(error, counts, numbers - counts + 1), nan=0.0)
    highs = np.nan_to_num(beta.isf(error, counts + 1, numbers - counts), nan=1.0)
    is_missed = (lows > np.array(truths)[:, None]) | (highs < np.array(truths)[:, None])
    betting = 0
    for row, truth in zip(bits, truths, strict=True):
        low, high = compute_betting_ends(row, confidence)
        betting += bool(((low > truth) | (high < truth)).any())
    return {
        "Clopper-Pearson, last stop": (int(is_missed[:, -1].sum()), 0),
        "Clopper-Pearson, every stop": (int(is_missed.any(axis=1).sum()), 0),
        "betting, every stop": (betting, 0),
    }
