"""The chain as a JANI model, which Storm reads in about linear time.

JANI (Budde et al. 2017, "JANI: Quantitative Model and Tool Interaction") has a construct that PRISM
lacks: an automaton with locations. Here each state is a location that holds its variables as
transient values. Storm finds the edges of a location directly, while for PRISM it evaluates the
guard of every command in every state. So the time grows almost in proportion to the states.

Storm reads the probabilities of a JANI file as it does those of a PRISM file, with the same limits
(see `prism`).
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from llmchecker.checking.markov.modeling_languages import (
    Answers,
    check_variable_names,
    format_known_atom,
)
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.properties.logic.ast import STEP, Atom, Literal
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.atomic_files import atomic_write_with_checksum

_REST_VALUE = 0
"""The value of a quantifier in `rest`, which adds 0 to an expected score."""


def _format_jani(scored: ScoredTree, answers: Answers | None = None) -> str:
    """Return the model, with a line for each location and for each edge.

    A location is named `s` followed by the state's uid. The Boolean variables `rest` and `end`
    serve as labels. The variable of a quantifier is also its reward, so that R{"gender"}=? [ I=3 ]
    is an expected score.

    Args:
        scored: the states, their probabilities and their scores.
        answers: for a conversation, whose steps are turns; None for texts.

    Raises:
        UnknownName: the name of a quantifier cannot be a variable.
    """
    tree, scores = scored.tree, scored.scores
    check_variable_names(scores, "JANI")
    is_known = ~scored.is_rest
    columns = {STEP: tree.step} | {
        name: np.where(is_known, column, _REST_VALUE) for name, column in scores.items()
    }
    description = (
        "The bounded text generation process of a language model: "
        f"model {tree.model!r}, start string {tree.start!r}, {tree.truncation}. In rest the "
        f"quantifiers are unknown; they hold {_REST_VALUE} there."
    )
    is_end = scored.is_end
    if answers is not None:
        description, is_end = " ".join(answers.description), answers.has_ended
    labels = {"rest": ~is_known, "end": is_end}
    header = {
        "jani-version": 1,
        "name": "text_generation",
        "metadata": {"description": description},
        "type": "dtmc",
        "features": ["derived-operators"],
        "variables": [
            *(_build_integer_variable(name, column) for name, column in columns.items()),
            *(_build_label(name) for name in labels),
        ],
        "system": {"elements": [{"automaton": "text_generation"}]},
        "properties": [],
    }
    locations = ",\n".join(map(json.dumps, _iter_locations(columns, labels)))
    edges = ",\n".join(map(json.dumps, _iter_edges(tree)))
    return (
        # one line for each location and edge, which json.dumps cannot format
        json.dumps(header, indent=1).removesuffix("\n}")
        + ',\n "automata": [{"name": "text_generation", "initial-locations": ["s0"], "locations": ['
        + f'\n{locations}\n], "edges": [\n{edges}\n]}}]\n}}\n'
    )


def write_jani(scored: ScoredTree, path: str | Path, answers: Answers | None = None) -> None:
    """Write `_format_jani` to a UTF-8 file, with a checksum file next to it."""
    with atomic_write_with_checksum(path) as partial:
        partial.write_text(_format_jani(scored, answers), encoding="utf-8", newline="\n")


def format_jani_atom(proposition: Atom | Literal) -> str:
    """Return an expression for an atom: false in `rest` if it is unknown there."""
    return format_known_atom(proposition, "!rest")


def _build_integer_variable(name: str, column: np.ndarray) -> dict[str, Any]:
    # the range must contain the initial value too
    low, high = min(int(column.min()), _REST_VALUE), max(int(column.max()), _REST_VALUE)
    return {
        "name": name,
        "type": {"kind": "bounded", "base": "int", "lower-bound": low, "upper-bound": high},
        "transient": True,
        "initial-value": _REST_VALUE,
    }


def _build_label(name: str) -> dict[str, Any]:
    return {"name": name, "type": "bool", "transient": True, "initial-value": False}


def _iter_locations(
    columns: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray]
) -> Iterator[dict[str, Any]]:
    """Yield the location of each state, without initial values of variables."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    marks = zip(*(column.tolist() for column in labels.values()), strict=True)
    for uid, (row, mark) in enumerate(zip(rows, marks, strict=True)):
        values = [
            {"ref": name, "value": value}
            for name, value in zip(columns, row, strict=True)
            # a transient variable without a value here has its initial value
            if value != _REST_VALUE
        ]
        values += [
            {"ref": name, "value": True}
            for name, is_set in zip(labels, mark, strict=True)
            if is_set
        ]
        yield {"name": f"s{uid}"} | ({"transient-values": values} if values else {})


def _iter_edges(tree: TextTree) -> Iterator[dict[str, Any]]:
    """Yield the edge of each state, to its children or to itself."""
    probabilities = tree.probability.tolist()
    # siblings are adjacent, so the children of a state are one slice
    first_children = np.searchsorted(tree.parent, np.arange(len(tree) + 1)).tolist()
    for uid, children in enumerate(pairwise(first_children)):
        yield {
            "location": f"s{uid}",
            "destinations": [
                {"location": f"s{child}", "probability": {"exp": probabilities[child]}}
                for child in range(*children)
            ]
            # a state without children is absorbing
            or [{"location": f"s{uid}"}],
        }
