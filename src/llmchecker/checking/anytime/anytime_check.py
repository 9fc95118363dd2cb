"""The anytime check of a query: one loop that refines and samples an explored tree.

The tree splits the probability into D (decided true), V (decided false) and U = 1 - D - V. Each
round draws samples from the undecided part, and the texts that they visit join the tree before the
next round. So D and V grow, and the certain bounds narrow, while the confidence sequence gets
values with an ever smaller range. Refinements between the rounds narrow the bounds further. Every
interval holds, whenever the work stops.

A check asks the model nothing itself: `run` yields requests. So a caller may serve several checks
from one batch, and may stop between two requests.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from llmchecker.checking.answer import Progress
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.confidence_sequence import (
    LEAST_VARIANCE,
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.continuation_sampler import ContinuationRound
from llmchecker.checking.anytime.control_variates import CORRECTION_LIMITS, TextPredictor
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.path_sampler import (
    ModelAnswer,
    Request,
    Requests,
    SampleRound,
    UndecidedPart,
    split_tree,
)
from llmchecker.checking.anytime.refinement import expect_decided_share, select_batch
from llmchecker.checking.anytime.step_request import ContinuationRequest
from llmchecker.checking.anytime.token_step import StepResult
from llmchecker.checking.bounds import bound_probability, evaluate_bounds
from llmchecker.checking.interval import PROBABILITIES, Interval
from llmchecker.checking.tree_sums import PathSums
from llmchecker.errors import ImpossibleCondition
from llmchecker.properties.logic.ast import PathQuantifier, Probability

_MIN_ROUND = 16
"""The number of samples of the first rounds, unless the budget allows fewer."""
_MAX_ROUND = 4096
_SAMPLES_PER_NEW_SAMPLE = 4
"""The number of earlier samples for each sample of a later round.

A threshold, a width or a person may end the work after any round, and larger rounds would end it
later. Where a number of passes or seconds ends it, there is one earlier sample for each new one,
since large rounds make large batches.
"""
_MAX_LAST_GROWTH = 4
"""The largest ratio of a last round to a round of the usual size, where time ends the work."""
_MAX_ROUND_COST = 1 / 8
"""The largest share of the samples of a limited time that a second round may cost."""
_MIN_LAST_ROUND, _MIN_LAST_SHARE = 4, 1 / 12
"""The least number of samples of a last round: the smaller of this and a share of the others."""
_REFINED_SHARE = 0.3
"""The largest share of refinements in the passes after the first samples.

Samples visit texts in proportion to their probability, and a refinement visits those that narrow
the certain bounds most. With this share the interval of samples is about a fifth wider. Only
samples are drawn if a threshold or a width ends the work.
"""
_MIN_REFINED_SPEED = 1 / 4
"""The least relative speed of a refinement, as a share of the speed of samples.

Both narrow an interval by a share of its width. At a long horizon no number of passes decides much
of the probability, so that only samples are worth their passes.
"""
_FIRST_SAMPLES = 256
"""The number of samples before the first refinement: they narrow the interval most."""
_MIN_REFINEMENT, _MAX_REFINEMENT = 16, 96
"""The limits of a batch of texts that a refinement between two rounds visits.

A smaller batch is as slow. The texts of a batch have one length: a larger one would use up the
passes on texts whose continuations no further batch could decide.
"""
_BUDGET_SHARE = 0.95
"""The share of the remaining passes that a round may be expected to need."""
_SAMPLES_PER_PASS = 16
"""The largest number of samples that one pass of the budget pays for.

