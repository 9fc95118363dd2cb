"""Rows that an average needs: 5,000 rows of a table model with the accuracy 0.70, at least 0.65.

Next to all rows, and next to one sampled answer a row with the interval of Clopper and Pearson. One
pass shows the probability of such a row. Of fewer rows with texts of 12 tokens, each takes the
whole budget.
"""

import csv
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from plain_sampling import Proportion

import llmchecker as lc
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite

DEFINITIONS = {
    "needed.rows": "rows that were read until the accuracy 0.70 was decided to be at least 0.65",
    "needed.passes": "texts that the model evaluated for them",
    "needed.decided": "1 if it was decided",
    **{f"all.{name}": "the same with all rows" for name in ("rows", "passes", "decided")},
    "long.rows": "rows that were read until the mean of rows with long texts was decided",
    "long.passes": "texts that the model evaluated for them; a row has a budget of 500",
    "long.decided": "1 if it was decided",
    "one_answer.rows": "rows of which one answer each was sampled",
    "one_answer.decided": "1 if the interval of Clopper and Pearson of these answers decides it",
}
ACCURACY, LIMIT, CONFIDENCE = 0.70, 0.65, 0.99
_LONG_SHARE, _LONG_LENGTH, _LONG_PASSES, _LONG_LIMIT = 1 / 25, 12, 500, 0.5
"""The share of rows with long texts, their tokens, budget and threshold."""
_DIGITS = 5
_WORDS = [*map(str, range(10)), " yes", " no"]


def measure(rows: int, report: Callable[[str], None]) -> dict[str, float]:
    """Measure rows and passes until the accuracy is decided, next to those of all rows."""
    rng = np.random.default_rng(0)
    # easy and hard questions, and some between
    accuracies = rng.beta(2 * ACCURACY, 2 * (1 - ACCURACY), rows)
    accuracies *= ACCURACY / accuracies.mean()
    accuracies = accuracies.clip(0, 1)

    def find_next(tokens: Sequence[int]) -> list[float]:
        right = accuracies[int("".join(map(str, tokens[:_DIGITS])))]
        return [0.0] * 10 + [right, 1 - right]

    model = lc.TableModel(_WORDS, find_next)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        suite = load_suite(_write_suite(Path(folder), rows))
        for name, is_measuring in (("needed", False), ("all", True)):
            report(f"rows: {name} of {rows:,}")
            result = run_suite(
                suite, open_model=lambda _: _Opened(model), is_measuring=is_measuring
            )
            (mean,) = result.aggregates
            found |= {
                f"{name}.rows": mean.read,
                f"{name}.passes": result.passes,
                f"{name}.decided": float(mean.status == "HOLDS"),
            }
    with tempfile.TemporaryDirectory() as folder:
        report("rows: long texts")
        suite = load_suite(_write_long_suite(Path(folder), max(2, int(rows * _LONG_SHARE))))
        result = run_suite(suite, open_model=lambda _: _Opened(model))
        (mean,) = result.aggregates
        decided = float(mean.status == "HOLDS")
        found |= {"long.rows": mean.read, "long.passes": result.passes, "long.decided": decided}
    answers = int((rng.random(rows) < accuracies).sum())
    low = Proportion(answers, rows).interval(CONFIDENCE)[0]
    return found | {"one_answer.rows": rows, "one_answer.decided": float(low > LIMIT)}


class _Opened:
    """A table model in place of a loaded model."""

    end_of_sequence = "terminal"

    def __init__(self, model: lc.TableModel) -> None:
        self.model = self.own_model = model


def _write_suite(folder: Path, rows: int) -> Path:
    return _write(
        folder,
        rows,
        {
            "length": 1,
            "properties": {"right": {"type": "pattern", "pattern": "yes"}},
            "cases": [_build_case(LIMIT)],
        },
    )


def _write_long_suite(folder: Path, rows: int) -> Path:
    half = f"(yes.*){{{_LONG_LENGTH // 2}}}"
    return _write(
        folder,
        rows,
        {
            "length": _LONG_LENGTH,
            "budget": {"passes": _LONG_PASSES},
            "properties": {"right": {"type": "pattern", "pattern": half}},
            "cases": [_build_case(_LONG_LIMIT)],
        },
    )


def _build_case(limit: float) -> dict[str, Any]:
    average = {"accuracy": f"mean P=? [ F right > 0 ] >= {limit}"}
    return {"prompts": "rows.csv", "average": average}


def _write(folder: Path, rows: int, keys: dict[str, Any]) -> Path:
    with (folder / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["start"], *([f"{row:0{_DIGITS}}"] for row in range(rows))])
    (folder / "m").mkdir()
    (folder / "m/config.json").write_text("{}")
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump({"model": "m", "confidence": CONFIDENCE, **keys}))
    return path
