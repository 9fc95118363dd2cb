"""The chain as a JANI model, which Storm's own front end reads in about linear time.

JANI (Budde et al. 2017, "JANI: Quantitative Model and Tool Interaction") has what PRISM lacks: an
automaton with locations. Here each state is a location that holds its variables as transient
values. Storm finds the edges of a location without looking at others, while for PRISM it evaluates
the guard of every command in every state. Parsing and building random trees of 1,000 to 100,000
states took time that grows with the power 1.1 of the states, and 12 s for the largest (Storm 2.0.0,
one core).

Storm reads the probabilities of a JANI file as it reads those of a PRISM file, with the same limits
(see `prism`).
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from llmchecker.chains.markov_chain import require_finished
from llmchecker.errors import UnknownName
from llmchecker.files import written_with_checksum
from llmchecker.queries.formulas import STEP, Atom, Literal, is_variable_name
from llmchecker.trees.text_tree import Kind, TextTree

STAND_IN = 0
"""A quantifier's variable holds this in `rest`, so that `rest` adds 0 to an expected score."""


def jani_text(tree: TextTree, scores: Mapping[str, np.ndarray]) -> str:
    """Return the model, with a line for the location and a line for the edge of every state.

    A location is named `s` followed by the state's uid. The Boolean variables `rest` and `end`
    serve as labels. The variable of a quantifier is its reward too, so that R{"gender"}=? [ I=3 ]
    asks for an expected score.

    Args:
        tree: the states and their probabilities.
        scores: (n,) integers for each quantifier, by name; those of `rest` are not read.

    Raises:
        InvalidTree: a text is not finished.
        UnknownName: the name of a quantifier cannot be a variable.
    """
    require_finished(tree)
    for name in scores:
        if not is_variable_name(name):
            raise UnknownName(f"a quantifier named {name!r} cannot be a variable in JANI")
    known = tree.kind != Kind.REST
    columns = {STEP: tree.step} | {
        name: np.where(known, column, STAND_IN) for name, column in scores.items()
    }
    about = {
        "jani-version": 1,
        "name": "text_generation",
        "metadata": {
            "description": "The bounded text generation process of a language model: "
            f"model {tree.model!r}, start string {tree.start!r}, {tree.truncation}. In rest the "
            f"quantifiers are unknown; they hold {STAND_IN} there."
        },
        "type": "dtmc",
        "features": ["derived-operators"],
        "variables": [
            *(_integer(name, column) for name, column in columns.items()),
            *(_label(name) for name in ("rest", "end")),
        ],
        "system": {"elements": [{"automaton": "text_generation"}]},
        "properties": [],
    }
    locations = ",\n".join(map(json.dumps, _locations(tree, columns)))
    edges = ",\n".join(map(json.dumps, _edges(tree)))
    return (
        json.dumps(about, indent=1).removesuffix("\n}")
        + ',\n "automata": [{"name": "text_generation", "initial-locations": ["s0"], "locations": ['
        + f'\n{locations}\n], "edges": [\n{edges}\n]}}]\n}}\n'
    )


def write_jani(tree: TextTree, scores: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Write `jani_text` to a file, as UTF-8, with its checksum beside it."""
    with written_with_checksum(path) as partial:
        partial.write_text(jani_text(tree, scores), encoding="utf-8", newline="\n")


def in_jani(proposition: Atom | Literal) -> str:
    """Return an expression for an atom. It is false in `rest` if the atom is unknown there."""
    if isinstance(proposition, Literal):
        return str(proposition)
    if proposition.over_step_only:
        return f"({proposition})"
    return f"(!rest & {proposition})"


def _integer(name: str, column: np.ndarray) -> dict[str, Any]:
    low, high = min(int(column.min()), STAND_IN), max(int(column.max()), STAND_IN)
    return {
        "name": name,
        "type": {"kind": "bounded", "base": "int", "lower-bound": low, "upper-bound": high},
        "transient": True,
        "initial-value": STAND_IN,
    }


def _label(name: str) -> dict[str, Any]:
    return {"name": name, "type": "bool", "transient": True, "initial-value": False}


def _locations(tree: TextTree, columns: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    """Yield the location of each state, without the values that its variables have initially."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    for uid, (kind, row) in enumerate(zip(tree.kind.tolist(), rows, strict=True)):
        values = [
            {"ref": name, "value": value}
            for name, value in zip(columns, row, strict=True)
            if value != STAND_IN
        ]
        if kind != Kind.TEXT:
            values.append({"ref": Kind(kind).name.lower(), "value": True})
        yield {"name": f"s{uid}"} | ({"transient-values": values} if values else {})


def _edges(tree: TextTree) -> Iterator[dict[str, Any]]:
    """Yield the edge of each state, to its children or to itself."""
    probabilities = tree.probability.tolist()
    # siblings are adjacent, so the children of a state are one slice
    first = np.searchsorted(tree.parent, np.arange(len(tree) + 1)).tolist()
    for uid, children in enumerate(pairwise(first)):
        yield {
            "location": f"s{uid}",
            "destinations": [
                {"location": f"s{child}", "probability": {"exp": probabilities[child]}}
                for child in range(*children)
            ]
            or [{"location": f"s{uid}"}],
        }
