"""Results as a log of inspect_ai, which `inspect view` shows: a sample for each requirement."""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llmchecker import __version__
from llmchecker.suites.entries import Entry, build_entries
from llmchecker.suites.notes import build_notes, describe_incomplete
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Status
from llmchecker.utils.atomic_files import atomic_write

_VERSION = 2
"""The version of the format."""
_SCORER = "llmchecker"
_VALUES = {Status.HOLDS: "C", Status.VIOLATED: "I"}
"""The grades of verdicts: correct and incorrect; all others are `N`, no answer."""


def write_inspect_log(result: SuiteResult, folder: str | Path) -> Path:
    """Write a result as a log of inspect_ai in JSON, and return its path.

    Args:
        result: the result.
        folder: the folder of logs, which may be absent. The name of the file begins with the time,
            as the package requires.
    """
    name = re.sub(r"\W+", "-", result.suite.name).strip("-") or "suite"
    path = Path(folder) / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}+00-00_{name}_llmchecker.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as partial:
        text = json.dumps(format_inspect_log(result), ensure_ascii=False, indent=1)
        partial.write_text(text + "\n", encoding="utf-8")
    return path


def format_inspect_log(result: SuiteResult) -> dict[str, Any]:
    """Return a log with a sample for each requirement, scored by its verdict.

    The conversation of a sample is its prompt and the most probable answer against the requirement,
    or else the most probable one that meets it. All other answers are in the metadata.
    """
    suite, now = result.suite, datetime.now(UTC).isoformat(timespec="seconds")
    entries = [each for each in build_entries(result) if each.status is not Status.MEASURED]
    names = [_name(entry, len(suite.deployments) > 1) for entry in entries]
    incomplete = describe_incomplete(result)
    samples = [_build_sample(name, entry) for name, entry in zip(names, entries, strict=True)]
    return {
        "version": _VERSION,
        "status": "success" if incomplete is None else "cancelled",
        "eval": {
            "created": now,
            "task": suite.name,
            "task_file": str(suite.path),
            "dataset": {"name": suite.name, "samples": len(samples), "sample_ids": names},
            "model": ", ".join(each.name for each in suite.deployments),
            "config": {},
            "packages": {"llmchecker": __version__},
            "metadata": {"confidence": suite.confidence, "notes": build_notes(result)},
            "scorers": [{"name": _SCORER}],
        },
        "plan": {"name": _SCORER, "steps": [], "config": {}},
        "results": _summarize(entries, names),
        "stats": {"started_at": now, "completed_at": now, "model_usage": {}},
        "samples": samples,
    }


def _name(entry: Entry, has_models: bool) -> str:
    return f"{entry.name} [{entry.deployment}]" if has_models else entry.name


def _summarize(entries: Iterable[Entry], names: list[str]) -> dict[str, Any]:
    """Return the shares of the verdicts as metrics."""
    statuses = [entry.status for entry in entries]
    metrics = {
        str(status).lower(): {
            "name": str(status).lower(),
            "value": statuses.count(status),
            "params": {},
        }
        for status in (Status.HOLDS, Status.VIOLATED, Status.UNKNOWN, Status.ERROR)
    }
    return {
        "total_samples": len(names),
        "completed_samples": len(names),
        "scores": [{"name": _SCORER, "scorer": _SCORER, "params": {}, "metrics": metrics}],
    }


def _build_sample(name: str, entry: Entry) -> dict[str, Any]:
    answer = next((each for each in entry.examples if each.is_violating), None)
    answer = answer or next(iter(entry.examples), None)
    opening = entry.opening or ((("user", entry.prompt),) if entry.prompt else ())
    written: tuple[tuple[str, str], ...] = ()
    if answer is not None:
        # the text of a conversation has all messages after its opening
        written = answer.messages if entry.opening else (("assistant", answer.text),)
    messages = [_build_message(role, text) for role, text in (*opening, *written)]
    texts = [text for role, text in written if role == "assistant"]
    score = {
        "value": _VALUES.get(entry.status, "N"),
        "answer": texts[-1] if texts else None,
        "explanation": "\n".join(filter(None, (entry.verdict, entry.details, *entry.lines))),
        "metadata": {"verdict": entry.verdict, "interval": entry.figures, "query": entry.query},
    }
    return {
        "id": name,
        "epoch": 1,
        "input": [_build_message(*each) for each in opening] or entry.query or entry.content,
        "target": entry.content,
        "messages": messages,
        "output": _build_output(entry, texts),
        "scores": {_SCORER: score},
        "metadata": {
            "answers": [
                {
                    "text": each.text,
                    "probability": each.probability,
                    "violates": each.is_violating,
                    "scores": dict(each.scores),
                }
                for each in entry.examples
            ],
        },
        "total_time": entry.seconds,
    }


def _build_message(role: str, text: str) -> dict[str, Any]:
    role = role if role in ("system", "user", "assistant", "tool") else "user"
    message = {"role": role, "content": text}
    return message | {"model": _SCORER, "source": "generate"} if role == "assistant" else message


def _build_output(entry: Entry, texts: list[str]) -> dict[str, Any]:
    choices = [
        {"message": _build_message("assistant", text), "stop_reason": "stop"} for text in texts[-1:]
    ]
    error = {"error": "\n".join(entry.reasons)} if entry.status is Status.ERROR else {}
    return {"model": entry.deployment, "choices": choices, **error}
