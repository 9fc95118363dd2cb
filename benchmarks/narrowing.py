"""Widths of intervals against forward passes, for every way of answering.

The ways are the trees of the paper with growing alpha and k, plain sampling with the interval of
Clopper and Pearson, refinement, and anytime answers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

from plain_sampling import FORMULAS, PlainPool, TextFormula
from random_llama import START
from speed import Subject, count_passes, get_interval

import llmchecker as lc
from llmchecker.models.interface import LanguageModel

CONFIDENCE = 0.95

PAPER, SAMPLING, REFINEMENT, ANYTIME = WAYS = (
    "the paper's tree",
    "sampling",
    "refinement",
    "anytime answer",
)

ESTIMATE_DEFINITIONS = {
    "{query}.{model}.width_ratio_to_sampling": "width of the interval of a check over that of "
    "Clopper and Pearson on plain samples, with the largest budget of passes, confidence 0.95, "
    "means over seeds",
    "{query}.width_ratio_to_sampling": "the largest of these",
    "{query}.{model}.largest_width_ratio": "the largest of the same ratios over all budgets",
    "{query}.largest_width_ratio": "the largest of these",
}
REFINE_DEFINITIONS = {
    "{query}.{model}.width_ratio_to_paper": "width of the certain bounds over that of the paper's "
    "tree, after as many forward passes as the tree has internal nodes",
    "{query}.width_ratio_to_paper": "the largest of these",
}
"""What each figure `estimate.…` and `refine.…` is."""


@dataclass(frozen=True)
class Efforts:
    """How much is spent on each query.

    Attributes:
        length: the horizon in tokens.
        passes: rising budgets of sampling and of anytime answers; the largest one is that of the
            refinement alone too.
        seeds: number of seeds of each budget.
        trees: alpha and k of the paper's trees, rising.
    """

    length: int = 5
    passes: tuple[int, ...] = (300, 1000, 3000)
    seeds: int = 2
    trees: tuple[tuple[float, int], ...] = ((0.3, 2), (0.5, 3), (0.6, 4), (0.7, 6))


@dataclass(frozen=True)
class Point:
    """The width of an interval after some forward passes.

    Attributes:
        model, query, way: the model, the query, and how it was answered.
        passes: texts that the model evaluated.
        low, high: the interval, which is certain or holds with confidence.
        samples: number of samples; None for a way without samples.
    """

    model: str
    query: str
    way: str
    passes: int
    low: float
    high: float
    samples: int | None = None

    @property
    def width(self) -> float:
        return self.high - self.low

    def row(self) -> dict[str, str | float | None]:
        """Return the attributes and the width."""
        return asdict(self) | {"width": self.width}


def measure(
    name: str, directory: Path, efforts: Efforts, report: Callable[[str], None] = print
) -> tuple[dict[str, float], list[Point]]:
    """Answer all queries in all ways.

    Args:
        name: name of the model.
        directory: directory of the model.
        efforts: how much is spent.
        report: a function that receives the progress.

    Returns:
        The figures of `ESTIMATE_DEFINITIONS` and `REFINE_DEFINITIONS` for this model, and the
        points.
    """
    subject = Subject.read(directory)
    model, length = subject.model, efforts.length
    trees = [lc.grow(model, START, alpha=alpha, k=k, length=length) for alpha, k in efforts.trees]
    pools = [
        PlainPool(subject.network, model, START, length, seed=seed) for seed in range(efforts.seeds)
    ]
    points: list[Point] = []
    figures = {}
    for key, formula in FORMULAS.items():
        asked = _Asked(name, key, formula, model, length)
        found = [asked.check_tree(tree) for tree in trees]
        refined = asked.refine(efforts.passes[-1])
        ratios = {}
        for passes in efforts.passes:
            answered = [asked.check_model(passes, seed) for seed in range(efforts.seeds)]
            sampled = [asked.count_samples(pool, passes) for pool in pools]
            widths = mean(p.width for p in answered), mean(p.width for p in sampled)
            ratios[passes] = widths[0] / widths[1]
            points += [*answered, *sampled]
        points += [*found, *refined]
        figures[f"estimate.{key}.{name}.width_ratio_to_sampling"] = ratios[efforts.passes[-1]]
        figures[f"estimate.{key}.{name}.largest_width_ratio"] = max(ratios.values())
        figures |= dict(_compare_with_paper(f"{key}.{name}", found, refined))
        report(
            f"{name}: {formula.query}: {ratios[efforts.passes[-1]]:.3f} of the width of plain "
            f"sampling, {efforts.passes[-1]:,} passes"
        )
    return figures, points


def find_largest(figures: Mapping[str, float], models: Iterable[str]) -> dict[str, float]:
    """Find the largest of each ratio over all models, by its name without that of the model."""
    found: dict[str, float] = {}
    for name, value in figures.items():
        topic, _, rest = name.partition(".")
        query, _, rest = rest.partition(".")
        for model in models:
            if query in FORMULAS and rest.startswith(f"{model}."):
                key = f"{topic}.{query}.{rest.removeprefix(f'{model}.')}"
                found[key] = max(value, found.get(key, value))
    return found


@dataclass(frozen=True)
class _Asked:
    """One query of one model.

    Attributes:
        name: name of the model.
        key: key of the formula.
    """

    name: str
    key: str
    formula: TextFormula
    model: LanguageModel
    length: int

    def check_tree(self, tree: lc.Tree) -> Point:
        """Return the certain bounds of a tree."""
        answer = lc.check(self.formula.query, tree)
        return self._point(PAPER, int(tree.internal.sum()), answer.lower, answer.upper)

    def refine(self, passes: int) -> list[Point]:
        """Return the certain bounds after each round of a refinement."""
        answer = lc.check(
            self.formula.query,
            self.model,
            START,
            length=self.length,
            passes=passes,
            certain=True,
        )
        return [
            self._point(REFINEMENT, now.passes, now.lower, now.upper)
            for now in answer.history
            if now.passes
        ]

    def check_model(self, passes: int, seed: int) -> Point:
        """Return the interval of a check."""
        answer = lc.check(
            self.formula.query,
            self.model,
            START,
            length=self.length,
            passes=passes,
            confidence=CONFIDENCE,
            seed=seed,
        )
        return self._point(ANYTIME, count_passes(answer), *get_interval(answer), answer.samples)

    def count_samples(self, pool: PlainPool, passes: int) -> Point:
        """Return the interval of plain samples."""
        plain = pool.count_within(self.formula, passes)
        return self._point(SAMPLING, plain.passes, *plain.interval(CONFIDENCE), plain.samples)

    def _point(self, way: str, passes: int, low: float, high: float, *samples: int | None) -> Point:
        return Point(self.name, self.key, way, passes, low, high, *samples)


def _compare_with_paper(
    name: str, trees: Sequence[Point], refined: Sequence[Point]
) -> Iterator[tuple[str, float]]:
    """Yield the ratio to the largest tree for which a refinement made as many passes."""
    for tree in reversed(trees):
        within = [point for point in refined if point.passes <= tree.passes]
        if within and refined[-1].passes >= tree.passes:
            yield f"refine.{name}.width_ratio_to_paper", within[-1].width / tree.width
            return
