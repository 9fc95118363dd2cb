"""Provenance of the results of a run: models, code, machine and date.

`collect_provenance` builds the content of results/provenance.json from the records of all trees.
`format_footer` formats it in one line for tables.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llmchecker.errors import ChecksumMismatch
from llmchecker.models.run_metadata import (
    MODEL_PACKAGES,
    collect_versions,
    describe_machine,
    find_code_version,
    read_provenance,
    utc_now,
)
from llmchecker.models.sources.checksums import check_same_files
from llmchecker.models.sources.model_directory import WEIGHTS
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.trees.top_k_mass import read_model_files
from llmchecker.utils.atomic_files import compute_sha256, read_json_with_digest
from llmchecker.utils.json_digest import compute_json_digest

_REPORTED_PACKAGES = (*MODEL_PACKAGES, "stormpy", "snakemake", "pandas", "pyarrow", "matplotlib")
_FOOTER_DIGITS = 12
"""Number of digits of a checksum or commit in a footer."""


def collect_provenance(
    config: str,
    models: Mapping[str, Mapping[str, str]],
    directories: Mapping[str, str | Path],
    tree_records: Mapping[str, Sequence[str | Path]],
    answers: Mapping[str, Sequence[str | Path]],
    verdicts: Iterable[str | Path],
    masses: Mapping[str, str | Path] | None = None,
    prompts: str | Path | None = None,
) -> dict[str, Any]:
    """Build the content of results/provenance.json.

    Args:
        config: the checksum of the configuration, `Config.sha256`.
        models: the settings of each model in the configuration, by the model's name.
        directories: the directory of each model.
        tree_records: record files of each model's trees; a tree has run metadata for each shard.
        answers: files of the answers of each model.
        verdicts: files of all verdicts.
        masses: the file of the top-k statistics of each model; None without these.
        prompts: the file of the prompts of the top-k statistics; None without prompts.

    Raises:
        ChecksumMismatch: a result is of another model than the fetched one, or a verdict is of
            another tree than the present one.
    """
    records = {name: list(map(read_json_with_digest, answers.get(name, ()))) for name in models}
    grown = {
        name: {str(path): read_json_with_digest(path) for path in tree_records[name]}
        for name in models
    }
    decided = {str(path): read_json_with_digest(path) for path in verdicts}
    _check_models(directories, grown, answers, records)
    for name, file in (masses or {}).items():
        check_same_files(read_model_files(file), directories[name], file)
    _check_trees(decided, {path: each for group in grown.values() for path, each in group.items()})
    return {
        "date": utc_now(),
        "config": config,
        "program": asdict(find_code_version()),
        "machine": asdict(describe_machine()),
        "versions": collect_versions(_REPORTED_PACKAGES),
        "models": {
            name: {
                **model,
                **_read_source_record(Path(directories[name])),
                "trees": _group_records(
                    run_metadata
                    for tree_record in grown[name].values()
                    for run_metadata in tree_record["makings"]
                ),
                "answers": _group_records(record["making"] for record in records[name]),
            }
            for name, model in models.items()
        },
        "prompts": None if prompts is None else compute_sha256(Path(prompts)),
        "verdicts": _group_records(
            [
                *(verdict["versions"] for verdict in decided.values()),
                *(record["versions"] for group in records.values() for record in group),
            ]
        ),
    }


def _check_models(
    directories: Mapping[str, str | Path],
    grown: Mapping[str, Mapping[str, Mapping[str, Any]]],
    answers: Mapping[str, Sequence[str | Path]],
    records: Mapping[str, Sequence[Mapping[str, Any]]],
) -> None:
    """Check that all trees and answers are of the fetched models, which the footers name."""
    for name, trees in grown.items():
        makings = [(path, making) for path, tree in trees.items() for making in tree["makings"]]
        makings += [
            (str(path), record["making"])
            for path, record in zip(answers.get(name, ()), records[name], strict=True)
        ]
        for path, making in makings:
            if "files" in making:
                check_same_files(making["files"], directories[name], path)


def _check_trees(
    verdicts: Mapping[str, Mapping[str, Any]], trees: Mapping[str, Mapping[str, Any]]
) -> None:
    """Check that all verdicts are of the present trees."""
    for path, verdict in verdicts.items():
        for tree, fingerprint in verdict.get("inputs", {}).items():
            if tree in trees and trees[tree]["fingerprint"] != fingerprint:
                raise ChecksumMismatch(
                    f"{path}: of another tree than {tree}; delete the file and run the same "
                    "command again"
                )


def format_current_footer() -> str:
    """Format the footer of a table without models: current code and date."""
    return f"{_format_program(asdict(find_code_version()))}, {utc_now()}."


def format_footer(run: Mapping[str, Any]) -> str:
    """Format the footer of a table as one line of plain text.

    Args:
        run: the content of results/provenance.json.
    """
    return f"{format_description(run)}, {run['date']}."


def format_description(run: Mapping[str, Any]) -> str:
    """Format the footer without its date; it is equal for equal provenance."""
    run_records = [
        run_record
        for model in run["models"].values()
        for run_record in (*model["trees"], *model["answers"])
    ]
    models = [
        f"{' '.join(model['label'].split())} ({_shorten_revision(model['revision'])}, "
        f"{model['dtype']}, "
        f"{model['device']})"
        for model in run["models"].values()
    ]
    parts = [
        _format_program(run["program"]),
        f"configuration {run['config'][:_FOOTER_DIGITS]}",
        *models,
        *(
            _format_versions(name, [run_record["versions"] for run_record in run_records])
            for name in ("torch", "transformers")
        ),
        _format_versions("storm", run["verdicts"]),
    ]
    return ", ".join(filter(None, parts))


def _read_source_record(directory: Path) -> dict[str, Any]:
    provenance = read_provenance(directory)
    files = provenance.get("files", {})
    return {
        "source": provenance.get("source"),
        "revision": _find_revision(provenance),
        "files": files,
    }


def _find_revision(about: Mapping[str, Any]) -> str:
    """Return the revision of a model: its commit, or the checksum of its source.

    For a served model, the revision is its name on the server and the server's version. Other
    models have the checksum of the weight file, or of the checksums of several weight files.
    """
    # A server does not report a checksum of its weights.
    if "serving" in about:
        return f"{about['serving']['model']}, {about['api']} {about['serving']['version']}"
    # The directory of a model may lack a record of its source.
    source = parse_source(about["source"]) if about else None
    if source is not None and source.scheme == "hf":
        return f"commit {source.revision}"
    files = about.get("files", {})
    weights = {name: digest for name, digest in files.items() if name.endswith(".safetensors")}
    weights_digest = compute_json_digest(weights)
    digest = about.get("sha256") or files.get(WEIGHTS) or weights_digest
    return f"sha256 {digest}"


def _shorten_revision(revision: str) -> str:
    # Only commits and checksums are long; other revisions are names and versions.
    kind, _, digits = revision.partition(" ")
    return f"{kind} {digits[:_FOOTER_DIGITS]}" if kind in ("commit", "sha256") else revision


def _group_records(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Group equal records: their number, first and last date, and content."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        # Records that differ only in their date are equal.
        groups.setdefault(json.dumps(_drop_date(record), sort_keys=True), []).append(record)
    return [
        {"number": len(group), **_compute_period(group), **_drop_date(group[0])}
        for group in groups.values()
    ]


def _drop_date(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "date"}


def _compute_period(group: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    dates = [record["date"] for record in group if "date" in record]
    return {"first": min(dates), "last": max(dates)} if dates else {}


def _format_program(program: Mapping[str, Any]) -> str:
    """Format the program for a footer."""
    commit = program["commit"]
    suffix = " with changes" if program["changed"] else ""
    return f"LLMChecker {program['version']}" + (
        f" (commit {commit[:_FOOTER_DIGITS]}{suffix})" if commit else ""
    )


def _format_versions(package: str, version_maps: Iterable[Mapping[str, Any]]) -> str:
    """Format all versions of a package without duplicates."""
    numbers = sorted({versions[package] for versions in version_maps if package in versions})
    return f"{package} {' and '.join(numbers)}" if numbers else ""
