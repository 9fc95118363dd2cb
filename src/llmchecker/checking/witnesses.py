"""Witnesses and counterexamples: the most probable texts that decide a query.

A path of the chain is decided at the first state that fixes the truth of the path formula. `F phi`
is satisfied at the first phi and violated at a leaf without phi. `phi U psi` is satisfied at the
first psi and violated at the first state with neither. `G phi` is violated at the first state
without phi and satisfied at a leaf. A step bound ends the path as a leaf does. The deciding states
partition the paths. So the probabilities of the satisfying states add up to that of the formula,
and the others to that of its negation.

A set of deciding states that refutes or confirms a threshold is a counterexample in the sense of
Han, Katoen and Damman (2009), "Counterexample Generation in Probabilistic Model Checking". In
general chains finding the k most probable paths is a shortest path problem. On a tree they are the
first k paths in the order of their probability.
"""

import os.path
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from llmchecker.checking.markov.dtmc import MarkovChain
from llmchecker.properties.logic.ast import (
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
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import StateKind, TextTree

WITNESS = "witness"
COUNTEREXAMPLE = "counterexample"


@dataclass(frozen=True)
class Witness:
    """A state that decides the path formula of a query, and the text of its path.

    Attributes:
        uid: the state's row in the tree.
        text: the start string and the generated text; for `rest`, which has none, the parent's.
        probability: probability of the path from the root to the state.
        kind: `witness` if the path formula is satisfied, and `counterexample` if it is violated.
            This is the same for P>=p and P<=p.
        rest: whether the state is `rest`: the text continues with a token that was not selected.
        kept: number of characters at the beginning of `text` that belong to the start string.
    """

    uid: int
    text: str
    probability: float
    kind: str
    rest: bool
    kept: int


class _Reachability(NamedTuple):
    """A path formula, or its negation, as `hold U<=bound goal`."""

    hold: np.ndarray
    goal: np.ndarray
    bound: int | None
    is_negated: bool


class _DecidingStates(NamedTuple):
    """The states that satisfy or violate the formula, most probable first.

    States with equal probabilities are in the order of their uids.
    """

    kind: str
    uids: np.ndarray
    probabilities: np.ndarray


def has_witnesses(query: Query) -> bool:
    """Return whether single texts decide the query.

    The query must be one P, E or A over one F, G or U, with or without a step bound. The operands
    must hold in single states, and so have no temporal operator and no P, E or A in them.
    """
    if not isinstance(query.root, Probability | PathQuantifier):
        return False
    path = query.root.path
    if not isinstance(path, Temporal) or path.operator not in ("F", "G", "U"):
        return False
    nested_formulas = (formula for operand in path.operands for formula in subformulas(operand))
    return all(isinstance(f, Atom | Literal | Label | Connective) for f in nested_formulas)


def compute_decisive_mass(query: Query, kind: str, value: float | bool) -> float:
    """Return the mass to compare with the probabilities of a query's witnesses.

    For P=? it is the mass of all texts of their kind. For a threshold it is the mass that they must
    reach or exceed to decide the query.

    Args:
        query: a query that `has_witnesses` accepts.
        kind: `witness` or `counterexample`, the kind of the texts.
        value: value of the query.
    """
    if query.is_numeric:
        return value if kind == WITNESS else 1 - value
    threshold = _to_probability(query).threshold
    return float(threshold if kind == WITNESS else 1 - threshold)


def find_witnesses(
    tree: TextTree, chain: MarkovChain, query: Query, max_witnesses: int | None = 10
) -> tuple[Witness, ...]:
    """Return the texts that decide a query, most probable first (ties: rising uid).

    For P=? with F or U these are the witnesses, and with G the counterexamples. For a threshold
    they are the smallest set whose mass alone shows that the threshold is met or not. Witnesses
    with a mass of at least p show that P>=p holds, and with more than p that P<=p does not.
    Counterexamples with a mass of at least 1 - p show that P<=p holds. With more than 1 - p they
    show that P>=p does not. P>p and P<p are alike. Where rounding leaves open whether a threshold
    is met, no texts are returned.

    Truth in `rest` is that of the bounded process: an atom over a quantifier is false there. Two
    states may have the same text if the model can write it in different tokens.

    Args:
        tree: the texts.
        chain: the chain of the same tree.
        query: the parsed query. The result is empty if the query has no witnesses (see
            `has_witnesses`).
        max_witnesses: largest number of texts to return, even if a threshold needs more; None for
            all.

    Raises:
        UnknownName: the query names a variable that the chain does not have.
    """
    if not has_witnesses(query):
        return ()
    satisfied, violated = _find_deciding_states(tree, chain, query.root.path)
    if query.is_numeric:
        # G is violated at a deciding state, but satisfied at leaves only
        states = violated if query.root.path.operator == "G" else satisfied
        count = len(states.uids)
    else:
        states, count = _select_smallest_set(query, satisfied, violated, chain.relative_error)
    count = count if max_witnesses is None else min(count, max_witnesses)
    return tuple(_iter_witnesses(tree, states, count))


def find_path_texts(
    tree: TextTree, chain: MarkovChain, path: Formula, kind: str, max_texts: int
) -> tuple[Witness, ...]:
    """Return the most probable texts that satisfy or violate a path formula.

    The formula is F, G or U as in `has_witnesses`, or `F (G …)` or `G (F …)` over a state formula,
    which the last state of a text decides. The result is empty for other formulas. A `rest` is no
    text.

    Args:
        tree: the texts.
        chain: the chain of the same tree.
        path: the path formula.
        kind: `witness` for texts that satisfy it, `counterexample` for texts that violate it.
        max_texts: largest number of texts.
    """
    final_formula = _find_final_formula(path)
    if final_formula is not None:
        is_final = ~tree.internal & (tree.path_probability > 0)
        satisfied = chain.evaluate(final_formula)
        states = is_final & (satisfied if kind == WITNESS else ~satisfied)
        uids = np.flatnonzero(states)
        uids = uids[np.argsort(-tree.path_probability[uids], kind="stable")]
    elif has_witnesses(Query("", Probability("=", None, path))):
        satisfied_states, violated_states = _find_deciding_states(tree, chain, path)
        uids = (satisfied_states if kind == WITNESS else violated_states).uids
    else:
        return ()
    uids = uids[tree.kind[uids] != StateKind.REST]
    states = _DecidingStates(kind, uids, tree.path_probability[uids])
    return tuple(_iter_witnesses(tree, states, min(max_texts, len(uids))))


def _find_final_formula(path: Formula) -> Formula | None:
    """Return the state formula φ of `F (G φ)` or `G (F φ)`; None for other paths."""
    match path:
        case Temporal("F", (Temporal("G", (operand,), None),), None) | Temporal(
            "G", (Temporal("F", (operand,), None),), None
        ):
            is_state = all(
                isinstance(f, Atom | Literal | Label | Connective) for f in subformulas(operand)
            )
            return operand if is_state else None
    return None


def _find_deciding_states(
    tree: TextTree, chain: MarkovChain, path: Formula
) -> tuple[_DecidingStates, _DecidingStates]:
    """Find the first deciding state of each path, satisfying and violating.

    The search starts at the root and handles all states of a step at once.
    """
    reachability = _build_reachability(chain, path)
    stop = reachability.goal | ~reachability.hold | ~tree.internal
    if reachability.bound is not None:
        # a step bound ends the path as a leaf does
        stop |= tree.step >= reachability.bound
    probability = tree.path_probability
    # whether no state above this one has decided its path
    is_undecided = np.ones(len(tree), dtype=bool)
    for level in tree.levels:
        parent = tree.parent[level]
        is_undecided[level] = is_undecided[parent] & ~stop[parent]
    # a state of probability 0 is not reachable in the chain
    is_first = is_undecided & stop & (probability > 0)

    def sort_states(kind: str, states: np.ndarray) -> _DecidingStates:
        uids = np.flatnonzero(states)
        uids = uids[np.argsort(-probability[uids], kind="stable")]
        return _DecidingStates(kind, uids, probability[uids])

    return (
        sort_states(WITNESS, is_first & (reachability.goal != reachability.is_negated)),
        sort_states(COUNTEREXAMPLE, is_first & (reachability.goal == reachability.is_negated)),
    )


def _build_reachability(chain: MarkovChain, path: Formula) -> _Reachability:
    truths = [chain.evaluate(operand) for operand in path.operands]
    everywhere = np.ones(len(chain), dtype=bool)
    match path.operator, truths:
        case "F", [goal]:
            return _Reachability(everywhere, goal, path.bound, is_negated=False)
        # G phi is !F !phi
        case "G", [invariant]:
            return _Reachability(everywhere, ~invariant, path.bound, is_negated=True)
        case _, [hold, goal]:
            return _Reachability(hold, goal, path.bound, is_negated=False)


def _to_probability(query: Query) -> Probability:
    """Return the P of the query; for E and A the equivalent P."""
    return query.root.probability if isinstance(query.root, PathQuantifier) else query.root


def _select_smallest_set(
    query: Query, satisfied: _DecidingStates, violated: _DecidingStates, relative_error: float
) -> tuple[_DecidingStates, int]:
    """Return the states that decide the threshold, and the number needed.

    The number is 0 where rounding leaves open whether the threshold is met.

    Args:
        relative_error: the largest relative error of the probability.
    """
    root = _to_probability(query)
    # P>=p and P<p separate the values below p from all others; P>p and P<=p separate those above p
    includes_threshold = root.comparison in (">=", "<")
    is_above = _is_above(
        Fraction(root.threshold), includes_threshold, satisfied, violated, relative_error
    )
    if is_above is None:
        # no set of texts shows on which side of the threshold the probability is
        return satisfied, 0
    states = satisfied if is_above else violated
    is_strict = is_above != includes_threshold
    required_mass = compute_decisive_mass(query, states.kind, is_above)
    masses = np.concatenate([[0.0], np.cumsum(states.probabilities)])
    count = np.searchsorted(masses, required_mass, side="right" if is_strict else "left")
    # all texts together are enough, even if their sum was rounded down
    return states, min(int(count), len(states.uids))


def _is_above(
    threshold: Fraction,
    inclusive: bool,
    satisfied: _DecidingStates,
    violated: _DecidingStates,
    relative_error: float,
) -> bool | None:
    """Return whether the probability is above, or at least, a threshold.

    At least counts if `inclusive`.

    The answer is None where the difference is within rounding. Probabilities of 0 and 1 are known
    without a sum, since there are no texts of one kind then.
    """
    if threshold == 0:
        return inclusive or len(satisfied.uids) > 0
    if threshold == 1:
        return inclusive and len(violated.uids) == 0
    value = satisfied.probabilities.sum().item() if len(violated.uids) else 1.0
    margin = relative_error * value if len(violated.uids) else 0.0
    # Python compares a float with a Fraction exactly
    if value - margin > threshold or (inclusive and value - margin == threshold):
        return True
    if value + margin < threshold or (not inclusive and value + margin == threshold):
        return False
    return None


def _iter_witnesses(tree: TextTree, states: _DecidingStates, count: int) -> Iterator[Witness]:
    for uid, probability in zip(
        states.uids[:count].tolist(), states.probabilities[:count].tolist(), strict=True
    ):
        rest = bool(tree.kind[uid] == StateKind.REST)
        # a `rest` has no text of its own
        text = tree.text[tree.parent[uid] if rest else uid]
        yield Witness(
            uid=uid,
            text=text,
            probability=probability,
            kind=states.kind,
            rest=rest,
            kept=len(os.path.commonprefix((tree.start, text))),  # noqa: RUF071 - of characters
        )
