"""Drift of a deployment: whether it behaves day after day as the results of its release.

llmchecker watch suite.yaml --baseline release.jsonl

Each call is a day. It answers the suite with samples of its own, and appends its evidence to a
file. Two claims are about all days: every probability is that of the release, and each requirement
holds. A true claim is refuted with at most the probability `level`, however many days there are.

The figures of a suite share the level by Bonferroni's inequality: each of m figures has the share
level / m. A mean of their evidence would need no more, but it could only refute that all figures
are as they were, and would name none of them.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from llmchecker.checking.anytime.drift_evidence import (
    SumEvidence,
    find_first_day,
    find_least_change,
    is_beyond,
    is_changed,
)
from llmchecker.checking.anytime.mean_evidence import Member
from llmchecker.checking.measurement import Threshold
from llmchecker.config.deployment import GivenModel
from llmchecker.config.registry import Registry
from llmchecker.errors import CheckFailed, ConfigError
from llmchecker.models.run_metadata import MODEL_PACKAGES, collect_versions
from llmchecker.suites.cases import CaseKey, Suite
from llmchecker.suites.fingerprint import Fingerprints
from llmchecker.suites.json_lines import read_baseline
from llmchecker.suites.load import load_suite
from llmchecker.suites.results import Baseline, SuiteResult
from llmchecker.suites.session import SuiteRun
from llmchecker.suites.statistic import Scope, is_upper_limit
from llmchecker.suites.suite_file import RunKeys, read_suite_file
from llmchecker.suites.verdicts import CaseResult, Status
from llmchecker.utils.atomic_files import compute_sha256
from llmchecker.utils.interval import PROBABILITIES, Interval
from llmchecker.utils.json_lines import JsonLines, append_line, resume_lines, write_lines
from llmchecker.utils.number_format import format_count
from llmchecker.utils.stored_fields import (
    COUNT,
    TEXT,
    check_fields,
    list_of,
    record,
)

_FORMAT = "llmchecker watch 1"
"""The format of a file of days; its number changes with the keys of a line."""
_MAX_NAMED = 3
"""The largest number of figures that a message names."""


class Claim(StrEnum):
    """A claim about a figure on all days."""

    RELEASE = "as at release"
    """No day's figure is further than the margin from that of the release."""
    REQUIREMENT = "requirement holds"
    """Every day's figure meets the threshold."""


@dataclass(frozen=True)
class WatchedFigure:
    """A probability, or a mean of probabilities, of a deployment.

    Attributes:
        deployment: name of the deployment.
        name: name of the case or the average.
        cases: names of its cases.
        threshold: its requirement; None for an average that is only reported.
    """

    deployment: str
    name: str
    cases: tuple[str, ...]
    threshold: Threshold | None

    def as_json(self) -> dict[str, Any]:
        """Return what identifies the figure in a file of days."""
        threshold = None if self.threshold is None else str(self.threshold)
        cases = hashlib.sha256("\n".join(self.cases).encode()).hexdigest()
        return {
            "model": self.deployment,
            "name": self.name,
            "threshold": threshold,
            "cases": len(self.cases),
            "names": cases,
        }


@dataclass(frozen=True)
class Refutation:
    """A claim that a day refutes.

    Attributes:
        figure: index of the figure.
        claim: the claim.
        since: number of the day from which on the evidence is strongest.
    """

    figure: int
    claim: Claim
    since: int


@dataclass(frozen=True)
class Day:
    """The evidence of a day.

    Attributes:
        date: its date, in UTC.
        evidence: the evidence of each figure; None for a deployment that is that of the release.
        refutations: the claims that are refuted on this day for the first time.
    """

    date: str
    evidence: tuple[SumEvidence | None, ...]
    refutations: tuple[Refutation, ...] = ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Day":
        """Return the day of a line.

        Raises:
            KeyError, TypeError, ValueError: the line has other content.
        """
        refuted = record({"figure": COUNT, "claim": TEXT, "since": COUNT})
        # `SumEvidence` checks its own fields
        check_fields(content, {"day": COUNT, "date": TEXT, "refuted": list_of(refuted)})
        return cls(
            content["date"],
            tuple(each and SumEvidence.from_json(each) for each in content["evidence"]),
            tuple(
                Refutation(each["figure"], Claim(each["claim"]), each["since"])
                for each in content["refuted"]
            ),
        )

    def as_json(self, number: int) -> dict[str, Any]:
        """Return the line of the day with its number."""
        return {
            "day": number,
            "date": self.date,
            "evidence": [each and each.as_json() for each in self.evidence],
            "refuted": [vars(each) for each in self.refutations],
        }


