"""The forecast of the passes that a narrower answer needs.

    about 4,000 passes (2 min) for a width of 0.02

A forecast is a guess: no answer depends on it. The passes grow as a power of the samples, which is
fitted to the last rounds.

The passes of a decision depend on chance (see `stopping_time`). Even if the probability were known,
about one decision of six would need less than half or more than twice the expected samples. So a
forecast is one number only where half and twice of it are likely limits, and else a range.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.anytime.stopping_time import (
    GrowingBets,
    MixtureBets,
    find_last_sample,
    simulate_stopping_times,
)
from llmchecker.checking.budget import Budget
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.measurement import Threshold, find_threshold
from llmchecker.checking.sample_values import SampleValues
from llmchecker.utils.interval import Interval

_MIN_ROUNDS = 4
"""The least number of rounds that show a trend."""
_FITTED_SHARE = 0.25
"""The rounds after this share of the passes count."""
_STEEPEST, _FLATTEST = -1.0, -0.25
"""The exponents of certain bounds that have a trend. Those of a large tree follow no power."""
_MAX_FACTOR = 1e6
"""The largest ratio of forecast passes to passes so far."""
_ROUND_SHARE = 0.25
"""The number of samples of a round, as a share of those before."""
_DIGITS = 2
"""The significant digits of a forecast."""
_LIKELY = 0.8
"""The least probability of the half and twice of a number as limits."""
_MIN_SAMPLES = 8
"""The least number of samples of a forecast that is one number."""
_RANGE = (0.02, 0.95)
"""The quantiles of a range, which about 80 % of the decisions are within."""
_WIDEST = 30.0
"""The largest ratio of the ends of a range; a wider one has no upper end."""


def forecast_answer(answer: Answer, budget: Budget) -> Forecast | None:
    """Forecast the costs of a decision of a threshold, or of a width for a number.

    Args:
        answer: the answer so far, with its history and evidence.
        budget: its limits.
    """
    if answer.query.is_numeric:
        samples = None if answer.evidence is None else answer.evidence.samples
        forecast = forecast_width(answer.history, budget, samples)
        return forecast and _count_in(answer, forecast)
    threshold = find_threshold(answer.query)
    if threshold is None or answer.holds is not None:
        return None
    return forecast_decision(answer, threshold, budget)


def forecast_decision(answer: Answer, threshold: Threshold, budget: Budget) -> Forecast | None:
    """Forecast the costs of a decision of a threshold.

    Args:
        answer: the undecided answer, to the query with or without the threshold.
        threshold: the threshold.
        budget: the limits of the answer.

    Returns:
        None if samples estimate nothing, or if neither they nor the threshold show anything.
    """
    samples = None if answer.evidence is None else answer.evidence.samples
    if samples is None or not answer.history:
        return None
    history, limit = answer.history, None
    if not samples.is_ratio:
        certain = answer.measurement.certain
        limit = find_samples_to_hold(threshold, certain, budget.confidence)
    if limit is not None and limit <= len(samples):
        limit = None
    if len(samples) == 0:
        if limit is None:
            return None
        return _count_in(answer, Forecast(None, None, samples_to_hold=limit))
    times = simulate_stopping_times(
        samples,
        float(threshold.number),
        answer.measurement.certain,
        (1 - budget.confidence) / 2,
        bets=MixtureBets if answer.is_text_only else GrowingBets,
        narrowing=_fit_narrowing(history),
        # each answer of a model that returns texts alone is compared
        round_size=1 if answer.is_text_only else _find_round_size(history),
        round_share=0.0 if answer.is_text_only else _ROUND_SHARE,
    )
    costs = _fit_costs(history)
    forecast = _summarize(costs(times), history[-1], costs(find_last_sample(len(samples))))
    passes_to_hold = None
    if limit is not None:
        # where each sample is a pass, both numbers are one
        passes = round(costs(limit))
        passes_to_hold = limit if passes == limit else round_up(passes)
    return _count_in(
        answer, replace(forecast, samples_to_hold=limit, passes_to_hold=passes_to_hold)
    )


def find_samples_to_hold(threshold: Threshold, certain: Interval, confidence: float) -> int | None:
    """Return the number of samples without which no confident method shows that a query holds.

    Let P be the least number that violates the requirement, as a share s of the undecided range.
    Even if all n samples have the best value, chance alone may be the cause with a probability of
    (1 - s)^n, which must not exceed 1 - confidence.

    Args:
        threshold: the requirement.
        certain: the certain bounds of the number.
        confidence: the confidence of the answer.

    Returns:
        None if the bounds decide the requirement, or have no limit.
    """
    number = float(threshold.number)
    is_upper_limit = threshold.comparison in ("<=", "<")
    distance = number - certain.lower if is_upper_limit else certain.upper - number
    if not (math.isfinite(certain.width) and 0 < distance < certain.width):
        return None
    return math.ceil(math.log(1 - confidence) / math.log1p(-distance / certain.width))


def forecast_width(
    history: Sequence[Progress], budget: Budget, samples: SampleValues | None
) -> Forecast | None:
    """Forecast the costs of an interval of the wanted width.

    Args:
        history: the intervals after each round.
        budget: the limits, with the width; 0 if none is wanted.
        samples: the samples; None if they are not known.

    Returns:
        None if the interval is as narrow, or if the history shows no trend.
    """
    width = budget.width
    if width <= 0 or not history or history[-1].width <= width:
        return None
    last = history[-1]
    if last.sampled is None:
        passes = _extrapolate_certain(history, width)
    else:
        passes = _extrapolate_sampled(history, width, budget.confidence, samples)
    if passes is None or passes > _MAX_FACTOR * last.passes:
        return None
    total = max(_round_number(passes), round_up(last.passes + 1))
    return Forecast(total, last.seconds * passes / last.passes, width)


def forecast_difference(
    history: Sequence[Progress], estimate: float | None, confidence: float
) -> Forecast | None:
    """Forecast the costs of a decision which of two numbers is greater.

    The intervals of both sides narrow as 1 / sqrt(samples). The difference is about normally
    distributed around its estimate.

    Args:
        history: the intervals of the difference after each round.
        estimate: the estimated difference; None without one.
        confidence: the confidence of the difference.
    """
    if estimate is None or not history or (interval := history[-1].sampled) is None:
        return None
    last = history[-1]
    half = interval.width / 2
    # each end of both sides has a quarter of the error probability, and its bets cost 1.5 nats
    deviations = math.sqrt(2 * (math.log(4 / (1 - confidence)) + 1.5)) * math.sqrt(2)
    chance = np.random.default_rng(0)
    differences = estimate + half / deviations * chance.standard_normal(400)
    with np.errstate(divide="ignore", over="ignore"):
        factors = (half / np.abs(differences)) ** 2
    # a difference that would be decided is none that is left
    factors = factors[factors > 1]
    if len(factors) == 0:
        return None
    costs = _fit_costs(history)
    times = np.where(factors < _MAX_FACTOR, factors, math.inf) * last.samples
    return _summarize(costs(times), last, costs(_MAX_FACTOR * last.samples))


def _round_number(number: float) -> int:
    """Round a number to the digits of a forecast."""
    unit = _find_last_digit(number)
    return round(number / unit) * unit


def round_up(number: float) -> int:
    """Round a number to the digits of a forecast, upwards."""
    unit = _find_last_digit(number)
    return math.ceil(number / unit) * unit


def _find_last_digit(number: float) -> int:
    """Return the last digit's unit, which is a whole number."""
    return int(10 ** max(0, math.floor(math.log10(max(1.0, number))) + 1 - _DIGITS))


