"""Evidence: the most probable texts that decide a query.

A path of the chain is decided at the first state at which the states so far fix the truth of the
path formula. `F phi` is satisfied at the first phi and violated at a leaf without one. `phi U psi`
is satisfied at the first psi and violated at the first state with neither. `G phi` is violated at
the first state without phi and satisfied at a leaf. A step bound ends the path as a leaf does. The
deciding states partition the paths, so the probabilities of those that satisfy the formula add up
to that of the formula, and the others to that of its negation.

A set of such states that suffices to refute or to confirm a threshold is a counterexample in the
sense of Han, Katoen and Damman (2009), "Counterexample Generation in Probabilistic Model Checking".
In general chains finding the k most probable paths is a shortest path problem. On a tree they are
the first k paths in the order of their probability.
"""

import os.path
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from llmchecker.chains.markov_chain import MarkovChain
from llmchecker.queries.formulas import (
    Atom,
    Connective,
    Formula,
    Label,
    Literal,
    PathQuantifier,
    Probability,
    Temporal,
    subformulas,
)
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Kind, TextTree

WITNESS = "witness"
COUNTEREXAMPLE = "counterexample"


@dataclass(frozen=True)
class Witness:
    """A state that decides the path formula of a query, and the text that leads there.

    Attributes:
        uid: the state's row in the tree.
        text: the start string and what was generated; for `rest`, which has none, the parent's.
        probability: of the path from the root to the state.
        kind: `witness` if the path formula is satisfied, and `counterexample` if it is violated.
            This is the same for P>=p and P<=p.
        rest: whether the state is `rest`: the text goes on with some token that was not selected.
        kept: how many characters at the beginning of `text` belong to the start string.
    """

    uid: int
    text: str
    probability: float
    kind: str
    rest: bool
    kept: int


class _Reach(NamedTuple):
    """A path formula, or its negation, as `hold U<=bound goal` over sets of states."""

    hold: np.ndarray
    goal: np.ndarray
    bound: int | None
    negated: bool


class _Decided(NamedTuple):
    """The states that decide some paths alike, most probable first (ties: rising uid)."""

    kind: str
    uids: np.ndarray
    probabilities: np.ndarray


def has_evidence(query: Query) -> bool:
    """Whether there are single texts that decide the query.

    The query must be one P, E or A over one F, G or U, with or without a step bound. The operands
    must hold in single states, and so have no temporal operator and no P, E or A in them.
    """
    if not isinstance(query.root, Probability | PathQuantifier):
        return False
    path = query.root.path
    if not isinstance(path, Temporal) or path.operator not in ("F", "G", "U"):
        return False
    within = (formula for operand in path.operands for formula in subformulas(operand))
    return all(isinstance(f, Atom | Literal | Label | Connective) for f in within)


def decisive_mass(query: Query, kind: str, value: float | bool) -> float:
    """Return the mass with which the probabilities of the texts that decide a query are compared.

    For P=? it is the mass of all texts of their kind. For a threshold it is the mass that they must
    reach or exceed to decide the query.

    Args:
        query: has evidence.
        kind: of the texts.
        value: of the query.
    """
    if query.numeric:
        return value if kind == WITNESS else 1 - value
    threshold = _probability(query).threshold
    return float(threshold if kind == WITNESS else 1 - threshold)


def witnesses(
    tree: TextTree, chain: MarkovChain, query: Query, most: int | None = 10
) -> tuple[Witness, ...]:
    """Return the most probable texts that decide a query, most probable first (ties: rising uid).

    For P=? with F or U these are the witnesses, and with G the counterexamples. For a threshold
    they are the smallest set whose mass alone shows that the threshold is met or not. Witnesses
    with a mass of at least p show that P>=p holds, and with more than p that P<=p does not.
    Counterexamples with a mass of at least 1 - p show that P<=p holds, and with more than 1 - p
    that P>=p does not. P>p and P<p are alike. Where rounding leaves open whether a threshold is
    met, no texts are returned.

    Truth in `rest` is that of the bounded process: an atom over a quantifier is false there. Two
    states may have the same text if the model can write it in different tokens.

    Args:
        tree: the texts.
        chain: the chain of this very tree.
        query: the question. A query without evidence (see `has_evidence`) has no such texts.
        most: the largest number of texts to return, even if a threshold takes more; None for all.

    Raises:
        UnknownName: the query names a variable that the chain does not have.
    """
    if not has_evidence(query):
        return ()
    satisfied, violated = _decided(tree, chain, query.root.path)
    if query.numeric:
        shown = violated if query.root.path.operator == "G" else satisfied
        count = len(shown.uids)
    else:
        shown, count = _smallest(query, satisfied, violated, chain.relative_error)
    count = count if most is None else min(count, most)
    return tuple(_described(tree, shown, count))