@dataclass(frozen=True)
class DriftReport:
    """What all days so far show.

    Attributes:
        figures: the figures.
        days: the days.
        level: the largest probability that a claim about all figures is refuted though it is true.
        margin: the largest difference from the release that is no change.
        changed: the deployments whose weights or settings are not those of the release.
        same: the deployments whose weights, settings and packages are those of the release, so that
            nothing was run.
        falls, rises: the least fall and the least rise of each figure that cannot have been there
            on all days; None where none is excluded.
        unwatched: the name of each figure that is not watched, with the reason.
    """

    figures: tuple[WatchedFigure, ...]
    days: tuple[Day, ...]
    level: float
    margin: float
    changed: tuple[str, ...]
    same: tuple[str, ...]
    falls: tuple[float | None, ...]
    rises: tuple[float | None, ...]
    unwatched: tuple[tuple[str, str], ...]

    def list_refutations(self, figure: int) -> list[tuple[int, Refutation]]:
        """List the refuted claims about a figure, each with the number of its day."""
        return [
            (number, each)
            for number, day in enumerate(self.days, 1)
            for each in day.refutations
            if each.figure == figure
        ]

    @property
    def is_refuted(self) -> bool:
        """Whether a claim is refuted, or a deployment changed."""
        return bool(self.changed) or any(day.refutations for day in self.days)


def watch_suite(
    path: str | Path,
    *,
    baseline: str | Path,
    log: str | Path,
    level: float,
    margin: float,
    changes: RunKeys | None = None,
    models: Sequence[GivenModel] = (),
    config: str | Path | Registry | None = None,
    **options: Any,
) -> DriftReport:
    """Run a day of a suite, append its evidence to a file, and report all days so far.

    A day that an error or an interrupt ended is continued by the next call.

    Args:
        path: the suite file.
        baseline: the results of the release.
        log: the file of the days.
        level: the largest probability that a true claim is ever refuted.
        margin: the largest difference from the release that is no change, from 0 to 1.
        changes, models, config: as in `load_suite`.
        options: as in `SuiteRun`, and `report` of its method `finish`.

    Raises:
        LLMCheckerError: a file is unusable, the baseline answers other questions, or a case failed
            to run.
    """
    log = Path(log).absolute()
    header, days = _read_log(log)
    number = len(days) + 1
    keys = {} if changes is None else changes.explicit_keys
    seed = keys.pop("seed", read_suite_file(path)[1].seed)
    suite = load_suite(
        path,
        models=models,
        models_place="--model",
        config=config,
        has_baseline=True,
        # equal seeds would repeat the samples of another day
        changes=RunKeys(**keys, seed=_derive_seed(seed, number)),
    )
    figures, unwatched = _list_figures(suite)
    stored = read_baseline(baseline, [each.name for each in suite.deployments])
    release = _read_release(suite, stored, figures)
    expected = {
        "format": _FORMAT,
        "suite": suite.name,
        "baseline": compute_sha256(baseline),
        "level": level,
        "margin": margin,
        "figures": [each.as_json() for each in figures],
    }
    _check_header(log, header, expected)
    has_same_weights = {
        each.name: stored.has_same_weights(suite, each.name) for each in suite.deployments
    }
    # another version of a package may compute other probabilities from the same weights
    has_same_packages = stored.versions == collect_versions(MODEL_PACKAGES)
    same = tuple(
        name for name, is_same in has_same_weights.items() if is_same and has_same_packages
    )
    report = options.pop("report", lambda progress: None)
    keys_to_run = frozenset(
        (each.deployment, case)
        for each in figures
        if each.deployment not in same
        for case in each.cases
    )
    day_log = log.with_name(f"{log.stem}.day{number}{log.suffix}")
    results: dict[CaseKey, CaseResult] = {}
    if keys_to_run:
        run = SuiteRun(suite, log=day_log, selected=keys_to_run, is_measuring=True, **options)
        results = {each.key: each for each in run.finish(report).results}
        _check_errors(number, results.values())
    evidence = tuple(
        None
        if each.deployment in same
        else _add_members([results[each.deployment, case] for case in each.cases])
        for each in figures
    )
    found = _refute(figures, release, days, evidence, level, margin)
    day = Day(f"{datetime.now(UTC):%Y-%m-%d}", evidence, found)
    if not header:
        write_lines(log, [expected])
    elif len(_read_log(log)[1]) != len(days):
        raise ConfigError(f"{log}: another run added day {number} meanwhile; run again")
    append_line(log, day.as_json(number))
    day_log.unlink(missing_ok=True)
    days = (*days, day)
    changes_found = [
        _find_changes(release[index], days, index, level / (2 * len(figures)))
        for index in range(len(figures))
    ]
    return DriftReport(
        figures=figures,
        days=days,
        level=level,
        margin=margin,
        changed=tuple(name for name, is_same in has_same_weights.items() if is_same is False),
        same=same,
        falls=tuple(fall for fall, _ in changes_found),
        rises=tuple(rise for _, rise in changes_found),
        unwatched=unwatched,
    )


