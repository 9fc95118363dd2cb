"""The errors of a judge, by which its grades of answers show how many of them people call good.

Of the answers that people call bad, the judge passes a share f, and of those that they call good,
it fails a share g. With a share t of good answers, the judge passes the share

    p = t (1 - g) + (1 - t) f,   so that   t = (p - f) / (1 - f - g)

(Rogan and Gladen 1978, "Estimating prevalence from the results of a screening test", American
Journal of Epidemiology 107). Between 0 and 1, t rises with p and g and falls with f. So its least
and its greatest value for all p, f and g of three intervals are at their ends. Where f + g may be
1, the grades may have nothing to do with the truth, and t is from 0 to 1.

Exact intervals of f and g are those of the labelled texts (Clopper and Pearson 1934). They are
about other answers only if the judge errs on these as often.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from llmchecker.checking.measurement import Measurement
from llmchecker.errors import ConfigError, UnusableDataset
from llmchecker.properties.logic.ast import STEP, Atom, Probability, Temporal
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.judge import Judge
from llmchecker.suites.judge_check import (
    FALSE_FAIL,
    FALSE_PASS,
    SETTINGS,
    build_share,
    describe_judge,
)
from llmchecker.utils.interval import DIFFERENCES, PROBABILITIES, Interval, round_interval
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import quote_value
from llmchecker.utils.stored_fields import COUNT, OBJECT, TEXT, check_fields
from llmchecker.utils.text_files import read_text

ERROR_KINDS = 2
"""The number of intervals that a judge needs: false passes and false fails."""
_ROUNDING = 1e-9
"""A limit above the rounding error of an exact interval of a share."""
_MAX_SHOWN = 60
"""The largest number of characters of a setting in a message."""


@dataclass(frozen=True)
class ErrorRates:
    """Intervals of the two kinds of errors of a judge, which hold together.

    Attributes:
        false_pass: the share of answers that people call bad, of which the judge passes.
        false_fail: the share of answers that people call good, of which the judge fails.
    """

    false_pass: Interval
    false_fail: Interval

    @property
    def is_informative(self) -> bool:
        """Whether the judge passes a good answer more often than a bad one."""
        return Fraction(self.false_pass.upper) + Fraction(self.false_fail.upper) < 1

    def has_passes(self, passed: Interval) -> bool:
        """Return whether a share of passed answers may be one of a judge with these errors."""
        least, most = self.false_pass.lower, 1 - Fraction(self.false_fail.lower)
        return passed.upper >= least and Fraction(passed.lower) <= most

    def correct(self, passed: Interval) -> Interval:
        """Return the interval of the share of good answers from that of the passed ones.

        It is [0, 1] if the errors exclude no share, or all of them.
        """
        if not self.is_informative or not self.has_passes(passed):
            return PROBABILITIES
        lower = _solve(passed.lower, self.false_pass.upper, self.false_fail.lower)
        upper = _solve(passed.upper, self.false_pass.lower, self.false_fail.upper)
        return round_interval(lower, upper)

    def correct_difference(self, difference: Interval) -> Interval:
        """Return the interval of a difference of two shares of good answers, likewise."""
        if not self.is_informative:
            return DIFFERENCES
        rates = self.false_pass, self.false_fail
        scales = [
            1 - sum(map(Fraction, ends))
            for ends in ([each.upper for each in rates], [each.lower for each in rates])
        ]
        lower, upper = (
            find(Fraction(end) / scale for scale in scales)
            for find, end in ((min, difference.lower), (max, difference.upper))
        )
        clipped = round_interval(max(lower, Fraction(-1)), min(upper, Fraction(1)))
        # a judge with these errors has no such difference
        return clipped if lower <= 1 and upper >= -1 else DIFFERENCES


@dataclass(frozen=True)
class JudgeErrors:
    """The errors of a judge on labelled texts, as `judge-check --json` writes them.

    Attributes:
        name: the file, for messages.
        judge: name of the judge.
        settings: all that determines its grades, as of `describe_judge`.
        good_grade: the least good grade.
        false_pass: the number of texts with a bad label that the judge passes, and of all of these.
        false_fail: the number of texts with a good label that it fails, and of all of these.
        is_whole: whether answers without an end within the horizon count as bad, or as good,
            whatever the judge says about them.
    """

    name: str
    judge: str
    settings: Mapping[str, Any]
    good_grade: int
    false_pass: tuple[int, int]
    false_fail: tuple[int, int]
    is_whole: bool = False

    @classmethod
    def read(cls, name: str, folder: Path) -> "JudgeErrors":
        """Read a file that `judge-check --json` wrote.

        Raises:
            UnusableDataset: the file cannot be read, or is no such file.
        """
        path = folder / name
        if not path.is_file():
            raise UnusableDataset(f"{name}: absent; write it by llmchecker judge-check … --json")
        try:
            content = json.loads(read_text(path))
            kinds = dict.fromkeys((SETTINGS, FALSE_PASS, FALSE_FAIL), OBJECT)
            check_fields(content, {"judge": TEXT, "good_grade": COUNT, **kinds})
            passes, fails = (_read_count(content, key) for key in (FALSE_PASS, FALSE_FAIL))
        except ValueError as error:
            raise UnusableDataset(
                f"{name}: no result of judge-check: {error}; write it anew by llmchecker "
                "judge-check … --json"
            ) from error
        settings, good_grade = content[SETTINGS], content["good_grade"]
        return cls(name, content["judge"], settings, good_grade, passes, fails)

    def count_whole(self) -> "JudgeErrors":
        """Return the errors where answers without an end count as bad, or as good."""
        return replace(self, is_whole=True)

    def bound(self, confidence: float) -> ErrorRates:
        """Return an interval of each kind of errors, each with a confidence."""
        return ErrorRates(*(self._bound(c, confidence) for c in (self.false_pass, self.false_fail)))

    def _bound(self, count: tuple[int, int], confidence: float) -> Interval:
        interval = _bound_share(*count, confidence)
        # without errors on an unknown number of answers that have not ended, there may be fewer
        return Interval(0.0, interval.upper) if self.is_whole else interval

    @property
    def estimates(self) -> tuple[float, float] | None:
        """The shares of errors of the labelled texts; None if a kind of texts is absent."""
        if not self.false_pass[1] or not self.false_fail[1]:
            return None
        return self.false_pass[0] / self.false_pass[1], self.false_fail[0] / self.false_fail[1]

    def find_passed(self, good: float) -> float:
        """Return about the share of answers that the judge passes if so many are good."""
        false_pass, false_fail = self.estimates or (0.0, 0.0)
        return good * (1 - false_fail) + (1 - good) * false_pass

    def correct(self, passed: Measurement, confidence: float) -> Measurement:
        """Return the measurement of the good answers from that of the passed ones.

        Args:
            passed: the measurement of the share of answers that the judge passes.
            confidence: the confidence of each kind of errors.
        """
        sampled = self.bound(confidence).correct(passed.sampled)
        estimate, rates = None, self.estimates
        if passed.estimate is not None and rates is not None and sum(rates) < 1:
            estimate = sampled.clip(float(_solve(passed.estimate, *rates)))
        # labels are samples, so that nothing is certain
        return Measurement(PROBABILITIES, sampled, estimate)

    def list_reasons(self, passed: Interval, confidence: float) -> tuple[str, ...]:
        """List the assumption of a corrected number, and why it may be open, as sentences.

        Args:
            passed: the interval of the share of answers that the judge passes.
            confidence: as in `correct`.
        """
        bad, good = (f"{hits:,} of {total:,}" for hits, total in (self.false_pass, self.false_fail))
        assumption = (
            f"true if the judge {self.judge} errs on these answers as on the labelled texts of "
            f"{self.name}: it passes {bad} bad texts, and fails {good} good ones"
        )
        rates = self.bound(confidence)
        labels = format_count(self.false_pass[1] + self.false_fail[1], "label")
        if not rates.is_informative:
            return (
                assumption,
                f"by {labels}, the judge may pass bad answers as often as good ones, so that its "
                "grades show nothing; label more texts, or use another judge",
            )
        if not rates.has_passes(passed):
            return (
                assumption,
                "its grades of these answers are none of a judge with these errors; label answers "
                "of this suite",
            )
        return (assumption,)

    def check_asked(self, asked: Property) -> None:
        """Check that a query is about a good grade by the measured judge.

        Raises:
            ConfigError: it is about something else, or by another judge.
        """
        atom = _find_last_atom(asked)
        if atom is None:
            raise ConfigError(
                f"{self.name}: {asked.query.text!r} is not about the grade of the answer; write "
                f"P=? [ F (G polite >= {self.good_grade}) ] with the name of the judge"
            )
        (variable,) = atom.variables
        judge = asked.quantifiers[variable]
        if not isinstance(judge, Judge):
            raise ConfigError(f"{self.name}: {variable} is no judge; use the measured one")
        own = describe_judge(judge, has_prompts=True)
        # a file of JSON has no tuples
        own = json.loads(json.dumps(own))
        for key, value in own.items():
            if self.settings.get(key) != value:
                raise ConfigError(self._describe_difference(key, value, judge.model.name))
        grades = np.array(sorted(set(judge.grades.values())))
        columns = {variable: grades, STEP: np.zeros(len(grades), int)}
        if not np.array_equal(atom.evaluate(columns), grades >= self.good_grade):
            raise ConfigError(
                f"{self.name}: {str(atom)!r} is not about the grades from {self.good_grade} on; "
                f"write {variable} >= {self.good_grade}, or measure with --grade"
            )

    def _describe_difference(self, key: str, value: Any, judge: str) -> str:
        """Describe the first setting in which the measured judge differs from that of the suite."""
        if key == "prompts" and value:
            return (
                f"{self.name}: measured without prompts, which {judge} reads here; add the column "
                "prompt to the labels, or write of: continuation"
            )
        if key in ("model", "messages"):
            what = f"of {self.judge} with another {key}, and not of {judge} as it is now"
        else:
            both = self.settings.get(key), value
            stored, own = (quote_value(each, _MAX_SHOWN) for each in both)
            what = f"of a judge with {key} {stored}, and not {own}"
        return f"{self.name}: {what}; measure this judge by llmchecker judge-check"


@lru_cache(maxsize=64)
def _bound_share(hits: int, total: int, confidence: float) -> Interval:
    """Return the exact interval of a share, rounded outwards."""
    interval = build_share(hits, total, confidence).interval
    return Interval(max(0.0, interval.lower - _ROUNDING), min(1.0, interval.upper + _ROUNDING))


def _solve(passed: float, false_pass: float, false_fail: float) -> Fraction:
    """Return the share of good answers from 0 to 1, exactly."""
    exact, *rates = map(Fraction, (passed, false_pass, false_fail))
    good = (exact - rates[0]) / (1 - sum(rates))
    return min(max(good, Fraction(0)), Fraction(1))


def _read_count(content: Mapping[str, Any], key: str) -> tuple[int, int]:
    share = content[key]
    check_fields(share, {"hits": COUNT, "total": COUNT}, key)
    if not 0 <= share["hits"] <= share["total"]:
        raise ValueError(f"{key}: {share['hits']} of {share['total']} is no share")
    return share["hits"], share["total"]


def _find_last_atom(asked: Property) -> Atom | None:
    """Return the atom q of a query `P=? [ F (G q) ]` about one quantifier; None for others."""
    root = asked.query.root
    path = root.path if isinstance(root, Probability) else None
    for operator in ("F", "G"):
        if not isinstance(path, Temporal) or (path.operator, path.bound) != (operator, None):
            return None
        (path,) = path.operands
    is_about_one = isinstance(path, Atom) and len(path.variables) == 1 and not path.is_step_only
    return path if isinstance(path, Atom) and is_about_one else None
