"""Statistical model checking of independent bits: intervals and a test of a threshold.

These are the methods of PRISM, Storm and Modest, and the adaptive interval that is valid at any
stop. None uses anything of a text but its truth.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import binomtest

Interval = tuple[float, float]
GRID = 2_000
"""Number of candidate means of the betting interval, which is widened by one candidate."""


def find_exact_interval(bits: Sequence[bool], confidence: float) -> Interval:
    """Return the interval of Clopper and Pearson (1934), valid for a number fixed in advance."""
    if not bits:
        return 0.0, 1.0
    found = binomtest(sum(bits), len(bits)).proportion_ci(confidence, "exact")
    return float(found.low), float(found.high)


def find_okamoto_interval(bits: Sequence[bool], confidence: float) -> Interval:
    """Return the interval of Okamoto (1958), the Chernoff bound of approximate model checking.

    PRISM's method APMC computes its number of samples from this bound (Hérault and others 2004).
    """
    if not bits:
        return 0.0, 1.0
    half = math.sqrt(math.log(2 / (1 - confidence)) / (2 * len(bits)))
    mean = sum(bits) / len(bits)
    return max(0.0, mean - half), min(1.0, mean + half)


def find_betting_interval(bits: Sequence[bool], confidence: float) -> Interval:
    """Return the hedged capital interval of Waudby-Smith and Ramdas (2024), valid at any stop.

    "Estimating means of bounded random variables by betting", Theorem 3 with the predictable
    plug-in of equation 26, both capitals weighted by 1/2, bets up to half of the stake, and the
    running intersection.
    """
    lows, highs = compute_betting_ends(bits, confidence)
    return (float(lows[-1]), float(highs[-1])) if len(bits) else (0.0, 1.0)


def compute_betting_ends(bits: Sequence[bool], confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute (n,) the ends of the betting interval after each bit, low ends first."""
    x = np.asarray(bits, dtype=float)
    counts = np.arange(1, len(x) + 1)
    means = (0.5 + x.cumsum()) / (counts + 1)
    variances = (0.25 + ((x - means) ** 2).cumsum()) / (counts + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    bets = np.sqrt(2 * math.log(2 / (1 - confidence)) / (before * counts * np.log(1 + counts)))
    limit = math.log(2 / (1 - confidence))
    candidates = np.linspace(0, 1, GRID + 1)
    is_left = np.ones(GRID + 1, dtype=bool)
    logarithms = np.zeros((2, GRID + 1))
    ends = np.empty((2, len(x)))
    with np.errstate(divide="ignore"):
        up, down = 0.5 / candidates, 0.5 / (1 - candidates)
    for index, (bit, bet) in enumerate(zip(x, bets, strict=True)):
        gain = bit - candidates
        logarithms[0] += np.log1p(np.minimum(bet, up) * gain)
        logarithms[1] += np.log1p(-np.minimum(bet, down) * gain)
        # the half of the greater capital is at most the hedged capital
        is_left &= logarithms.max(axis=0) < limit
        left = np.flatnonzero(is_left)
        # a mean between two candidates is only excluded with both of them
        low, high = (left[0] - 1, left[-1] + 1) if len(left) else (0, GRID)
        ends[:, index] = max(low, 0) / GRID, min(high, GRID) / GRID
    return ends[0], ends[1]


def find_decision(
    bits: Sequence[bool], threshold: float, margin: float, error: float
) -> tuple[bool | None, int]:
    """Test a threshold by the sequential probability ratio test of Wald (1945).

    The test may be wrong more often if the probability is within the margin.

    Args:
        bits: the truths of the samples, in order.
        threshold: the threshold.
        margin: half the width of the indifference region.
        error: the probability of each of the two errors.

    Returns:
        Whether the probability is at least the threshold, and the number of bits that decided it;
        None and all bits if these are too few.
    """
    low, high = max(threshold - margin, 1e-6), min(threshold + margin, 1 - 1e-6)
    limit, ratio = math.log((1 - error) / error), 0.0
    for number, bit in enumerate(bits, 1):
        ratio += math.log(high / low) if bit else math.log((1 - high) / (1 - low))
        if abs(ratio) >= limit:
            return ratio > 0, number
    return None, len(bits)


INTERVALS: dict[str, Callable[[Sequence[bool], float], Interval]] = {
    "Clopper-Pearson": find_exact_interval,
    "Okamoto": find_okamoto_interval,
    "betting": find_betting_interval,
}
"""The intervals by name; the last one alone is valid at any stop."""