def _derive_seed(seed: int, day: int) -> int:
    """Return the seed of a day; those of other days and of the suite are independent."""
    digest = hashlib.sha256(f"watch {seed} {day}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _list_figures(
    suite: Suite,
) -> tuple[tuple[WatchedFigure, ...], tuple[tuple[str, str], ...]]:
    """List the figures of a suite, and those without a probability, each with the reason."""
    figures, unwatched = [], []
    ranges = {case.key: case.question.asked.value_range for case in suite.cases}
    for deployment in (each.name for each in suite.deployments):
        for average in suite.averages:
            statistic = average.statistic
            if statistic.scope is not Scope.ROWS or statistic.figure or statistic.truth:
                unwatched.append((average.name, "only means of these rows are watched"))
            elif any(ranges[deployment, case] != PROBABILITIES for case in average.cases):
                unwatched.append((average.name, "scores are not watched"))
            else:
                figures.append(
                    WatchedFigure(deployment, average.name, average.cases, average.threshold)
                )
        for case in suite.cases:
            if case.deployment.name != deployment or case.is_measured:
                continue
            if case.threshold is None:
                unwatched.append((case.name, "its query has no probability"))
            else:
                figures.append(WatchedFigure(deployment, case.name, (case.name,), case.threshold))
    if not figures:
        raise ConfigError(f"{suite.path}: nothing to watch; add a requirement with a probability")
    return tuple(figures), tuple(dict.fromkeys(unwatched))


def _read_release(
    suite: Suite, stored: Baseline, figures: Sequence[WatchedFigure]
) -> list[SumEvidence]:
    """Return the evidence of the release about each figure.

    Raises:
        ConfigError: the baseline answers other rows or requirements.
    """
    # nothing was run yet, and only what the cases ask counts
    results = tuple(
        CaseResult(case.name, case.deployment.name, Status.UNKNOWN) for case in suite.cases
    )
    found = SuiteResult(suite, results, stored, Fingerprints(suite))
    watched = {(each.deployment, each.name) for each in figures}
    missing = [each for each in found.not_compared if (each.deployment, each.name) in watched]
    if missing:
        names = [f"{each.name}: {each.reason}" for each in missing[:_MAX_NAMED]]
        more = len(missing) - len(names)
        names += [f"{more} more"] if more else []
        raise ConfigError(
            f"baseline: {stored.name} has other rows or requirements: {'; '.join(names)}; give the "
            "results of this suite"
        )
    return [
        _add_members(found.find_stored_results(each.deployment, each.cases)) for each in figures
    ]


