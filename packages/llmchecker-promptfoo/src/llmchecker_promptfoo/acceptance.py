"""Cases of a converted suite that the reader of suites accepts."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.suites.load import load_suite
from llmchecker.suites.matrix import list_alternatives
from llmchecker_promptfoo.graders import JUDGE
from llmchecker_promptfoo.report import Place, Report
from llmchecker_promptfoo.suite_text import format_suite


@dataclass(frozen=True)
class ConvertedCase:
    """An entry of the suite.

    Attributes:
        entry: its keys but the requirements.
        require: its requirements.
        place: the place of its test.
    """

    entry: Mapping[str, Any]
    require: tuple[Any, ...]
    place: Place

    def split(self) -> "list[ConvertedCase]":
        """Return a case for each of its prompts, with the names that a suite gives them."""
        prompts = self.entry.get("user")
        if not isinstance(prompts, Mapping | list):
            return [self]
        return [
            replace(
                self,
                entry={
                    **self.entry,
                    "name": f"{self.entry['name']}, {prompt.name}",
                    "user": prompt.content,
                },
            )
            for prompt in list_alternatives("user", prompts, "prompt")
        ]

    @property
    def has_classifier(self) -> bool:
        """Whether a requirement needs the files of a classifier."""
        names = {"classifier", "not_classifier"}
        return any(isinstance(item, Mapping) and names & item.keys() for item in self.require)


def build_content(
    settings: Mapping[str, Any],
    properties: Mapping[str, Mapping[str, Any]],
    cases: Sequence[ConvertedCase],
) -> dict[str, Any]:
    """Build the content of a suite, with the properties that its queries name."""
    queries = " ".join(item for case in cases for item in case.require if isinstance(item, str))
    names = set(re.findall(r"\w+", queries))
    used = {name: keys for name, keys in properties.items() if name in names}
    content = {**settings, "properties": used} if used else dict(settings)
    return content | {"cases": [{**case.entry, "require": list(case.require)} for case in cases]}


class CaseSelector:
    """A selector of the cases that `test` accepts, with an empty model.

    Args:
        settings: the keys of the suite but its properties and cases.
        properties: the settings of the properties by name.
        report: the list of what is not converted.
        source: the configuration, for messages.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        properties: Mapping[str, Mapping[str, Any]],
        report: Report,
        source: Path,
    ) -> None:
        self._settings = settings
        self._properties = properties
        self._report = report
        self._source = source

    def select(self, cases: Sequence[ConvertedCase]) -> list[ConvertedCase]:
        """Return the accepted cases, and list the other requirements with the reader's reasons.

        Raises:
            ConfigError: each requirement is accepted, and the suite is not.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for model in ("model", JUDGE):
                (folder / model).mkdir()
                (folder / model / "config.json").write_text("{}", encoding="utf-8")
            accepted = self._select(list(cases), folder)
            reason = self._find_reason(accepted, folder)
        if reason is not None:
            raise ConfigError(
                f"{self._source}: a suite of its {len(accepted):,} cases is not valid: {reason}"
            )
        return accepted

    def _select(self, cases: list[ConvertedCase], folder: Path) -> list[ConvertedCase]:
        if self._find_reason(cases, folder) is None:
            return cases
        if len(cases) > 1:
            middle = len(cases) // 2
            return self._select(cases[:middle], folder) + self._select(cases[middle:], folder)
        (case,) = cases
        if len(parts := case.split()) > 1:
            return self._select(parts, folder)
        kept = []
        for item in case.require:
            reason = self._find_reason([replace(case, require=(item,))], folder)
            if reason is None:
                kept.append(item)
            else:
                self._report.omit(case.place, f"a suite does not accept the test: {reason}")
        return [replace(case, require=tuple(kept))] if kept else []

    def _find_reason(self, cases: Sequence[ConvertedCase], folder: Path) -> str | None:
        """Find the reason why the reader refuses a suite of these cases; None without one."""
        # the files of a classifier are not there yet
        present = [case for case in cases if not case.has_classifier]
        if not present:
            return None
        content = build_content(self._settings, self._properties, present)
        path = folder / "suite.yaml"
        text = format_suite(content, "", self._report.omissions)
        path.write_text(text, encoding="utf-8")
        try:
            load_suite(path, models=["./model"])
        except LLMCheckerError as error:
            place = rf"{re.escape(str(path))}(, line \d+)?: (cases\[0\]\.?)?"
            return re.sub(f"^{place}", "", str(error))
        return None
