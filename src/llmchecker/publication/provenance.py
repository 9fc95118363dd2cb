"""How the results of a run were made: from which models, with which code, where and when.

`of_run` gathers the records of all trees into the content of results/provenance.json. `footer` says
the same in a line, for tables.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llmchecker.deciding.estimates import EstimateRecord
from llmchecker.fetching.model_files import WEIGHTS
from llmchecker.fetching.sources import parse_source
from llmchecker.files import read_sealed_json, sha256_of
from llmchecker.trees.making import ASKING, as_fetched, code_version, machine, utc_now, versions

INSTALLED = (*ASKING, "stormpy", "snakemake", "pandas", "pyarrow", "matplotlib")
DIGITS = 12
"""Digits of a checksum or commit that a footer shows."""


def of_run(
    config: str,
    models: Mapping[str, Mapping[str, str]],
    directories: Mapping[str, str | Path],
    growths: Mapping[str, Sequence[str | Path]],
    estimates: Mapping[str, Sequence[str | Path]],
    verdicts: Iterable[str | Path],
    prompts: str | Path | None = None,
) -> dict[str, Any]:
    """What results/provenance.json holds.

    Args:
        config: the configuration's checksum, `Config.sha256`.
        models: what the configuration says of each model, by the model's name.
        directories: where each model lies.
        growths: records of each model's trees; a tree in shards has a making for each.
        estimates: files of the estimates of each model.
        verdicts: all verdicts.
        prompts: the file of the prompts of the top-k statistics.
    """
    return {
        "date": utc_now(),
        "config": config,
        "program": asdict(code_version()),
        "machine": asdict(machine()),
        "versions": versions(INSTALLED),
        "models": {
            name: {
                **about,
                **_as_fetched(Path(directories[name])),
                "trees": _grouped(
                    making for path in growths[name] for making in read_sealed_json(path)["makings"]
                ),
                "estimates": _grouped(
                    record.making
                    for record in map(EstimateRecord.read, estimates.get(name, ()))
                    if record.making is not None
                ),
            }
            for name, about in models.items()
        },
        "prompts": None if prompts is None else sha256_of(Path(prompts)),
        "verdicts": _grouped(read_sealed_json(path)["versions"] for path in verdicts),
    }


def footer_of_now() -> str:
    """How a table was made in which no model has a part and that is made now."""
    return f"{_named(asdict(code_version()))}, {utc_now()}."


def footer(run: Mapping[str, Any]) -> str:
    """How a table was made, in one line of plain text.

    Args:
        run: the content of results/provenance.json.
    """
    return f"{description(run)}, {run['date']}."


def description(run: Mapping[str, Any]) -> str:
    """The footer without its date: equal for figures that were made alike."""
    asked = [making for model in run["models"].values() for making in model["trees"]]
    models = [
        f"{' '.join(about['label'].split())} ({_shortened(about['revision'])}, {about['dtype']}, "
        f"{about['device']})"
        for about in run["models"].values()
    ]
    parts = [
        _named(run["program"]),
        f"configuration {run['config'][:DIGITS]}",
        *models,
        *(
            _versions(name, [making["versions"] for making in asked])
            for name in ("torch", "transformers")
        ),
        _versions("storm", run["verdicts"]),
    ]
    return ", ".join(filter(None, parts))


def _as_fetched(directory: Path) -> dict[str, Any]:
    about = as_fetched(directory)
    files = about.get("files", {})
    return {"source": about.get("source"), "revision": _revision(about), "files": files}


def _revision(about: Mapping[str, Any]) -> str:
    """What a model is known by: its commit, or the checksum that it was fetched with.

    A served model is known by the name that its server has for it, and by the server's version.
    Without either the checksum of its weights in one file; of several, that of their checksums.
    """
    if "serving" in about:
        return f"{about['serving']['model']}, {about['api']} {about['serving']['version']}"
    source = parse_source(about["source"]) if about else None
    if source is not None and source.scheme == "hf":
        return f"commit {source.revision}"
    files = about.get("files", {})
    weights = {name: digest for name, digest in files.items() if name.endswith(".safetensors")}
    several = hashlib.sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest()
    digest = about.get("sha256") or files.get(WEIGHTS) or several
    return f"sha256 {digest}"


def _shortened(revision: str) -> str:
    kind, _, digits = revision.partition(" ")
    return f"{kind} {digits[:DIGITS]}" if kind in ("commit", "sha256") else revision


def _grouped(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Equal records as one: their number, first and last date, and what they say."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(json.dumps(_undated(record), sort_keys=True), []).append(record)
    return [
        {"number": len(group), **_period(group), **_undated(group[0])} for group in groups.values()
    ]


def _undated(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "date"}


def _period(group: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    dates = [record["date"] for record in group if "date" in record]
    return {"first": min(dates), "last": max(dates)} if dates else {}


def _named(program: Mapping[str, Any]) -> str:
    """The program as a footer names it."""
    commit = program["commit"]
    changed = " with changes" if program["changed"] else ""
    return f"LLMChecker {program['version']}" + (
        f" (commit {commit[:DIGITS]}{changed})" if commit else ""
    )


def _versions(package: str, found: Iterable[Mapping[str, Any]]) -> str:
    """Every version of a package that took part, each once."""
    numbers = sorted({versions[package] for versions in found if package in versions})
    return f"{package} {' and '.join(numbers)}" if numbers else ""
