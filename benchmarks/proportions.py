"""The interval of Clopper and Pearson, for plain sampling as a baseline.

Clopper and Pearson (1934, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the
Binomial", Biometrika 26).
"""

from scipy.stats import beta

from llmchecker.errors import InvalidEstimate


def compute_proportion_interval(
    successes: int, trials: int, confidence: float
) -> tuple[float, float]:
    """Compute the Clopper-Pearson interval of a binomial proportion.

    Without trials it is [0, 1].

    Args:
        successes: the number of successes.
        trials: the number of trials.
        confidence: the least probability with which the interval covers the proportion.

    Raises:
        InvalidEstimate: the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InvalidEstimate(f"confidence is {confidence!r}; it must lie between 0 and 1")
    tail = (1 - confidence) / 2
    # the quantiles are not defined for the extreme counts
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, trials - successes + 1))
    high = 1.0
    if successes < trials:
        high = float(beta.isf(tail, successes + 1, trials - successes))
    return low, high