Samples of few texts share evaluations, so that thousands of them may need a single pass. They have
costs of their own, which a limit of passes must limit too.
"""
_MIN_MEASURED_SAMPLES = 16
"""The least number of samples that choose a limit of control variates."""
_MAX_ROUNDING = 1e-6
"""The width of certain bounds from which on rounding may be all of it."""


@dataclass(frozen=True)
class _PlannedRound:
    """A round of samples that are drawn, but have no values yet.

    Attributes:
        samples: the round.
        first: number of its first sample.
        expected_values: the number of values that are expected from the first of the round on.
    """

    samples: SampleRound
    first: int
    expected_values: float

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.samples.is_complete)


class AnytimeCheck:
    """A query on a model's texts after one start string, within a budget.

    Attributes:
        tree: the explored tree.
        is_finished: whether the answer is as narrow as wanted, or the passes are used up.

    Args:
        tree: an explored tree of the query's estimand; only its root at first.
        asked: the query, its quantifiers and the horizon.
        budget: the limits on the costs, and the confidence.
        report: called after every round; the work ends when it returns true.
        clock: returns the passes that the remaining time is expected to allow in so many batches;
            None for no limit.
    """

    def __init__(
        self,
        tree: ExploredTree,
        asked: CheckedQuery,
        budget: Budget,
        report: Callable[[Progress], bool] = lambda progress: False,
        clock: Callable[[float], float | None] = lambda batches: None,
    ) -> None:
        self.tree, self._budget, self._report, self._clock = tree, budget, report, clock
        self._max_passes: float | None = budget.passes
        self.is_finished = False
        self._start_time = time.monotonic()
        can_estimate = asked.estimation_obstacle is None and not budget.certain
        self._estimand = tree.estimand
        self._query, self._paths = asked.query, asked.paths
        root = asked.query.root
        self._threshold = root.threshold if isinstance(root, Probability) else None
        threshold = None if self._threshold is None else float(self._threshold)
        self._sequence = ConfidenceSequence(budget.confidence, threshold)
        self._predictor = TextPredictor()
        # for each limit of control variates, the values of all samples in units of U
        self._unit_values = np.zeros((len(CORRECTION_LIMITS), 0))
        # refinements would delay the end by a threshold or a width
        self._refines = self._threshold is None and budget.width == 0
        self._due_refinements = 0.0
        self._refined_share = _REFINED_SHARE
        self._is_timed = self._refines and budget.passes is None and budget.seconds is not None
        self._passes_per_sample = float(tree.length)
        self._drawn_samples = 0
        self._plans_ahead = False
        self._next_round: _PlannedRound | None = None
        self._sampling_costs = 0.0  # what samples cost beyond their passes
        self._has_condition = False
        self._is_estimable = self._can_sample = can_estimate
        self._mean_evidence = MeanEvidence()

    @property
    def samples(self) -> int:
        """The number of samples in the interval."""
        return len(self._sequence)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the samples, not cut to the certain bounds; None without any."""
        if self.samples == 0:
            return None
        low, high = (self._estimand.to_answer(end) for end in self._sequence.interval)
        return low, high

    @property
    def mean_evidence(self) -> MeanEvidence | None:
        """The evidence about a mean of probabilities; None without samples."""
        estimand = self._estimand
        if not self._is_estimable or estimand.is_ratio or estimand.is_score:
            return None
        # a round without a complete sample counts too
        return self._mean_evidence if any(self._mean_evidence.used) else None

    @property
    def spent_passes(self) -> float:
        """The passes of the budget that the work so far has cost."""
        return self.tree.passes + self._sampling_costs

    @property
    def rounding_error(self) -> float:
        """A limit above the rounding error of the ends of both intervals."""
        certain = self._compute_bounds()
        rounding = certain.upper - certain.lower - self._undecided_width
        # an interval of samples has the relative error of the sums too
        return max(rounding, self.tree.rounding_error * _find_scale(certain))

    @property
    def _undecided_width(self) -> float:
        """The width of the certain bounds without rounding."""
        part = split_tree(self.tree)
        size = self._largest_denominator(part)
        # without any mass of the condition nothing is known
        width = self._estimand.size * part.total / size if size > 0 else 1.0
        # a text may decide one formula of a conditional before the other
        return min(width, self._compute_bounds().width) if self._estimand.is_ratio else width

    @property
    def is_exact(self) -> bool:
        """Whether the tree decides the answer up to rounding, so that no estimate is needed."""
        return self._is_estimable and self._is_rounding()

    @property
    def estimate(self) -> float | None:
        """The mean of the samples; None if no sample meets the condition of a conditional."""
        if self.samples == 0 or not self._has_condition:
            return None
        return self._estimand.to_answer(self._sequence.estimate)

    def compute_progress(self) -> Progress:
        """Compute both intervals from the tree and the samples so far."""
        certain = self._compute_bounds()
        lower, upper = certain.lower, certain.upper
        low = high = None
        if (interval := self.interval) is not None:
            # the two never contradict each other but for rounding and misses
            low = min(max(interval[0], lower), upper)
            high = max(min(interval[1], upper), lower)
        seconds = time.monotonic() - self._start_time
        return Progress(self.tree.passes, seconds, lower, upper, low, high, self.samples)

    def limit_passes(self, passes: float) -> None:
        """Replace the maximum number of texts that the model evaluates for this check.

        The limit may not depend on random numbers of this check's later samples.
        """
        self._max_passes = passes

    def run(self) -> Requests:
        """Yield requests to the model until the answer is narrow enough or passes run out.

        The caller may stop at any time: the answer is right after every request.

        A round of continuations is drawn while a server works on the one before. Its texts and its
        bets depend on earlier rounds only, and its random numbers on no round, so that its values
        have the right mean, whatever the round before shows.
        """
        self._plans_ahead = True
        while not self.is_finished:
            yield from self.advance()

    def advance(self) -> Requests:
        """Yield the requests of one round, or finish."""
        progress = self.compute_progress()
        is_cancelled = self._report(progress)
        if is_cancelled or self._is_narrow(progress) or self._remaining_passes() < 1:
            self.is_finished = True
            return
        passes, samples = self.tree.passes, self.samples
        if self._due_refinements >= _MIN_REFINEMENT:
            due = min(self._due_refinements, _MAX_REFINEMENT, self._remaining_passes())
            yield from self._refine(due, must_pay=True)
            visited = self.tree.passes - passes
            # where nothing is left to visit, samples may still draw tokens that are not listed
            self._due_refinements = self._due_refinements - visited if visited else 0.0
            self._refined_share = _REFINED_SHARE if visited else 0.0
            return
        planned, self._next_round = self._next_round or self._plan_round(), None
        if planned is not None:
            yield from self._sample(planned)
        else:
            # a batch that time interrupts would be lost
            yield from self._refine(self._remaining_passes())
        # nothing is left to visit, or the next round would need more passes than are left
        self.is_finished = self.tree.passes == passes and self.samples == samples

    def compute_certain_interval(self) -> Interval:
        """Return the certain bounds of a probability or a score, rounded outwards.

        Only the tree counts. A sum without any term is exact, so that 0 and 1 are not moved.

        Raises:
            ImpossibleCondition: no text can satisfy the condition of a conditional.
        """
        estimand = self._estimand
        if self._paths:
            return bound_probability(self._sums, self._query)
        (mass,) = self.tree.find_masses()
        if not estimand.is_score:
            return mass.interval
        low, high = (estimand.to_answer(end) for end in (mass.interval.lower, mass.interval.upper))
        # an offset and a size are rounded too
        return Interval(math.nextafter(low, -math.inf), math.nextafter(high, math.inf))

    def bound_answer(self) -> Interval:
        """Return the certain bounds of the answer, which for a threshold is its truth.

        Raises:
            ImpossibleCondition: as in `compute_certain_interval`.
        """
        if self._paths:
            return evaluate_bounds(self._sums, self._query)
        return self.compute_certain_interval()

    @property
    def _sums(self) -> PathSums:
        """The evaluator of the query's path formulas, as far as the tree is explored."""
        return PathSums(dict(zip(self._paths, self.tree.find_masses(), strict=True)).__getitem__)

    def _compute_bounds(self) -> Interval:
        """Return the certain interval; all probabilities for an impossible condition."""
        try:
            return self.compute_certain_interval()
        except ImpossibleCondition:
            return PROBABILITIES

    def _largest_denominator(self, part: UndecidedPart) -> float:
        return part.denominator + part.total if self._estimand.is_ratio else 1.0

    def _is_narrow(self, progress: Progress) -> bool:
        """Return whether the answer is exact, as narrow as wanted, or decides a threshold."""
        # a condition that no text has met so far may be impossible
        part = split_tree(self.tree)
        if self._estimand.is_ratio and part.denominator == 0 and part.total > 0:
            return False
        is_wanted = progress.width <= self._budget.width
        if is_wanted or self._is_rounding():
            return not self._needs_every_text() or self.bound_answer().is_exact
        if self.tree.passes == 0:
            return False
        ends = [(progress.lower, progress.upper)]
        if progress.low is not None and progress.high is not None:
            ends.append((progress.low, progress.high))
        # the rounding error takes longer to compute, so it is only where it can matter
        return self._is_decided(ends) and self._is_decided(ends, self.rounding_error)

    def _needs_every_text(self) -> bool:
        """Return whether a threshold of 0 or 1 depends on undecided texts, however improbable."""
        root = self._query.root
        is_extreme = isinstance(root, PathQuantifier) or (
            self._threshold is not None and Fraction(self._threshold) in (0, 1)
        )
        # no number of passes shows what a server does not list
        can_show = bool(self._paths) and self.tree.lists_vocabulary
        return is_extreme and can_show and split_tree(self.tree).total > 0

    def _is_decided(self, ends: Sequence[tuple[float, float]], margin: float = 0.0) -> bool:
        """Return whether an interval, with a margin, excludes the threshold."""
        if self._threshold is None:
            return False
        threshold = Fraction(self._threshold)
        return any(
            not Fraction(low - margin) <= threshold <= Fraction(high + margin) for low, high in ends
        )

    def _is_rounding(self) -> bool:
        """Return whether the certain bounds differ by no more than rounding errors."""
        width = self._undecided_width
        # no rounding error is computed where it cannot matter
        return width <= 0 or (
            width < _MAX_ROUNDING
            and width <= self.rounding_error * _find_scale(self._compute_bounds())
        )

    def _remaining_seconds(self) -> float:
        seconds = self._budget.seconds
        end = math.inf if seconds is None else self._start_time + seconds
        return end - time.monotonic()

    def _remaining_passes(self, batches: float = 1.0) -> float:
        """Return the passes that the limits are expected to allow in so many batches."""
        limits = [math.inf]
        if self._max_passes is not None:
            limits.append(self._max_passes - self.spent_passes)
        if (affordable := self._clock(batches)) is not None:
            limits.append(affordable)
        return min(limits)

    def _expect_sampling_passes(self) -> float:
        """Return the passes that the limits are expected to allow for samples."""
        # a server continues whole texts, and any other model each token of all samples
        remaining = self._remaining_passes(self.tree.length if self.tree.lists_vocabulary else 1.0)
        if not self._refines:
            return remaining
        first = max(0, _FIRST_SAMPLES - self._drawn_samples) * self._passes_per_sample
        return min(remaining, first + (1 - self._refined_share) * max(0.0, remaining - first))

    def _plan_samples(self, pending: int) -> int:
        """Return the number of samples of the next round; 0 for a refinement.

        A refinement uses the passes that are too few for another sample.

        Args:
            pending: number of samples that are drawn but not complete.
        """
        # the first pass of all shows where texts begin
        if not self._can_sample or self.tree.passes == 0:
            return 0
        # a server continues whole texts, so that its rounds have one batch, whatever the length
        has_steps = self._is_timed and self.tree.lists_vocabulary
        # where time allows few rounds, larger batches show first what a text of a batch costs
        steps = self.tree.length / _MAX_ROUND_COST
        is_measured = self.tree.passes >= self.tree.batch_texts
        if has_steps and not is_measured and self._remaining_passes(steps) < steps:
            return 0
        passes = self._expect_sampling_passes()
        affordable: float = _BUDGET_SHARE * passes / self._passes_per_sample - pending
        batch, is_first = self.tree.batch_texts, self._drawn_samples == 0
        has_limit = self._max_passes is not None or self._budget.seconds is not None
        divisor = 1 if self._refines and has_limit else _SAMPLES_PER_NEW_SAMPLE
        # a smaller batch takes the model about as long
        wanted: float = max(_MIN_ROUND, batch, self._drawn_samples // divisor)
        if self._max_passes is None:
            # the time of one text alone was measured, which is about that of a batch
            if is_first and affordable >= 1:
                affordable = max(affordable, batch)
                if self._is_timed:
                    wanted = max(_MIN_ROUND, self._plan_first_round() if has_steps else batch // 2)
            # a larger round takes less time for each sample
            elif not is_first and affordable < _MAX_LAST_GROWTH * wanted:
                wanted = affordable
            least: float = min(_MIN_ROUND, self._drawn_samples)
        else:
            # until a round has shown its costs, each token may take two passes: one that is not
            # listed needs another; samples that the end of the passes interrupts have no values
            if is_first and affordable >= 2:
                affordable /= 2
            # a few samples after many narrow hardly anything, and their small batches are slow
            least = min(_MIN_LAST_ROUND, self._drawn_samples * _MIN_LAST_SHARE)
        count = int(min(wanted, _MAX_ROUND, affordable))
        return count if count >= least else 0

    def _plan_first_round(self) -> float:
        """Return the number of samples of the first round of a limited time.

        Later rounds, whose bets know more, get most of the time. But each round has the costs of
        its batches, so that a long text leaves time for one round alone.
        """
        length = self.tree.length
        one, two = (self._remaining_passes(rounds * length) for rounds in (1, 2))
        is_alone = one - two > _MAX_ROUND_COST * one
        return one / length if is_alone else self.tree.batch_texts // 2

    def _refine(self, max_passes: float, *, must_pay: bool = False) -> Requests:
        """Visit the texts that narrow the certain bounds most.

        Args:
            max_passes: the largest number of texts.
            must_pay: whether to visit them only if samples would not be worth more.
        """
        tree = self.tree
        while len(rows := select_batch(tree, max_passes)):
            if must_pay and not self._is_worthwhile(rows):
                return
            # characters may decide a text without a pass
            tree.score(rows)
            if len(rows := rows[tree.is_undecided[rows]]):
                request = tree.build_request(rows)
                result = yield request
                assert isinstance(result, StepResult)
                tree.add_step(rows, request, result)
                return

    def _is_worthwhile(self, rows: np.ndarray) -> bool:
        """Return whether visits narrow the bounds nearly as fast as samples their interval.

        The width of an interval of n samples is in proportion to 1 / sqrt(n), so that a further
        pass narrows it by the share 1 / (2 n) of all passes n.
        """
        narrowed_by_samples = len(rows) / (2 * self.tree.passes)
        share = expect_decided_share(self.tree, rows)
        return share >= _MIN_REFINED_SPEED * narrowed_by_samples

    def _plan_round(self, pending: int = 0) -> _PlannedRound | None:
        """Draw a round of samples and choose its bets; None for a refinement.

        Args:
            pending: as in `_plan_samples`.
        """
        count, part = self._plan_samples(pending), split_tree(self.tree)
        # if nothing is undecided, the bounds are the answer
        if count == 0 or part.total == 0:
            return None
        # bets on a round must not depend on what it shows, not even on its passes or seconds
        expected_values = count + self._expect_samples(pending + count)
        # a server that lists few tokens samples whole continuations itself
        round_class = SampleRound if self.tree.lists_vocabulary else ContinuationRound
        samples = round_class(
            self.tree,
            self._estimand,
            part,
            self._predictor,
            self._budget.seed,
            self._drawn_samples,
            count,
        )
        self._drawn_samples += count
        return _PlannedRound(samples, self._drawn_samples - count, expected_values)

    def _sample(self, planned: _PlannedRound) -> Requests:
        """Complete a round of samples, and narrow the interval by them."""
        passes, count = self.tree.passes, planned.count
        try:
            yield from self._within_passes(planned)
        # also after a stop in the middle: the complete samples count
        finally:
            self._append(planned.samples, planned.expected_values)
        visited = self.tree.passes - passes
        cost = max(visited, count / _SAMPLES_PER_PASS)
        self._sampling_costs += cost - visited
        self._passes_per_sample = cost / count
        if self._refines and planned.first >= _FIRST_SAMPLES:
            self._due_refinements += cost * _REFINED_SHARE / (1 - _REFINED_SHARE)

    def _within_passes(self, planned: _PlannedRound) -> Requests:
        """Yield the requests of a round as long as the budget has passes for them."""
        requests = planned.samples.run()
        answer: ModelAnswer | None = None
        asked_time = time.monotonic()
        while True:
            self._drop_late_samples(planned.samples, time.monotonic() - asked_time)
            asked_time = time.monotonic()
            try:
                request = next(requests) if answer is None else requests.send(answer)
            except StopIteration:
                return
            limited = request.limit_passes(self._passes_limit() - self.spent_passes)
            if limited is None:
                requests.close()
                return
            # a shortened request uses up the passes
            is_whole = limited is request and isinstance(limited, ContinuationRequest)
            if self._plans_ahead and is_whole:
                self._next_round = self._next_round or self._plan_round(planned.count)
            answer = yield self._add_expected(limited)

    def _drop_late_samples(self, samples: SampleRound, step_seconds: float) -> None:
        """Drop the samples for which no time is left.

        The samples of a round end together, so that time would interrupt all of them.

        Args:
            samples: the round.
            step_seconds: the time of the last token of all samples.
        """
        # without a limit of time, the samples are not looked at
        if math.isinf(remaining := self._remaining_seconds()):
            return
        steps = samples.steps_left
        if step_seconds * steps <= remaining:
            return
        if (affordable := self._clock(steps)) is not None:
            per_token = self._passes_per_sample / self.tree.length
            samples.drop_last(_BUDGET_SHARE * affordable / per_token)

    def _add_expected(self, request: Request) -> Request:
        """Return a request for continuations with the tasks of the next round."""
        if self._next_round is None or not isinstance(request, ContinuationRequest):
            return request
        assert isinstance(self._next_round.samples, ContinuationRound)
        return replace(request, expected=self._next_round.samples.prepare()[1])

    def _passes_limit(self) -> float:
        return math.inf if self._max_passes is None else self._max_passes

    def _append(self, samples: SampleRound, planned: float) -> None:
        """Add the values of a round to the confidence sequence.

        Args:
            samples: the round.
            planned: the number of values that were expected from the first of the round on.
        """
        count, part = samples.complete_count, samples.part
        index = self._choose_limit(part, planned)
        numerator = samples.numerator - samples.corrections.sums[index]
        self._mean_evidence = self._mean_evidence.add_round(
            part.numerator + part.total * numerator[:count],
            len(samples.is_complete),
            *_find_range(part, index),
            planned,
        )
        # Which samples are incomplete depends on their texts. All values before the first of them
        # may be used, as the interval holds at every time, but no further bet may follow.
        self._can_sample = count == len(samples.is_complete)
        start = 0
        while start < count:
            # bets on later values use what the earlier ones show
            if start > 0:
                index = self._choose_limit(part, planned - start)
            stop = min(count, start + max(self.samples, _MIN_MEASURED_SAMPLES))
            self._narrow_interval(samples, slice(start, stop), index, planned - start)
            start = stop
        # only later rounds may use what these samples show
        if count:
            samples.learn(self._predictor)

    def _narrow_interval(
        self, samples: SampleRound, chosen: slice, index: int, planned: float
    ) -> None:
        """Narrow the interval by some samples of a round.

        Args:
            samples: the round.
            chosen: the samples, all of them complete.
            index: the index of the limit of control variates.
            planned: the number of values that are expected from the first of these on.
        """
        part, (low, high) = samples.part, _find_range(samples.part, index)
        is_ratio = self._estimand.is_ratio
        ratio = self._sequence.estimate if is_ratio else 0.0
        denominator = samples.denominator[chosen]
        # a row for each limit of control variates
        numerators = samples.numerator[chosen] - samples.corrections.sums[:, chosen]
        unit_values = numerators - ratio * denominator
        variances = predict_variances(self._unit_values[index], unit_values[index])
        self._sequence.narrow_interval(
            Values(
                numerator=part.numerator + part.total * numerators[index],
                denominator=(
                    part.denominator + part.total * denominator
                    if is_ratio
                    else np.ones(len(denominator))
                ),
                low=low,
                high=high,
                size=self._largest_denominator(part),
                variances=np.maximum(part.total**2 * variances, LEAST_VARIANCE),
                planned=planned,
            )
        )
        met = part.denominator + part.total * denominator.max() if is_ratio else 1.0
        self._has_condition = self._has_condition or met > 0
        self._unit_values = np.concatenate([self._unit_values, unit_values], axis=1)

    def _choose_limit(self, part: UndecidedPart, planned: float) -> int:
        """Return the index of the limit of control variates that promises the least width.

        The width counts when passes end, or when a threshold is expected to be decided.

        Args:
            part: the undecided part of which the next values are.
            planned: the number of values that are expected from now on.
        """
        # a ratio needs values that are never negative
        if self._estimand.is_ratio or self.samples < _MIN_MEASURED_SAMPLES:
            return 0
        error = math.log(2 / (1 - self._budget.confidence))
        count = self.samples + planned
        if self._threshold is not None:
            distance = abs(self._sequence.estimate - float(self._threshold)) / part.total
            count = min(count, max(self.samples, self._expect_decisive_count(distance, error)))

        variances = self._unit_values.var(axis=1)
        # few values may agree by chance, so each variance is drawn to that of plain values
        weight = self.samples / (self.samples + _MIN_MEASURED_SAMPLES)
        deviations = np.sqrt(weight * variances + (1 - weight) * variances[0])

        def expect_width(index: int) -> float:
            # the width of an interval of means, and the part that the range of values costs
            return 2 * float(deviations[index]) * math.sqrt(2 * error / count) + (
                float(1 + CORRECTION_LIMITS[index].sum()) * error / count
            )

        return min(range(len(CORRECTION_LIMITS)), key=expect_width)

    def _expect_decisive_count(self, distance: float, error: float) -> float:
        """Return the number of samples that a decision of the threshold needs at best.

        The logarithm of the fastest wealth grows by s^2 / (2 v) with a value of variance v whose
        mean is s from the threshold (Kelly 1956, "A New Interpretation of Information Rate").
        """
        if distance == 0:
            return math.inf
        ratio = float(self._unit_values[0].std()) / distance
        # a product may be infinite, where a power raises an error
        return 2 * error * ratio * ratio

    def _expect_samples(self, count: int) -> float:
        """Return the expected number of samples after the next `count`."""
        passes = self._expect_sampling_passes()
        # without a limit, as many as there are
        if math.isinf(passes):
            return float(max(self.samples, _MIN_ROUND))
        return max(0.0, passes / self._passes_per_sample - count)


def _find_scale(interval: Interval) -> float:
    """Return the size of an interval's ends, at least 1."""
    return max(1.0, abs(interval.lower), abs(interval.upper))


def _find_range(part: UndecidedPart, index: int) -> tuple[float, float]:
    """Return the least and the largest numerator of a sample with a limit of control variates."""
    below, above = CORRECTION_LIMITS[index].tolist()
    return part.numerator - part.total * above, part.numerator + part.total * (1 + below)
