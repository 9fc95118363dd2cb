"""The effort of rows: the share of its budget that each row of an average gets.

How much rows differ limits what any number of passes on each of them shows. So an average of many
rows that need many passes is decided sooner by few passes on many rows.

The effort of a row depends on the rows before it in the random order alone, and on no result of the
row itself. So its samples have its probability as their mean as before, given the earlier rows, and
all intervals of an average hold. If that leaves the mean of these rows open, the rows with a part
of their budget are read again, with the whole one and new samples (see `averages`).

For a row whose samples leave the variance v, another effort f than its own e is forecast to leave
v e / f. A decision takes rows in proportion to the variance of all rows (Kelly 1956, "A New
Interpretation of Information Rate"), so the effort with the least product of that variance and the
cost of a row decides for the fewest passes.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llmchecker.checking.budget import Budget

WHOLE = 1.0
"""The effort of the whole budget."""
_EFFORTS = (WHOLE, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
_LEAST_SAMPLES = 4
"""The least number of samples that an effort must be forecast to leave a row, on average."""
_MIN_ROWS = 32
"""The least number of rows of an average that chooses efforts."""
_FIRST_ROWS, _FIRST_EFFORT = 8, 1 / 4
"""The number of rows of the first block, and their effort."""
_MAX_BLOCK = 256
"""The largest number of rows whose efforts depend on the same earlier rows."""
_MAX_LIST_SHARE = 1 / 2
"""The largest share of the distance to the threshold that samples of all rows may leave open."""
_MAX_POPULATION_SHARE = 1 / 4
"""The largest share of the rows of a population after which a decision must be forecast."""
_MAX_GROWTH = 1.05
"""The largest growth of the variance of a row of a population that is allowed anyway."""
_MIXTURE_COST = 1.5
"""The logarithm of what a bet loses to the best one, whose stake is unknown."""


@dataclass(frozen=True)
class ReadRow:
    """A row that was read, for the forecast of others.

    Attributes:
        low, high: shares of all values, which are at most and at least its own on average.
        variance: the variance that its samples leave each of them; 0 for an exact row.
        samples: the number of its samples.
        cost: its passes, or answers of a model that returns texts alone.
        effort: its effort.
    """

    low: float
    high: float
    variance: float
    samples: int
    cost: int
    effort: float


@dataclass(frozen=True)
class RowPlan:
    """How a row is read.

    Attributes:
        effort: its effort; None if no average chooses it, for the whole budget.
        is_reread: whether it is read again, with new samples.
    """

    effort: float | None = None
    is_reread: bool = False

    def scale(self, budget: Budget) -> Budget:
        """Return the part of the budget of a row that it gets."""
        if self.effort is None:
            return budget
        # both readings together have the error probability of the row
        changes: dict[str, Any] = {
            "answers": math.ceil(budget.answers * self.effort),
            "confidence": 1 - (1 - budget.confidence) / 2,
        }
        if budget.passes is not None:
            changes["passes"] = math.ceil(budget.passes * self.effort)
        if self.is_reread:
            digest = hashlib.sha256(f"{budget.seed} again".encode()).digest()
            changes["seed"] = int.from_bytes(digest[:8], "big") >> 1
        return budget.model_copy(update=changes)


NO_PLAN = RowPlan()


def has_efforts(budget: Budget, total: int) -> bool:
    """Return whether an average of so many rows with a budget may choose efforts."""
    # an effort may depend on no time
    return total >= _MIN_ROWS and budget.seconds is None


def find_block(place: int) -> int:
    """Return the first place of the block of a row, whose effort depends on the rows before it.

    Args:
        place: the place of the row in the order of reading.
    """
    if place < _FIRST_ROWS:
        return 0
    # blocks double the number of rows until they are as large as allowed
    start = _FIRST_ROWS << (place // _FIRST_ROWS).bit_length() - 1
    if start < _MAX_BLOCK:
        return start
    return place - place % _MAX_BLOCK


def choose_effort(
    rows: Sequence[ReadRow], limit: float, total: int, error_probability: float, *, is_list: bool
) -> float:
    """Choose the effort of the next rows.

    Args:
        rows: the rows before them.
        limit: the threshold, as a share of all values.
        total: the number of rows of the average.
        error_probability: the largest probability that a bet is wrong.
        is_list: whether the mean is that of these rows, and not of a population.
    """
    if not rows:
        return _FIRST_EFFORT
    forecast = _Forecast(rows, limit, total, error_probability)
    is_safe = forecast.is_safe_for_list if is_list else forecast.is_safe_for_population
    usable = [each for each in _EFFORTS if forecast.has_samples(each) and is_safe(each)]
    # of equal costs the larger effort
    return min(usable, key=forecast.find_cost, default=WHOLE)


class _Forecast:
    """A forecast of the costs until an average is decided, and of what all rows would show.

    Args:
        rows, limit, total, error_probability: as in `choose_effort`.
    """

    def __init__(
        self, rows: Sequence[ReadRow], limit: float, total: int, error_probability: float
    ) -> None:
        self._total = total
        self._target = _MIXTURE_COST - math.log(error_probability)
        self._efforts = np.array([row.effort for row in rows])
        self._variances = np.array([row.variance for row in rows])
        self._samples = np.array([row.samples for row in rows])
        self._costs = np.array([row.cost for row in rows])
        middles = np.array([(row.low + row.high) / 2 for row in rows])
        self._spread = float(((middles - limit) ** 2).mean())
        error = float(middles.std()) / math.sqrt(len(rows))
        # a smaller distance could not be seen yet
        self._distance = max(abs(float(middles.mean()) - limit), error)

    def has_samples(self, effort: float) -> bool:
        """Return whether an effort leaves rows enough samples to learn from."""
        is_sampled = self._samples > 0
        left = self._samples[is_sampled] * effort / self._efforts[is_sampled]
        return not is_sampled.any() or float(left.mean()) >= _LEAST_SAMPLES

    def find_cost(self, effort: float) -> float:
        """Return the forecast cost of a decision, but for a factor that all efforts share."""
        # rows without samples cost the same with any effort
        scales = np.where(self._samples > 0, effort / self._efforts, 1.0)
        return float((self._costs * scales).mean()) * self._find_variance(effort)

    def is_safe_for_population(self, effort: float) -> bool:
        """Return whether rows decide early, or differ much more than an effort leaves open."""
        variance = self._find_variance(effort)
        rows = 2 * variance * self._target / self._distance**2 if self._distance else math.inf
        is_early = rows <= _MAX_POPULATION_SHARE * self._total
        return is_early or variance <= _MAX_GROWTH * self._find_variance(WHOLE)

    def is_safe_for_list(self, effort: float) -> bool:
        """Return whether samples of all rows leave less open than the distance to the limit."""
        done, left = float(self._variances.sum()), self._total - len(self._variances)
        variance = done + left * float((self._variances * self._efforts).mean()) / effort
        margin = math.sqrt(2 * variance * self._target)
        return margin <= _MAX_LIST_SHARE * self._distance * self._total

    def _find_variance(self, effort: float) -> float:
        """Return the forecast variance of a row: how much rows differ, and what samples leave."""
        added = self._variances * (self._efforts / effort - 1)
        return max(self._spread + float(added.mean()), self._spread / 16)
