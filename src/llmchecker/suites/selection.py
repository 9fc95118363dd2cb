"""The selection of cases: by a text in their names, or those that failed in the last run.

The names of the cases that failed are in the user's cache folder, in a file for each suite.
"""

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path

from llmchecker.config.paths import find_user_cache
from llmchecker.errors import ConfigError, DamagedFile, MachineLimit
from llmchecker.suites.cases import CaseKey, Suite
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Status
from llmchecker.utils.atomic_files import read_json, write_json

_FAILURES = (Status.VIOLATED, Status.UNKNOWN, Status.ERROR, Status.UNFINISHED)


def select_by_name(suite: Suite, text: str) -> frozenset[CaseKey]:
    """Return the cases with a text in their name or in that of their average, in any case.

    With several models, the name of a case begins with that of its model, as in outputs.

    Raises:
        ConfigError: no case has it.
    """
    sought = text.casefold()
    members = {name for a in suite.averages if sought in a.name.casefold() for name in a.cases}
    has_several = len(suite.deployments) > 1
    selected = frozenset(
        case.key
        for case in suite.cases
        if case.name in members
        or sought in case.name.casefold()
        or (has_several and sought in f"{case.deployment.name}: {case.name}".casefold())
    )
    if not selected:
        raise ConfigError(f"--filter: no case of {suite.name} has {text!r} in its name; shorten it")
    return _add_other_side(suite, selected)


def read_last_failed(path: Path, suite: Suite) -> frozenset[CaseKey] | None:
    """Return the cases of a suite that failed in its last run; None if none did.

    Args:
        path: the suite file.
        suite: the suite.
    """
    try:
        failed = read_json(_find_record(path))["failed"]
        records = [
            (str(deployment), str(name), str(subject), str(requirement))
            for deployment, name, subject, requirement in failed
        ]
    # without a usable record, all cases run
    except (OSError, DamagedFile, KeyError, TypeError, ValueError):
        return None
    names = {case.key for case in suite.cases}
    failed_names = {(deployment, name) for deployment, name, _, _ in records}
    # the generated name of a requirement contains its threshold, which may have changed
    changed = {
        (deployment, subject, requirement)
        for deployment, name, subject, requirement in records
        if (deployment, name) not in names
    }
    prompts = {(deployment, subject) for deployment, subject, _ in changed}
    known = frozenset(
        case.key
        for case in suite.cases
        if case.key in failed_names
        # the requirement in words is built for few
        or ((case.deployment.name, case.subject) in prompts and case.lasting_key in changed)
    )
    return _add_other_side(suite, known) or None


def _add_other_side(suite: Suite, keys: frozenset[CaseKey]) -> frozenset[CaseKey]:
    """Add the other side of each comparison."""
    if suite.versus is None:
        return keys
    versus, names = suite.versus.name, {name for _, name in keys}
    return keys | {
        case.key
        for case in suite.cases
        if (case.name in names if case.deployment.name == versus else (versus, case.name) in keys)
    }


def write_last_failed(path: Path, suite: Suite, result: SuiteResult) -> None:
    """Store the cases that failed: those of this run, and earlier ones that it did not run."""
    run_cases = {case.key for case in result.suite.cases}
    earlier = (read_last_failed(path, suite) or frozenset()) - run_cases
    failed = {*earlier, *_iter_failed(result)}
    records = sorted(
        [*case.key, *case.lasting_key[1:]] for case in suite.cases if case.key in failed
    )
    # a home that cannot be written has no last run, and the verdicts count
    with contextlib.suppress(OSError, MachineLimit):
        write_json({"failed": records}, _find_record(path))


def _iter_failed(result: SuiteResult) -> Iterable[CaseKey]:
    for case, found in zip(result.suite.cases, result.results, strict=True):
        if found.status in _FAILURES:
            yield case.key
    members = {average.name: average.cases for average in result.suite.averages}
    for aggregate in result.aggregates:
        if aggregate.status in _FAILURES:
            for name in members.get(aggregate.name, ()):
                yield aggregate.deployment, name


def _find_record(path: Path) -> Path:
    name = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:16]
    return find_user_cache() / "failed" / f"{name}.json"
