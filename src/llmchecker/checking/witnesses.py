"""Witnesses and counterexamples: the most probable texts that decide a query.

A text is decided if every continuation gives the path formula the same truth. `F phi` is satisfied
at the first phi. `G phi` is violated at the first state without phi. `F (G json = 2)` is violated
at the first text that can never become JSON, since this score is final. A text that ended or has
all tokens decides every formula. The first decided states of all paths partition the texts. So the
probabilities of the satisfied ones add up to the mass D that is decided true, and those of the
violated ones to the mass V that is decided false.

The bounded process gives each `rest` a truth of its own, in which every atom over a quantifier is
false. There the decided states make up everything, and the satisfied ones have the probability of
the formula. For the whole model a `rest` decides nothing.

A set of deciding states that refutes or confirms a threshold is a counterexample in the sense of
Han, Katoen and Damman (2009), "Counterexample Generation in Probabilistic Model Checking". In
general chains finding the k most probable paths is a shortest path problem. On a tree they are the
first k paths in the order of their probability.
"""

import os.path
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from llmchecker.checking.decided_mass import UNDECIDED, DecidedMass
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.measurement import Threshold, find_threshold
from llmchecker.checking.tree_sums import PathSums, TreeSums, sum_masses
from llmchecker.errors import CheckFailed, InvalidQuery
from llmchecker.properties.logic.ast import (
    Formula,
    Literal,
    PathQuantifier,
    Probability,
    Temporal,
    subformulas,
)
from llmchecker.properties.logic.monitor import MAX_ATOMS, is_linear_time
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import StateKind, TextTree

WITNESS = "witness"
COUNTEREXAMPLE = "counterexample"
SAMPLE = "sample"
"""The kind of a sampled text that decides nothing so far."""

ENDED, MAX_TOKENS, CUT, OPEN = "ended", "max_tokens", "cut", "open"
"""How a text ends: the model or a stop ended it, `max_tokens` did, the horizon cuts it, or it goes
on in any way."""


@dataclass(frozen=True)
class Witness:
    """A state that decides the path formula of a query, and the text of its path.

    Attributes:
        uid: the state's row in the tree.
        text: the start string and the generated text; for `rest`, which has none, the parent's.
        probability: probability of the path from the root to the state; 0 for a sampled text with a
            token whose probability a server does not list.
        kind: `witness` if the path formula is satisfied, and `counterexample` if it is violated.
            This is the same for P>=p and P<=p.
        rest: whether the state is `rest`: the text continues with a token that was not selected.
        kept: number of characters at the beginning of `text` that belong to the start string.
        ending: `ended`, `cut` or `open`: a text that goes on decides the formula with any
            continuation.
        scores: the scores of the text by the name of the quantifier; empty for `rest`.
    """

    uid: int
    text: str
    probability: float
    kind: str
    rest: bool
    kept: int
    ending: str = OPEN
    scores: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def continuation(self) -> str:
        """The generated part of the text."""
        return self.text[self.kept :]


class _DecidingStates(NamedTuple):
    """The states that satisfy or violate the formula, most probable first.

    States with equal probabilities are in the order of their uids.
    """

    kind: str
    uids: np.ndarray
    probabilities: np.ndarray


class _Decisions(NamedTuple):
    """The first deciding states of all paths.

    Attributes:
        satisfied, violated: the states by the truth that they decide.
        mass: the mass of these states, and of the paths that end undecided in `rest`.
    """

    satisfied: _DecidingStates
    violated: _DecidingStates
    mass: DecidedMass


def find_start_text(witnesses: Iterable[Witness]) -> str:
    """Return the start string of all witnesses; empty without witnesses."""
    # a tokenizer may rewrite its last characters, so only the longest one is complete
    return max((witness.text[: witness.kept] for witness in witnesses), key=len, default="")


def has_witnesses(query: Query) -> bool:
    """Return whether single texts decide the query: one P, E or A without another inside."""
    if not isinstance(query.root, Probability | PathQuantifier):
        return False
    inner_formulas = subformulas(query.root.path)
    return len(query.atoms) < MAX_ATOMS and not any(
        isinstance(formula, Probability | PathQuantifier) for formula in inner_formulas
    )


