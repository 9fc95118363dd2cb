"""Suites over table models, in which every probability is known by enumeration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import llmchecker as lc
from llmchecker.models.end_of_sequence import EndOfSequence, apply_end_of_sequence
from llmchecker.suites.cases import Suite
from llmchecker.suites.load import load_suite
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.session import run_suite

WORDS = ["once", " he", " she", " it"]
HE = 1 - 0.75**3
"""The probability of at least one he among three words."""


@dataclass(frozen=True)
class OpenTable:
    """A table model in place of a loaded model."""

    own_model: lc.TableModel
    end_of_sequence: EndOfSequence = "terminal"

    @property
    def model(self) -> lc.TableModel:
        """The model of queries, as that of a `LazyModel`."""
        return apply_end_of_sequence(self.own_model, self.end_of_sequence)


def words_model(he: float = 0.25) -> lc.TableModel:
    """A model whose words are independent."""
    return lc.TableModel(WORDS, lambda tokens: [0, he, 0.25, 0.75 - he])


def write_suite(folder: Path, content: Mapping[str, Any], **files: str) -> Path:
    """A suite file with an empty model directory `m`, and files such as `rows_csv`."""
    (folder / "m").mkdir(exist_ok=True)
    # an unchanged model keeps its time, on which the digest depends
    if not (folder / "m/config.json").exists():
        (folder / "m/config.json").write_text("{}")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    path = folder / "suite.yaml"
    suite = {"model": "m", "length": 3, "budget": {"passes": 100}, **content}
    path.write_text(yaml.safe_dump(suite, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def load(
    folder: Path, cases: list[dict[str, Any]], files: Mapping[str, str] | None = None, **keys: Any
) -> Suite:
    """The suite of these cases."""
    return load_suite(write_suite(folder, {**keys, "cases": cases}, **(files or {})))


def run(
    suite: Suite,
    model: lc.TableModel | Callable[[str], lc.TableModel] | None = None,
    **options: Any,
) -> SuiteResult:
    """Run a suite over a table model, or one by the name of the deployment."""
    model = model or words_model()
    choose = model if callable(model) else (lambda name: model)
    return run_suite(suite, open_model=lambda d: OpenTable(choose(d.name)), **options)
