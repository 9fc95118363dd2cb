"""A pytest plugin: each requirement in a file `test_*.llm.yaml` is a test.

The suite runs once for each file, when the first of its tests runs. The text of a failure is the
verdict with its reasons. A function in `conftest.py` may name its models, such as an application:

    def pytest_llmchecker_models(path):
        return [lc.texts(answer)]
"""

import fnmatch
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from llmchecker.config.deployment import GivenModel
    from llmchecker.errors import LLMCheckerError
    from llmchecker.suites.cases import Suite
    from llmchecker.suites.entries import Entry

_FILE_PATTERN = "test_*.llm.yaml"


class UnmetRequirement(Exception):
    """A requirement that is violated or unknown, or a case that failed to run."""


class _Hooks:
    """Hooks that a `conftest.py` may have."""

    @pytest.hookspec(firstresult=True)
    def pytest_llmchecker_models(self, path: Path) -> "Sequence[GivenModel] | None":
        """Return the models of a suite file in place of its own; None for its own.

        Args:
            path: the suite file.
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hook for the models of suites."""
    pluginmanager.add_hookspecs(_Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for unknown verdicts."""
    group = parser.getgroup("llmchecker")
    group.addoption(
        "--llm-allow-unknown",
        action="store_true",
        help="skip requirements of suites that the budget does not decide",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "SuiteFile | None":
    """Collect suite files."""
    if not fnmatch.fnmatch(file_path.name, _FILE_PATTERN):
        return None
    return SuiteFile.from_parent(parent, path=file_path)


class SuiteFile(pytest.File):
    """A suite file, whose requirements are tests."""

    _entries: "dict[tuple[str, str], Entry] | None" = None
    _failure: "LLMCheckerError | None" = None
    suite: "Suite"

    def collect(self) -> "Iterator[RequirementItem]":
        """Collect a test for each requirement of cases, averages and differences.

        Raises:
            CollectError: the suite is invalid.
        """
        # imported here: a run of pytest without suites must not wait for it
        from llmchecker.errors import LLMCheckerError
        from llmchecker.suites.entries import list_requirements
        from llmchecker.suites.load import load_suite
        from llmchecker.suites.warnings import list_warnings

        try:
            models = self.ihook.pytest_llmchecker_models(path=self.path) or ()
            self.suite = load_suite(
                self.path, models=models, models_place="pytest_llmchecker_models"
            )
        except LLMCheckerError as error:
            raise self.CollectError(str(error)) from error
        for warning in list_warnings(self.suite):
            self.warn(pytest.PytestWarning(warning))
        has_models = len(self.suite.deployments) > 1
        for deployment, name in list_requirements(self.suite):
            shown = f"{name} [{deployment}]" if has_models else name
            yield RequirementItem.from_parent(self, name=shown, key=(deployment, name))

    def find_entry(self, key: tuple[str, str]) -> "Entry":
        """Return the entry of a requirement, after a run of the suite.

        Raises:
            LLMCheckerError: the run failed, now or for an earlier requirement.
        """
        # a model that cannot be loaded fails all requirements, and is tried once
        if self._failure is not None:
            raise self._failure
        if self._entries is None:
            from llmchecker.errors import LLMCheckerError
            from llmchecker.suites.entries import build_entries
            from llmchecker.suites.session import run_suite

            try:
                entries = build_entries(run_suite(self.suite))
            except LLMCheckerError as error:
                self._failure = error
                raise
            self._entries = {(entry.deployment, entry.name): entry for entry in entries}
        return self._entries[key]


class RequirementItem(pytest.Item):
    """A requirement as a test."""

    def __init__(self, *, parent: "SuiteFile", key: tuple[str, str], **options: Any) -> None:
        super().__init__(parent=parent, **options)
        self._suite_file = parent
        self._key = key

    def runtest(self) -> None:
        """Fail with the verdict unless the requirement holds."""
        from llmchecker.suites.verdicts import Status

        entry = self._suite_file.find_entry(self._key)
        lines = [f"{entry.verdict}: {entry.name}", entry.content, entry.query, entry.figures]
        message = "\n".join(line for line in (*lines, entry.about, *entry.lines) if line)
        if entry.status is Status.UNKNOWN and self.config.getoption("--llm-allow-unknown"):
            pytest.skip(message)
        if entry.status is not Status.HOLDS:
            raise UnmetRequirement(message)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the verdict or the error of the run alone, without a traceback."""
        from llmchecker.errors import LLMCheckerError

        if isinstance(excinfo.value, UnmetRequirement | LLMCheckerError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file and the name of the test."""
        return self.path, 0, self.name
