"""What a path formula still demands, state by state, is what its meaning says."""

import itertools

import pytest
from helpers import oracle

from llmchecker.errors import CheckFailed
from llmchecker.properties.logic.ast import Atom
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.progression import Progression

PATHS = [
    "F a = 1",
    "G<=1 a = 1",
    "F<=2 (a = 1 & (X b = 1))",
    "(a = 1) U<=1 (b = 1)",
    "!((a = 1) U<=1 (b = 1))",
    "(a = 1) W (b = 1)",
    "!((a = 1) W (b = 1))",
    "(a = 1) R (b = 1)",
    "!((a = 1) R (X (b = 1)))",
    "(G (F a = 1)) => (F (G b = 1))",
]
FORMULAS = [
    ("F", None, ("atom", "a", "=", 1)),
    ("G", 1, ("atom", "a", "=", 1)),
    ("F", 2, ("&", ("atom", "a", "=", 1), ("X", ("atom", "b", "=", 1)))),
    ("U", 1, ("atom", "a", "=", 1), ("atom", "b", "=", 1)),
    ("!", ("U", 1, ("atom", "a", "=", 1), ("atom", "b", "=", 1))),
    ("W", ("atom", "a", "=", 1), ("atom", "b", "=", 1)),
    ("!", ("W", ("atom", "a", "=", 1), ("atom", "b", "=", 1))),
    ("R", ("atom", "a", "=", 1), ("atom", "b", "=", 1)),
    ("!", ("R", ("atom", "a", "=", 1), ("X", ("atom", "b", "=", 1)))),
    (
        "=>",
        ("G", None, ("F", None, ("atom", "a", "=", 1))),
        ("F", None, ("G", None, ("atom", "b", "=", 1))),
    ),
]


@pytest.mark.parametrize(("path", "formula"), list(zip(PATHS, FORMULAS, strict=True)))
def test_every_short_path_is_decided_as_it_is_defined(path, formula):
    """On every path of four states, the last of which loops, progression gives the truth."""
    asked = parse(f"P=? [ {path} ]")
    for columns in itertools.product(itertools.product((0, 1), repeat=4), repeat=2):
        a, b = columns
        tree = oracle.Tree([-1, 0, 1, 2], [1.0] * 4, [0] * 4, {"a": a, "b": b})
        progression = Progression(asked.root.path)
        demand = progression.initial_obligation
        for i in range(3):
            demand = progression.progress(demand, valuation(asked.atoms, a[i], b[i]))
        held = progression.holds_under_stutter(demand, valuation(asked.atoms, a[3], b[3]))
        assert held is tree.holds(formula, (0, 1, 2, 3))


def valuation(atoms: tuple[Atom, ...], a: int, b: int) -> dict[Atom, bool]:
    """The truth of the atoms where the two variables have these values."""
    values = {"a": a, "b": b}
    return {atom: values[atom.left.name] == atom.right.value for atom in atoms}


def test_too_many_demands_are_refused():
    """A formula that leaves too many alternatives at once is refused, and the message says so."""
    either = [f"((X a = {i}) | (X b = {i}))" for i in range(12)]
    asked = parse(f"P=? [ {' & '.join(either)} ]")
    progression = Progression(asked.root.path)
    with pytest.raises(CheckFailed, match=r"more than \d+ alternatives; simplify"):
        progression.progress(progression.initial_obligation, dict.fromkeys(asked.atoms, False))
