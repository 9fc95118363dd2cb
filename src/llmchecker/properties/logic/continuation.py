"""Effects of a continuation: how the truth of a formula may change beyond the horizon.

The horizon ends each text, so that its last state repeats for ever. A longer text may violate a
`G`, and satisfy an `F`. A formula with step bounds within the horizon, or without a quantifier, is
about the horizon itself and does not change. Inside an unlimited operator the bounds begin at any
state, also at the last one.
"""

from dataclasses import dataclass

from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.ast import (
    Atom,
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    PathQuantifier,
    Probability,
    Temporal,
    subformulas,
)
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query


@dataclass(frozen=True)
class ContinuationEffects:
    """How the truth of a formula may change when a text goes on.

    Attributes:
        can_fall: whether a true formula may become false.
        can_rise: whether a false formula may become true.
    """

    can_fall: bool = False
    can_rise: bool = False

    def __or__(self, other: "ContinuationEffects") -> "ContinuationEffects":
        """Return the effects of either."""
        return ContinuationEffects(self.can_fall or other.can_fall, self.can_rise or other.can_rise)

    @property
    def negation(self) -> "ContinuationEffects":
        """The effects on the negated formula."""
        return ContinuationEffects(self.can_rise, self.can_fall)


_ANY_EFFECTS = ContinuationEffects(can_fall=True, can_rise=True)

_ENDED = Temporal("F", (Label("end"),))
"""The formula of texts that end within the horizon."""
_NEVER_ENDED = Temporal("G", (Connective("!", (Label("end"),)),))
"""The formula of texts that do not."""
_SEVERAL_PROBABILITIES = (
    "length end: whole answers need one P, E or A without another inside; give a number of tokens"
)
_UNLIMITED_EFFECTS = {
    "F": ContinuationEffects(can_rise=True),
    "U": ContinuationEffects(can_rise=True),
    "G": ContinuationEffects(can_fall=True),
    "W": ContinuationEffects(can_fall=True),
    "R": ContinuationEffects(can_fall=True),
}
"""Effects of the temporal operators without a step bound, on operands about single states.

`W` and `R` are true of a text whose last state repeats, as `G` is.
"""


def find_continuation_effects(formula: Formula, length: int) -> ContinuationEffects:
    """Find how the truth of a path formula may change beyond a horizon.

    Args:
        formula: the path formula.
        length: the horizon in tokens, from the state on at which the formula is read.
    """
    # an end and a number of tokens are about the horizon itself
    atoms = [each for each in subformulas(formula) if isinstance(each, Atom)]
    if all(atom.is_step_only for atom in atoms):
        return ContinuationEffects()
    match formula:
        # a text that the horizon cuts violates the first and satisfies the second
        case Connective(operator) if names_ends(formula) and not _has_operator(formula):
            is_lower_limit = operator == "&"
            return ContinuationEffects(can_rise=is_lower_limit, can_fall=not is_lower_limit)
        case Connective("!", (operand,)):
            return find_continuation_effects(operand, length).negation
        case Connective("=>", (condition, conclusion)):
            return find_continuation_effects(condition, length).negation | (
                find_continuation_effects(conclusion, length)
            )
        case Connective(_, operands):
            return _join(operands, length)
        case Temporal("X", operands):
            # the state after the last one is another state of a longer text
            return _join(operands, length - 1) if length > 0 else _ANY_EFFECTS
        case Temporal(operator, operands, bound):
            effects = _join(operands, 0 if bound is None else max(0, length - bound))
            # without an effect the operator sees no state beyond the horizon
            if bound is not None and bound <= length:
                return effects
            return effects | _UNLIMITED_EFFECTS[operator]
        # an operator inside has a threshold of its own, which either change may cross
        case Probability(_, _, path) | PathQuantifier(_, path):
            inner = find_continuation_effects(path, length)
            return inner | inner.negation
    return ContinuationEffects()


def find_turn_effects(formula: Formula) -> ContinuationEffects:
    """Find how the truth of a formula over turns may change if cut answers go on.

    A longer answer may have another score. As for single texts, it is expected to violate a G and
    to satisfy an F. The score of one certain turn may change either way.
    """
    is_about_single_turns = any(
        isinstance(each, Temporal) and (each.operator == "X" or each.bound is not None)
        for each in subformulas(formula)
    )
    has_operator = any(isinstance(each, Temporal) for each in subformulas(formula))
    if is_about_single_turns or not has_operator:
        return _ANY_EFFECTS
    return find_continuation_effects(formula, 0)


def ask_about_whole_texts(query: Query, length: int, comparison: str = ">=") -> Query:
    """Return a query to which a text that the horizon cuts counts as the worse case.

    `P>=0.9 [ G x = 0 ]` becomes `P>=0.9 [ (G x = 0) & (F "end") ]`: a text that has not ended may
    still violate it. A formula that the horizon cannot flatter stays as it is.

    Args:
        query: the query.
        length: the horizon in tokens.
        comparison: the comparison of the probability with its threshold, if the query has none.

    Raises:
        InvalidQuery: the query has several probabilities that the horizon may flatter.
    """
    root = query.root
    # the step of an expected score is a number of tokens
    if isinstance(root, Expectation):
        return query
    if not isinstance(root, Probability | PathQuantifier):
        paths = (root.path, root.condition) if isinstance(root, Conditional) else (root,)
        if _join(paths, length) != ContinuationEffects():
            raise InvalidQuery(_SEVERAL_PROBABILITIES)
        return query
    effects = find_continuation_effects(root.path, length)
    if _has_operator(root.path) and effects != ContinuationEffects():
        raise InvalidQuery(_SEVERAL_PROBABILITIES)
    if isinstance(root, PathQuantifier):
        comparison = ">="
    elif root.threshold is not None:
        comparison = root.comparison
    is_lower_limit = comparison in (">=", ">")
    if not (effects.can_fall if is_lower_limit else effects.can_rise):
        return query
    beginning, _, rest = query.text.partition("[")
    path, _, ending = rest.rpartition("]")
    limit = '& (F "end")' if is_lower_limit else '| (G !"end")'
    return parse(f"{beginning}[ ({path.strip()}) {limit} ]{ending}")


def reads_last_state(path: Formula, name: str) -> bool:
    """Return whether a variable matters in the last state alone, which repeats for ever.

    `F (G polite = 1)` is about the last state: its truth does not depend on those before it.
    """
    match path:
        case _ if not any(isinstance(e, Atom) and name in e.variables for e in subformulas(path)):
            return True
        case Temporal("F", (Temporal("G", (state,), None),), None) | Temporal(
            "G", (Temporal("F", (state,), None),), None
        ):
            return not any(isinstance(each, Temporal) for each in subformulas(state))
        case Connective(_, operands):
            return all(reads_last_state(operand, name) for operand in operands)
    return False


def names_ends(path: Formula) -> bool:
    """Return whether a path formula has the form that `ask_about_whole_texts` gives it."""
    if not isinstance(path, Connective):
        return False
    limit = {"&": _ENDED, "|": _NEVER_ENDED}.get(path.operator)
    return limit in path.operands


def _has_operator(path: Formula) -> bool:
    """Return whether a path formula contains P, E or A, which see texts other than the path's."""
    return any(isinstance(each, Probability | PathQuantifier) for each in subformulas(path))


def _join(operands: tuple[Formula, ...], length: int) -> ContinuationEffects:
    effects = ContinuationEffects()
    for operand in operands:
        effects |= find_continuation_effects(operand, length)
    return effects
