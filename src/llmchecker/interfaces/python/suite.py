"""Suites in Python: loading, running, and results as pandas frames."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.config.deployment import GivenModel
from llmchecker.suites.cases import Suite
from llmchecker.suites.entries import Entry, build_entries, sort_entries, summarize
from llmchecker.suites.load import load_suite
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.runner import SuiteProgress
from llmchecker.suites.session import run_suite
from llmchecker.suites.suite_file import RunKeys
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import Status
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.section import parse_section

if TYPE_CHECKING:
    import pandas as pd

_MAX_FAILURES = 3
"""Maximum number of failures in the representation of a report."""


@dataclass(frozen=True, repr=False)
class SuiteReport:
    """The results of a suite.

    Attributes:
        result: all results.
    """

    result: SuiteResult

    @property
    def holds(self) -> bool:
        """Whether all requirements hold, and all cases ran."""
        return self.exit_status == ExitStatus.SUCCESS

    @property
    def exit_status(self) -> int:
        """0 if all hold, 1 if some are violated, 2 if some are unknown, 3 for errors."""
        return self.result.counts.exit_status()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The verdicts and figures as texts, in the order of the suite."""
        return tuple(build_entries(self.result))

    def frame(self) -> "pd.DataFrame":
        """Return a frame with a row for each case.

        The columns are case, model, prompt, query, status, certain, lower, upper, low, high,
        estimate, samples, passes, seconds and error.
        """
        import pandas as pd

        rows = [
            {
                "case": result.case,
                "model": result.deployment,
                "prompt": case.prompt,
                "query": case.question.query.text,
                "status": str(result.status),
                "certain": result.is_certain,
                **result.measurement.as_json(),
                "samples": result.samples,
                "passes": result.passes,
                "seconds": result.seconds,
                "error": result.error,
            }
            for case, result in zip(self.result.suite.cases, self.result.results, strict=True)
        ]
        return pd.DataFrame(rows)

    def aggregates(self) -> "pd.DataFrame":
        """Return a frame with a row for each average, group and difference."""
        import pandas as pd

        names = ["name", "model", "kind", "requirement", "status", "certain"]
        names += ["lower", "upper", "low", "high", "estimate", "cases"]
        rows = [
            (
                aggregate.name,
                aggregate.deployment,
                aggregate.kind,
                None if aggregate.threshold is None else str(aggregate.threshold),
                str(aggregate.status),
                aggregate.is_certain,
                *aggregate.measurement.as_json().values(),
                aggregate.cases,
            )
            for aggregate in self.result.aggregates
        ]
        return pd.DataFrame(rows, columns=names)

    def __str__(self) -> str:
        return format_table(self.result)

    def __repr__(self) -> str:
        """Return the counts and the first failures with their reasons, on one line."""
        entries = sort_entries(self.entries)
        failures = [e for e in entries if e.status not in (Status.HOLDS, Status.MEASURED)]
        parts = [summarize(self.result), *map(_format_failure, failures[:_MAX_FAILURES])]
        if len(failures) > _MAX_FAILURES:
            parts.append(f"… and {len(failures) - _MAX_FAILURES:,} more failures")
        return f"<SuiteReport {'; '.join(parts)}>"


def _format_failure(entry: Entry) -> str:
    """Format the verdict of a requirement that does not hold, with its first reason."""
    reason = next(iter(entry.lines), entry.figures)
    return f"{entry.status} {entry.name}{f' ({reason})' if reason else ''}"


@dataclass(frozen=True)
class LoadedSuite:
    """A suite that is checked and can run.

    Attributes:
        suite: the suite.
        baseline: path of stored results to compare with; None without these.
    """

    suite: Suite = field(repr=False)
    baseline: Path | None = None

    def run(
        self,
        *,
        results: str | Path | None = None,
        progress: Callable[[SuiteProgress], None] = lambda progress: None,
    ) -> SuiteReport:
        """Run the suite.

        Args:
            results: a file for the results as JSON lines. If it has results of an earlier run of
                the same suite, the run continues there.
            progress: a function that receives the progress after each case.

        Raises:
            LLMCheckerError: a model cannot be loaded, or a file is unusable.
            KeyboardInterrupt: Ctrl-C; the file of the results keeps the finished cases.
        """
        return SuiteReport(
            run_suite(self.suite, log=results, baseline=self.baseline, report=progress)
        )


def suite(
    path: str | Path,
    *,
    models: Sequence[GivenModel] = (),
    config: str | Path | None = None,
    baseline: str | Path | None = None,
    **keys: Any,
) -> LoadedSuite:
    """Load a suite and check all of it, without loading a model.

    Args:
        path: the suite file.
        models: names, directories, keys or applications in place of the suite's models.
        config: the configuration in place of the suite's.
        baseline: a file with results of an earlier run, to compare with.
        keys: keys in place of the suite's, also in each case, as the options of `test`: `passes`,
            `seconds`, `answers`, `tokens`, `dollars`, `length`, `confidence` and `seed`.

    Raises:
        LLMCheckerError: a key, a row or a model is invalid; the message contains file and line.
    """
    loaded = load_suite(
        path,
        models=models,
        config=config,
        has_baseline=baseline is not None,
        changes=parse_section(RunKeys, keys, "suite") if keys else None,
    )
    return LoadedSuite(loaded, None if baseline is None else Path(baseline).absolute())
