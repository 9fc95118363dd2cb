"""Results as SARIF 2.1.0: a violated requirement is an annotation at its line of the suite."""

import hashlib
import json
from pathlib import Path
from typing import Any

from llmchecker import __version__
from llmchecker.suites.entries import Entry, build_entries
from llmchecker.suites.notes import describe_incomplete
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Status
from llmchecker.utils.atomic_files import atomic_write

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = {
    Status.VIOLATED: "A requirement is violated.",
    Status.UNKNOWN: "The budget does not decide a requirement.",
    Status.ERROR: "A requirement could not be checked.",
}
"""The statuses that are annotations, with what each means."""


def write_sarif(result: SuiteResult, path: str | Path, *, allow_unknown: bool = False) -> None:
    """Write a result as SARIF.

    Args:
        result: the result.
        path: the file.
        allow_unknown: whether an unknown requirement is a note, and no error.
    """
    log = format_sarif(result, allow_unknown=allow_unknown)
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(log, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def format_sarif(result: SuiteResult, *, allow_unknown: bool = False) -> dict[str, Any]:
    """Return a SARIF log with an annotation for each requirement that does not hold."""
    levels = dict.fromkeys(_RULES, "error")
    if allow_unknown:
        levels[Status.UNKNOWN] = "note"
    uri = _build_uri(result.suite.path)
    annotations = [
        {
            "ruleId": str(entry.status),
            "level": levels[entry.status],
            "message": {"text": _describe(entry)},
            "locations": [_locate(uri, entry.line)],
            # the same requirement after lines were added before it
            "partialFingerprints": {"requirement/v1": _digest(entry)},
        }
        for entry in build_entries(result)
        if entry.status in _RULES
    ]
    if (incomplete := describe_incomplete(result)) is not None:
        annotations.append(
            {
                "ruleId": str(Status.ERROR),
                "level": "error",
                "message": {"text": incomplete},
                "locations": [_locate(uri, 1)],
            }
        )
    rules = [
        {"id": str(status), "shortDescription": {"text": text}} for status, text in _RULES.items()
    ]
    driver = {"name": "LLMChecker", "version": __version__, "rules": rules}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": annotations}],
    }


def _describe(entry: Entry) -> str:
    required = f"required: {entry.content}" if entry.threshold else ""
    head = [f"{entry.verdict}: {entry.name} [{entry.deployment}]", entry.figures, required]
    return "\n".join(filter(None, [*head, entry.query, entry.about, *entry.lines]))


def _digest(entry: Entry) -> str:
    return hashlib.sha256(json.dumps(entry.key).encode()).hexdigest()


def _locate(uri: str, line: int) -> dict[str, Any]:
    return {
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}},
    }


def _build_uri(path: Path) -> str:
    """Return the URI of the suite file, relative to the current folder if it is there.

    Code hosts look for it in the repository, where a run in CI begins.
    """
    absolute = path.absolute()
    if not absolute.is_relative_to(Path.cwd()):
        return absolute.as_uri()
    # a path after the URI of a folder has the same escapes
    return absolute.as_uri().removeprefix(f"{Path.cwd().as_uri()}/")
