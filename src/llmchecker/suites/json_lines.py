"""Results as JSON lines: a log that a later run continues, and a stored baseline.

The first line describes the suite, and whether the run is complete. Each further line is the result
of a case, written as soon as it is known. When the run is complete, the lines are in the order of
the suite.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from llmchecker import __version__
from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.conversations.answer_tree import AnswerTree
from llmchecker.errors import ConfigError, UnusableDataset
from llmchecker.models.run_metadata import MODEL_PACKAGES, collect_versions
from llmchecker.properties.registry import find_quantifier_files
from llmchecker.suites.cases import Case, CaseKey, Suite
from llmchecker.suites.examples import Example
from llmchecker.suites.fingerprint import CaseFingerprint
from llmchecker.suites.multiple_testing import METHOD
from llmchecker.suites.results import Baseline, SuiteResult
from llmchecker.suites.verdicts import CaseResult, Status
from llmchecker.utils.atomic_files import describe_kind
from llmchecker.utils.file_state import check_unchanged
from llmchecker.utils.json_lines import append_line, read_lines, write_lines
from llmchecker.utils.printable_text import escape_unprintable
from llmchecker.utils.stored_fields import (
    COUNT,
    NUMBER,
    TEXT,
    TRUTH,
    check_fields,
    list_of,
    mapping_of,
    optional,
    record,
)

_FORMAT_NAME = "llmchecker suite "
_FORMAT = f"{_FORMAT_NAME}10"
"""The format of a file of results; its number changes with the keys of a line."""
_HEADER_FIELDS = {
    "confidence": NUMBER,
    "complete": TRUTH,
    **dict.fromkeys(("weights", "versions"), mapping_of(TEXT)),
}
_CASE_FIELDS = {
    **dict.fromkeys(("case", "model", "query", "status"), TEXT),
    "certain": TRUTH,
    "error": optional(TEXT),
    "examples": list_of(
        record(
            {
                **{"text": TEXT, "probability": NUMBER, "is_violating": optional(TRUTH)},
                "ending": TEXT,
                "scores": mapping_of(COUNT),
            }
        )
    ),
    "effort": optional(NUMBER),
    "is_reread": TRUTH,
    "seconds": NUMBER,
}
"""The fields of a case that are read; those of objects are checked by their readers."""

_Value = TypeVar("_Value")


class JsonLinesLog:
    """A log of results in a file, which a later run of the same suite continues.

    Args:
        path: the file.
        suite: the suite.
        fingerprints: what its cases ask.
        shards: files with results of parts of the suite, which the log takes over.

    Raises:
        ConfigError: a file contains other results, or the log cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        suite: Suite,
        fingerprints: Mapping[CaseKey, CaseFingerprint],
        shards: Iterable[str | Path] = (),
    ) -> None:
        self._path = Path(path).absolute()
        self._suite = suite
        self._fingerprints = fingerprints
        self._stored: dict[CaseKey, tuple[CaseResult, dict[str, Any]]] = {}
        for file in (*map(Path, shards), self._path):
            self._stored |= self._read(file)
        # rewritten, so that a line that a kill cut short does not stay
        write_unfinished(self._path, suite, (line for _, line in self._stored.values()))

    def find(self, case: Case) -> CaseResult | None:
        """Return the stored result of a case; None if it has none."""
        stored = self._stored.get(case.key)
        return None if stored is None else stored[0]

    def add(self, case: Case, result: CaseResult) -> None:
        """Append the result of a case.

        Raises:
            ChecksumMismatch: a file of its model or quantifiers changed since the run began.
        """
        known = self._suite.quantifier_files
        quantifiers = case.question.asked.quantifiers.values()
        files = {path.absolute() for each in quantifiers for path in find_quantifier_files(each)}
        check_unchanged(
            {**self._suite.model_files, **{path: known[path] for path in files if path in known}}
        )
        append_line(self._path, _format_result(case, result, self._fingerprints[case.key]))

    def complete(self, result: SuiteResult) -> None:
        """Replace the log by one line for each case, average and difference."""
        write_lines(self._path, iter_lines(result))

    def _read(self, path: Path) -> dict[CaseKey, tuple[CaseResult, dict[str, Any]]]:
        """Read the results of the same suite from a file."""
        if not path.exists() or path.stat().st_size == 0:
            return {}
        header, lines = _read_lines(str(path), path)
        _check_header(path, header, self._suite.digest)
        stored = {}
        keys = {case.key for case in self._suite.cases}
        for line in lines:
            # averages and differences are computed again
            if "case" in line:
                result = _parse_result(path, line)
                key = result.key
                # a file of a quantifier may have changed, which the digest of the suite leaves out
                fingerprint = _parse_fingerprint(path, line)
                is_same = key in keys and self._fingerprints[key] == fingerprint
                # an error may have been temporary, and the other rows decide which are unread
                if is_same and result.status not in (Status.ERROR, Status.UNREAD):
                    stored[key] = result, line
        return stored


