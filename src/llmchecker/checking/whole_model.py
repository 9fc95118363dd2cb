"""Bounds for the whole model: the least and the greatest of what a query's value can be.

Storm solves the decision process of `chaos` for the least and the greatest probability.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from llmchecker.chains.chaos import DecisionProcess
from llmchecker.checking import storm
from llmchecker.checking.verdicts import Interval
from llmchecker.errors import CheckFailed
from llmchecker.queries.formulas import (
    Atom,
    Conditional,
    Connective,
    Expectation,
    Formula,
    Label,
    Literal,
    PathQuantifier,
    Probability,
    Temporal,
    in_storm,
)
from llmchecker.queries.query import Query

DECISION_MARGIN = 1e-12
"""A probability this close to a threshold decides nothing, since float64 may have rounded it."""
_OPPOSITE = {">=": "<", ">": "<=", "<=": ">", "<": ">="}


def bounds(process: DecisionProcess, query: Query) -> Interval:
    """Bound what a query's value is for the whole model, whatever `rest` hides.

    A P inside the query is decided for each state before what it stands in: where it surely holds,
    and where it may hold. The bounds take of the two what makes them wider, so that they are sound,
    though with a nested P not always as narrow as they could be. E is P>0 and A is P>=1.

    An expected score takes in `rest` the limits of the quantifier's range; the value of the bounded
    process, which counts 0 there, lies within these bounds if the range holds 0.

    Raises:
        CheckFailed: Storm gave no answer.
    """
    labels = {p: f"a{i}" for i, p in enumerate((*query.atoms, *query.literals))}
    marks = {
        name: np.full(len(process), p.value) if isinstance(p, Literal) else process.truths[p]
        for p, name in labels.items()
    }
    with storm.reported(CheckFailed, f"cannot bound the query {query.text}"):
        if isinstance(query.root, Expectation):
            return _expected(process, query.root)
        model = storm.mdp(process, marks | {"rest": process.rest, "end": process.end})
        bounded = _Bounded(model, lambda proposition: f'"{labels[proposition]}"')
        match query.root:
            case Conditional(path, given):
                return _conditional(bounded, path, given)
            case Probability(_, None, path):
                return bounded.probability(path)
        low, high = (bounded.satisfying(query.root, surely)[0] for surely in (True, False))
        return Interval(bool(low), bool(high))


def _expected(process: DecisionProcess, question: Expectation) -> Interval:
    """Bound an expected score, with what the quantifier's range allows in `rest`."""
    limits = []
    for kind, scores in (("min", process.least), ("max", process.greatest)):
        rewards = scores[question.quantifier]
        finite = np.isfinite(rewards)
        model = storm.mdp(
            process,
            {"unbounded": ~finite},
            {question.quantifier: np.where(finite, rewards, 0.0)},
        )
        unbounded = storm.truths(model, f'P>0 [ F<={question.step} "unbounded" ]')
        asked = f'R{{"{question.quantifier}"}}{kind}=? [ I={question.step} ]'
        limits.append(None if unbounded[0] else storm.values(model, asked)[0].item())
    return Interval(*limits)


def _conditional(bounded: "_Bounded", path: Formula, given: Formula) -> Interval:
    """Bound P(path & given) / P(given), of which P(given) - P(path & given) = P(!path & given)."""
    both = bounded.probability(Connective("&", (path, given)))
    other = bounded.probability(Connective("&", (Connective("!", (path,)), given)))
    least, most = both.lower + other.upper, both.upper + other.lower
    return Interval(both.lower / least if least else 0.0, both.upper / most if most else 1.0)


class _Bounded:
    """An MDP to which the truth of one nested P after the other is added as a label."""

    def __init__(self, model: storm.Model, naming: Callable[[Atom | Literal], str]) -> None:
        self.model = model
        self.naming = naming
        self.nested = 0

    def probability(self, path: Formula) -> Interval:
        """The least and the greatest probability of a path formula in the start state."""
        return Interval(*(self.extremes(path, surely)[0].item() for surely in (True, False)))

    def satisfying(self, formula: Formula, surely: bool) -> np.ndarray:
        """(n,) bool: the states in which a state formula surely holds, or may hold."""
        return storm.truths(self.model, in_storm(self._decided(formula, surely), self.naming))

    def extremes(self, path: Formula, surely: bool) -> np.ndarray:
        """(n,) float64: in each state the least probability of a path formula, or the greatest."""
        text = in_storm(self._decided(path, surely), self.naming)
        return storm.values(self.model, f"P{'min' if surely else 'max'}=? [ {text} ]")

    def holds(self, formula: Probability | PathQuantifier, surely: bool) -> np.ndarray:
        """(n,) bool: the states in which P>=p, E or A surely holds, or may hold."""
        if isinstance(formula, PathQuantifier):
            formula = formula.probability
        rising = formula.comparison in (">", ">=")
        if formula.threshold in (0, 1):
            # Storm decides these on the graph, where no rounding matters
            comparison = formula.comparison if surely else _OPPOSITE[formula.comparison]
            text = in_storm(self._decided(formula.path, surely == rising), self.naming)
            states = storm.truths(self.model, f"P{comparison}{formula.threshold:f} [ {text} ]")
            return states if surely else ~states
        margin = DECISION_MARGIN if surely == rising else -DECISION_MARGIN
        values = self.extremes(formula.path, surely == rising)
        threshold = float(formula.threshold)
        return values >= threshold + margin if rising else values <= threshold + margin

    def _decided(self, formula: Formula, surely: bool) -> Formula:
        """The formula with a label for each P in it: where it surely holds, or may hold."""
        match formula:
            case Probability() | PathQuantifier():
                self.nested += 1
                name = f"p{self.nested}"
                storm.add_label(self.model, name, self.holds(formula, surely))
                return Label(name)
            case Connective("!", (operand,)):
                return Connective("!", (self._decided(operand, not surely),))
            case Connective("=>", (left, right)):
                operands = self._decided(left, not surely), self._decided(right, surely)
                return Connective("=>", operands)
            case Connective() | Temporal():
                operands = tuple(self._decided(operand, surely) for operand in formula.operands)
                return replace(formula, operands=operands)
            case _:
                return formula
