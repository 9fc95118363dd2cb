"""The plan of the rounds of an anytime check: how many samples, and when a refinement.

A plan depends on the costs so far and on the limits, never on what samples of the next round show.
"""

import math
import time
from collections.abc import Callable

import numpy as np

from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.path_sampler import SampleRound
from llmchecker.checking.anytime.refinement import expect_decided_share
from llmchecker.checking.budget import Budget

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
_BATCH_COST, _MIN_KEPT_SHARE = 1 / 3, 0.4
"""The share of a batch's time that fewer texts do not save, and the least share of the samples of
a round that stay when time is short."""
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
_MAX_FIRST_SHARE = 1 / 32
"""The largest share of all passes of a check in each of the first batches of refinements.

Few passes are worth choosing one by one: in one batch, their results choose none of them.
"""
_BUDGET_SHARE = 0.95
"""The share of the remaining passes that a round may be expected to need."""
_SAMPLES_PER_PASS = 16
"""The largest number of samples that one pass of the budget pays for.

Samples of few texts share evaluations, so that thousands of them may need a single pass. They have
costs of their own, which a limit of passes must limit too.
"""


class RoundPlan:
    """The plan of a check's rounds, from its limits and the costs of earlier rounds.

    Attributes:
        drawn_samples: the number of samples of all rounds so far.

    Args:
        tree: the explored tree, whose passes are counted.
        budget: the limits on the costs.
        refines: whether refinements between rounds may narrow the certain bounds.
        clock: returns the passes that the remaining time is expected to allow in so many batches;
            None for no limit.
    """

    def __init__(
        self,
        tree: ExploredTree,
        budget: Budget,
        clock: Callable[[float], float | None],
        *,
        refines: bool,
    ) -> None:
        self._tree, self._refines, self._clock = tree, refines, clock
        self._max_passes: float | None = budget.passes
        self._end_time = math.inf
        if budget.seconds is not None:
            self._end_time = time.monotonic() + budget.seconds
        self._is_timed = refines and budget.passes is None and budget.seconds is not None
        self.drawn_samples = 0
        self._passes_per_sample = float(tree.length)
        self._sampling_costs = 0.0  # what samples cost beyond their passes
        self._due_refinements = 0.0
        self._refined_share = _REFINED_SHARE

    @property
    def spent_passes(self) -> float:
        """The passes of the budget that the work so far has cost."""
        return self._tree.passes + self._sampling_costs

    @property
    def unspent_passes(self) -> float:
        """The passes that the budget still has, however much time is left."""
        return math.inf if self._max_passes is None else self._max_passes - self.spent_passes

    @property
    def seconds_left(self) -> float:
        """The seconds until the time limit; infinite without one."""
        return self._end_time - time.monotonic()

    def limit_passes(self, passes: float) -> None:
        """Replace the maximum number of texts that the model evaluates for the check.

        The limit may not depend on random numbers of the check's later samples.
        """
        self._max_passes = passes

    def expect_passes(self, batches: float = 1.0) -> float:
        """Return the passes that the limits are expected to allow in so many batches."""
        affordable = self._clock(batches)
        return min(self.unspent_passes, math.inf if affordable is None else affordable)

    def expect_samples(self, count: int, done: int) -> float:
        """Return the expected number of samples after the next ones.

        Args:
            count: number of the next samples.
            done: number of the samples so far; without a limit, as many are expected.
        """
        passes = self._expect_sampling_passes()
        if math.isinf(passes):
            return float(max(done, _MIN_ROUND))
        return max(0.0, passes / self._passes_per_sample - count)

    def plan_samples(self, pending: int) -> int:
        """Return the number of samples of the next round; 0 for a refinement.

        A refinement uses the passes that are too few for another sample.

        Args:
            pending: number of samples that are drawn but not complete.
        """
        # the first pass of all shows where texts begin
        if self._tree.passes == 0:
            return 0
        passes = self._expect_sampling_passes()
        affordable = _BUDGET_SHARE * passes / self._passes_per_sample - pending
        plan = self._plan_by_time if self._max_passes is None else self._plan_by_passes
        wanted, least = plan(affordable)
        count = int(min(wanted, _MAX_ROUND))
        return count if count >= least else 0

    def plan_refinement(self) -> float:
        """Return the number of texts of a refinement that is due; 0 if none is."""
        if self._due_refinements < _MIN_REFINEMENT:
            return 0
        return min(self._due_refinements, _MAX_REFINEMENT, self.expect_passes())

    def is_worthwhile(self, rows: np.ndarray) -> bool:
        """Return whether visits narrow the bounds nearly as fast as samples their interval.

        The width of an interval of n samples is in proportion to 1 / sqrt(n), so that a further
        pass narrows it by the share 1 / (2 n) of all passes n.

        Args:
            rows: (n,) int64, the texts that are visited.
        """
        narrowed_by_samples = len(rows) / (2 * self._tree.passes)
        share = expect_decided_share(self._tree, rows)
        return share >= _MIN_REFINED_SPEED * narrowed_by_samples

    @property
    def first_batch_texts(self) -> float:
        """The largest number of texts of the first batches of refinements."""
        share = _MAX_FIRST_SHARE * (self._tree.passes + self.expect_passes())
        # where time ends the work, texts one by one take about as long as whole batches
        return share if self._max_passes is not None else max(share, self._tree.batch_texts)

    def add_refinement(self, visited: int) -> None:
        """Count the passes of a refinement that was due."""
        # where nothing is left to visit, samples may still draw tokens that are not listed
        self._due_refinements = self._due_refinements - visited if visited else 0.0
        self._refined_share = _REFINED_SHARE if visited else 0.0

    def add_round(self, first: int, count: int, visited: int) -> None:
        """Count the passes of a round of samples.

        Args:
            first: number of its first sample.
            count: number of its samples.
            visited: number of its passes.
        """
        cost = max(visited, count / _SAMPLES_PER_PASS)
        self._sampling_costs += cost - visited
        self._passes_per_sample = cost / count
        if self._refines and first >= _FIRST_SAMPLES:
            self._due_refinements += cost * _REFINED_SHARE / (1 - _REFINED_SHARE)

    def drop_late_samples(self, samples: SampleRound, step_seconds: float) -> None:
        """Drop samples if no time is left for all of them.

        The samples of a round end together, so that time would interrupt all of them. What fewer
        samples take is guessed with care, since a batch has costs of its own.

        Args:
            samples: the round.
            step_seconds: the time of a token of all samples.
        """
        # without a limit of time, the samples are not looked at
        if math.isinf(self._end_time):
            return
        needed, left = step_seconds * samples.steps_left, max(0.0, self.seconds_left)
        if needed > left:
            share = (left / needed - _BATCH_COST) / (1 - _BATCH_COST)
            samples.drop_last(max(_MIN_KEPT_SHARE, share))

    @property
    def _round_batches(self) -> int:
        """The number of batches of a round."""
        # a server continues whole texts, and any other model each token of all samples
        return self._tree.length if self._tree.lists_vocabulary else 1

    def _expect_sampling_passes(self) -> float:
        """Return the passes that the limits are expected to allow for samples."""
        remaining = self.expect_passes(self._round_batches)
        if not self._refines:
            return remaining
        first = max(0, _FIRST_SAMPLES - self.drawn_samples) * self._passes_per_sample
        return min(remaining, first + (1 - self._refined_share) * max(0.0, remaining - first))

    def _plan_by_passes(self, affordable: float) -> tuple[float, float]:
        """Return the wanted and the least number of samples, where passes end the work."""
        # until a round has shown its costs, each token may take two passes: one that is not
        # listed needs another; samples that the end of the passes interrupts have no values
        if self.drawn_samples == 0 and affordable >= 2:
            affordable /= 2
        # a few samples after many narrow hardly anything, and their small batches are slow
        least = min(_MIN_LAST_ROUND, self.drawn_samples * _MIN_LAST_SHARE)
        return min(self._usual_round, affordable), least

    def _plan_by_time(self, affordable: float) -> tuple[float, float]:
        """Return the wanted and the least number of samples, where time may end the work."""
        wanted = self._usual_round
        if self.drawn_samples > 0:
            # a larger round takes less time for each sample
            if affordable < _MAX_LAST_GROWTH * wanted:
                wanted = affordable
            return wanted, min(_MIN_ROUND, self.drawn_samples)
        if self._is_timed:
            wanted = max(_MIN_ROUND, self._plan_first_round(affordable))
        # the time of one text alone was measured, which is about that of a batch
        if affordable >= 1:
            affordable = max(affordable, self._tree.batch_texts)
        return min(wanted, affordable), 0

    @property
    def _usual_round(self) -> float:
        """The number of samples of a round that no limit makes smaller or larger."""
        has_limit = self._max_passes is not None or math.isfinite(self._end_time)
        divisor = 1 if self._refines and has_limit else _SAMPLES_PER_NEW_SAMPLE
        # a smaller batch takes the model about as long
        return max(_MIN_ROUND, self._tree.batch_texts, self.drawn_samples // divisor)

    def _plan_first_round(self, affordable: float) -> float:
        """Return the number of samples of the first round of a limited time.

        Later rounds, whose bets know more, get most of the time. But each round has the costs of
        its batches, so that a long text leaves time for one round alone, whose first tokens show
        how many samples the time allows.

        Args:
            affordable: the number of samples that time allows if a batch saves none.
        """
        half = self._tree.batch_texts / 2
        if affordable >= half or not self._tree.lists_vocabulary:
            return half
        return min(2 * half, _MIN_ROUND * affordable)