def _summarize(passes: np.ndarray, last: Progress, largest: float) -> Forecast:
    """Return the forecast for a distribution of the passes.

    Args:
        passes: (n,) float64, each as probable as another.
        last: the last intervals, with the costs so far.
        largest: the passes beyond which all are infinite.
    """
    ordered = np.sort(np.maximum(passes, last.passes + 1))
    low, middle, high = (
        float(np.quantile(ordered, share, method="inverted_cdf"))
        for share in (_RANGE[0], 0.5, _RANGE[1])
    )
    near = (ordered >= middle / 2) & (ordered <= middle * 2) & np.isfinite(ordered)
    is_likely = near.mean() >= _LIKELY
    # each number is above the passes so far, also after it was rounded
    least = round_up(max(last.passes + 1, min(low, largest)))
    most = None if math.isinf(high) or high > _WIDEST * low else max(least, round_up(high))
    number = None
    # a few samples show too little of the costs and of the values
    if is_likely and last.samples >= _MIN_SAMPLES:
        number = max(_round_number(middle), round_up(last.passes + 1))
        least, most = min(least, number), None if most is None else max(most, number)
    seconds = last.seconds * (least if number is None else number) / max(1, last.passes)
    return Forecast(number, seconds, least_passes=least, most_passes=most)


