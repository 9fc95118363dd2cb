"""Samples of an explored tree's undecided texts, with exact look-ahead.

A round draws texts from the undecided part of the tree as it is at the start of the round. After
each text the whole vocabulary counts: what its tokens decide joins the sample with its exact
probability, and the sample goes on with one of the undecided tokens. So a sample returns a number
in [0, 1] and not a bit (Rao-Blackwell). The next round begins with the larger tree.

Random numbers come from a counter-based generator (Salmon et al. 2011, "Parallel Random Numbers: As
Easy as 1, 2, 3"), by the seed and the number of the round's first sample.
"""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from llmchecker.checking.anytime.control_variates import Corrections, TextPredictor
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.product_automaton import Row
from llmchecker.checking.anytime.step_request import ContinuationRequest, StepRequest
from llmchecker.checking.anytime.token_step import StepResult
from llmchecker.models.continuation import Continuation
from llmchecker.models.distribution import find_by_inversion
from llmchecker.utils.row_groups import count_within

_MIN_EXACT_SHARE = 1 / 16
"""The least share of a sample that goes on for certain.

A smaller undecided share is drawn against the decided share, so that few samples spend passes on
it. That adds little variance and keeps every value in [0, 1].
"""

_TINY = float(np.finfo(np.float64).tiny)

_MAX_ROUNDING = 1e-14
"""A limit above the rounding error of a difference of probabilities."""

Request = StepRequest | ContinuationRequest
"""A request to the model."""

ModelAnswer = StepResult | list[Continuation]
"""The results of a request's texts, or sampled continuations: fewer only if the work must stop."""

Requests = Generator[Request, ModelAnswer, None]
"""Requests to the model, each answered."""


@dataclass(frozen=True)
class UndecidedPart:
    """The decided sums of an explored tree, and its undecided leaves.

    Attributes:
        numerator, denominator: the sums over decided texts, weighted by their probabilities.
        leaves: (m,) int64, the texts with an undecided rest, which is all of an unvisited text.
        weights: (m,) float64, the probability of each of these.
        total: the sum of the weights, U.
        largest_denominator: the denominator if all undecided texts count in it.
    """

    numerator: float
    denominator: float
    leaves: np.ndarray
    weights: np.ndarray
    total: float
    largest_denominator: float


def split_tree(tree: ExploredTree) -> UndecidedPart:
    """Split an explored tree into decided sums and undecided leaves."""
    mass = tree.undecided_mass
    leaves = np.flatnonzero(mass > 0)
    weights = mass[leaves]
    total = float(weights.sum())
    numerator, other = tree.decided[:2].tolist()
    denominator = numerator + other
    largest = denominator + total if tree.estimand.is_ratio else 1.0
    return UndecidedPart(numerator, denominator, leaves, weights, total, largest)


