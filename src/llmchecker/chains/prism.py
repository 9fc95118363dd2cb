"""The chain as a program in the PRISM language, for people and as a second route to each answer.

A probability is printed as the shortest decimal that reads back as the same float64. Storm 2.0 has
a reader of decimals of its own. It may be off by 2 units in the last place, and it refuses numbers
between 0 and 2.2e-308. It drops a probability of exactly 0, and the state that only this leads to.

Storm's front end evaluates the guard of every command in every state, so that building a model
takes time that grows with the product of states and commands. Three ways to make it faster were
measured on random trees of 1,000 to 30,000 states, of which one in three to six goes on (Storm
2.0.0, one core):

- One command for all leaves, instead of one for each leaf. Parsing and building 1,000, 3,000,
  10,000 and 30,000 states takes 0.2, 0.6, 3.2 and 15.7 s; with a command for each leaf the first
  three took 0.2, 1.0 and 6.9 s. This module writes programs in this way. Without it a tree of
  174,000 states with 14,500 texts that go on would need twelve times as many evaluations of guards.
- Guards that name the step before the uid, or a module for each step over global variables. Neither
  makes a difference (0.63 and 0.62 s against 0.58 s for 3,000 states).
- JANI with a location for each state. It takes 0.08, 0.26, 1.0, 3.4 and 12 s for 1,000 to 100,000
  states, which is almost linear. See `jani`.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from llmchecker.chains.markov_chain import require_finished
from llmchecker.errors import UnknownName
from llmchecker.files import written_with_checksum
from llmchecker.queries.formulas import STEP, Atom, Literal, is_variable_name
from llmchecker.trees.text_tree import Kind, TextTree

_HEADER = """\
// The bounded text generation process of a language model.
// model: {model!r}
// start string: {start!r}
// {truncation}
// kind: 0 is a text, 1 the rest (all tokens that were not selected), 2 a text that has ended.
// In rest the quantifiers are unknown; what stands there is a filler. An atom over a quantifier
// must be asked as (kind != 1 & gender > 0), which is false in rest.
dtmc
"""


def prism_text(tree: TextTree, scores: Mapping[str, np.ndarray]) -> str:
    """Return the program: a guarded command for each state that goes on, labels and rewards.

    The labels are "rest" and "end". The rewards of a quantifier are its scores, and 0 in `rest`, so
    that R{"gender"}=? [ I=3 ] asks for an expected score.

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
            raise UnknownName(f"a quantifier named {name!r} cannot be a variable in PRISM")
    columns = {"uid": np.arange(len(tree)), STEP: tree.step, "kind": tree.kind}
    ranges = {"uid": (0, len(tree) - 1), STEP: (0, tree.truncation.length), "kind": (0, max(Kind))}
    known = tree.kind != Kind.REST
    for name, column in scores.items():
        ranges[name] = int(column[known].min()), int(column[known].max())
        columns[name] = np.where(known, column, np.clip(0, *ranges[name]))
    lines = [
        _HEADER.format(model=tree.model, start=tree.start, truncation=tree.truncation),
        "module text_generation",
        *(
            f"  {name} : [{low}..{high}] init {columns[name][0]};"
            for name, (low, high) in ranges.items()
        ),
        "",
        *_commands(tree, columns),
        "endmodule",
        "",
        f'label "rest" = kind = {Kind.REST.value};',
        f'label "end" = kind = {Kind.END.value};',
        *(f'rewards "{name}" kind != {Kind.REST.value} : {name}; endrewards' for name in scores),
    ]
    return "\n".join(lines) + "\n"


def write_prism(tree: TextTree, scores: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Write `prism_text` to a file, as UTF-8, with its checksum beside it."""
    with written_with_checksum(path) as partial:
        partial.write_text(prism_text(tree, scores), encoding="utf-8", newline="\n")


def in_prism(proposition: Atom | Literal) -> str:
    """Return an expression for an atom. It is false in `rest` if the atom is unknown there."""
    if isinstance(proposition, Literal):
        return str(proposition)
    if proposition.over_step_only:
        return f"({proposition})"
    return f"(kind != {Kind.REST.value} & {proposition})"


def _commands(tree: TextTree, columns: Mapping[str, np.ndarray]) -> list[str]:
    """Return a command for each state that goes on, guarded by `uid` alone, and one for all leaves.

    The leaves are the texts at the last step, rest and end.
    """
    names = list(columns)
    last = int(tree.step.max())
    leaf = (tree.kind != Kind.TEXT) | (tree.step == last)
    branches = [
        f"{probability!r} : " + " & ".join(f"({n}'={v})" for n, v in zip(names, row, strict=True))
        for probability, *row in zip(
            tree.probability.tolist(),
            *(column.tolist() for column in columns.values()),
            strict=True,
        )
    ]
    # siblings are adjacent, so the children of a state are one slice
    ongoing = np.flatnonzero(~leaf)
    first, behind = (
        np.searchsorted(tree.parent, ongoing, side=side).tolist() for side in ("left", "right")
    )
    updates = [" + ".join(branches[i:j]) for i, j in zip(first, behind, strict=True)]
    return [
        *(f"  [] uid={uid} -> {update};" for uid, update in zip(ongoing, updates, strict=True)),
        f"  [] kind != {Kind.TEXT.value} | step = {last} -> true;",
    ]
