"""Evidence that a sum of probabilities changed since a release, or is beyond a threshold.

Each day has samples of its own. Let T be the sum of the probabilities on that day, and c a scale of
`mean_evidence`. With the weighted sums of the samples, the stakes

    exp(c (low - u T) - penalty)    and    exp(c (u T - high) - penalty)

have a mean of at most 1, whatever the earlier days showed. They bet that the sum is above T or
below it. The product over days is 1 at first and is never expected to rise, so it ever reaches 1/d
with probability d at most (Ville 1939, "Étude critique de la notion de collectif"). So a claim
about all days may be tested on each of them.

A product that began with the first day would lose on each day before a change. So a share of the
wealth, 1 / (j (j + 1)), waits for day j, and all shares are added (Shin, Ramdas and Rinaldo 2024,
"E-detectors", arXiv 2203.03532). A change on day j then costs about 2 ln(j) nats, and no more.

The sum at the release is known by samples too. If no day differs from it by more than a margin, all
stakes are about one number p: those of the release bet that it is above p, those of the days that
they are below p - margin. The product of both at the true p has a mean of at most 1. So the claim
is refuted if the product is large for all p. Its logarithm is convex in p.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from llmchecker.checking.anytime.mean_evidence import SCALES, MeanEvidence, Member
from llmchecker.utils.interval import Interval, average
from llmchecker.utils.stored_fields import COUNT, NUMBER, check_fields, list_of

_ROUNDING_MARGIN = 1e-6
"""A limit above the rounding error of the logarithm of a wealth."""
_HALVINGS = 60
"""The number of halvings after which an interval of a search is a point."""
_CHANGE_HALVINGS = 12
"""The number of halvings of a search for a change of a mean."""


@dataclass(frozen=True)
class SumEvidence:
    """The evidence of a day about a sum of probabilities.

    Attributes:
        count: number of the probabilities.
        lower, upper: certain bounds of the mean, which is the sum divided by `count`.
        used: for each scale, the factor u of the sum.
        low, high: for each scale, the numbers of the formulas of this module.
        penalties: for each scale, the penalty.
    """

    count: int
    lower: float
    upper: float
    used: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    penalties: tuple[float, ...]

    @classmethod
    def add_members(cls, members: Sequence[Member]) -> "SumEvidence":
        """Return the evidence about the sum of probabilities, whose samples are independent.

        With the weights u_r of the samples of each probability P_r, the sum of u_r P_r is bounded
        by u times the sum of P_r, where u is the mean weight, and the certain bounds of P_r.
        """
        evidences = [member.evidence or MeanEvidence() for member in members]
        used = np.array([each.used for each in evidences])
        bounds = [Interval(member.lower, member.upper) for member in members]
        mean_bounds = average(bounds)
        means = used.mean(axis=0)
        # (2, n, scales): what each P_r can add at its bounds
        columns = np.array([(each.lower, each.upper) for each in bounds]).T
        ends = (used - means) * columns[:, :, None]
        low, high, penalties = (
            np.array([getattr(each, name) for each in evidences]).sum(axis=0)
            for name in ("low_sums", "high_sums", "penalties")
        )
        low, high = low - ends.max(axis=0).sum(axis=0), high - ends.min(axis=0).sum(axis=0)
        return cls(
            len(members),
            mean_bounds.lower,
            mean_bounds.upper,
            tuple(means.tolist()),
            tuple(low.tolist()),
            tuple(high.tolist()),
            tuple(penalties.tolist()),
        )

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "SumEvidence":
        """Return the evidence whose attributes a JSON object has.

        Raises:
            TypeError, ValueError: the object has other content.
        """
        columns = ("used", "low", "high", "penalties")
        fields = {"count": COUNT, "lower": NUMBER, "upper": NUMBER}
        check_fields(content, fields | dict.fromkeys(columns, list_of(NUMBER, len(SCALES))))
        used, low, high, penalties = (tuple(map(float, content[name])) for name in columns)
        bounds = float(content["lower"]), float(content["upper"])
        return cls(content["count"], *bounds, used, low, high, penalties)

    def as_json(self) -> dict[str, Any]:
        """Return the attributes as JSON."""
        return asdict(self)

    @property
    def estimate(self) -> float:
        """An estimate of the mean; the middle of its bounds without samples."""
        bounds = Interval(self.lower, self.upper)
        # the first scale has the weights of most samples
        used = self.used[0] * self.count
        found = (
            (self.low[0] + self.high[0]) / (2 * used) if used > 0 else (self.lower + self.upper) / 2
        )
        return bounds.clip(found)


@dataclass(frozen=True)
class _Wealth:
    """A wealth as a function of the sum T: the sum of exp(intercept + slope T).

    Attributes:
        slopes, intercepts: (n,) float64.
    """

    slopes: np.ndarray
    intercepts: np.ndarray

    def compute_log(self, total: float) -> tuple[float, float]:
        """Return the logarithm of the wealth at a sum, and its derivative."""
        logs = self.intercepts + self.slopes * total
        largest = logs.max()
        shares = np.exp(logs - largest)
        wealth = shares.sum()
        return float(largest + math.log(wealth)), float(shares @ self.slopes / wealth)


def _build_release_wealth(release: SumEvidence, sign: int) -> _Wealth:
    """Build the wealth of bets that the sum is above (sign 1) or below (sign -1) a number."""
    slopes, intercepts = _list_stakes([release], sign)
    return _Wealth(slopes[0], intercepts[0] - math.log(len(SCALES)))


def _build_daily_wealth(days: Sequence[SumEvidence], sign: int) -> _Wealth:
    """Build the wealth of bets on the sum of the days from some day on, with a share for each."""
    slopes, intercepts = _list_stakes(days, sign)
    # the sums from each day on
    slopes, intercepts = (column[::-1].cumsum(axis=0)[::-1] for column in (slopes, intercepts))
    numbers = np.arange(1.0, len(days) + 1)
    shares = -np.log(numbers * (numbers + 1) * len(SCALES))
    # the shares of later days are not bet yet
    return _Wealth(
        np.append(slopes.ravel(), 0.0),
        np.append((intercepts + shares[:, None]).ravel(), -math.log(len(days) + 1)),
    )


def _list_stakes(days: Sequence[SumEvidence], sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (days, scales) float64 each: slopes and intercepts of the logarithms of the stakes."""
    used, ends, penalties = (
        np.array([getattr(day, name) for day in days])
        for name in ("used", "low" if sign > 0 else "high", "penalties")
    )
    return -sign * SCALES * used, sign * SCALES * ends - penalties


