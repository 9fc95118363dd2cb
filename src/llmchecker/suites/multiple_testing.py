"""Multiple testing: the confidence of each interval in a suite.

A suite with confidence c may have a wrong verdict with probability 1 - c. Bonferroni's inequality
divides this probability: each of n cases gets (1 - c) / n. With m means, the cases get one half of
it and each mean (1 - c) / 2m: a mean of thousands of rows is one verdict. The inequality holds for
dependent intervals too. Certain verdicts use none of it. An interval holds at every stop, so a case
may end when it is decided.

Holm's procedure would give decided cases' shares to the others. It needs hypotheses that can all be
false. Of the two verdicts of a case exactly one is wrong, so the number of true hypotheses never
falls, and Holm's procedure gives no more than Bonferroni's.
"""

from llmchecker.errors import ConfigError
from llmchecker.utils.section import CONFIDENCE_RANGE

METHOD = "Bonferroni"
"""The name of the method in outputs."""


def split_confidence(confidence: float, intervals: int, share: float = 1.0) -> float:
    """Return the confidence of each interval of a suite.

    Args:
        confidence: confidence of all verdicts together.
        intervals: number of intervals.
        share: the share of the error probability that these intervals have.

    Raises:
        ConfigError: the suite has too many intervals for its confidence.
    """
    error_probability = share * (1 - confidence) / max(1, intervals)
    # nearer to 1, shares of the error probability would be rounded away
    if 1 - error_probability > CONFIDENCE_RANGE[1]:
        raise ConfigError(
            f"confidence: {confidence} is too high for {intervals:,} intervals; lower it or split "
            "the suite"
        )
    return 1 - error_probability
