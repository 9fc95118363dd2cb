"""A project whose sources are files of this machine, one of each kind."""

import json
from pathlib import Path

import numpy as np
import yaml
from helpers.changes import overwrite
from helpers.project import LAST, Project

OWN = """
class Letters:
    minimum, maximum = 0, None

    def __call__(self, start, continuation):
        return continuation.count("e")
"""
LETTERS, WORDS = "P=? [ F letters > 1 ]", "P=? [ F listed > 0 ]"
COMPUTED = (
    *("checks_one", "answers_one"),
    *("results/suites/words/one.jsonl", "results/topk/one.parquet"),
)
"""Targets of all that is computed of the model, without what shows it to people."""
SUITE = {"cases": [{"start": "The player", "length": 2, "require": "P>=0.1 [ F listed > 0 ]"}]}


def write_project(directory: Path, source: str) -> Project:
    """A project with a tree, an answer, a suite, prompts, an own class and a word list.

    Args:
        directory: its directory, which may have files.
        source: the source of its model.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "own.py").write_text(OWN)
    (directory / "list.txt").write_text("the\n")
    (directory / "prompts.csv").write_text("prompt\nSay it.\n")
    (directory / "suite.yaml").write_text(yaml.safe_dump(SUITE))
    experiment = {"label": "Player", "interest": "Test", "start": "player", "models": ["one"]}
    config = {
        "models": {"one": {"label": "One", "source": source, "mem_mb": 500}},
        "start_strings": {"player": "The player won because"},
        "quantifiers": {
            "letters": {"type": "python", "file": "own.py", "class": "Letters"},
            "listed": {"type": "words", "file": "list.txt"},
        },
        "topk": {"source": "path:prompts.csv", "column": "prompt", "maximum_k": 3},
        "answer": {"passes": 20},
        "suites": {"words": {"file": "suite.yaml"}},
        "experiments": [experiment | {"alpha": 0.8, "k": 3, "L": 2, "queries": [LAST, LETTERS]}],
    }
    return Project(directory, config)


def add_sources(project: Project, models: Path) -> None:
    """Add the other kinds of sources: three models, a JSON schema and rows of a suite.

    Args:
        project: the project.
        models: the folder with `packed.gguf`, whose model has a tree of its own, `judge` with a
            chat template, and the classifier `mood`.
    """
    config = yaml.safe_load((project.directory / "config.yaml").read_text())
    (project.directory / "shape.json").write_text('{"type": "object", "required": ["name"]}')
    (project.directory / "rows.csv").write_text("word\nexam\n")
    shaped = {"type": "json", "file": "shape.json"}
    for name, file in (("packed", "packed.gguf"), ("judge", "judge")):
        config["models"][name] = {"label": name, "source": f"path:{models / file}", "mem_mb": 500}
    config["quantifiers"] |= {
        "shaped": shaped,
        "calm": {"type": "classifier", "directory": str(models / "mood"), "label": "calm"},
        "polite": {"type": "judge", "model": "judge", "rubric": "Is it polite?"}
        | {"scale": {"a": 1, "b": 0}, "share": 1e-9},
    }
    first = config["experiments"][0]
    packed = first | {"label": "Packed", "models": ["packed"], "queries": [LAST]}
    first["queries"] += [f"P=? [ F {atom} ]" for atom in ("shaped = 2", "calm > 50", "polite = 1")]
    config["experiments"].append(packed)
    require = ["P>=0.1 [ F listed > 0 ]", "P<=0.9 [ F shaped = 2 ]"]
    case = {"start": "The {word}", "prompts": "rows.csv", "length": 2, "require": require}
    suite = {"properties": {"shaped": shaped}, "cases": [*SUITE["cases"], case]}
    (project.directory / "suite.yaml").write_text(yaml.safe_dump(suite))
    config["suites"]["words"]["models"] = ["one"]
    project.write_config(config)


def change_weights(model: Path) -> None:
    """Exchange the signs of half of the weights; the size and the time of the file stay."""
    weights = bytearray((model / "model.safetensors").read_bytes())
    half = len(weights) // 8 * 4
    weights[-half:] = (-np.frombuffer(bytes(weights[-half:]), np.float32)).tobytes()
    overwrite(model / "model.safetensors", bytes(weights))


def read_figures(project: Project) -> dict[str, dict]:
    """The figures of all verdicts, answers and suites, by file."""
    figures = {}
    for folder in ("checks", "answers"):
        for path in project.found(f"{folder}/**/*.json"):
            content = json.loads(path.read_text())
            keys = ("bounded", "lower", "upper", "low", "high", "states", "witnesses")
            figures[str(path.relative_to(project.directory))] = {k: content.get(k) for k in keys}
    for path in project.found("suites/*/*.jsonl"):
        _, *lines = map(json.loads, path.read_text().splitlines())
        figures[path.name] = {line["case"]: line["answer"]["lower"] for line in lines}
    return figures
