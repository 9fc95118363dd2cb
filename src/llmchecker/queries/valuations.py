"""The truth values that the atoms of a query can have together in an unknown text.

Each quantifier gives a text one integer within the range that it declares. So `gender > 0` and
`gender < 0` are never both true.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from llmchecker.errors import LLMCheckerError
from llmchecker.queries.formulas import STEP, Arithmetic, Atom, Number, Operation, Variable

Range = tuple[int | None, ...]
"""The least and the greatest score of a quantifier, None for no limit; then any final scores.

A text keeps a final score, whatever follows it. (0, 2, 0) are the scores from 0 to 2, of which 0 is
final.
"""

MAX_ENUMERATED = 100_000
"""The largest number of combinations of scores that are tried one by one."""


class TooManyValuations(LLMCheckerError):
    """Atoms have more combinations of truth values than the caller can use."""


def valuations(
    atoms: Sequence[Atom],
    step: int,
    ranges: Mapping[str, Range],
    most: int = MAX_ENUMERATED,
) -> np.ndarray:
    """The truth values that atoms can have together in a text of `step` tokens.

    Atoms over one quantifier are tried on every score that makes a difference. Where that cannot be
    done (products of an unbounded quantifier, too many scores), every combination counts as
    possible. Bounds are then wider, never wrong.

    Args:
        atoms: in the order of the columns.
        step: the number of tokens of the text.
        ranges: the declared range of each quantifier that the atoms name.
        most: the largest number of rows that the caller can use.

    Returns:
        (m, atoms) bool, distinct rows.

    Raises:
        TooManyValuations: there are more than `most`.
    """
    if not atoms:
        return np.empty((1, 0), dtype=bool)
    groups = _groups(atoms)
    tables = [_table([atoms[i] for i in group], step, ranges, most) for group in groups]
    if math.prod(map(len, tables)) > most:
        raise TooManyValuations(f"{len(atoms)} atoms have more than {most} truth values together")
    order = np.argsort(list(itertools.chain(*groups)), kind="stable")
    rows = [np.concatenate(parts)[order] for parts in itertools.product(*tables)]
    return np.unique(np.array(rows, dtype=bool).reshape(len(rows), len(atoms)), axis=0)


def _groups(atoms: Sequence[Atom]) -> list[list[int]]:
    """The atoms' positions in groups: two atoms that share a quantifier are in one group."""
    groups: list[tuple[set[str], list[int]]] = []
    for number, atom in enumerate(atoms):
        names, members = set(atom.variables - {STEP}), [number]
        apart = []
        for other_names, other_members in groups:
            if names & other_names:
                names |= other_names
                members = other_members + members
            else:
                apart.append((other_names, other_members))
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def _table(atoms: Sequence[Atom], step: int, ranges: Mapping[str, Range], most: int) -> np.ndarray:
    """The truth values that atoms over the same quantifiers can have together."""
    names = sorted(frozenset().union(*(atom.variables for atom in atoms)) - {STEP})
    scores = [_telling_scores(name, atoms, step, ranges[name]) for name in names]
    telling = [column for column in scores if column is not None]
    if len(telling) < len(scores) or math.prod(map(len, telling)) > MAX_ENUMERATED:
        if 2 ** len(atoms) > most:
            raise TooManyValuations(f"{len(atoms)} atoms over the same quantifiers")
        return np.array(list(itertools.product([False, True], repeat=len(atoms))))
    grid = np.meshgrid(*telling, indexing="ij") if names else []
    columns = {name: axis.ravel() for name, axis in zip(names, grid, strict=True)}
    size = len(columns[names[0]]) if names else 1
    columns[STEP] = np.full(size, step)
    return np.unique(np.column_stack([atom.holds(columns) for atom in atoms]), axis=0)


def _telling_scores(
    name: str, atoms: Sequence[Atom], step: int, limits: Range
) -> np.ndarray | None:
    """Scores of a quantifier that together show every combination of truths of the atoms.

    A small range is returned whole. For a large one these are the scores around the points at which
    an atom changes its truth. That takes atoms which are linear and name this quantifier alone; for
    any other atom the answer is None.
    """
    low, high = limits = limits[:2]
    if low is not None and high is not None and high - low < MAX_ENUMERATED:
        return np.arange(low, high + 1)
    around = {0}
    for atom in atoms:
        if atom.variables - {STEP} != {name}:
            return None
        difference = Operation("-", atom.left, atom.right)
        if _degree(difference, name) > 1:
            return None
        at_zero, at_one = (_value(difference, {STEP: step, name: score}) for score in (0, 1))
        if at_one != at_zero:
            root = -at_zero // (at_one - at_zero)
            around |= {root - 1, root, root + 1, root + 2}
    around |= {limit for limit in limits if limit is not None}
    telling = [
        score
        for score in sorted(around)
        if (low is None or score >= low) and (high is None or score <= high)
    ]
    # NumPy would turn whole numbers beyond int64 into floats
    return np.array(telling, dtype=object)


def _degree(expression: Arithmetic, name: str) -> int:
    match expression:
        case Operation("*", left, right):
            return _degree(left, name) + _degree(right, name)
        case Operation(_, left, right):
            return max(_degree(left, name), _degree(right, name))
        case Variable(other):
            return int(other == name)
        case Number():
            return 0


def _value(expression: Arithmetic, values: Mapping[str, int]) -> int:
    match expression:
        case Number(value):
            return value
        case Variable(name):
            return values[name]
        case Operation("+", left, right):
            return _value(left, values) + _value(right, values)
        case Operation("-", left, right):
            return _value(left, values) - _value(right, values)
        case Operation("*", left, right):
            return _value(left, values) * _value(right, values)
