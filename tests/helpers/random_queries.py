"""Random trees with probabilities like 0.7, and random queries of every kind, for the oracle."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from helpers import oracle
from helpers.trees import by_hand

from llmchecker.trees.text_tree import StateKind, TextTree

NAMES = ("gender", "polarity")
PROBABILITIES = [
    (1.0,),
    (0.7, 0.3),
    (0.7, 0.2, 0.1),
    (0.6, 0.3, 0.1),
    (0.5, 0.5),
    (0.4, 0.3, 0.3),
    (0.99, 0.01),
]
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
THRESHOLDS = [Fraction(n, 10) for n in range(11)] + [Fraction(0), Fraction(1)] * 4
THRESHOLDS += [Fraction(1, 100), Fraction(97, 100), Fraction(63, 100), Fraction(49, 100)]


@dataclass(frozen=True)
class Case:
    """A tree that is whole, the same with some children merged into `rest`, and a query.

    Attributes:
        whole, cut: the trees.
        whole_scores, cut_scores: of each quantifier.
        kind: `path` for P=?, `state` for yes or no, `conditional` or `expected`.
        question: the oracle's formula, the two of a conditional, or a quantifier and a step.
        query: the same as text.
    """

    whole: TextTree
    cut: TextTree
    whole_scores: Mapping[str, np.ndarray]
    cut_scores: Mapping[str, np.ndarray]
    kind: str
    question: tuple
    query: str


def random_case(seed: int) -> Case:
    """Return the case of a seed."""
    chance = random.Random(seed)
    whole, whole_scores = _whole(chance)
    cut, cut_scores = _cut(chance, whole, whole_scores)
    kind = chance.choice(("path", "path", "state", "state", "state", "conditional", "expected"))
    match kind:
        case "path":
            question = _path(chance, 3)
            query = f"P=? [ {oracle.written(question)} ]"
        case "state":
            question = _state(chance, 2)
            query = oracle.written(question)
        case "conditional":
            question = _path(chance, 2), _path(chance, 2)
            query = f"P=? [ {oracle.written(question[0])} || {oracle.written(question[1])} ]"
        case _:
            question = chance.choice(NAMES), chance.randint(0, 4)
            query = f'R{{"{question[0]}"}}=? [ I={question[1]} ]'
    return Case(whole, cut, whole_scores, cut_scores, kind, question, query)


def _whole(chance: random.Random) -> tuple[TextTree, dict[str, np.ndarray]]:
    length = chance.randint(1, 3)
    states: list[tuple[int, float, StateKind]] = []
    texts = [0]
    for _ in range(length):
        grown = []
        for parent in texts:
            for probability in chance.choice(PROBABILITIES):
                kind = StateKind.END if chance.random() < 0.15 else StateKind.TEXT
                states.append((parent, probability, kind))
                grown += [len(states)] if kind is StateKind.TEXT else []
        texts = grown
    tree = by_hand(states, length=length)
    columns = {
        name: np.array([chance.randint(-2, 2) for _ in range(len(tree))], dtype=np.int64)
        for name in NAMES
    }
    return tree, columns


def _cut(
    chance: random.Random, whole: TextTree, columns: Mapping[str, np.ndarray]
) -> tuple[TextTree, dict[str, np.ndarray]]:
    states: list[tuple[int, float, StateKind]] = []
    origin, place, queue = [0], {0: 0}, [0]
    share = chance.choice((0.0, 0.3, 0.6))
    for uid in queue:
        children = np.flatnonzero(whole.parent == uid).tolist()
        dropped = [child for child in children[1:] if chance.random() < share]
        for child in children:
            if child not in dropped:
                place[child] = len(states) + 1
                states.append((place[uid], whole.probability[child], StateKind(whole.kind[child])))
                origin.append(child)
                queue.append(child)
        if dropped:
            # as it is grown: what the others leave, rounded to the decimal that it stands for
            left = round(float(whole.probability[dropped].sum()), 6)
            states.append((place[uid], left, StateKind.REST))
            origin.append(-1)
    of = np.array(origin)
    scores = {name: np.where(of < 0, 99, column[of]) for name, column in columns.items()}
    return by_hand(states, length=whole.truncation.length), scores


def _path(chance: random.Random, depth: int) -> tuple:
    if depth == 0 or chance.random() < 0.1:
        return _proposition(chance)
    bound = chance.choice((None, None, 0, 1, 2, 3, 5))
    one, other = (_path(chance, depth - 1) for _ in range(2))
    operator = chance.choice("XFFGGUUWR!&|>PPEA")
    match operator:
        case "X" | "!":
            return (operator, one)
        case "F" | "G":
            return (operator, bound, one)
        case "U":
            return (operator, bound, one, other)
        case "P":
            return _probability(chance, one)
        case "E" | "A":
            return (operator, one)
    return ("=>" if operator == ">" else operator, one, other)


def _state(chance: random.Random, depth: int) -> tuple:
    if depth == 0 or chance.random() < 0.5:
        path = _path(chance, 2)
        return _probability(chance, path) if chance.random() < 0.6 else (chance.choice("EA"), path)
    operator = chance.choice(("!", "&", "|", "=>"))
    operands = [_state(chance, depth - 1) for _ in range(1 if operator == "!" else 2)]
    return (operator, *operands)


def _probability(chance: random.Random, path: tuple) -> tuple:
    return ("P", chance.choice((">=", ">", "<=", "<")), chance.choice(THRESHOLDS), path)


def _proposition(chance: random.Random) -> tuple:
    draw = chance.random()
    if draw < 0.1:
        return (chance.choice(("true", "false")),)
    if draw < 0.18:
        return ("label", "end")
    if draw < 0.35:
        large = chance.choice((1, 2, 2147483647))
        term = (chance.choice("+-*"), _term(chance), (chance.choice("+*"), _term(chance), large))
        return ("compare", term, chance.choice(COMPARISONS), _term(chance))
    name = chance.choice(("step", *NAMES, *NAMES))
    return ("atom", name, chance.choice(COMPARISONS), chance.randint(-2, 3))


def _term(chance: random.Random) -> str | int | tuple:
    if chance.random() < 0.15:
        return ("*", 2147483647, 2147483647)
    return chance.choice(("step", *NAMES, 1, 2, 3))
