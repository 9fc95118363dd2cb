"""Probabilities of path formulas and truth of state formulas, with margins.

A path formula becomes reachability (see `product`), which Storm solves. A P, E or A inside another
formula is decided first, for every state, and a label replaces it.

Every answer has two sides: it surely holds, or it may hold. On a chain the two differ only where a
probability is within rounding of a threshold. On a decision process they also differ where choices
differ. Thresholds 0 and 1 are decided on the graph, so that rounding leaves nothing open.
"""

from dataclasses import replace

import numpy as np

from llmchecker.checking import storm
from llmchecker.checking.markov.product import (
    SATISFIED_STATE,
    VIOLATED_STATE,
    MarkovProcess,
    Product,
    build_product,
)
from llmchecker.checking.probabilities import (
    MIN_NORMAL,
    Evaluator,
    Probabilities,
    compare_with_threshold,
)
from llmchecker.properties.logic.ast import (
    Connective,
    Formula,
    Label,
    PathQuantifier,
    Probability,
    Temporal,
    is_proposition,
)

ROOT = np.zeros(1, dtype=np.int64)
"""The start state as the only start."""


_Reachability = tuple[Product, storm.Model | None]
"""The product of a path formula, and Storm's model of it; None if every start is decided."""


class Satisfaction(Evaluator):
    """Probabilities and truth values of formulas on one process.

    Every method may raise `CheckFailed` if a path formula has too many obligations, and
    RuntimeError if Storm gives no answer (see `storm.translate_errors`).

    Args:
        process: a chain or a decision process.
    """

    def __init__(self, process: MarkovProcess) -> None:
        self._process = process
        self._is_dtmc = bool(np.all(process.transitions.choice_counts == 1))
        self._root_probabilities: dict[tuple[Formula, bool], Probabilities] = {}
        self._root_reachability: tuple[Formula, _Reachability] | None = None
        self._labels: dict[bytes, Label] = {}
        self._extra_labels: dict[Label, np.ndarray] = {}
        self._label_of_formula: dict[tuple[Formula, bool], Label] = {}

    def is_three_valued(self, path: Formula) -> bool:
        """Return whether a P, E or A in a formula may hold without surely holding."""
        return self._substitute_labels(path, True) != self._substitute_labels(path, False)

    def compute_probabilities(
        self, path: Formula, minimize: bool, starts: np.ndarray = ROOT
    ) -> Probabilities:
        """Compute the extreme probability of a path formula, in each start.

        It is the least or the greatest probability over all choices.

        A nested formula that may hold counts for the greatest probability only. A nested formula
        that surely holds counts for both.

        Args:
            path: a path formula.
            minimize: whether to compute the least probability instead of the greatest.
            starts: (m,) int64, states.
        """
        path = self._substitute_labels(path, minimize)
        # results for all states would use much memory
        if starts is not ROOT:
            return self._solve(self._build_reachability(path, starts), minimize)
        # without choices, the least and the greatest probability are the same
        key = path, minimize and not self._is_dtmc
        if key not in self._root_probabilities:
            # the other extreme of the same path formula uses the same model
            if self._root_reachability is None or self._root_reachability[0] != path:
                self._root_reachability = None  # one large model in memory, not two
                self._root_reachability = path, self._build_reachability(path, starts)
            self._root_probabilities[key] = self._solve(self._root_reachability[1], minimize)
        return self._root_probabilities[key]

    def _build_reachability(self, path: Formula, starts: np.ndarray) -> _Reachability:
        """Build the reachability of a path formula without P, E and A."""
        product = build_product(self._process, path, starts, self._extra_labels)
        # every start is decided without a step, so Storm has nothing to solve
        if np.all(product.starts <= VIOLATED_STATE):
            return product, None
        is_satisfied = np.arange(len(product.transitions)) == SATISFIED_STATE
        return product, storm.build_model(product.transitions, {"satisfied": is_satisfied})

    def _solve(self, reachability: _Reachability, minimize: bool) -> Probabilities:
        """Compute the extreme probabilities of reaching `satisfied`."""
        product, model = reachability
        start_states = product.starts
        if model is None:
            is_satisfied = start_states == SATISFIED_STATE
            values = is_satisfied.astype(np.float64)
            return Probabilities(values, values, values, ~is_satisfied, is_satisfied)
        target = '[ F "satisfied" ]'
        sources, targets = product.rest_edges
        states = np.concatenate([start_states, sources, targets])
        # without choices there is one probability, for which Storm takes no min or max
        if self._is_dtmc:
            values = storm.compute_values(model, f"P=? {target}", start_states)
            is_zero = storm.compute_truth_values(model, f"P<=0 {target}", states)
            is_one = storm.compute_truth_values(model, f"P>=1 {target}", states)
        elif minimize:
            # on a decision process Storm reports that P>0 holds if it does for all choices
            values = storm.compute_values(model, f"Pmin=? {target}", start_states)
            is_zero = ~storm.compute_truth_values(model, f"P>0 {target}", states)
            is_one = storm.compute_truth_values(model, f"P>=1 {target}", states)
        else:
            values = storm.compute_values(model, f"Pmax=? {target}", start_states)
            is_zero = storm.compute_truth_values(model, f"P<=0 {target}", states)
            is_one = ~storm.compute_truth_values(model, f"P<1 {target}", states)
        starts_end, sources_end = len(start_states), len(start_states) + len(sources)
        # The probability of a `rest` changes nothing if its text has the probability 1 by the
        # graph, or if nothing in the `rest` reaches `satisfied`.
        uses_rest = bool(np.any(~is_one[starts_end:sources_end] & ~is_zero[sources_end:]))
        return self._round_outwards(values, is_zero[:starts_end], is_one[:starts_end], uses_rest)

    def evaluate(self, formula: Formula, certain: bool, starts: np.ndarray = ROOT) -> np.ndarray:
        """Return (m,) bool: whether a state formula holds in each start.

        With `certain` it surely holds, otherwise it may hold.
        """
        match formula:
            case PathQuantifier():
                return self.evaluate(formula.probability, certain, starts)
            case Probability():
                return compare_with_threshold(
                    formula,
                    certain,
                    lambda path, minimize: self.compute_probabilities(path, minimize, starts),
                )
            case Connective("!", (operand,)):
                # negation exchanges the sides: !f surely holds where f cannot hold
                holds: np.ndarray = ~self.evaluate(operand, not certain, starts)
            case Connective("=>", (left, right)):
                holds = ~self.evaluate(left, not certain, starts)
                holds |= self.evaluate(right, certain, starts)
            case Connective("&", (left, right)):
                holds = self.evaluate(left, certain, starts) & self.evaluate(right, certain, starts)
            case Connective("|", (left, right)):
                holds = self.evaluate(left, certain, starts) | self.evaluate(right, certain, starts)
            case _:
                holds = self._process.labeling[formula][starts]
        return holds

    def _round_outwards(
        self, values: np.ndarray, is_zero: np.ndarray, is_one: np.ndarray, uses_rest: bool
    ) -> Probabilities:
        # a `rest` may be computed too large or too small, so both ends have its error
        absolute_error = MIN_NORMAL + (self._process.rest_error if uses_rest else 0.0)
        relative_error = self._process.relative_error
        low = values * (1 - relative_error) - absolute_error
        high = values * (1 + relative_error) + absolute_error

        # rounding outwards must not change values that the graph shows to be exact
        def restore_exact(column: np.ndarray) -> np.ndarray:
            rounded = np.clip(column, 0.0, 1.0)
            return np.where(is_one, 1.0, np.where(is_zero, 0.0, rounded))

        return Probabilities(
            restore_exact(values), restore_exact(low), restore_exact(high), is_zero, is_one
        )

    def _substitute_labels(self, formula: Formula, certain: bool) -> Formula:
        """Replace each P, E and A in a formula by a label.

        The label is on the states where the P, E or A surely holds, or where it may hold if not
        `certain`. Below an odd number of negations the sides are exchanged: a subformula that holds
        less often there makes the whole formula hold more often.
        """
        match formula:
            case Probability() | PathQuantifier():
                if (formula, certain) not in self._label_of_formula:
                    all_states = np.arange(len(self._process))
                    holds = self.evaluate(formula, certain, all_states)
                    # `is_three_valued` compares formulas, so equal sets must have equal labels
                    key = np.packbits(holds).tobytes()
                    if key not in self._labels:
                        self._labels[key] = Label(f"p{len(self._labels) + 1}")
                        self._extra_labels[self._labels[key]] = holds
                    self._label_of_formula[formula, certain] = self._labels[key]
                return self._label_of_formula[formula, certain]
            case Connective("!", (operand,)):
                return Connective("!", (self._substitute_labels(operand, not certain),))
            case Connective("=>", (left, right)):
                premise = self._substitute_labels(left, not certain)
                return Connective("=>", (premise, self._substitute_labels(right, certain)))
            case Connective() | Temporal():
                operands = tuple(
                    self._substitute_labels(operand, certain) for operand in formula.operands
                )
                return replace(formula, operands=operands)
        assert is_proposition(formula)
        return formula