class SampleRound:
    """One round of samples.

    Args:
        tree: the tree, which grows by the texts that the samples visit.
        estimand: the estimated quantity.
        part: the undecided part of the tree, which must not be empty.
        predictor: the predictor, which has learned from earlier rounds only.
        seed: seed of all samples.
        first: number of the first sample of the round.
        count: number of samples.

    Attributes:
        part: the undecided part at the start of the round.
        numerator, denominator: (count,) float64, the samples' values from the undecided part.
        corrections: the sums of control variates of the samples.
        is_complete: (count,) bool.
    """

    def __init__(
        self,
        tree: ExploredTree,
        estimand: Estimand,
        part: UndecidedPart,
        predictor: TextPredictor,
        seed: int,
        first: int,
        count: int,
    ) -> None:
        self.part = part
        self.numerator, self.denominator = np.zeros((2, count))
        self.is_complete = np.zeros(count, dtype=bool)
        self._kept = count
        self.corrections = Corrections(count)
        self._tree, self._estimand, self._predictor = tree, estimand, predictor
        self._seed, self._first = seed, first
        self._weight = np.ones(count)
        self._row_predictions: dict[int, np.ndarray] = {}
        self._history: list[tuple[np.ndarray, ...]] = []
        generator = np.random.Generator(np.random.Philox(key=(seed << 64) | first))
        self._leaf_predictions = self._predict(part.leaves, tree.is_visited[part.leaves])
        self._row, self._is_rest = self._draw_beginnings(generator.random(count))
        # for each token of a text: whether it goes on, the token, and the token of a rest
        self._uniforms = generator.random((3, tree.length + 1, count))

    def _draw_beginnings(self, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draw the text where each sample begins, and whether the sample is in its rest."""
        sums = self.part.weights.cumsum()
        drawn = find_by_inversion(sums, uniforms * sums[-1])
        self._correct_beginnings(np.arange(len(uniforms)), drawn)
        leaves = self.part.leaves[drawn]
        # a visited leaf has undecided tokens that have no row yet
        return leaves, self._tree.is_visited[leaves]

    def _correct_beginnings(self, samples: np.ndarray, drawn: np.ndarray) -> None:
        """Add the control variates of the leaves with the given indices."""
        predictions = self._leaf_predictions
        mean = float(self.part.weights @ predictions / self.part.weights.cumsum()[-1])
        self._correct(samples, predictions[drawn], mean, predictions.min(), predictions.max())

    def _predict(self, rows: np.ndarray, is_rest: np.ndarray) -> np.ndarray:
        """Return (n,) the predictions of texts or of their rests."""
        tree = self._tree
        if_ended = self._estimand.compute_numerator_if_ended(
            tree.truth_if_ended[:, rows], tree.scores[:, rows]
        )
        return self._predictor.predict(tree.situation[rows], is_rest, if_ended)

    def _predict_classes(self, row: Row) -> np.ndarray:
        """Return (classes,) the predictions of the next texts, 0 for decided ones."""
        if row.number not in self._row_predictions:
            if_ended = self._estimand.compute_numerator_if_ended(row.truth_if_ended, row.scores)
            is_text = np.zeros(len(if_ended), dtype=bool)
            predictions = self._predictor.predict(row.situations, is_text, if_ended)
            self._row_predictions[row.number] = np.where(row.is_undecided, predictions, 0.0)
        return self._row_predictions[row.number]

    def _correct(
        self,
        samples: np.ndarray,
        drawn: np.ndarray,
        mean: np.ndarray | float,
        least: np.ndarray | float,
        largest: np.ndarray | float,
    ) -> None:
        """Add the control variate of a draw; the arguments are those of `Corrections.add`."""
        n = len(samples)
        mean, least, largest = (np.broadcast_to(value, n) for value in (mean, least, largest))
        self.corrections.add(samples, self._weight[samples], drawn, mean, least, largest)

    def learn(self, predictor: TextPredictor) -> None:
        """Teach a predictor the complete samples, from each of their texts on."""
        for samples, situations, is_rest, numerators, weights in self._history:
            use = self.is_complete[samples] & (weights > 0)
            values = (self.numerator[samples[use]] - numerators[use]) / weights[use]
            predictor.learn(situations[use], is_rest[use], values.clip(0.0, 1.0))

    def _record(self, group: np.ndarray) -> None:
        """Keep where samples are, for the predictor."""
        situations = self._tree.situation[self._row[group]]
        state = (self._is_rest[group], self.numerator[group], self._weight[group])
        self._history.append((group, situations, *(column.copy() for column in state)))

    def drop_last(self, share: float) -> None:
        """Drop the last samples that are not complete, so that this share of them stays.

        Which samples are dropped may depend on anything, since only the values before the first
        missing one are used.
        """
        active = self._find_active()
        kept = int(share * len(active) + 0.5)
        if kept < len(active):
            self._kept = int(active[kept])

    @property
    def steps_left(self) -> int:
        """The largest number of tokens before a sample."""
        steps = self._tree.step[self._row[self._find_active()]]
        return int(self._tree.length - steps.min(initial=self._tree.length))

    def _find_active(self) -> np.ndarray:
        """Return the samples that are neither complete nor dropped."""
        return np.flatnonzero(~self.is_complete[: self._kept])

    @property
    def complete_count(self) -> int:
        """The number of complete samples before the first incomplete one."""
        incomplete = np.flatnonzero(~self.is_complete)
        return int(incomplete[0]) if len(incomplete) else len(self.is_complete)

    def run(self) -> Requests:
        """Yield requests to the model until all samples are complete or dropped."""
        while len(active := self._find_active()):
            yield from self._advance(active)

    def _advance(self, active: np.ndarray) -> Requests:
        """Move the samples with the shortest texts, which form a batch, on by one token."""
        tree = self._tree
        steps = tree.step[self._row[active]]
        group = active[steps == steps.min()]
        group = self._finish_decided(group)
        # a text whose part is whole goes on with the next part, whose steps come later
        group = group[tree.step[self._row[group]] == steps.min()]
        # a text that a server does not list keeps no tokens whose rest a sample could choose
        is_whole = ~self._is_rest[group] & tree.is_listed[self._row[group]]
        if tree.scores_children and is_whole.any():
            yield from self._look(group[is_whole])
        elif len(group):
            yield from self._visit(group)

    def _finish_decided(self, group: np.ndarray) -> np.ndarray:
        """Complete the samples whose text is decided; return the others."""
        tree = self._tree
        tree.score(np.unique(self._row[group]))
        is_decided = ~tree.is_undecided[self._row[group]]
        decided = group[is_decided]
        rows = self._row[decided]
        self._add(decided, self._estimand.compute_shares(tree.truth[:, rows], tree.scores[:, rows]))
        self.is_complete[decided] = True
        undecided: np.ndarray = group[~is_decided]
        return undecided

    def _visit(self, group: np.ndarray) -> Requests:
        """Evaluate the texts of samples, and move the samples on by one token."""
        tree = self._tree
        self._record(group)
        rows, text = np.unique(self._row[group], return_inverse=True)
        step = int(tree.step[rows[0]])
        draw = count_within(text)
        uniforms = np.zeros((len(rows), int(draw.max()) + 1))
        is_drawn = np.zeros(uniforms.shape, dtype=bool)
        # a sample may have chosen the rest by the second of its numbers
        uniforms[text, draw] = self._uniforms[2, step, group]
        is_drawn[text, draw] = True
        request = tree.build_request(rows, uniforms, is_drawn, self._predict_classes)
        result = yield request
        assert isinstance(result, StepResult)
        drawn_rows = tree.add_step(rows, request, result).drawn[text, draw]
        undecided = result.undecided[text]
        means = result.sums[text, -1] / np.maximum(undecided, _TINY)
        goes_on = self._add_decided(
            group, result.sums[text, :-1], undecided, means, self._uniforms[0, step, group]
        )
        tokens = result.drawn[text, draw]
        predictions, row_of = request.values[:, -1], request.rows.row_of[text]
        drawn = predictions[row_of, request.order.class_of[tokens]]
        # a decided class has the prediction 0
        least, largest = predictions.min(axis=1).clip(max=0.0), predictions.max(axis=1)
        self._correct(
            group[goes_on],
            drawn[goes_on],
            means[goes_on],
            least[row_of[goes_on]],
            largest[row_of[goes_on]],
        )
        self._row[group[goes_on]], self._is_rest[group[goes_on]] = drawn_rows[goes_on], False

    def _look(self, group: np.ndarray) -> Requests:
        """Evaluate texts, score what follows, and move the samples on by one token or a rest.

        Without transducers the scores of listed tokens are known only after the evaluation.
        """
        tree = self._tree
        self._record(group)
        rows, text = np.unique(self._row[group], return_inverse=True)
        request = tree.build_request(rows)
        result = yield request
        assert isinstance(result, StepResult)
        children = tree.add_step(rows, request, result)
        for index, row in enumerate(rows.tolist()):
            first = int(children.firsts[index])
            listed = np.arange(first, first + int(children.counts[index]))
            # what the row of the automaton decided is in the sums of the step
            is_late = ~request.is_known(index, tree.token[listed])
            self._choose_scored(group[text == index], row, listed, is_late, result.select(index))

    def _choose_scored(
        self,
        samples: np.ndarray,
        row: int,
        listed: np.ndarray,
        is_late: np.ndarray,
        step: StepResult,
    ) -> None:
        """Move samples on from one text by a listed token or its rest.

        Args:
            samples: the samples.
            row: the text.
            listed: (m,) int64, its listed children, which are scored.
            is_late: (m,) bool, whether a child was decided only by its score.
            step: the result of the text.
        """
        tree = self._tree
        is_undecided = tree.is_undecided[listed]
        decided = listed[is_late & ~is_undecided]
        shares = self._estimand.compute_shares(tree.truth[:, decided], tree.scores[:, decided])
        sums = step.sums + shares @ tree.probability[decided]
        undecided = float(step.undecided - tree.probability[decided].sum())
        options = np.append(listed[is_undecided], row)
        shares = tree.probability[options]
        rest = undecided - shares[:-1].sum()
        # a difference that is all rounding is no rest
        shares[-1] = rest if rest > _MAX_ROUNDING else 0.0
        is_rest = np.arange(len(options)) == len(options) - 1
        predictions = self._predict(options, is_rest)
        mean = float(shares @ predictions / max(shares.sum(), _TINY))
        n, position = len(samples), int(tree.step[row])
        goes_on = self._add_decided(
            samples,
            np.repeat(sums[np.newaxis], n, axis=0),
            np.full(n, shares.sum()),
            np.full(n, mean),
            self._uniforms[0, position, samples],
        )
        going = samples[goes_on]
        if len(going):
            sums = shares.cumsum()
            chosen = find_by_inversion(sums, self._uniforms[1, position, going] * sums[-1])
            self._correct(going, predictions[chosen], mean, predictions.min(), predictions.max())
            self._row[going] = options[chosen]
            self._is_rest[going] = chosen == len(options) - 1

    def _add_decided(
        self,
        group: np.ndarray,
        sums: np.ndarray,
        undecided: np.ndarray,
        predictions: np.ndarray,
        uniforms: np.ndarray,
    ) -> np.ndarray:
        """Add the decided share of the next tokens of each sample.

        Args:
            group: the samples.
            sums: (n, outcomes) float64, the shares of the decided tokens, weighted by probability.
            undecided: (n,) float64, the probability of the undecided tokens.
            predictions: (n,) float64, the mean of the predictions of these.
            uniforms: (n,) float64 from [0, 1).

        Returns:
            (n,) bool, the samples that go on with an undecided token.
        """
        # a rest has only its undecided tokens left: the decided ones counted at the first visit
        is_rest = self._is_rest[group]
        weight = self._weight[group]
        share = np.where(is_rest, 1.0, undecided)
        is_exact = (weight * share >= _MIN_EXACT_SHARE) | (share == 0)
        exact = group[is_exact & ~is_rest]
        # the decided share counts exactly for samples of much weight
        self._add(exact, sums[is_exact & ~is_rest].T)
        self._weight[group[is_exact]] *= share[is_exact]
        # other samples draw it against the undecided share
        draws = ~is_exact & ~is_rest
        ends = draws & (uniforms >= share)
        decided = sums / np.maximum(1 - share, _TINY)[:, np.newaxis]
        drawn, mean = np.where(ends, decided[:, 0], predictions), sums[:, 0] + share * predictions
        least, largest = (f(decided[:, 0], predictions) for f in (np.minimum, np.maximum))
        columns = (drawn, mean, least, largest)
        self._correct(group[draws], *(column[draws] for column in columns))
        self._add(group[ends], decided[ends].T)
        goes_on: np.ndarray = ~ends & (undecided > 0)
        self.is_complete[group[~goes_on]] = True
        return goes_on

    def _add(self, samples: np.ndarray, shares: np.ndarray) -> None:
        """Add (outcomes, n) shares to samples, in proportion to their weights."""
        self.numerator[samples] += self._weight[samples] * shares[0]
        self.denominator[samples] += self._weight[samples] * (shares[0] + shares[1])
