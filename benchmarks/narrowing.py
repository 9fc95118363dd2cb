"""Widths of intervals against forward passes, for every way of answering.

The ways are the trees of the paper with growing alpha and k, plain sampling with the interval of
Clopper and Pearson, refinement, and anytime answers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

import generating
from plain_sampling import PlainPool

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.answer import check_anytime
from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.check import check_query
from llmchecker.config import paths
from llmchecker.config.plan import TreeSpec
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.registry import create_quantifier
from llmchecker.properties.scores import score_tree
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache
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
THRESHOLD_CONFIDENCE = 0.99
MIN_TESTED = 0.001
"""The least probability whose thresholds are tested: rarer events need too many passes."""
STORE_BYTES = 2**32

PAPER, SAMPLING, REFINEMENT, ANYTIME = WAYS = (
    "the paper's tree",
    "sampling",
    "refinement",
    "anytime answer",
)

ESTIMATE_DEFINITIONS = {
    "{query}.{model}.width_ratio_to_sampling": "width of the interval of `llmchecker check` over "
    "that of plain sampling, with the largest budget of passes, confidence 0.95, means over seeds",
    "{query}.width_ratio_to_sampling": "the largest of these",
    "{query}.{model}.largest_width_ratio": "the largest of the same ratios over all budgets",
    "{query}.largest_width_ratio": "the largest of these",
    "{query}.{model}.threshold_passes_ratio": "passes until P<=2p and P>=p/2 are decided with "
    "confidence 0.99, p the estimate or 0.001, over those of a sequential test on plain samples; "
    "the largest number of passes where nothing is decided",
    "{query}.threshold_passes_ratio": "the largest of these",
    "{query}.{model}.certain_width_ratio": "width of the certain bounds of `llmchecker check` over "
    "those of refinement alone, with the largest budget, the last seed",
    "{query}.certain_width_ratio": "the largest of these",
    "{model}.passes_share_of_growing": "forward passes a second of `llmchecker check` over "
    "internal nodes a second of growing a tree level by level",
    "{model}.passes_share_of_generate": "forward passes a second of `llmchecker check` with texts "
    f"of {generating.TOKENS} tokens over those of transformers' `generate` in batches of the same "
    "size",
}
REFINE_DEFINITIONS = {
    "{query}.{model}.width_ratio_to_paper": "width of the certain bounds over that of the paper's "
    "tree, after as many forward passes as the tree has internal nodes",
    "{query}.width_ratio_to_paper": "the largest of these",
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
        passes: rising budgets of sampling and of anytime answers; the largest one is that of the
            refinement alone too.
        seeds: number of seeds of each budget.
        generated: the budget of the answer that is measured beside `generate`.
        tested: the largest budget that decides a threshold.
        trees: alpha and k of the paper's trees, rising. The largest one should be one that the run
            of the workflow has grown, since its stored distributions then give all of them.
    """

    length: int = 5
    passes: tuple[int, ...] = (300, 1000, 3000)
    seeds: int = 2
    generated: int = generating.PASSES
    tested: int = 30_000
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
        seconds: that it took; of a refinement since it began; 0 where samples come from a pool.
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
    trees = _paper_trees(name, grower, efforts)
    pools = [PlainPool(model, START, efforts.length, seed) for seed in range(efforts.seeds)]
    report(f"{name}: the paper's trees")
    points, figures = [], {}
    figures[f"estimate.{name}.passes_share_of_generate"] = generating.compare_rates(
        model, directory, START, efforts.generated
    )
    report(f"{name}: samples beside generate")
    for key, text in QUERIES.items():
        asked = _Asked(name, key, parse(text), efforts.length)
        found = [asked.paper(tree) for tree in trees]
        refined, texts = asked.refined(model, efforts.passes[-1])
        pairs = {passes: asked.compare_widths(model, pools, passes) for passes in efforts.passes}
        ratios = {
            passes: mean(p.width for p in answered) / mean(p.width for p in sampled)
            for passes, (answered, sampled) in pairs.items()
        }
        answered = pairs[efforts.passes[-1]][0][0]
        thresholds = asked.compare_thresholds(model, pools, efforts.tested)
        figures |= {
            f"estimate.{key}.{name}.width_ratio_to_sampling": ratios[efforts.passes[-1]],
            f"estimate.{key}.{name}.largest_width_ratio": max(ratios.values()),
            f"estimate.{key}.{name}.certain_width_ratio": asked.certain_width / refined[-1].width,
            f"estimate.{key}.{name}.threshold_passes_ratio": thresholds,
        }
        figures |= dict(_to_paper(f"{key}.{name}", found, refined))
        if key == "player":
            rate = refined[-1].passes / refined[-1].seconds
            figures[f"refine.{name}.passes_share_of_growing"] = rate / growing
            figures[f"refine.{name}.texts_per_pass"] = texts / refined[-1].passes
            rate = answered.passes / answered.seconds
            figures[f"estimate.{name}.passes_share_of_growing"] = rate / growing
        both = [point for answered, sampled in pairs.values() for point in (*answered, *sampled)]
        points += [*found, *refined, *both]
        report(f"{name}: {text} {ratios[efforts.passes[-1]]:.3f} of the width of plain sampling")
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
    """One query, asked of one model in every way.

    Attributes:
        certain_width: width of the certain bounds of the latest anytime answer.
    """

    def __init__(self, model: str, name: str, query: Query, length: int) -> None:
        self.model, self.name = model, name
        self.quantifiers = {"gender": create_quantifier("gender")}
        self.query = CheckedQuery(query, self.quantifiers, length)
        self.certain_width, self._estimate = 1.0, 0.5

    def point(self, way: str, *values: float) -> Point:
        return Point(self.model, self.name, way, *values)

    def paper(self, tree: TextTree) -> Point:
        """The certain bounds of a tree."""
        scores = {name: score_tree(each, tree) for name, each in self.quantifiers.items()}
        verdict = check_query(tree, scores, self.query.query, self.query.ranges)
        nodes = int(tree.internal.sum())
        return self.point(PAPER, nodes, verdict.lower, verdict.upper, 0.0)

    def refined(self, model: LanguageModel, passes: int) -> tuple[list[Point], int]:
        """The certain bounds after each batch of a refinement, and how many texts it found."""
        budget = AnswerBudget(passes=passes, certain=True)
        result = check_anytime(model, START, self.query, budget)
        points = [
            self.point(REFINEMENT, now.passes, now.lower, now.upper, now.seconds)
            for now in result.history
            if now.passes
        ]
        return points, len(result.evidence.tree)

    def compare_widths(
        self, model: LanguageModel, pools: Sequence[PlainPool], passes: int
    ) -> tuple[list[Point], list[Point]]:
        """The intervals of `llmchecker check` and of plain sampling, for the seed of each pool."""
        answered, sampled = [], []
        for seed, pool in enumerate(pools):
            result = self._answer(model, passes, seed)
            verdict = result
            # the time of the loop alone: the check of the tree is no pass
            seconds = result.history[-1].seconds
            answered.append(
                self.point(
                    ANYTIME, result.passes, verdict.low, verdict.high, seconds, verdict.samples
                )
            )
            plain = pool.select(self.query, passes)
            interval = plain.interval(CONFIDENCE)
            sampled.append(self.point(SAMPLING, plain.passes, *interval, 0.0, plain.samples))
        return answered, sampled

    def compare_thresholds(
        self, model: LanguageModel, pools: Sequence[PlainPool], max_passes: int
    ) -> float:
        """The passes that decide P<=2p and P>=p/2, over those of a sequential test on samples.

        The passes are summed over the seed of each pool. Without a decision, they are those that
        were allowed.
        """
        estimate = min(max(self._estimate, MIN_TESTED), 1 - MIN_TESTED)
        # twice a probability above one half is no threshold
        above = min(2 * estimate, (1 + estimate) / 2)
        passes, plain_passes = 0, 0
        for operator, threshold in (("<=", above), (">=", estimate / 2)):
            text = self.query.query.text.replace("=?", f"{operator}{threshold:.6f}")
            asked = CheckedQuery(parse(text), self.quantifiers, self.query.length)
            for seed, pool in enumerate(pools):
                budget = AnswerBudget(passes=max_passes, confidence=THRESHOLD_CONFIDENCE, seed=seed)
                result = check_anytime(model, START, asked, budget)
                passes += max_passes if result.holds is None else result.passes
                plain_passes += pool.test(self.query, threshold, THRESHOLD_CONFIDENCE)
        return passes / plain_passes

    def _answer(self, model: LanguageModel, passes: int, seed: int) -> Answer:
        budget = AnswerBudget(passes=passes, confidence=CONFIDENCE, seed=seed)
        result = check_anytime(model, START, self.query, budget)
        self.certain_width = result.upper - result.lower
        self._estimate = result.estimate
        return result


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


def _to_paper(
    name: str, trees: Sequence[Point], refined: Sequence[Point]
) -> Iterator[tuple[str, float]]:
    """The ratio to the largest tree for which a refinement made as many passes."""
    for tree in reversed(trees):
        within = [point for point in refined if point.passes <= tree.passes]
        if within and refined[-1].passes >= tree.passes:
            yield f"refine.{name}.width_ratio_to_paper", within[-1].width / tree.width
            return
