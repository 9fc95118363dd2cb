"""LTL on transition systems, whose paths are chosen freely or at random."""

from collections.abc import Mapping

import numpy as np

from llmchecker.checking import storm
from llmchecker.checking.markov.sparse_matrix import TransitionMatrix
from llmchecker.errors import CheckFailed


def on_paths(
    row_pointers: np.ndarray, columns: np.ndarray, labels: Mapping[str, np.ndarray], path: str
) -> tuple[np.ndarray, np.ndarray]:
    """Tell where some path, and where every path, of a transition system satisfies LTL.

    Each successor is a choice of an MDP. Its best and its worst scheduler for an LTL formula need
    no chance and so walk one path: Pmax and Pmin are 0 or 1.

    Args:
        row_pointers: (n + 1,) int64; the successors of a state s, at least one, are the entries
            row_pointers[s] up to row_pointers[s + 1] of `columns`.
        columns: (m,) int64, rising within a row.
        labels: (n,) bool each, by name: the states that have a label.
        path: an LTL formula over the quoted labels, as Storm reads it.

    Returns:
        (n,) bool twice: where some path satisfies it, where every path does.

    Raises:
        CheckFailed: Storm gave no answer.
    """
    row_pointers, columns, labels = _with_sink(row_pointers, columns, labels)
    rows = np.arange(len(columns))
    choices = TransitionMatrix(row_pointers[:-1], rows, columns, np.ones(len(columns)))
    model = storm.build_model(choices, labels)
    # of an MDP, P compares under every scheduler: some path satisfies it unless Pmax < 1
    some, every = ~_states(model, f"P<1 [ {path} ]"), _states(model, f"P>=1 [ {path} ]")
    return some[:-1], every[:-1]


def at_random(
    row_pointers: np.ndarray, columns: np.ndarray, labels: Mapping[str, np.ndarray], path: str
) -> tuple[np.ndarray, np.ndarray]:
    """Tell where LTL holds with probability above 0, and where almost surely, on random paths.

    Each successor of a state is equally likely. Arguments and errors are those of `on_paths`.

    Returns:
        (n,) bool twice: where its probability is above 0, where it is 1.
    """
    row_pointers, columns, labels = _with_sink(row_pointers, columns, labels)
    degrees = np.diff(row_pointers)
    states = np.arange(len(degrees))
    values = np.repeat(1 / degrees, degrees)
    chain = TransitionMatrix(states, np.repeat(states, degrees), columns, values)
    model = storm.build_model(chain, labels)
    some, surely = _states(model, f"P>0 [ {path} ]"), _states(model, f"P>=1 [ {path} ]")
    return some[:-1], surely[:-1]


def _with_sink(
    row_pointers: np.ndarray, columns: np.ndarray, labels: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """A transition system with one more state, the last, that loops and that nothing else enters.

    Storm counts the states of its product with an automaton by the targets of transitions, and
    fails where no transition enters the last one.
    """
    sink = len(row_pointers) - 1
    return (
        np.append(row_pointers, len(columns) + 1),
        np.append(columns, sink),
        {name: np.append(states, False) for name, states in labels.items()},
    )


def _states(model: storm.Model, formula: str) -> np.ndarray:
    with storm.translate_errors(CheckFailed, f"gives no answer to {formula}"):
        return storm.compute_truth_values(model, formula, np.arange(model.nr_states))
