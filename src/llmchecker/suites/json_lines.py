"""Results as JSON lines: a log that a later run continues, and a stored baseline.

The first line describes the suite. Each further line is the result of a case, written as soon as it
is known. When the run is complete, the lines are in the order of the suite.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from llmchecker import __version__
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.errors import ConfigError, UnusableDataset
from llmchecker.suites.cases import Case, Suite
from llmchecker.suites.multiple_testing import METHOD
from llmchecker.suites.results import Baseline, SuiteResult
from llmchecker.suites.verdicts import CaseResult, Interval, Status, Text
from llmchecker.utils.atomic_files import atomic_write, describe_kind

_FORMAT = "llmchecker suite 2"
_FLOAT_KEYS = ("lower", "upper", "low", "high", "estimate")


class MemoryLog:
    """A log without a file."""

    def find(self, case: Case) -> CaseResult | None:
        """Return None: nothing is stored."""
        return None

    def add(self, case: Case, result: CaseResult) -> None:
        """Store nothing."""


class JsonLinesLog:
    """A log of results in a file, which a later run of the same suite continues.

    Args:
        path: the file.
        suite: the suite.
        shards: files with results of parts of the suite, which the log takes over.

    Raises:
        ConfigError: a file contains other results, or the log cannot be written.
    """

    def __init__(self, path: str | Path, suite: Suite, shards: Iterable[str | Path] = ()) -> None:
        self._path = Path(path)
        self._suite = suite
        self._stored: dict[tuple[str, str], tuple[CaseResult, dict[str, Any]]] = {}
        for file in (*map(Path, shards), self._path):
            self._stored |= self._read(file)
        lines = [_build_header(suite), *(line for _, line in self._stored.values())]
        # rewritten, so that a line that a kill cut short does not stay
        _write_lines(self._path, lines)
        try:
            self._file: TextIO = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from error

    def find(self, case: Case) -> CaseResult | None:
        """Return the stored result of a case; None if it has none."""
        stored = self._stored.get((case.deployment.name, case.name))
        return None if stored is None else stored[0]

    def add(self, case: Case, result: CaseResult) -> None:
        """Append the result of a case."""
        self._file.write(_format_line(_format_result(case, result)))
        # a killed run keeps each finished case
        self._file.flush()

    def close(self) -> None:
        """Close the file; the run may continue later."""
        self._file.close()

    def complete(self, result: SuiteResult) -> None:
        """Replace the log by one line for each case, average and difference."""
        self._file.close()
        _write_lines(self._path, iter_lines(result))

    def _read(self, path: Path) -> dict[tuple[str, str], tuple[CaseResult, dict[str, Any]]]:
        """Read the results of the same suite from a file."""
        if not path.exists() or path.stat().st_size == 0:
            return {}
        lines = _read_lines(path)
        header = next(lines, {})
        if header.get("format") != _FORMAT:
            raise ConfigError(f"{path}: no results of a suite; name another file")
        if header.get("digest") != self._suite.digest:
            raise ConfigError(
                f"{path}: results of another suite, model or version; delete it or name "
                "another file"
            )
        stored = {}
        for line in lines:
            # averages and differences are computed again
            if "case" in line:
                result = _parse_result(path, line)
                # an error may have been temporary
                if result.status is not Status.ERROR:
                    stored[result.deployment, result.case] = result, line
        return stored


def iter_lines(result: SuiteResult) -> Iterator[dict[str, Any]]:
    """Yield the lines of a complete result: header, cases, averages, differences."""
    yield _build_header(result.suite)
    for case, case_result in zip(result.suite.cases, result.results, strict=True):
        yield _format_result(case, case_result)
    for aggregate in result.aggregates:
        yield {
            aggregate.kind: aggregate.name,
            "model": aggregate.deployment,
            "status": aggregate.status,
            "certain": aggregate.is_certain,
            "threshold": None if aggregate.threshold is None else str(aggregate.threshold),
            **vars(aggregate.interval),
            "cases": aggregate.cases,
        }


def _format_result(case: Case, result: CaseResult) -> dict[str, Any]:
    """Return the result of a case as a JSON object."""
    return {
        "case": result.case,
        "model": result.deployment,
        "prompt": case.prompt,
        "query": case.query.text,
        "status": result.status,
        "certain": result.is_certain,
        **vars(result.interval),
        "samples": result.samples,
        "passes": result.passes,
        "required_passes": result.required_passes,
        "texts": [vars(text) for text in result.texts],
        "error": result.error,
        "evidence": None if result.evidence is None else vars(result.evidence),
        "seconds": result.seconds,
    }


def read_case_lines(path: str | Path) -> list[dict[str, Any]]:
    """Read the line of each case of a complete run."""
    return [line for line in _read_lines(Path(path)) if "case" in line]


def read_baseline(path: str | Path, deployments: Iterable[str]) -> Baseline:
    """Read the results of an earlier run.

    Args:
        path: the file that a complete run wrote.
        deployments: names of the deployments to compare. Results of one of them are taken if the
            file has several deployments.

    Raises:
        ConfigError: the file has no results, or those of several other deployments.
    """
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"baseline: {path} is {describe_kind(path)}; name a file with results")
    lines = _read_lines(path)
    header = next(lines, {})
    if header.get("format") != _FORMAT:
        raise ConfigError(f"baseline: {path} has no results of a suite; name another file")
    # the mean of stored samples would need a share of this suite's error probability
    results = [
        replace(_parse_result(path, line), evidence=None) for line in lines if "case" in line
    ]
    names = list(dict.fromkeys(result.deployment for result in results))
    if len(names) > 1:
        names = [name for name in names if name in set(deployments)]
    if len(names) != 1:
        raise ConfigError(
            f"baseline: {path} has results of several models; name a file with those of one"
        )
    return Baseline(
        path.name,
        float(header["confidence"]),
        {result.case: result for result in results if result.deployment == names[0]},
    )


def _build_header(suite: Suite) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "suite": suite.name,
        "version": __version__,
        "confidence": suite.confidence,
        "method": METHOD,
        "seed": suite.seed,
        "cases": len(suite.cases),
        "digest": suite.digest,
    }


def _format_line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, allow_nan=False) + "\n"


def _write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    try:
        with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as file:
            file.writelines(map(_format_line, lines))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, up to a last line that a kill cut short."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, 1):
            # only the last line can lack its end
            if not text.endswith("\n"):
                return
            try:
                line = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise UnusableDataset(f"{path}, line {number}: no JSON; delete the file") from error
            if not isinstance(line, dict):
                raise UnusableDataset(f"{path}, line {number}: no object; delete the file")
            yield line


def _parse_result(path: Path, line: Mapping[str, Any]) -> CaseResult:
    try:
        return CaseResult(
            case=line["case"],
            deployment=line["model"],
            status=Status(line["status"]),
            is_certain=line["certain"],
            interval=Interval(**{key: line[key] for key in _FLOAT_KEYS}),
            passes=line["passes"],
            samples=line["samples"],
            seconds=line["seconds"],
            texts=tuple(Text(**text) for text in line["texts"]),
            required_passes=line["required_passes"],
            error=line["error"],
            evidence=line["evidence"] and MeanEvidence.from_json(line["evidence"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableDataset(f"{path} has no results of this version: {error}") from error