def _count_in(answer: Answer, forecast: Forecast) -> Forecast:
    """Return a forecast of samples of texts alone in answers; others are in passes already."""
    if (answers := answer.costs.answers) is None:
        return forecast
    # a sample of a conversation has several answers
    return forecast.scale(answers / max(1, answer.history[-1].passes), "answer")


def _fit_costs(history: Sequence[Progress]) -> Callable[[Any], Any]:
    """Return the passes as a function of the samples, a power from the last rounds."""
    last = history[-1]
    exponent = _fit_exponent(
        [(progress.samples, progress.passes) for progress in history if progress.samples],
        last.samples,
    )
    # texts that were visited are free, so that passes never grow faster than samples
    power = 1.0 if exponent is None else min(1.0, max(0.0, exponent))
    return lambda samples: last.passes * (samples / last.samples) ** power


def _find_round_size(history: Sequence[Progress]) -> int:
    """Return the largest number of samples of a round so far."""
    counts = [0, *(progress.samples for progress in history)]
    return max(1, *(after - before for before, after in pairwise(counts)))


def _fit_narrowing(history: Sequence[Progress]) -> float:
    """Return the exponent with which the certain width falls as a power of the samples."""
    points = [
        (progress.samples, progress.certain.width)
        for progress in history
        if progress.samples and 0 < progress.certain.width < math.inf
    ]
    exponent = _fit_exponent(points, history[-1].samples)
    return 0.0 if exponent is None else min(1.0, max(0.0, -exponent))


def _fit_exponent(points: Sequence[tuple[float, float]], last: float) -> float | None:
    """Fit the exponent of a power to the last points; None without a trend."""
    chosen = dict(point for point in points if point[0] > _FITTED_SHARE * last)
    if len(chosen) < _MIN_ROUNDS:
        return None
    slope = float(np.polyfit(np.log(list(chosen)), np.log(list(chosen.values())), 1)[0])
    return slope if math.isfinite(slope) else None


def _extrapolate_certain(history: Sequence[Progress], width: float) -> float | None:
    """Return the passes at which certain bounds have a width."""
    last = history[-1]
    points = [
        (progress.passes, progress.width)
        for progress in history
        if progress.passes and 0 < progress.width < math.inf and progress.sampled is None
    ]
    exponent = _fit_exponent(points, last.passes)
    if exponent is None or exponent > _FLATTEST:
        return None
    passes: float = last.passes * (width / last.width) ** (1 / max(exponent, _STEEPEST))
    return passes


def _extrapolate_sampled(
    history: Sequence[Progress], width: float, confidence: float, samples: SampleValues | None
) -> float | None:
    """Return the passes at which an interval of samples has a width.

    The width of an interval of n values of variance v and range r is in proportion to
    sqrt(2 v L / n) + r L / n, with L = log(2 / (1 - confidence)), and to their range.
    """
    last = history[-1]
    narrowing, error = _fit_narrowing(history), math.log(2 / (1 - confidence))
    deviation, size = 1.0, 0.0
    if samples is not None and len(samples):
        interval = last.narrower_interval
        values = samples.subtract((interval.lower + interval.upper) / 2)
        deviation, size = float(values.lower.std()), float(values.high[-1] - values.low[-1])

    def expect(count: float) -> float:
        shape = math.sqrt(2 * deviation**2 * error / count) + size * error / count
        return float(shape * (count / last.samples) ** -narrowing)

    factors = np.geomspace(1, _MAX_FACTOR, 4000)
    widths = np.array([expect(last.samples * factor) for factor in factors])
    if widths[0] <= 0:
        return None
    reached = np.flatnonzero(last.width * widths / widths[0] <= width)
    if len(reached) == 0:
        return None
    return float(_fit_costs(history)(last.samples * factors[reached[0]]))
