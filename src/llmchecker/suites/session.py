"""A session: the run of a suite with its log, in the folder of its project."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.config.deployment import Deployment
from llmchecker.config.judges import charge_judges
from llmchecker.config.models import ModelConfig
from llmchecker.config.opening import open_model
from llmchecker.errors import ConfigError
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.servers.spending import Spending
from llmchecker.models.text_answer import TextModel
from llmchecker.suites.cases import CaseKey, Suite
from llmchecker.suites.fingerprint import CaseFingerprint, Fingerprints
from llmchecker.suites.json_lines import JsonLinesLog, read_baseline
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.runner import SuiteProgress, iter_results
from llmchecker.suites.verdicts import CaseResult, Status

if TYPE_CHECKING:
    from llmchecker.trees.shards import Shard


class SuiteRun:
    """A run of a suite, whose results so far are available when an exception ends it.

    Args:
        suite: the suite; with a baseline, `load_suite` must have been called with `has_baseline`.
        log: the file of the results as JSON lines; None without a file.
        shard: the part of the cases to run, with a log; None for all.
        shards: with a log, the logs of shards, whose results the run takes over.
        baseline: the file with results to compare with; None without these.
        selected: the cases to run; None for all. The log keeps the results of the others.
        is_failing_fast: whether the first case that is violated or fails to run ends the run.
        is_measuring: whether each case has its whole budget, whatever its threshold; always so with
            a comparison.
        open_model: opens the model of a deployment; by default from its directory.

    Raises:
        LLMCheckerError: a file is unusable.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        log: str | Path | None = None,
        shard: "Shard | None" = None,
        shards: Sequence[str | Path] = (),
        baseline: str | Path | None = None,
        selected: AbstractSet[CaseKey] | None = None,
        is_failing_fast: bool = False,
        is_measuring: bool = False,
        open_model: Callable[[Deployment], LazyModel | TextModel] | None = None,
    ) -> None:
        # its requirements would otherwise be checked against two sides
        if baseline is not None and suite.versus is not None:
            raise ConfigError("baseline: the suite compares with a deployment; load it without")
        # quantifiers were created when the suite was loaded
        suite.check_files()
        self._suite, self._open_model = suite, open_model
        self._shard, self._selected, self._is_failing_fast = shard, selected, is_failing_fast
        self._shown = suite if selected is None else suite.select(selected)
        self._fingerprints: Mapping[CaseKey, CaseFingerprint] = Fingerprints(suite)
        self._baseline = None
        if baseline is not None:
            # a stored case is found by what all cases ask
            self._fingerprints = dict(self._fingerprints)
            names = [deployment.name for deployment in suite.deployments]
            self._baseline = read_baseline(baseline, names)
        # before any model, so that a wrong file costs no time
        self._is_measuring = is_measuring or suite.versus is not None or baseline is not None
        self._log = None if log is None else JsonLinesLog(log, suite, self._fingerprints, shards)
        self._results: dict[CaseKey, CaseResult] = {}

    @property
    def result(self) -> SuiteResult:
        """The results of the selected cases so far; cases without one are unfinished."""
        results = tuple(
            self._results.get(
                case.key,
                CaseResult(case.name, case.deployment.name, Status.UNFINISHED),
            )
            for case in self._shown.cases
        )
        return SuiteResult(self._shown, results, self._baseline, self._fingerprints)

    def finish(
        self, report: Callable[[SuiteProgress], None] = lambda progress: None
    ) -> SuiteResult:
        """Evaluate the cases, and complete the log if they are all of the suite.

        Args:
            report: called after each case.

        Raises:
            LLMCheckerError: a model cannot be loaded, or the log cannot be written.
            ChecksumMismatch: a file of a model or quantifier changed since the suite was loaded.
        """
        suite, log = self._suite, self._log
        spending = Spending(suite.max_tokens, suite.max_dollars)
        opener = self._open_model or _build_opener(suite, spending)
        # the models and caches of a configuration are in the folder of its project
        with contextlib.chdir(suite.project), charge_judges(spending):
            results = iter_results(
                suite,
                opener,
                log,
                shard=self._shard,
                selected=self._selected,
                is_measuring=self._is_measuring,
                report=report,
            )
            for found in results:
                self._results[found.key] = found
                if self._is_failing_fast and found.status in (Status.VIOLATED, Status.ERROR):
                    break
        suite.check_files()
        result = self.result
        # the log of a part of the cases keeps the results of the others
        is_whole = self._shard is None and self._selected is None
        if log is not None and is_whole and result.is_complete:
            log.complete(result)
        return result


def run_suite(
    suite: Suite,
    *,
    report: Callable[[SuiteProgress], None] = lambda progress: None,
    **options: Any,
) -> SuiteResult:
    """Run a suite, and continue an earlier run of the same suite.

    Args:
        suite, options: as in `SuiteRun`.
        report: called after each case.

    Raises:
        LLMCheckerError: a model cannot be loaded, or a file is unusable.
    """
    return SuiteRun(suite, **options).finish(report)


def _build_opener(
    suite: Suite, spending: Spending
) -> Callable[[Deployment], LazyModel | TextModel]:
    """Build the function that opens the model of a deployment."""
    last: list[tuple[ModelConfig, LazyModel | TextModel]] = []

    def open_deployment(deployment: Deployment) -> LazyModel | TextModel:
        model = deployment.model
        # the system prompts of a model need it only once
        if last and last[0][0] == model:
            return last[0][1]
        # one model is in memory at a time
        last.clear()
        opened = open_model(model, suite.expansion, spending)
        last.append((model, opened))
        return opened

    return open_deployment