def is_beyond(
    days: Sequence[SumEvidence], sign: int, mean: float, error_probability: float
) -> bool:
    """Return whether it is refuted that the mean was within a limit on every day.

    Args:
        days: the evidence of the days so far.
        sign: 1 for a largest allowed mean, -1 for a least one.
        mean: the limit.
        error_probability: the largest probability that a true claim is ever refuted.
    """
    total, target = days[0].count * mean, _find_target(error_probability)
    return _build_daily_wealth(days, sign).compute_log(total)[0] >= target


def is_changed(
    release: SumEvidence,
    days: Sequence[SumEvidence],
    sign: int,
    margin: float,
    error_probability: float,
) -> bool:
    """Return whether it is refuted that no day's mean is further than a margin from the release's.

    Args:
        release: the evidence at the release.
        days: the evidence of the days so far.
        sign: 1 for a mean above that of the release, -1 for one below it.
        margin: the largest difference that is no change; a negative one claims a change on each
            day, as in `find_least_change`.
        error_probability: as in `is_beyond`.
    """
    shift, count = sign * margin, release.count
    low, high = release.lower, release.upper
    # the mean of the release, plus the shift, is a limit of the mean of each day
    if sign > 0:
        low = max(low, math.nextafter(max(day.lower for day in days) - shift, -math.inf))
    else:
        high = min(high, math.nextafter(min(day.upper for day in days) - shift, math.inf))
    if low > high:
        return True
    before = _build_release_wealth(release, -sign)
    after = _build_daily_wealth(days, sign)

    def compute_log(mean: float) -> tuple[float, float]:
        first = before.compute_log(count * mean)
        second = after.compute_log(count * (mean + shift))
        return first[0] + second[0], count * (first[1] + second[1])

    return _exceeds(compute_log, low, high, _find_target(error_probability))


def _exceeds(
    compute_log: Callable[[float], tuple[float, float]], low: float, high: float, target: float
) -> bool:
    """Return whether a convex function is at least a target on an interval.

    Args:
        compute_log: returns the value and the derivative at a point.
        low, high: the ends of the interval.
        target: the target.
    """
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        value, slope = compute_log(middle)
        if value < target:
            return False
        # the tangent is nowhere above a convex function
        if value - abs(slope) * (high - low) / 2 >= target:
            return True
        low, high = (low, middle) if slope > 0 else (middle, high)
    return False


def find_least_change(
    release: SumEvidence, days: Sequence[SumEvidence], sign: int, error_probability: float
) -> float | None:
    """Find the least change of the mean, present on every day, that is refuted.

    Args:
        release, days, error_probability: as in `is_changed`.
        sign: 1 for a mean above that of the release, -1 for one below it.

    Returns:
        The change, from 0 to 1, rounded upwards; None if no change is refuted.
    """

    def is_refuted(change: float) -> bool:
        # a rise by more than this on every day is what bets on the other side refute
        return is_changed(release, days, -sign, -change, error_probability)

    if not is_refuted(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(_CHANGE_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return high


def find_first_day(days: Sequence[SumEvidence], sign: int, mean: float) -> int:
    """Return the index of the first day on which the mean is probably beyond a number.

    It is the first day whose certain bounds are, or else the day from which on the bets won most.

    Args:
        days, sign: as in `is_beyond`.
        mean: the number.
    """
    for index, day in enumerate(days):
        if (day.lower > mean) if sign > 0 else (day.upper < mean):
            return index
    slopes, intercepts = _list_stakes(days, sign)
    logs = intercepts + slopes * mean * days[0].count
    return int(logs[::-1].cumsum(axis=0)[::-1].max(axis=1).argmax())


def _find_target(error_probability: float) -> float:
    return _ROUNDING_MARGIN - math.log(error_probability)
