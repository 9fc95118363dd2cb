"""Effects of a continuation: how the truth of a formula may change beyond the horizon.

The horizon ends each text, so that its last state repeats for ever. A longer text may violate a
`G`, and satisfy an `F`. It may end later: `F "end"` becomes true of it. A formula with step bounds
within the horizon is about the horizon itself and does not change.

Where single texts decide a formula, its effects are found by exploring all texts (see `cut_texts`),
so that formulas of equal meaning have the same effects. Elsewhere rules about its operators find
them, which may find more effects than there are.
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
from llmchecker.properties.logic.cut_texts import TooManyBeginnings, find_changed_truths
from llmchecker.properties.logic.monitor import is_linear_time
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
_ALL_ENDED = Temporal("G", (Label("end"),))
"""The formula of conversations all of whose answers end within the horizon."""
_ONE_CUT = Temporal("F", (Connective("!", (Label("end"),)),))
"""The formula of conversations of which the horizon cuts an answer."""
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


def find_continuation_effects(path: Formula, length: int) -> ContinuationEffects:
    """Find how the truth of a path formula may change beyond a horizon.

    A formula about ends and numbers of tokens alone does not change: its question is about the
    horizon itself, such as whether a text ends within it.

    Args:
        path: the path formula.
        length: the horizon in tokens.
    """
    atoms = [each for each in subformulas(path) if isinstance(each, Atom)]
    if all(atom.is_step_only for atom in atoms):
        return ContinuationEffects()
    return _find_effects(path, length)


def _find_effects(path: Formula, length: int) -> ContinuationEffects:
    """Find the effects on a formula about any texts, which may end beyond the horizon."""
    if not is_linear_time(path):
        return _find_effects_by_rules(path, length)
    try:
        truths = find_changed_truths(path, length)
    except TooManyBeginnings:
        return _find_effects_by_rules(path, length)
    return ContinuationEffects(can_fall=True in truths, can_rise=False in truths)


def _find_effects_by_rules(formula: Formula, length: int) -> ContinuationEffects:
    """Find effects by the operators of a formula, from the state on at which it is read."""
    match formula:
        # a text that the horizon cuts violates the first and satisfies the second
        case Connective(operator) if names_ends(formula) and not _has_operator(formula):
            is_lower_limit = operator == "&"
            return ContinuationEffects(can_rise=is_lower_limit, can_fall=not is_lower_limit)
        case Connective("!", (operand,)):
            return _find_effects_by_rules(operand, length).negation
        case Connective("=>", (condition, conclusion)):
            return _find_effects_by_rules(condition, length).negation | (
                _find_effects_by_rules(conclusion, length)
            )
        case Connective(_, operands):
            return _join(operands, length)
        case Temporal("X", operands, bound):
            steps = 1 if bound is None else bound
            # the state after the last one is another state of a longer text
            return _join(operands, length - steps) if length >= steps else _ANY_EFFECTS
        case Temporal(operator, operands, bound):
            effects = _join(operands, 0 if bound is None else max(0, length - bound))
            # without an effect the operator sees no state beyond the horizon
            if bound is not None and bound <= length:
                return effects
            return effects | _UNLIMITED_EFFECTS[operator]
        # an operator inside has a threshold of its own, which either change may cross
        case Probability(_, _, path) | PathQuantifier(_, path):
            inner = _find_effects_by_rules(path, length)
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
    match formula:
        # a conversation with a cut answer violates the first and satisfies the second
        case Connective("&", operands) if _ALL_ENDED in operands:
            return ContinuationEffects(can_rise=True)
        case Connective("|", operands) if _ONE_CUT in operands:
            return ContinuationEffects(can_fall=True)
    atoms = [each for each in subformulas(formula) if isinstance(each, Atom)]
    # without a score the question is about the ends themselves
    if all(atom.is_step_only for atom in atoms):
        return ContinuationEffects()
    return _find_effects_by_rules(formula, 0)


def ask_about_whole_texts(query: Query, length: int, comparison: str = ">=") -> Query:
    """Return a query to which a text that the horizon cuts counts as the worse case.

    `P>=0.9 [ G x = 0 ]` becomes `P>=0.9 [ (G x = 0) & (F "end") ]`: a text that has not ended may
    still violate it. A formula that the horizon cannot flatter stays as it is. A text that has not
    ended may still do so, so that `F "end"` may become true of it, as a premise too.

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
        effects = [_find_effects(path, length) for path in paths]
        if any(each != ContinuationEffects() for each in effects):
            raise InvalidQuery(_SEVERAL_PROBABILITIES)
        return query
    changes = _find_effects(root.path, length)
    if _has_operator(root.path) and changes != ContinuationEffects():
        raise InvalidQuery(_SEVERAL_PROBABILITIES)
    if isinstance(root, PathQuantifier):
        comparison = ">="
    elif root.threshold is not None:
        comparison = root.comparison
    is_lower_limit = comparison in (">=", ">")
    if not (changes.can_fall if is_lower_limit else changes.can_rise):
        return query
    limit = '& (F "end")' if is_lower_limit else '| (G !"end")'
    return extend_path(query, limit)


def extend_path(query: Query, text: str) -> Query:
    """Return a query with a text after its path formula in parentheses, such as `& (F "end")`."""
    return parse(f"{query.operator_text} [ ({query.path_text.strip()}) {text} ]")


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
        effects |= _find_effects_by_rules(operand, length)
    return effects