def compute_decisive_mass(query: Query, kind: str, value: float | None = None) -> float | None:
    """Return the mass to compare with the probabilities of a query's witnesses.

    For P=? it is the mass of all texts of their kind; None if the value is unknown. For a threshold
    it is the mass that they must reach or exceed to decide the query.

    Args:
        query: a query that `has_witnesses` accepts.
        kind: `witness` or `counterexample`, the kind of the texts.
        value: value of a query with =?; None if it is unknown, and for other queries.
    """
    if query.is_numeric:
        return value if value is None or kind == WITNESS else 1 - value
    threshold = _get_threshold(query).number
    return float(threshold if kind == WITNESS else 1 - threshold)


def find_witnesses(
    scored: ScoredTree,
    query: Query,
    max_witnesses: int | None = 10,
    *,
    is_whole_model: bool = False,
    truth: np.ndarray | None = None,
) -> tuple[Witness, ...]:
    """Return the texts that decide a query, most probable first (ties: rising uid).

    For P=? these are the witnesses, and with G over states the counterexamples. For a threshold
    they are the smallest set whose mass alone shows that the threshold is met or not. Witnesses
    with a mass of at least p show that P>=p holds, and with more than p that P<=p does not.
    Counterexamples with a mass of at least 1 - p show that P<=p holds. With more than 1 - p they
    show that P>=p does not. P>p and P<p are alike. Where rounding leaves open whether a threshold
    is met, no texts are returned. Where undecided texts leave it open, the texts are those that
    speak against the threshold.

    Two states may have the same text if the model can write it in different tokens.

    Args:
        scored: the texts. Without the ranges of quantifiers, texts are decided later.
        query: the parsed query. The result is empty if the query has no witnesses (see
            `has_witnesses`).
        max_witnesses: largest number of texts to return, even if a threshold needs more; None for
            all.
        is_whole_model: whether the texts decide the query for the whole model. No `rest` is then a
            witness. Otherwise they decide it in the bounded process, where truth in `rest` is that
            of false atoms over quantifiers.
        truth: (n,) 0, 1 or `UNDECIDED`, what the texts were found to decide for the whole model.
            Scores alone may decide them later.

    Raises:
        UnknownName: the query names a variable that the tree does not have.
    """
    root = query.root
    if not (has_witnesses(query) and isinstance(root, Probability | PathQuantifier)):
        return ()
    path = root.path
    decisions = _find_decisions(scored, path, truth, is_whole_model=is_whole_model)
    # the formula has too many obligations
    if decisions is None:
        return ()
    if query.is_numeric:
        # most texts satisfy G only when they end
        is_invariant = isinstance(path, Temporal) and path.operator == "G" and _is_state(path)
        states = decisions.violated if is_invariant else decisions.satisfied
        count = len(states.uids)
    else:
        states, count = _select_smallest_set(query, decisions)
    count = count if max_witnesses is None else min(count, max_witnesses)
    return tuple(_iter_witnesses(scored, states, count))


def find_path_texts(
    scored: ScoredTree,
    path: Formula,
    kind: str,
    max_texts: int | None,
    truth: np.ndarray | None = None,
) -> tuple[Witness, ...]:
    """Return the most probable texts that decide a path formula for the whole model.

    The result is empty for a formula that single texts do not decide, as with P or "rest" in it.

    Args:
        scored, truth: as in `find_witnesses`.
        path: the path formula.
        kind: `witness` for texts that satisfy it, `counterexample` for texts that violate it.
        max_texts: largest number of texts; None for all.

    Raises:
        UnknownName: the formula names a variable that the tree does not have.
    """
    if not (is_linear_time(path) and has_witnesses(Query("", Probability("=", None, path)))):
        return ()
    decisions = _find_decisions(scored, path, truth, is_whole_model=True)
    if decisions is None:
        return ()
    states = decisions.satisfied if kind == WITNESS else decisions.violated
    return tuple(_iter_witnesses(scored, states, max_texts))


def _is_state(path: Temporal) -> bool:
    """Return whether no operand of a temporal operator has another in it."""
    return not any(
        isinstance(formula, Temporal)
        for operand in path.operands
        for formula in subformulas(operand)
    )


