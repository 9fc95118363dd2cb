"""Widths of intervals against forward passes, for every way of answering.

The ways are the trees of the paper with growing alpha and k, best first with one text a pass,
plain sampling with the interval of Clopper and Pearson, refinement, and refinement with estimation.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from llmchecker.checking.anytime.answer import check_anytime
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.decided_mass import split_mass
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.path_sampler import estimate_probability
from llmchecker.checking.anytime.query_estimate import build_samplers, choose_sample_count
from llmchecker.checking.anytime.refinement import RefinementBudget, RefinementProgress, refine
from llmchecker.config import paths
from llmchecker.config.plan import TreeSpec
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.registry import create_quantifier
from llmchecker.properties.scores import score_tree
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache, PromptDistributions
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import TextTree, Truncation

START = "The player won because"
QUERIES = {
    "player": "P=? [ F gender > 0 ]",
    "prefix": "P=? [ G gender = 0 ]",
    "rare": "P=? [ F gender > 1 ]",
    "ltl": "P=? [ F G gender > 0 ]",
}
"""The player's query; one that is decided as soon as a prefix violates it, as the constraints of
BEAVER are; a rare event; and a formula that is LTL and not PCTL."""
CONFIDENCE = 0.95
STORE_BYTES = 2**32

PAPER, ALONE, SAMPLING, REFINEMENT, BOTH = WAYS = (
    "the paper's tree",
    "one text a pass",
    "sampling",
    "refinement",
    "refinement and estimation",
)

ESTIMATE_DEFINITIONS = {
    "{query}.{model}.width_ratio_to_sampling": "width of the interval of `llmchecker check` over "
    "that of plain sampling, with the same budget of forward passes and confidence 0.95",
    "{query}.width_ratio_to_sampling": "the largest of these",
    "{model}.passes_share_of_growing": "forward passes a second of plain sampling over internal "
    "nodes a second of growing a tree level by level",
}
REFINE_DEFINITIONS = {
    "{query}.{model}.width_ratio_to_paper": "width of the certain bounds over that of the paper's "
    "tree, after as many forward passes as the tree has internal nodes",
    "{query}.width_ratio_to_paper": "the largest of these",
    "{query}.{model}.passes_ratio_to_one_at_a_time": "forward passes over those of best first with "
    "one text a pass, to the same width of the certain bounds",
    "{query}.passes_ratio_to_one_at_a_time": "the largest of these",
    "{query}.{model}.seconds_ratio_to_one_at_a_time": "the same with seconds, scoring included",
    "{query}.seconds_ratio_to_one_at_a_time": "the largest of these",
    "{model}.passes_share_of_growing": "forward passes a second while refining, scoring included, "
    "over internal nodes a second of growing a tree level by level",
    "{model}.texts_per_pass": "texts that a refinement found and scored, for each forward pass",
}
"""What each figure `estimate.…` and `refine.…` is."""


@dataclass(frozen=True)
class Efforts:
    """How much is spent on each query.

    Args:
        length: the horizon.
        passes: rising budgets of sampling, and of refinement with estimation; the largest one is
            that of the refinement alone too.
        of_others: the same for the queries but the first.
        alone: passes of one text each.
        trees: alpha and k of the paper's trees, rising. The largest one should be one that the run
            of the workflow has grown, since its stored distributions then give all of them.
    """

    length: int = 5
    passes: tuple[int, ...] = (100, 600, 3000)
    of_others: tuple[int, ...] = (100, 600)
    alone: int = 100
    trees: tuple[tuple[float, int], ...] = (
        (0.3, 2),
        (0.5, 3),
        (0.6, 4),
        (0.7, 6),
        (0.7, 15),
        (0.8, 15),
    )


@dataclass(frozen=True)
class Point:
    """The width of an interval after some forward passes.

    Attributes:
        model, query, way: what was asked of whom, and how it was answered.
        passes: texts that the model was asked about.
        low, high: the interval, which is certain or holds with confidence.
        seconds: that it took; of a refinement since it began.
        samples: how many were drawn; None where none are.
    """

    model: str
    query: str
    way: str
    passes: int
    low: float
    high: float
    seconds: float
    samples: int | None = None

    @property
    def width(self) -> float:
        return self.high - self.low

    def row(self) -> dict[str, str | float | None]:
        """The attributes and the width."""
        return asdict(self) | {"width": self.width}


def measure(
    name: str,
    directory: Path,
    threads: int,
    memory_bytes: int,
    efforts: Efforts,
    growing: float,
    report: Callable[[str], None] = print,
) -> tuple[dict[str, float], list[Point]]:
    """Answer all queries in all ways, in the directory of a run of the workflow.

    Args:
        name: of the model.
        directory, threads, memory_bytes: as in `load_model`.
        efforts: how much is spent.
        growing: internal nodes a second of growing a tree level by level.
        report: told how it goes.

    Returns:
        The figures of `ESTIMATE_DEFINITIONS` and `REFINE_DEFINITIONS` that are of this model, and
        the points.
    """
    kept = DistributionCache(Path(paths.STORE_DIRECTORY), STORE_BYTES)
    grower = TreeBuilder(
        directory, "causal", "float32", "cpu", threads, memory_bytes, "terminal", kept
    )
    model = grower.model
    own = DistributionCache(Path("narrowing") / name, STORE_BYTES)
    stored = own.open_distributions(grower.model_fingerprint, model.encode(START))
    trees = _paper_trees(name, grower, efforts)
    report(f"{name}: the paper's trees")
    points, figures = [], {}
    for key, text in QUERIES.items():
        asked = _Asked(name, key, parse(text), efforts.length)
        first = key == "player"
        budgets = efforts.passes if first else efforts.of_others
        found = [asked.paper(tree) for tree in trees]
        refined, texts = asked.refined(model, max(budgets), None if first else stored)
        if first:
            rate = refined[-1].passes / refined[-1].seconds
            figures[f"refine.{name}.passes_share_of_growing"] = rate / growing
            figures[f"refine.{name}.texts_per_pass"] = texts / refined[-1].passes
        alone, _ = asked.refined(
            model, efforts.alone, None if first else stored, max_texts=1, horizon_weight=1
        )
        sampled = [asked.sampled(model, budget) for budget in budgets]
        if first:
            rate = sampled[-1].passes / sampled[-1].seconds
            figures[f"estimate.{name}.passes_share_of_growing"] = rate / growing
        answered = [asked.answered(model, budget) for budget in budgets]
        figures |= _ratios(f"{key}.{name}", found, refined, alone if first else [])
        ratio = answered[-1].width / sampled[-1].width
        figures[f"estimate.{key}.{name}.width_ratio_to_sampling"] = ratio
        points += [*found, *alone, *sampled, *refined, *answered]
        report(f"{name}: {text} {ratio:.3f} of the width of plain sampling")
    return figures, points


def largest_of_models(figures: Mapping[str, float], models: Iterable[str]) -> dict[str, float]:
    """The largest of each ratio over all models, by its name without that of the model."""
    found: dict[str, float] = {}
    for name, value in figures.items():
        topic, _, rest = name.partition(".")
        query, _, rest = rest.partition(".")
        for model in models:
            if query in QUERIES and rest.startswith(f"{model}."):
                key = f"{topic}.{query}.{rest.removeprefix(f'{model}.')}"
                found[key] = max(value, found.get(key, value))
    return found


class _Asked:
    """One query, asked of one model in every way."""

    def __init__(self, model: str, name: str, query: Query, length: int) -> None:
        self.model, self.name = model, name
        self.quantifiers = {"gender": create_quantifier("gender")}
        self.query = CheckedQuery(query, self.quantifiers, length)
        (self.reading,) = self.query.monitors

    def point(self, way: str, *values: float) -> Point:
        return Point(self.model, self.name, way, *values)

    def scores(self, tree: TextTree) -> dict:
        return {name: score_tree(each, tree) for name, each in self.quantifiers.items()}

    def paper(self, tree: TextTree) -> Point:
        """The certain bounds of a tree."""
        found = split_mass(tree, self.scores(tree), self.reading)
        nodes = int(tree.internal.sum())
        return self.point(PAPER, nodes, found.satisfied_mass, 1 - found.violated_mass, 0.0)

    def refined(
        self,
        model: LanguageModel,
        passes: int,
        stored: PromptDistributions | None,
        **settings: int,
    ) -> tuple[list[Point], int]:
        """The certain bounds after each batch of a refinement, and how many texts it found."""
        way = ALONE if settings else REFINEMENT
        began, points = time.perf_counter(), []

        def progress(now: RefinementProgress) -> None:
            seconds = time.perf_counter() - began
            points.append(self.point(way, now.passes, now.lower[0], now.upper[0], seconds))

        tree = refine(
            model,
            model.encode(START),
            [self.reading],
            self.quantifiers,
            RefinementBudget(passes=passes),
            progress=progress,
            distributions=stored,
            **settings,
        )
        return points[1:], len(tree)

    def sampled(self, model: LanguageModel, passes: int) -> Point:
        """The interval of samples that begin at the start string."""
        budget = RefinementBudget(passes=0)
        prompt = model.encode(START)
        tree = refine(model, prompt, [self.reading], self.quantifiers, budget)
        asked = (model, prompt, tree, self.scores(tree), self.query, "terminal")
        (sampler,) = build_samplers(*asked)
        samples = choose_sample_count(sampler, CONFIDENCE, 1, passes=passes)
        (fresh,) = build_samplers(*asked)  # plain sampling needs no pilot
        began = time.perf_counter()
        found = estimate_probability(fresh, samples, CONFIDENCE, 1)
        seconds = time.perf_counter() - began
        return self.point(SAMPLING, found.passes, found.low, found.high, seconds, samples)

    def answered(self, model: LanguageModel, passes: int) -> Point:
        """The interval that `llmchecker check` gives."""
        effort = AnswerBudget(passes=passes, confidence=CONFIDENCE)
        found = check_anytime(model, START, self.query, effort)
        interval = found.verdict.low, found.verdict.high
        return self.point(BOTH, found.passes, *interval, found.seconds, found.verdict.samples)


def _paper_trees(name: str, grower: TreeBuilder, efforts: Efforts) -> list[TextTree]:
    """The trees of the paper's process, from what the run of the workflow has stored."""
    largest = Truncation(*efforts.trees[-1], efforts.length)
    grown = Path(paths.tree_file(TreeSpec(name, "player", largest)))
    trees = []
    for alpha, k in efforts.trees:
        truncation = Truncation(alpha, k, efforts.length)
        if truncation == largest and grown.is_file():
            trees.append(TextTree.read(grown))
        else:
            stored = grower.open_distributions(START)
            trees.append(build_tree(grower.model, START, truncation, distributions=stored))
    return trees


def _ratios(
    name: str, trees: Sequence[Point], refined: Sequence[Point], alone: Sequence[Point]
) -> dict[str, float]:
    """The figures `refine.…` of one query and model, as far as the points reach."""
    figures = dict(_to_paper(name, trees, refined))
    if alone:
        width = alone[-1].width
        one = next(point for point in alone if point.width <= width)
        batch = next(point for point in refined if point.width <= width)
        figures |= {
            f"refine.{name}.passes_ratio_to_one_at_a_time": batch.passes / one.passes,
            f"refine.{name}.seconds_ratio_to_one_at_a_time": batch.seconds / one.seconds,
        }
    return figures


def _to_paper(
    name: str, trees: Sequence[Point], refined: Sequence[Point]
) -> Iterator[tuple[str, float]]:
    """The ratio to the largest tree for which a refinement made as many passes."""
    for tree in reversed(trees):
        within = [point for point in refined if point.passes <= tree.passes]
        if within and refined[-1].passes >= tree.passes:
            yield f"refine.{name}.width_ratio_to_paper", within[-1].width / tree.width
            return
