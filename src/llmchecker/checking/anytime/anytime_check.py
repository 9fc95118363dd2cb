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
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from llmchecker.checking.answer import Progress
from llmchecker.checking.anytime.continuation_sampler import ContinuationRound
from llmchecker.checking.anytime.control_variates import TextPredictor
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.path_sampler import (
    ModelAnswer,
    Request,
    Requests,
    SampleRound,
    split_tree,
)
from llmchecker.checking.anytime.refinement import select_batch
from llmchecker.checking.anytime.round_plan import RoundPlan
from llmchecker.checking.anytime.sample_interval import SampleInterval
from llmchecker.checking.anytime.step_request import ContinuationRequest
from llmchecker.checking.anytime.storm_bounds import StormBounds
from llmchecker.checking.anytime.token_step import StepResult
from llmchecker.checking.anytime.tree_export import build_scored_tree
from llmchecker.checking.bounds import bound_probability, evaluate_bounds
from llmchecker.checking.budget import Budget
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.sample_values import SampleValues
from llmchecker.checking.tree_sums import PathSums
from llmchecker.errors import ImpossibleCondition
from llmchecker.properties.logic.ast import PathQuantifier, Probability
from llmchecker.properties.property import Property
from llmchecker.utils.interval import PROBABILITIES, Interval

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
        rounds: the plan of the rounds, with the costs so far.
        samples: the interval of the samples.
        is_finished: whether the answer is as narrow as wanted, or the passes are used up.
        storm_bounds: the bounds of a query that single texts do not decide; None for sums.

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
        asked: Property,
        budget: Budget,
        report: Callable[[Progress], bool] = lambda progress: False,
        clock: Callable[[float], float | None] = lambda batches: None,
    ) -> None:
        self.tree, self._budget, self._report = tree, budget, report
        self.is_finished = False
        self.storm_bounds = None if asked.has_sums else StormBounds(asked)
        self._start_time = time.monotonic()
        self._estimand = tree.estimand
        self._query, self._paths = asked.query, asked.paths
        root = asked.query.root
        self._threshold = root.threshold if isinstance(root, Probability) else None
        self._limit = asked.limit if self._threshold is None else self._threshold
        # refinements would delay the end by a threshold or a width
        refines = self._limit is None and budget.width == 0
        self.rounds = RoundPlan(tree, budget, clock, refines=refines)
        threshold = None if self._threshold is None else float(self._threshold)
        self.samples = SampleInterval(tree.estimand, budget.confidence, threshold)
        self._predictor = TextPredictor()
        self._plans_ahead = self._is_cancelled = False
        self._next_round: _PlannedRound | None = None
        self._is_estimable = asked.estimation_obstacle is None and not budget.certain
        self._can_sample = self._is_estimable

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
        size = part.largest_denominator
        # without any mass of the condition nothing is known
        width = self._estimand.size * part.total / size if size > 0 else 1.0
        # a text may decide one formula of a conditional before the other
        return min(width, self._compute_bounds().width) if self._estimand.is_ratio else width

    @property
    def is_exact(self) -> bool:
        """Whether the tree decides the answer up to rounding, so that no estimate is needed."""
        return self._is_estimable and self._is_rounding()

    @property
    def sample_values(self) -> SampleValues | None:
        """The values of the samples so far; None if no sample can estimate the answer."""
        return self.samples.values if self._is_estimable else None

    def compute_progress(self) -> Progress:
        """Compute both intervals from the tree and the samples so far."""
        certain, sampled = self._compute_bounds(), None
        if (ends := self.samples.ends) is not None:
            # the two never contradict each other but for rounding and misses
            sampled = Interval(*map(certain.clip, ends))
        seconds = time.monotonic() - self._start_time
        return Progress(self.tree.passes, seconds, certain, sampled, len(self.samples))

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
        yield from self._list_texts()

    def _list_texts(self) -> Requests:
        """List texts against a requirement by one pass, if the tree has none.

        A visit sums the tokens that decide, and lists only the most probable tokens.
        """
        threshold = find_threshold(self._query)
        if threshold is None or len(self._paths) != 1 or self._is_cancelled:
            return
        progress = self.compute_progress()
        # a requirement that holds needs no text against it
        if threshold.compare(progress.narrower_interval) or self.rounds.unspent_passes < 1:
            return
        truth = int(threshold.comparison in ("<=", "<"))
        if (listing := self.tree.build_listing(truth)) is not None:
            row, request = listing
            result = yield request
            assert isinstance(result, StepResult)
            self.tree.add_listing(row, request, result, truth)

    def advance(self) -> Requests:
        """Yield the requests of one round, or finish."""
        if self.storm_bounds is not None:
            self.storm_bounds.update(
                self.tree.passes,
                lambda: build_scored_tree(self.tree)[0],
                self.rounds.seconds_left,
            )
        progress = self.compute_progress()
        is_cancelled = self._report(progress)
        self._is_cancelled = is_cancelled
        if is_cancelled or self._is_narrow(progress) or self.rounds.expect_passes() < 1:
            self.is_finished = True
            return
        passes, samples = self.tree.passes, len(self.samples)
        if (due := self.rounds.plan_refinement()) > 0:
            yield from self._refine(due, must_pay=True)
            self.rounds.add_refinement(self.tree.passes - passes)
            return
        planned, self._next_round = self._next_round or self._plan_round(), None
        if planned is not None:
            yield from self._sample(planned)
        else:
            # a batch that time interrupts would be lost
            yield from self._refine(self.rounds.expect_passes())
        # nothing is left to visit, or the next round would need more passes than are left
        self.is_finished = self.tree.passes == passes and len(self.samples) == samples

    def compute_certain_interval(self) -> Interval:
        """Return the certain bounds of a probability or a score, rounded outwards.

        Only the tree counts. A sum without any term is exact, so that 0 and 1 are not moved. A
        combination of several probabilities has no number, but the bounds of its truth.

        Raises:
            ImpossibleCondition: no text can satisfy the condition of a conditional.
        """
        estimand = self._estimand
        if self.storm_bounds is not None:
            return self.storm_bounds.figure
        if self._paths:
            return bound_probability(self._sums, self._query)
        (mass,) = self.tree.find_masses()
        low, high = (estimand.to_answer(end) for end in (mass.interval.lower, mass.interval.upper))
        # an offset and a size are rounded too
        return Interval(math.nextafter(low, -math.inf), math.nextafter(high, math.inf))

    def bound_answer(self) -> Interval:
        """Return the certain bounds of the answer, which for a threshold is its truth.

        Raises:
            ImpossibleCondition: as in `compute_certain_interval`.
        """
        if self.storm_bounds is not None:
            return self.storm_bounds.answer
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

    def _is_narrow(self, progress: Progress) -> bool:
        """Return whether the answer is exact, as narrow as wanted, or decides a threshold."""
        # a condition that no text has met so far may be impossible
        part = split_tree(self.tree)
        if self._estimand.is_ratio and part.denominator == 0 and part.total > 0:
            return False
        is_wanted = progress.width <= self._budget.width
        if self.storm_bounds is not None:
            is_decided = not self._query.is_numeric and self.storm_bounds.answer.is_exact
            return is_wanted or is_decided or part.total <= 0
        if is_wanted or self._is_rounding():
            return not self._needs_every_text() or self.bound_answer().is_exact
        if self.tree.passes == 0:
            return False
        intervals = [progress.certain, progress.narrower_interval]
        # the rounding error takes longer to compute, so it is only where it can matter
        return self._is_decided(intervals) and self._is_decided(intervals, self.rounding_error)

    def _needs_every_text(self) -> bool:
        """Return whether a threshold of 0 or 1 depends on undecided texts, however improbable."""
        root = self._query.root
        is_extreme = isinstance(root, PathQuantifier) or (
            self._threshold is not None and Fraction(self._threshold) in (0, 1)
        )
        # no number of passes shows what a server does not list
        can_show = bool(self._paths) and self.tree.lists_vocabulary
        return is_extreme and can_show and split_tree(self.tree).total > 0

    def _is_decided(self, intervals: Sequence[Interval], margin: float = 0.0) -> bool:
        """Return whether an interval, with a margin, excludes the threshold or the limit."""
        if self._limit is None:
            return False
        limit = Fraction(self._limit)
        return any(
            not Fraction(each.lower - margin) <= limit <= Fraction(each.upper + margin)
            for each in intervals
        )

    def _is_rounding(self) -> bool:
        """Return whether the certain bounds differ by no more than rounding errors."""
        width = self._undecided_width
        # no rounding error is computed where it cannot matter
        return width <= 0 or (
            width < _MAX_ROUNDING
            and width <= self.rounding_error * _find_scale(self._compute_bounds())
        )

    def _refine(self, max_passes: float, *, must_pay: bool = False) -> Requests:
        """Visit the texts that narrow the certain bounds most.

        Args:
            max_passes: the largest number of texts.
            must_pay: whether to visit them only if samples would not be worth more.
        """
        tree = self.tree
        first_texts = self.rounds.first_batch_texts
        while len(rows := select_batch(tree, max_passes, first_texts)):
            if must_pay and not self.rounds.is_worthwhile(rows):
                return
            # characters may decide a text without a pass
            step = tree.step[rows[0]]
            tree.score(rows)
            # a text whose part is whole goes on with the next part, which may wait
            if len(rows := rows[tree.is_undecided[rows] & (tree.step[rows] == step)]):
                request = tree.build_request(rows)
                result = yield request
                assert isinstance(result, StepResult)
                tree.add_step(rows, request, result)
                return

    def _plan_round(self, pending: int = 0) -> _PlannedRound | None:
        """Draw a round of samples and choose its bets; None for a refinement.

        Args:
            pending: as in `RoundPlan.plan_samples`.
        """
        count = self.rounds.plan_samples(pending) if self._can_sample else 0
        part = split_tree(self.tree)
        # if nothing is undecided, the bounds are the answer
        if count == 0 or part.total == 0:
            return None
        # bets on a round must not depend on what it shows, not even on its passes or seconds
        expected_values = count + self.rounds.expect_samples(pending + count, len(self.samples))
        # a server that lists few tokens samples whole continuations itself
        round_class = SampleRound if self.tree.lists_vocabulary else ContinuationRound
        samples = round_class(
            self.tree,
            self._estimand,
            part,
            self._predictor,
            self._budget.seed,
            first := self.rounds.drawn_samples,
            count,
        )
        self.rounds.drawn_samples += count
        return _PlannedRound(samples, first, expected_values)

    def _sample(self, planned: _PlannedRound) -> Requests:
        """Complete a round of samples, and narrow the interval by them."""
        passes = self.tree.passes
        try:
            yield from self._within_passes(planned)
        # also after a stop in the middle: the complete samples count
        finally:
            samples = planned.samples
            self.samples.add_round(samples, planned.expected_values)
            # no bet may follow a missing value
            self._can_sample = samples.complete_count == planned.count
            # only later rounds may use what these samples show
            if samples.complete_count:
                samples.learn(self._predictor)
        self.rounds.add_round(planned.first, planned.count, self.tree.passes - passes)

    def _within_passes(self, planned: _PlannedRound) -> Requests:
        """Yield the requests of a round as long as the budget has passes for them."""
        requests = planned.samples.run()
        answer: ModelAnswer | None = None
        seconds = deque([0.0], maxlen=2)
        while True:
            # another program may delay one token, and a dropped sample is lost
            self.rounds.drop_late_samples(planned.samples, min(seconds))
            start_time = time.monotonic()
            try:
                request = next(requests) if answer is None else requests.send(answer)
            except StopIteration:
                return
            limited = request.limit_passes(self.rounds.unspent_passes)
            if limited is None:
                requests.close()
                return
            # a shortened request uses up the passes
            is_whole = limited is request and isinstance(limited, ContinuationRequest)
            # a text that lists all of its tokens is visited by one round at a time
            if self._plans_ahead and is_whole and self.tree.process.is_served:
                self._next_round = self._next_round or self._plan_round(planned.count)
            answer = yield self._add_expected(limited)
            seconds.append(time.monotonic() - start_time)

    def _add_expected(self, request: Request) -> Request:
        """Return a request for continuations with the tasks of the next round."""
        if self._next_round is None or not isinstance(request, ContinuationRequest):
            return request
        assert isinstance(self._next_round.samples, ContinuationRound)
        return replace(request, expected=self._next_round.samples.prepare()[1])


def _find_scale(interval: Interval) -> float:
    """Return the size of an interval's ends, at least 1."""
    return max(1.0, abs(interval.lower), abs(interval.upper))
