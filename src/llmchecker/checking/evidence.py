"""Evidence: the most probable texts that decide a query.

A path of the chain is decided at its first state from which the path formula cannot change its
truth any more, as far as the states up to there tell: `F phi` is satisfied at the first phi and
violated at a leaf without one, `phi U psi` is satisfied at the first psi and violated at the first
state with neither, `G phi` is violated at the first state without phi and satisfied at a leaf; a
step bound ends the path there. The deciding states partition the paths, so their probabilities
sum to that of the path formula and of its negation. A set of such states that is sufficient to
refute or to confirm a threshold is a counterexample in the sense of Han, Katoen and Damman (2009),
"Counterexample Generation in Probabilistic Model Checking"; on a tree the k most probable paths,
there a shortest path problem, are just the first k in the order of their probability.
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
        text: the start string and what was generated; for `rest`, which has no text, its parent's.
        probability: of the path from the root to the state.
        kind: `witness` where the path formula is satisfied, `counterexample` where it is violated,
            whichever of the two the query as a whole asks for.
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
    """Whether single texts can decide the query.

    It is then one P, E or A over one F, G or U, with or without a step bound, whose operands hold
    in single states: no temporal operator and no P, E or A stands in them.
    """
    if not isinstance(query.root, Probability | PathQuantifier):
        return False
    path = query.root.path
    if not isinstance(path, Temporal) or path.operator not in ("F", "G", "U"):
        return False
    within = (formula for operand in path.operands for formula in subformulas(operand))
    return all(isinstance(f, Atom | Literal | Label | Connective) for f in within)


def decisive_mass(query: Query, kind: str, value: float | bool) -> float:
    """Return what the probabilities of a query's texts are to be compared with.

    To P=? it is the mass of all texts of their kind, the query's value being given; to a threshold
    what their mass must reach or exceed to decide it, whether or not it is met.
    """
    if query.numeric:
        return value if kind == WITNESS else 1 - value
    threshold = _probability(query).threshold
    return float(threshold if kind == WITNESS else 1 - threshold)


def witnesses(
    tree: TextTree, chain: MarkovChain, query: Query, most: int | None = 10
) -> tuple[Witness, ...]:
    """Return the most probable texts that decide a query, most probable first (ties: rising uid).

    To P=? with F or U they are the witnesses, with G the counterexamples. To a threshold they are
    the smallest set whose mass alone shows that it is met or not: the witnesses show P>=p met with
    a mass of at least p and P<=p violated with more than p; the counterexamples show P<=p met with
    at least 1 - p and P>=p violated with more than 1 - p; likewise P>p and P<p. Where rounding
    leaves open whether a threshold is met, no texts are returned.

    Truth in `rest` is that of the bounded process: an atom over a quantifier is false there. Two
    states may have one text where a model can write it in different tokens.

    Args:
        tree: the texts.
        chain: the chain of this very tree.
        query: the question; for one without evidence (see `has_evidence`) nothing is returned.
        most: how many texts to return at most, which may be fewer than a threshold takes; None for
            all of them.

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
    """The states that satisfy the path formula and those that violate it, the first on each path.

    Both are found from the root down, all states of a step at once.
    """
    reach = _reach(chain, path)
    stop = reach.goal | ~reach.hold | ~tree.internal
    if reach.bound is not None:
        stop |= tree.step >= reach.bound
    probability = tree.path_probability
    undecided = np.ones(len(tree), dtype=bool)  # before the state, all along the path
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
    """The P that the query is or, for E and A, is the same as."""
    return query.root.probability if isinstance(query.root, PathQuantifier) else query.root


def _smallest(
    query: Query, satisfied: _Decided, violated: _Decided, error: float
) -> tuple[_Decided, int]:
    """Which states show that the threshold is met or not, and how many of them are enough.

    None are where the probability, which may be wrong by that part of itself, does not tell.
    """
    root = _probability(query)
    # P>=p and P<p part the values below p from the others, P>p and P<=p those above p
    reaching = root.comparison in (">=", "<")
    above = _is_above(Fraction(root.threshold), reaching, satisfied, violated, error)
    if above is None:
        return satisfied, 0
    shown = satisfied if above else violated
    exceeding = above != reaching
    needed = decisive_mass(query, shown.kind, above)
    masses = np.concatenate([[0.0], np.cumsum(shown.probabilities)])
    count = np.searchsorted(masses, needed, side="right" if exceeding else "left")
    # all of them are enough, though float64 may have summed them to a little less
    return shown, min(int(count), len(shown.uids))


def _is_above(
    threshold: Fraction, reaching: bool, satisfied: _Decided, violated: _Decided, error: float
) -> bool | None:
    """Whether the probability is above a threshold, or just reaches it; None if rounding decides.

    That it is 0 or 1 is seen without adding up: there are no texts of one kind.
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