def _find_decisions(
    scored: ScoredTree, path: Formula, known_truth: np.ndarray | None, *, is_whole_model: bool
) -> _Decisions | None:
    """Find the first deciding state of each path; None if the formula is too large.

    The search starts at the root and handles all states of a step at once.
    """
    try:
        truth = TreeSums(scored, is_whole_model=is_whole_model).decide(path)
    # a query has its answer without its texts
    except CheckFailed:
        return None
    if known_truth is not None:
        truth = np.where(known_truth == UNDECIDED, truth, known_truth)
    probability = scored.tree.path_probability
    is_first = scored.find_reached(truth != UNDECIDED)

    def sort_states(kind: str, states: np.ndarray) -> _DecidingStates:
        uids = np.flatnonzero(states)
        uids = uids[np.argsort(-probability[uids], kind="stable")]
        return _DecidingStates(kind, uids, probability[uids])

    return _Decisions(
        sort_states(WITNESS, is_first & (truth == 1)),
        sort_states(COUNTEREXAMPLE, is_first & (truth == 0)),
        sum_masses(scored, truth),
    )


def _get_threshold(query: Query) -> Threshold:
    """Return the threshold of the query; for E and A that of the equivalent P."""
    root = query.root.probability if isinstance(query.root, PathQuantifier) else query.root
    threshold = find_threshold(Query(query.text, root))
    if threshold is None:
        raise InvalidQuery(f"{query.text}: no single texts decide it; ask with one P, E or A")
    return threshold


def _select_smallest_set(query: Query, decisions: _Decisions) -> tuple[_DecidingStates, int]:
    """Return the states that decide the threshold, and the number needed.

    Where undecided texts leave it open whether the threshold is met, these are all states that
    speak against it. The number is 0 where rounding leaves it open.
    """
    threshold = _get_threshold(query)
    # P>=p and P<p separate the values below p from all others; P>p and P<=p separate those above p
    includes_threshold = threshold.comparison in (">=", "<")
    is_above = _is_above(threshold.number, includes_threshold, decisions.mass)
    if is_above is None:
        is_lower_bound = threshold.comparison in (">=", ">")
        states = decisions.violated if is_lower_bound else decisions.satisfied
        # no set of texts shows on which side of the threshold the probability is
        return states, 0 if decisions.mass.undecided.is_empty else len(states.uids)
    states = decisions.satisfied if is_above else decisions.violated
    is_strict = is_above != includes_threshold
    number = Fraction(threshold.number)
    required_mass = float(number if is_above else 1 - number)
    masses = np.concatenate([[0.0], np.cumsum(states.probabilities)])
    count = np.searchsorted(masses, required_mass, side="right" if is_strict else "left")
    # all texts together are enough, even if their sum was rounded down
    return states, min(int(count), len(states.uids))


def _is_above(threshold: Decimal, inclusive: bool, mass: DecidedMass) -> bool | None:
    """Return whether a probability is above, or at least, a threshold.

    At least counts if `inclusive`.

    The answer is None where the difference is within rounding, or undecided texts leave it open.
    """
    formula = Probability(">=" if inclusive else ">", threshold, Literal(True))
    sums = PathSums(lambda path: mass)
    surely, possibly = (bool(sums.evaluate(formula, side)[0]) for side in (True, False))
    return surely if surely == possibly else None


def _iter_witnesses(
    scored: ScoredTree, states: _DecidingStates, count: int | None
) -> Iterator[Witness]:
    tree = scored.tree
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
            ending=_find_ending(tree, uid),
            scores={} if rest else {name: int(each[uid]) for name, each in scored.scores.items()},
        )


def _find_ending(tree: TextTree, uid: int) -> str:
    """Return how the text of a state ends."""
    if tree.kind[uid] == StateKind.END:
        return ENDED
    if tree.kind[uid] == StateKind.MAX_TOKENS:
        return MAX_TOKENS
    is_cut = tree.kind[uid] == StateKind.TEXT and tree.step[uid] == tree.truncation.length
    return CUT if is_cut else OPEN
