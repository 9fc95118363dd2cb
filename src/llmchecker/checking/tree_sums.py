"""Probabilities of path formulas as sums over the texts of a tree."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from llmchecker.checking.decided_mass import UNDECIDED, DecidedMass, Mass, decide_texts
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.probabilities import MIN_NORMAL, Evaluator, Probabilities
from llmchecker.properties.logic.ast import (
    STEP,
    Atom,
    Connective,
    Formula,
    Label,
    Number,
    Temporal,
    Variable,
    subformulas,
)
from llmchecker.properties.logic.monitor import Monitor

_REST = '"rest"'
"""The variable that is 1 in `rest` and else 0; no quantifier can have its name."""
_KNOWN_IN_REST = frozenset({STEP, _REST})
"""The variables whose values are known in `rest`."""


class PathSums(Evaluator):
    """An evaluator of the path formulas that single texts decide, on any tree.

    Args:
        find_mass: returns the decided mass of a path formula.
    """

    def __init__(self, find_mass: Callable[[Formula], DecidedMass]) -> None:
        self._find_mass = find_mass

    def compute_probabilities(self, path: Formula, minimize: bool) -> Probabilities:
        """Compute the least or the greatest probability of a path formula.

        Raises:
            InvalidQuery: single texts do not decide the formula, or it has too many atoms.
            CheckFailed: the formula has too many obligations.
        """
        mass = self._find_mass(path)
        if minimize:
            share, others, ends = mass.satisfied, mass.violated + mass.undecided, mass.least
        else:
            share, others, ends = mass.satisfied + mass.undecided, mass.violated, mass.greatest
        value = 1.0 if others.is_empty else min(share.value, 1.0)
        return Probabilities(
            *map(np.atleast_1d, (value, ends.lower, ends.upper, share.is_empty, others.is_empty))
        )


class TreeSums(PathSums):
    """An evaluator of path formulas on a tree that was grown level by level.

    For the whole model anything may follow in a `rest`, so that it decides nothing. In the bounded
    process a `rest` is a terminal state in which atoms over quantifiers are false.

    Args:
        scored: the texts.
        is_whole_model: whether to bound the whole model, and not to evaluate the bounded process.
    """

    def __init__(self, scored: ScoredTree, *, is_whole_model: bool) -> None:
        super().__init__(self.split_mass)
        self._scored, self._is_whole_model = scored, is_whole_model
        self._masses: dict[Formula, DecidedMass] = {}
        self.is_limited = False
        """Whether a limit of the monitors left a text undecided that may be decided."""

    def split_mass(self, path: Formula) -> DecidedMass:
        """Split the mass of the tree by the truth of a path formula."""
        if path not in self._masses:
            self._masses[path] = sum_masses(self._scored, self.decide(path))
        return self._masses[path]

    def decide(self, path: Formula) -> np.ndarray:
        """Decide a path formula on every state of the tree.

        Returns:
            (n,) int8: 0, 1 or `UNDECIDED`. A leaf repeats for ever, so that every leaf is decided
            but for a `rest` of the whole model.

        Raises:
            UnknownName: the formula names a variable that the tree does not have.
            CheckFailed: the formula has too many obligations.
        """
        scored, tree = self._scored, self._scored.tree
        path = _replace_rest_label(path)
        columns = {**scored.variables, _REST: scored.is_rest.astype(np.int64)}
        names = {name for f in subformulas(path) if isinstance(f, Atom) for name in f.variables}
        scored.check_variables(names - {_REST})
        ranges = {**dict.fromkeys(names, (None, None)), **scored.ranges, _REST: (0, 1)}
        monitor = Monitor(path, tree.truncation.length, ranges)
        letters = monitor.compute_letters(columns, scored.is_end)
        # in `rest` the scores are unknown, and no score is final
        letters[scored.is_rest] &= sum(
            1 << bit for bit, atom in enumerate(monitor.atoms) if atom.variables <= _KNOWN_IN_REST
        )
        obligations = np.full(len(tree), monitor.initial_obligation)
        truth = np.full(len(tree), UNDECIDED, dtype=np.int8)
        for step, level in enumerate([slice(0, 1), *tree.levels]):
            if step:
                # still the obligations after the parents' own step
                obligations[level] = obligations[tree.parent[level]]
            truth[level], obligations[level], _ = decide_texts(
                monitor, step, obligations[level], letters[level], ~tree.internal[level]
            )
        self.is_limited = self.is_limited or monitor.is_limited
        if self._is_whole_model:
            truth[scored.is_rest] = UNDECIDED
        else:
            _withdraw_refuted_decisions(scored, truth)
        return truth


def _replace_rest_label(formula: Formula) -> Formula:
    """Replace the label "rest", which no monitor knows, by an atom over its variable."""
    match formula:
        case Label("rest"):
            return Atom(Variable(_REST), "=", Number(1))
        case Connective(_, operands) | Temporal(_, operands):
            return replace(formula, operands=tuple(map(_replace_rest_label, operands)))
    return formula


def _withdraw_refuted_decisions(scored: ScoredTree, truth: np.ndarray) -> None:
    """Withdraw the decisions that a `rest` of the bounded process refutes.

    In `rest` both `gender > 0` and `gender <= 0` are false, which no text of the model allows.
    """
    tree = scored.tree
    for value in (0, 1):
        has_value = ~tree.internal & (truth == value)
        for level in reversed(tree.levels):
            is_reached = has_value[level] & (tree.probability[level] > 0)
            has_value[tree.parent[level][is_reached]] = True
        truth[tree.internal & has_value & (truth == 1 - value)] = UNDECIDED


def sum_masses(scored: ScoredTree, truth: np.ndarray) -> DecidedMass:
    """Add up the masses of the first states that decide a path formula, or never do.

    Args:
        scored: the texts.
        truth: (n,) the truth of the states; see `TreeSums.decide`.
    """
    tree = scored.tree
    is_decided = truth != UNDECIDED
    # an undecided text has children, which have its probability
    is_term = scored.find_reached(is_decided) & (is_decided | ~tree.internal)

    def add(value: int) -> Mass:
        rows = np.flatnonzero(is_term & (truth == value))
        if len(rows) == 0:
            return Mass(0.0, scored.relative_error)
        probability = tree.path_probability
        parents = tree.parent[rows[scored.is_difference[rows]]]
        return Mass(
            math.fsum(probability[rows].tolist()),
            scored.relative_error,
            # a small product may be computed as 0
            MIN_NORMAL + scored.step_rest_error * math.fsum(probability[parents].tolist()),
        )

    # the limit of the relative error includes by how much children fail to add up to 1
    return DecidedMass(add(1), add(0), add(UNDECIDED), scored.relative_error)