def _add_members(results: Iterable[CaseResult]) -> SumEvidence:
    bounds = [(each.measurement.certain, each.evidence) for each in results]
    return SumEvidence.add_members(
        [Member(certain.lower, certain.upper, evidence) for certain, evidence in bounds]
    )


def _read_log(path: Path) -> tuple[dict[str, Any], tuple[Day, ...]]:
    """Read the header of a file of days, and its days; both are empty without the file."""
    if not path.exists() or path.stat().st_size == 0:
        return {}, ()

    def parse(lines: JsonLines) -> tuple[dict[str, Any], tuple[Day, ...]]:
        header = lines.objects[0] if lines.objects else {}
        if header.get("format") != _FORMAT:
            raise ValueError(f"line 1: its format is not {_FORMAT!r}")
        days = []
        for number, line in enumerate(lines.objects[1:], 1):
            day = Day.from_json(line)
            if line["day"] != number or len(day.evidence) != len(header["figures"]):
                raise ValueError(f"line {number + 1}: not the evidence of day {number}")
            days.append(day)
        return header, tuple(days)

    return resume_lines(path, parse, "restore it, or name another file to begin anew")


def _check_header(path: Path, header: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Check that a file of days is about the same suite, baseline and level."""
    differing = [name for name in expected if header and header.get(name) != expected[name]]
    if differing:
        raise ConfigError(
            f"{path}: days with another {' and '.join(differing)}; name another file by --log"
        )


def _check_errors(number: int, results: Iterable[CaseResult]) -> None:
    """Check that no case failed: which fail may depend on their samples."""
    failed = [each for each in results if each.status is Status.ERROR]
    if failed:
        first = failed[0]
        raise CheckFailed(
            f"day {number}: {format_count(len(failed), 'case')} failed to run, such as "
            f"{first.case}: {first.error}; run the same command again to finish the day"
        )


def _refute(
    figures: Sequence[WatchedFigure],
    release: Sequence[SumEvidence],
    days: Sequence[Day],
    evidence: Sequence[SumEvidence | None],
    level: float,
    margin: float,
) -> tuple[Refutation, ...]:
    """Return the claims that the last day refutes for the first time."""
    known = {(each.figure, each.claim) for day in days for each in day.refutations}
    limited = sum(each.threshold is not None for each in figures)
    found = []
    for index, figure in enumerate(figures):
        if (last := evidence[index]) is None:
            continue
        numbers, own = _select_days([*days, Day("", tuple(evidence))], index)
        share = level / (2 * len(figures))
        for sign in (1, -1):
            if (index, Claim.RELEASE) not in known and is_changed(
                release[index], own, sign, margin, share
            ):
                since = numbers[find_first_day(own, sign, release[index].estimate)]
                found.append(Refutation(index, Claim.RELEASE, since))
                known.add((index, Claim.RELEASE))
        threshold = figure.threshold
        if threshold is None or (index, Claim.REQUIREMENT) in known:
            continue
        sign, limit = (1 if is_upper_limit(threshold) else -1), float(threshold.number)
        certain = Interval(last.lower, last.upper)
        if threshold.compare(certain) is False or is_beyond(own, sign, limit, level / limited):
            since = numbers[find_first_day(own, sign, limit)]
            found.append(Refutation(index, Claim.REQUIREMENT, since))
    return tuple(found)


def _select_days(days: Sequence[Day], figure: int) -> tuple[list[int], list[SumEvidence]]:
    """Return the numbers of the days with evidence about a figure, and this evidence."""
    pairs = [(number, day.evidence[figure]) for number, day in enumerate(days, 1)]
    found = [(number, each) for number, each in pairs if each is not None]
    return [number for number, _ in found], [each for _, each in found]


def _find_changes(
    release: SumEvidence, days: Sequence[Day], figure: int, share: float
) -> tuple[float | None, float | None]:
    """Return the least fall and the least rise that all days exclude."""
    own = _select_days(days, figure)[1]
    if not own:
        return None, None
    fall, rise = (find_least_change(release, own, sign, share) for sign in (-1, 1))
    return fall, rise
