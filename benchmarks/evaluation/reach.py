"""How far certain bounds and intervals reach: widths by horizon, decoding, model and query."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from plain_sampling import ModelPool

from evaluation.baselines import find_exact_interval
from evaluation.subjects import QUERIES, Row, Subject, find_progress, measure_answer

TRIVIAL = (0.0, 1.0)


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        lengths: horizons in tokens.
        passes: rising budgets.
        queries: names of queries.
        confidence: confidence of intervals.
    """

    lengths: Sequence[int]
    passes: Sequence[int]
    queries: Sequence[str] = tuple(QUERIES)
    confidence: float = 0.99


def measure(
    subject: Subject, decoding: str, sizes: Sizes, report: Callable[[str], None] = print
) -> Iterator[Row]:
    """Yield a row for each horizon, query and budget.

    The plain samples of a row have as many passes, and the interval of Clopper and Pearson.

    Args:
        subject: the model.
        decoding: name of its decoding.
        sizes: how much is measured.
        report: a function that receives the progress.
    """
    for length in sizes.lengths:
        pool = subject.build_pool(length)
        for query in sizes.queries:
            label = {
                "model": subject.name,
                "decoding": decoding,
                "query": query,
                "horizon": length,
            }
            rows = list(_measure_query(subject, pool, query, length, sizes))
            yield from (label | row for row in rows)
            widths = (f"{row[key]:.3g}" for key in ("certain", "interval", "plain") for row in rows)
            report(f"{subject.name}, {decoding}, {query}, {length} tokens: {', '.join(widths)}")


def _measure_query(
    subject: Subject, pool: ModelPool, query: str, length: int, sizes: Sizes
) -> Iterator[Row]:
    """Yield the widths of a query for each budget: one run has those of all smaller ones."""
    formula, most = QUERIES[query], sizes.passes[-1]
    options = {"passes": most, "confidence": sizes.confidence}
    refined, refined_seconds, problem = measure_answer(
        subject, formula, length, certain=True, **options
    )
    sampled, seconds, other_problem = measure_answer(subject, formula, length, **options)
    for passes in sizes.passes:
        number, plain_passes = pool.find_number(formula, passes)
        truths = pool.find_truths(formula, number)
        low, high = find_exact_interval(truths, sizes.confidence)
        certain = None if refined is None else find_progress(refined, passes)
        likely = None if sampled is None else find_progress(sampled, passes)
        lower, upper = (certain.lower, certain.upper) if certain else TRIVIAL
        least, most_likely = TRIVIAL
        if likely is not None:
            narrower = likely.narrower_interval
            least, most_likely = narrower.lower, narrower.upper
        yield {
            "passes": passes,
            "certain": upper - lower,
            "interval": most_likely - least,
            "plain": high - low,
            "lower": lower,
            "upper": upper,
            "low": least,
            "high": most_likely,
            "plain_low": low,
            "plain_high": high,
            "certain_passes": 0 if certain is None else certain.passes,
            "interval_passes": 0 if likely is None else likely.passes,
            "plain_passes": plain_passes,
            "plain_samples": len(truths),
            "seconds": refined_seconds + seconds,
            "problem": problem or other_problem,
        }
