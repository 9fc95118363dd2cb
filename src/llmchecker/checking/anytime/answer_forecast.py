"""The forecast of the passes that a narrower answer needs.

    about 4,000 passes (2 min) for a width of 0.02

The width of an interval falls about as a power of the passes, between passes^-1/2 and passes^-1.
The exponent is fitted to the last rounds. A forecast is a guess: no answer depends on it.
"""

import math
from collections.abc import Sequence

import numpy as np

from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.measurement import find_threshold
from llmchecker.utils.number_format import format_number

_MIN_ROUNDS = 4
"""The least number of rounds that show a trend."""
_FITTED_SHARE = 0.25
"""The rounds after this share of the passes count."""
_STEEPEST, _FLATTEST = -1.0, -0.25
"""The exponents of a usable fit. Flatter widths, as those of a large tree, follow no power."""
_MAX_FACTOR = 1e6
"""The largest ratio of forecast passes to passes so far."""
_DIGITS = 1
"""The significant digits of a forecast."""


def forecast_width(history: Sequence[Progress], width: float) -> Forecast | None:
    """Forecast the costs of an interval of a width.

    Args:
        history: the intervals after each round.
        width: the wanted width; 0 if none is wanted.

    Returns:
        None if the interval is as narrow, or if the history shows no trend.
    """
    if width <= 0 or not history or history[-1].width <= width:
        return None
    return _extrapolate(history, width / history[-1].width, width)


def forecast_decision(history: Sequence[Progress], threshold: float) -> Forecast | None:
    """Forecast the costs of an interval that excludes a threshold.

    The centre of the last interval is taken for the answer.

    Args:
        history: the intervals after each round.
        threshold: the threshold of the query.

    Returns:
        None without samples, if the centre is at the threshold, or if the history shows no trend.
    """
    if not history:
        return None
    if (interval := history[-1].sampled) is None:
        return None
    distance = abs((interval.lower + interval.upper) / 2 - threshold)
    # the half of the interval that reaches to the threshold must shrink to the distance
    return _extrapolate(history, 2 * distance / interval.width if interval.width else 1.0, None)


def forecast_answer(answer: Answer, width: float) -> Forecast | None:
    """Forecast the costs of a decision of a threshold, or of a width for a number.

    Args:
        answer: the answer so far, with its history.
        width: as in `forecast_width`.
    """
    if answer.query.is_numeric:
        return forecast_width(answer.history, width)
    threshold = find_threshold(answer.query)
    if threshold is None or answer.holds is not None:
        return None
    return forecast_decision(answer.history, float(threshold.number))


def _extrapolate(
    history: Sequence[Progress], shrinkage: float, width: float | None
) -> Forecast | None:
    """Return the costs at which the width is `shrinkage` of the last one."""
    exponent = _fit_exponent(history)
    if exponent is None or not 0 < shrinkage < 1:
        return None
    factor = shrinkage ** (1 / exponent)
    if factor > _MAX_FACTOR:
        return None
    last = history[-1]
    return Forecast(
        int(float(format_number(last.passes * factor, _DIGITS))), last.seconds * factor, width
    )


def _fit_exponent(history: Sequence[Progress]) -> float | None:
    """Fit the exponent of the width as a power of the passes; None without a trend."""
    last = history[-1]
    # certain bounds alone narrow in another way than an interval of samples
    rounds = {
        progress.passes: progress.width
        for progress in history
        if progress.passes > _FITTED_SHARE * last.passes
        and (progress.sampled is None) == (last.sampled is None)
        and 0 < progress.width < math.inf
    }
    if len(rounds) < _MIN_ROUNDS:
        return None
    passes, widths = np.log(list(rounds)), np.log(list(rounds.values()))
    slope = float(np.polyfit(passes, widths, 1)[0])
    if not math.isfinite(slope) or slope > _FLATTEST:
        return None
    return max(slope, _STEEPEST)
