"""A session: the run of a suite with its log, in the folder of its project."""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.config.keys import ExpansionConfig
from llmchecker.errors import ConfigError
from llmchecker.suites.cases import Suite
from llmchecker.suites.deployments import Deployment, open_deployment
from llmchecker.suites.json_lines import JsonLinesLog, MemoryLog, read_baseline
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.runner import OpenModel, SuiteProgress, run_cases
from llmchecker.suites.verdicts import CaseResult

if TYPE_CHECKING:
    from llmchecker.trees.shards import Shard


def run_suite(
    suite: Suite,
    *,
    log: str | Path | None = None,
    shards: Sequence[str | Path] = (),
    baseline: str | Path | None = None,
    open_model: Callable[[Deployment], OpenModel] | None = None,
    report: Callable[[SuiteProgress], None] = lambda progress: None,
) -> SuiteResult:
    """Run a suite, and continue an earlier run of the same suite.

    Args:
        suite: the suite; with a baseline, `load_suite` must have been called with `has_baseline`.
        log: the file of the results as JSON lines; None without a file.
        shards: with a log, the files of `run_shard`, whose results the run takes over.
        baseline: the file with results to compare with; None without these.
        open_model: opens the model of a deployment; by default from its directory.
        report: called after each case.

    Raises:
        LLMCheckerError: a model cannot be loaded, or a file is unusable.
    """
    stored = None
    if baseline is not None:
        # its requirements would otherwise be checked against two sides
        if suite.versus is not None:
            raise ConfigError("baseline: the suite compares with a deployment; load it without")
        stored = read_baseline(baseline, [deployment.name for deployment in suite.deployments])
    # before any model, so that a wrong file costs no time
    results_log = MemoryLog() if log is None else JsonLinesLog(Path(log).absolute(), suite, shards)
    is_measuring = suite.versus is not None or stored is not None
    results = _run(suite, results_log, open_model, is_measuring=is_measuring, report=report)
    result = SuiteResult(suite, tuple(results), stored)
    if isinstance(results_log, JsonLinesLog):
        results_log.complete(result)
    return result


def run_shard(
    suite: Suite,
    shard: "Shard",
    log: str | Path,
    *,
    open_model: Callable[[Deployment], OpenModel] | None = None,
    report: Callable[[SuiteProgress], None] = lambda progress: None,
) -> None:
    """Write the results of a shard, and continue an earlier run of it.

    Args:
        suite: the suite.
        shard: the part of the cases.
        log: the file of the results as JSON lines, which `run_suite` takes over.
        open_model, report: as in `run_suite`.

    Raises:
        LLMCheckerError: as in `run_suite`.
    """
    results_log = JsonLinesLog(Path(log).absolute(), suite)
    is_measuring = suite.versus is not None
    _run(suite, results_log, open_model, shard=shard, is_measuring=is_measuring, report=report)


def _run(
    suite: Suite,
    log: MemoryLog | JsonLinesLog,
    open_model: Callable[[Deployment], OpenModel] | None,
    **options: Any,
) -> list[CaseResult]:
    """Return the results of cases, and close the log."""
    expansion = ExpansionConfig() if suite.config is None else suite.config.expansion
    opener = open_model or partial(open_deployment, expansion=expansion)
    try:
        # the models and caches of a configuration are in the folder of its project
        with contextlib.chdir(suite.project):
            return run_cases(suite, opener, log, **options)
    finally:
        if isinstance(log, JsonLinesLog):
            log.close()