def _decided(tree: TextTree, chain: MarkovChain, path: Formula) -> tuple[_Decided, _Decided]:
    """The first deciding state of each path: those that satisfy the formula, and those that do not.

    They are found from the root down, all states of a step at once.
    """
    reach = _reach(chain, path)
    stop = reach.goal | ~reach.hold | ~tree.internal
    if reach.bound is not None:
        stop |= tree.step >= reach.bound
    probability = tree.path_probability
    # whether no state above this one has decided its path
    undecided = np.ones(len(tree), dtype=bool)
    for level in tree.levels:
        parent = tree.parent[level]
        undecided[level] = undecided[parent] & ~stop[parent]
    # a state of probability 0 is not reachable in the chain
    first = undecided & stop & (probability > 0)

    def ordered(kind: str, states: np.ndarray) -> _Decided:
        uids = np.flatnonzero(states)
        uids = uids[np.argsort(-probability[uids], kind="stable")]
        return _Decided(kind, uids, probability[uids])

    return (
        ordered(WITNESS, first & (reach.goal != reach.negated)),
        ordered(COUNTEREXAMPLE, first & (reach.goal == reach.negated)),
    )


def _reach(chain: MarkovChain, path: Formula) -> _Reach:
    truths = [chain.satisfying(operand) for operand in path.operands]
    everywhere = np.ones(len(chain), dtype=bool)
    match path.operator, truths:
        case "F", [goal]:
            return _Reach(everywhere, goal, path.bound, negated=False)
        case "G", [invariant]:
            return _Reach(everywhere, ~invariant, path.bound, negated=True)
        case _, [hold, goal]:
            return _Reach(hold, goal, path.bound, negated=False)


def _probability(query: Query) -> Probability:
    """The P of the query; for E and A the P that means the same."""
    return query.root.probability if isinstance(query.root, PathQuantifier) else query.root


def _smallest(
    query: Query, satisfied: _Decided, violated: _Decided, error: float
) -> tuple[_Decided, int]:
    """The states that show whether the threshold is met, and how many of them are enough.

    The number is 0 where rounding does not tell whether the threshold is met.

    Args:
        error: the largest relative error of the probability.
    """
    root = _probability(query)
    # P>=p and P<p separate the values below p from all others; P>p and P<=p separate those above p
    reaching = root.comparison in (">=", "<")
    above = _is_above(Fraction(root.threshold), reaching, satisfied, violated, error)
    if above is None:
        return satisfied, 0
    shown = satisfied if above else violated
    exceeding = above != reaching
    needed = decisive_mass(query, shown.kind, above)
    masses = np.concatenate([[0.0], np.cumsum(shown.probabilities)])
    count = np.searchsorted(masses, needed, side="right" if exceeding else "left")
    # all of them together are enough, even if their sum was rounded down
    return shown, min(int(count), len(shown.uids))


def _is_above(
    threshold: Fraction, reaching: bool, satisfied: _Decided, violated: _Decided, error: float
) -> bool | None:
    """Whether the probability is above a threshold, or at least equal to it if `reaching`.

    The answer is None where it lies within rounding. Probabilities of 0 and 1 are known without
    adding up, since there are no texts of one kind then.
    """
    if threshold == 0:
        return reaching or len(satisfied.uids) > 0
    if threshold == 1:
        return reaching and len(violated.uids) == 0
    value = satisfied.probabilities.sum().item() if len(violated.uids) else 1.0
    margin = error * value if len(violated.uids) else 0.0
    # a float compared with a Fraction is compared exactly
    if value - margin > threshold or (reaching and value - margin == threshold):
        return True
    if value + margin < threshold or (not reaching and value + margin == threshold):
        return False
    return None


def _described(tree: TextTree, decided: _Decided, count: int) -> Iterator[Witness]:
    for uid, probability in zip(
        decided.uids[:count].tolist(), decided.probabilities[:count].tolist(), strict=True
    ):
        rest = bool(tree.kind[uid] == Kind.REST)
        text = tree.text[tree.parent[uid] if rest else uid]
        yield Witness(
            uid=uid,
            text=text,
            probability=probability,
            kind=decided.kind,
            rest=rest,
            kept=len(os.path.commonprefix((tree.start, text))),  # noqa: RUF071 - of characters
        )
