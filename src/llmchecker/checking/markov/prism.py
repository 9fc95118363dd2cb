"""The chain as a PRISM program, readable and for a second computation.

A probability is printed as the shortest decimal that reads back as the same float64. Storm 2.0 has
its own reader of decimals. The result may be off by 2 units in the last place, and the reader
rejects numbers between 0 and 2.2e-308. It drops a probability of exactly 0, and the state that only
this leads to.

Storm's front end evaluates the guard of every command in every state. So the time to build a model
grows with the product of states and commands, and all leaves share one command. Guards that name
the step before the uid, or a module for each step, make no difference. A JANI model with a location
for each state takes almost linear time (see `jani`).
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from llmchecker.checking.markov.modeling_languages import (
    Answers,
    check_variable_names,
    format_known_atom,
)
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.properties.logic.ast import STEP, Atom, Literal
from llmchecker.trees.text_tree import StateKind, TextTree
from llmchecker.utils.atomic_files import atomic_write_with_checksum

HAS_ENDED = "has_ended"
"""The variable of a conversation that is 1 if the model ended the answer."""

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


def _format_prism(scored: ScoredTree, answers: Answers | None = None) -> str:
    """Return the program: a command for each unfinished text, labels, rewards.

    The labels are "rest" and "end". The rewards of a quantifier are its scores, and 0 in `rest`, so
    that R{"gender"}=? [ I=3 ] is an expected score.

    Args:
        scored: the states, their probabilities and their scores.
        answers: for a conversation, whose steps are turns; None for texts.

    Raises:
        UnknownName: the name of a quantifier cannot be a variable.
    """
    tree, scores = scored.tree, scored.scores
    check_variable_names(scores, "PRISM")
    header = _HEADER.format(model=tree.model, start=tree.start, truncation=tree.truncation)
    ends = (StateKind.END, StateKind.MAX_TOKENS)
    end = " | ".join(f"kind = {kind.value}" for kind in ends)
    variables = dict(scores)
    if answers is not None:
        header = "".join(f"// {line}\n" for line in answers.description) + "dtmc\n"
        end = f"{HAS_ENDED} = 1"
        variables[HAS_ENDED] = answers.has_ended.astype(np.int64)
    columns = {"uid": np.arange(len(tree)), STEP: tree.step, "kind": tree.kind}
    ranges = {
        "uid": (0, len(tree) - 1),
        STEP: (0, tree.truncation.length),
        "kind": (0, max(StateKind)),
    }
    is_known = ~scored.is_rest
    for name, column in variables.items():
        # the score of `rest` is unknown, so it must not widen the range
        ranges[name] = int(column[is_known].min()), int(column[is_known].max())
        # the filler must be within the declared range, even if 0 is not
        columns[name] = np.where(is_known, column, np.clip(0, *ranges[name]))
    lines = [
        header,
        "module text_generation",
        *(
            f"  {name} : [{low}..{high}] init {columns[name][0]};"
            for name, (low, high) in ranges.items()
        ),
        "",
        *_build_commands(tree, columns),
        "endmodule",
        "",
        f'label "rest" = kind = {StateKind.REST.value};',
        f'label "end" = {end};',
        *(
            f'rewards "{name}" kind != {StateKind.REST.value} : {name}; endrewards'
            for name in scores
        ),
    ]
    return "\n".join(lines) + "\n"


def write_prism(scored: ScoredTree, path: str | Path, answers: Answers | None = None) -> None:
    """Write `_format_prism` to a UTF-8 file, with a checksum file next to it."""
    with atomic_write_with_checksum(path) as partial:
        partial.write_text(_format_prism(scored, answers), encoding="utf-8", newline="\n")


def format_prism_atom(proposition: Atom | Literal) -> str:
    """Return an expression for an atom: false in `rest` if it is unknown there."""
    return format_known_atom(proposition, f"kind != {StateKind.REST.value}")


def _build_commands(tree: TextTree, columns: Mapping[str, np.ndarray]) -> list[str]:
    """Return a command for each unfinished text, and one for all leaves.

    The guard of an unfinished text names `uid` alone.

    The leaves are the texts at the last step, rest and end.
    """
    names = list(columns)
    last_step = int(tree.step.max())
    is_leaf = (tree.kind != StateKind.TEXT) | (tree.step == last_step)
    branches = [
        f"{probability!r} : "
        + " & ".join(f"({name}'={value})" for name, value in zip(names, row, strict=True))
        for probability, *row in zip(
            tree.probability.tolist(),
            *(column.tolist() for column in columns.values()),
            strict=True,
        )
    ]
    # siblings are adjacent, so the children of a state are one slice
    unfinished = np.flatnonzero(~is_leaf)
    starts, stops = (
        np.searchsorted(tree.parent, unfinished, side=side).tolist() for side in ("left", "right")
    )
    updates = [" + ".join(branches[i:j]) for i, j in zip(starts, stops, strict=True)]
    return [
        *(f"  [] uid={uid} -> {update};" for uid, update in zip(unfinished, updates, strict=True)),
        # one command for all leaves: Storm evaluates every guard in every state
        f"  [] kind != {StateKind.TEXT.value} | step = {last_step} -> true;",
    ]
