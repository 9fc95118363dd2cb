"""The share of good texts of a list, from the labels of some of them and a judge's grades of all.

Of N texts, the judge gives n grades g of 0 or 1, and people give the truths t of texts in random
order. The share of good texts is the mean grade plus the mean of t - g, the judge's error. Bets on
t - g narrow it where the judge is rarely wrong, and bets on t alone do not depend on the judge
(prediction-powered inference: Angelopoulos et al. 2023, Science 382; with bets: Waudby-Smith and
Ramdas 2020). Each has half of the error probability, and the interval is in both.

All of this holds for any grades, also false ones, but only for labels of texts in random order.
"""

from collections.abc import Sequence

import numpy as np

from llmchecker.checking.anytime.mean_test import MeanTest
from llmchecker.utils.interval import Interval


def draw_order(count: int) -> list[int]:
    """Return the random order in which people label texts, which is always the same."""
    order: list[int] = np.random.default_rng(count).permutation(count).tolist()
    return order


def bound_rate(
    truths: Sequence[bool],
    grades: Sequence[bool],
    mean_grade: float,
    count: int,
    error_probability: float,
) -> Interval:
    """Return an interval of the share of good texts, which holds for all numbers of labels at once.

    Args:
        truths: whether each labelled text is good, in the order in which people labelled them.
        grades: whether the judge calls the same texts good.
        mean_grade: the share of all texts that the judge calls good.
        count: number of all texts.
        error_probability: the largest probability that an interval misses.
    """
    errors = [(truth - grade + 1) / 2 for truth, grade in zip(truths, grades, strict=True)]
    # of each kind of bets, each of two ends
    own = _bound_mean([float(truth) for truth in truths], mean_grade, count, error_probability / 4)
    error = _bound_mean(errors, 0.5, count, error_probability / 4)
    good, open_count = sum(truths), count - len(truths)
    lower = max(own.lower, 2 * error.lower - 1 + mean_grade, good / count)
    upper = min(own.upper, 2 * error.upper - 1 + mean_grade, (good + open_count) / count)
    # they cross as rarely as an interval misses
    return Interval(min(lower, upper), max(lower, upper))


def _bound_mean(
    values: Sequence[float], expected: float, count: int, error_probability: float
) -> Interval:
    """Return an interval of the mean of a list from the first values, in random order.

    Args:
        values: the values from 0 to 1.
        expected: a mean that is expected; the farther the mean is from it, the wider the interval.
        count: number of values of the list.
        error_probability: the largest probability that one end of the interval is wrong.
    """
    test = MeanTest(count, expected, error_probability)
    total = 0.0
    for value in values:
        test.add(value, value, (total, total))
        total += value
    return test.interval
