"""Valuations: joint truth values of a query's atoms in an unknown text.

Each quantifier gives a text one integer within its declared range. So `gender > 0` and
`gender < 0` are never both true.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from llmchecker.errors import LLMCheckerError
from llmchecker.properties.logic.ast import (
    STEP,
    Arithmetic,
    Atom,
    Number,
    Operation,
    Variable,
    evaluate_arithmetic,
)

ScoreRange = tuple[int | None, int | None, *tuple[int, ...]]
"""Minimum and maximum score (None for no limit), then final scores.

A text keeps a final score in every continuation. Example: (0, 2, 0) has the scores 0 to 2, of
which 0 is final.
"""

_MAX_SCORE_COMBINATIONS = 100_000
"""Maximum number of score combinations to evaluate."""


class TooManyValuations(LLMCheckerError):
    """Error for atoms with more joint truth values than the caller can use."""


def enumerate_valuations(
    atoms: Sequence[Atom],
    step: int,
    ranges: Mapping[str, ScoreRange],
    max_rows: int = _MAX_SCORE_COMBINATIONS,
) -> np.ndarray:
    """Return the possible joint truth values of atoms in a text of `step` tokens.

    Atoms that share a quantifier are evaluated at every critical score. Where that is impossible
    (products of an unbounded quantifier, too many scores), every combination counts as possible.
    Bounds are then wider, never wrong.

    Args:
        atoms: the atoms, in the order of the columns.
        step: number of tokens of the text.
        ranges: declared range of each quantifier of the atoms.
        max_rows: maximum number of rows that the caller can use.

    Returns:
        (m, atoms) bool, distinct rows.

    Raises:
        TooManyValuations: the number of rows exceeds `max_rows`.
    """
    # one row without columns: the empty valuation is possible
    if not atoms:
        return np.empty((1, 0), dtype=bool)
    groups = _group_atoms(atoms)
    tables = [
        _build_truth_table([atoms[i] for i in group], step, ranges, max_rows) for group in groups
    ]
    # groups share no quantifier, so all combinations of their rows are possible
    if math.prod(map(len, tables)) > max_rows:
        raise TooManyValuations(
            f"{len(atoms)} atoms have more than {max_rows} truth values together"
        )
    # the groups' atoms return to the caller's order
    order = np.argsort(list(itertools.chain(*groups)), kind="stable")
    rows = [np.concatenate(combination)[order] for combination in itertools.product(*tables)]
    return np.unique(np.array(rows, dtype=bool).reshape(len(rows), len(atoms)), axis=0)


def _group_atoms(atoms: Sequence[Atom]) -> list[list[int]]:
    """Group the positions of atoms that share quantifiers."""
    groups: list[tuple[set[str], list[int]]] = []
    for index, atom in enumerate(atoms):
        names, members = set(atom.variables - {STEP}), [index]
        separate_groups = []
        for other_names, other_members in groups:
            # a common quantifier joins two groups
            if names & other_names:
                names |= other_names
                members = other_members + members
            else:
                separate_groups.append((other_names, other_members))
        groups = [*separate_groups, (names, members)]
    return [members for _, members in groups]


def _build_truth_table(
    atoms: Sequence[Atom], step: int, ranges: Mapping[str, ScoreRange], max_rows: int
) -> np.ndarray:
    """Return the possible joint truth values of atoms over the same quantifiers."""
    names = sorted(frozenset().union(*(atom.variables for atom in atoms)) - {STEP})
    scores = [select_critical_scores(name, atoms, step, ranges[name]) for name in names]
    critical_scores = [column for column in scores if column is not None]
    # None for a quantifier without critical scores: every combination counts as possible
    if (
        len(critical_scores) < len(scores)
        or math.prod(map(len, critical_scores)) > _MAX_SCORE_COMBINATIONS
    ):
        if 2 ** len(atoms) > max_rows:
            raise TooManyValuations(f"{len(atoms)} atoms over the same quantifiers")
        return np.array(list(itertools.product([False, True], repeat=len(atoms))))
    grid = np.meshgrid(*critical_scores, indexing="ij") if names else []
    columns = {name: axis.ravel() for name, axis in zip(names, grid, strict=True)}
    size = len(columns[names[0]]) if names else 1
    columns[STEP] = np.full(size, step)
    return np.unique(np.column_stack([atom.evaluate(columns) for atom in atoms]), axis=0)


def select_critical_scores(
    name: str, atoms: Sequence[Atom], step: int, limits: ScoreRange
) -> np.ndarray | None:
    """Return scores that cover all joint truth values of the atoms.

    A small range is returned in full. For a large range, the result is the scores around the points
    at which an atom changes its truth value. This needs linear atoms of this quantifier alone; for
    any other atom the result is None.
    """
    low, high = limits = limits[:2]
    if low is not None and high is not None and high - low < _MAX_SCORE_COMBINATIONS:
        return np.arange(low, high + 1)
    candidates = {0}
    for atom in atoms:
        if atom.variables - {STEP} != {name}:
            return None
        difference = Operation("-", atom.left, atom.right)
        if _compute_degree(difference, name) > 1:
            return None
        value_at_zero, value_at_one = (
            evaluate_arithmetic(difference, {STEP: step, name: score}) for score in (0, 1)
        )
        # a linear difference changes its sign at one root, rounded down here
        if value_at_one != value_at_zero:
            root = -value_at_zero // (value_at_one - value_at_zero)
            candidates |= {root - 1, root, root + 1, root + 2}
    # the limits of the range are critical too
    candidates |= {limit for limit in limits if limit is not None}
    critical_scores = [
        score
        for score in sorted(candidates)
        if (low is None or score >= low) and (high is None or score <= high)
    ]
    # NumPy would convert integers beyond int64 to floats
    return np.array(critical_scores, dtype=object)


def _compute_degree(expression: Arithmetic, name: str) -> int:
    match expression:
        case Operation("*", left, right):
            return _compute_degree(left, name) + _compute_degree(right, name)
        case Operation("min" | "max" | "//", left, right):
            # not linear if the variable is in it
            return 2 * (_compute_degree(left, name) + _compute_degree(right, name))
        case Operation(_, left, right):
            return max(_compute_degree(left, name), _compute_degree(right, name))
        case Variable(variable):
            return int(variable == name)
        case Number():
            return 0
