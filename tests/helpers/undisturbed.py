"""Whether a project that harm was done to ends with the results of one that was never disturbed."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
from helpers.project import Project

NAME = "gpt2"
TREE = f"{NAME}/player/alpha0.8_k3_L2"
WITHOUT = ("logs", "benchmarks", "distributions", "cached")
"""Folders of the results that tell of one run, and the caches."""


def at(directory: Path) -> Project:
    """The project that a directory already has."""
    project = object.__new__(Project)
    project.directory = directory
    return project


def copied(project: Project, directory: Path) -> Project:
    shutil.copytree(project.directory, directory / "project", symlinks=True)
    return at(directory / "project")


def check_undisturbed(project: Project, undisturbed: Project) -> None:
    """Check that two projects have equal results, byte for byte but for times."""
    here, there = results_of(project), results_of(undisturbed)
    assert sorted(here) == sorted(there)
    different = [name for name in here if timeless(here[name]) != timeless(there[name])]
    assert not different, different


def results_of(project: Project) -> dict[str, Path]:
    """The results that people read or other results are made of, by their place."""
    root = project.directory / "results"
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {
        name: path
        for name, path in found.items()
        if name.partition("/")[0] not in WITHOUT and ".damaged" not in path.name
    }


def timeless(path: Path) -> object:
    """The contents of a file without what a clock measured, and what follows from that."""
    match path.suffix:
        case ".json":
            return _without_times(json.loads(path.read_bytes()))
        case ".csv":
            table = pd.read_csv(path)
            return table.drop(columns=table.filter(regex="seconds$")).to_csv()
        case ".md" | ".tex" | ".html" | ".svg":
            text = re.sub(r"\d{4}-\d\d-\d\d([T ][\d:+]+)?|\b\d+\.\d{2,}\b", "T", path.read_text())
            return re.sub(r"-{2,}|\s+", " ", text)
        case ".sha256" | ".png" | ".pdf":  # the pictures carry the date of their making
            return path.stat().st_size > 0
        case _:
            return path.read_bytes()


def _without_times(value: object) -> object:
    if isinstance(value, dict):
        # a tree that is grown again finds in the store what it had to compute before
        # and the stamps of files say when and where they were written
        times = ("seconds", "date", "first", "last", "digest", "checksum", "computed", "seal")
        times += ("stamp", "read")
        return {k: _without_times(v) for k, v in value.items() if not k.endswith(times)}
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    return value