def write_unfinished(path: Path, suite: Suite, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write the log of an unfinished run.

    Args:
        path: the file.
        suite: the suite.
        lines: the lines of its cases with a result.
    """
    write_lines(path, [_build_header(suite, is_complete=False), *lines])


def iter_lines(result: SuiteResult) -> Iterator[dict[str, Any]]:
    """Yield the lines of a complete result: header, cases, averages, differences."""
    yield _build_header(result.suite, is_complete=True)
    for case, case_result in zip(result.suite.cases, result.results, strict=True):
        fingerprint = result.fingerprints[case.key]
        yield _format_result(case, case_result, fingerprint)
    for aggregate in result.aggregates:
        yield {
            aggregate.kind: aggregate.name,
            "model": aggregate.deployment,
            "status": aggregate.status,
            "certain": aggregate.is_certain,
            "threshold": None if aggregate.threshold is None else str(aggregate.threshold),
            **aggregate.measurement.as_json(),
            "cases": aggregate.cases,
            "read": aggregate.read,
            "about": aggregate.subject,
        }
    for missing in result.not_compared:
        yield {
            "not_compared": missing.name,
            "model": missing.deployment,
            "baseline": missing.baseline,
            "reason": missing.reason,
        }


def _format_result(case: Case, result: CaseResult, fingerprint: CaseFingerprint) -> dict[str, Any]:
    """Return the result of a case as a JSON object."""
    return {
        "case": result.case,
        "model": result.deployment,
        "prompt": case.prompt,
        "query": case.question.query.text,
        "fingerprint": vars(fingerprint),
        "status": result.status,
        "certain": result.is_certain,
        "answer": None if result.answer is None else result.answer.as_json(),
        "required_passes": None if result.forecast is None else result.forecast.passes,
        "error": result.error,
        "examples": [asdict(example) for example in result.examples],
        "conversation": result.conversation and result.conversation.as_json(),
        "evidence": None if result.evidence is None else vars(result.evidence),
        "effort": result.effort,
        "is_reread": result.is_reread,
        "seconds": result.seconds,
    }


def read_results(path: str | Path) -> list[CaseResult]:
    """Read the result of each case of a complete run."""
    path = Path(path)
    _, lines = _read_lines(str(path), path)
    return [_parse_result(path, line) for line in lines if "case" in line]


def check_digest(path: str | Path, digest: str) -> None:
    """Check that a file has results of a suite in its present state.

    Raises:
        ConfigError: it has results of another suite, model or version.
    """
    path = Path(path)
    header, _ = _read_lines(str(path), path)
    _check_header(path, header, digest)


def _check_header(path: Path, header: Mapping[str, Any], digest: str) -> None:
    if header.get("digest") != digest:
        raise ConfigError(
            f"{path}: results of another suite, model or version; delete it or name another file"
        )


def read_baseline(path: str | Path, deployments: Iterable[str]) -> Baseline:
    """Read the results of an earlier run.

    Args:
        path: the file that a run wrote.
        deployments: names of the deployments to compare. Each is compared with the stored one of
            its name, or with the only one.

    Raises:
        ConfigError: the file has no results, those of another version, or those of several other
            deployments.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"baseline: {path} is {describe_kind(path)}; name a file with results")
    header, lines = _read_lines(f"baseline: {path}", path)
    results, fingerprints = {}, {}
    for line in lines:
        if "case" in line:
            result = _parse_result(path, line)
            results[result.key] = result
            fingerprints[result.key] = _parse_fingerprint(path, line)
    stored = {deployment for deployment, _ in results}
    names = set(deployments)
    if len(stored) > 1 and not stored & names:
        raise ConfigError(
            f"baseline: {path} has results of {_join_names(stored)}, and the suite of "
            f"{_join_names(names)}; give a file with one of these"
        )
    try:
        check_fields(header, _HEADER_FIELDS)
    except ValueError as error:
        raise UnusableDataset(f"{path}, line 1: {error}; delete the file") from error
    confidence, is_complete = float(header["confidence"]), header["complete"]
    return Baseline(
        path.name,
        confidence,
        is_complete,
        results,
        fingerprints,
        header["weights"],
        header["versions"],
    )


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(map(escape_unprintable, sorted(names)))


def _read_lines(place: str, path: Path) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    """Read the first line of a file of results, and its further lines.

    Raises:
        ConfigError: the first line is not that of results of this version.
        UnusableDataset: a line is not a JSON object.
    """
    objects = read_lines(path).objects
    header = objects[0] if objects else {}
    found = header.get("format")
    if found == _FORMAT:
        return header, objects[1:]
    if isinstance(found, str) and found.startswith(_FORMAT_NAME):
        raise ConfigError(
            f"{place}: results of another version of llmchecker ({found!r}, not {_FORMAT!r}); "
            "delete the file and run its suite again"
        )
    raise ConfigError(f"{place}: no results of a suite; name another file")


def _build_header(suite: Suite, *, is_complete: bool) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "complete": is_complete,
        "suite": suite.name,
        "version": __version__,
        "confidence": suite.confidence,
        "method": METHOD,
        "seed": suite.seed,
        "cases": len(suite.cases),
        "digest": suite.digest,
        "weights": suite.weights,
        "versions": collect_versions(MODEL_PACKAGES),
    }


def _parse_result(path: Path, line: Mapping[str, Any]) -> CaseResult:
    try:
        check_fields(line, _CASE_FIELDS)
        return CaseResult(
            case=line["case"],
            deployment=line["model"],
            status=Status(line["status"]),
            is_certain=line["certain"],
            answer=None if line["answer"] is None else Answer.from_json(line["answer"], path),
            seconds=line["seconds"],
            error=line["error"],
            examples=tuple(Example(**example) for example in line["examples"]),
            conversation=_parse_optional(AnswerTree.from_json, line["conversation"]),
            evidence=_parse_optional(MeanEvidence.from_json, line["evidence"]),
            effort=line["effort"],
            is_reread=line["is_reread"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _build_damage_error(path, error) from error


def _parse_optional(parse: Callable[[Any], _Value], content: Any) -> _Value | None:
    return None if content is None else parse(content)


def _parse_fingerprint(path: Path, line: Mapping[str, Any]) -> CaseFingerprint:
    try:
        return CaseFingerprint(**line["fingerprint"])
    except (KeyError, TypeError, ValueError) as error:
        raise _build_damage_error(path, error) from error


def _build_damage_error(path: Path, error: Exception) -> UnusableDataset:
    reason = str(error)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return UnusableDataset(f"{path}: no results of this version: {reason}; delete the file")
