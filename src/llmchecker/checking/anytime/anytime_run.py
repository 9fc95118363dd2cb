"""The run of an anytime check on a model, and its answer: bounds, an interval, and a decision.

The two kinds of answers are never mixed. The certain bounds come from the mass that the explored
texts decide, and hold for the whole model. The interval comes from samples of the undecided mass
and holds with the stated confidence. Where single texts do not decide the query, Storm computes the
bounds on the tree of the explored texts.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from llmchecker.checking import storm
from llmchecker.checking.answer import Answer, Evidence, Progress, Sampled
from llmchecker.checking.anytime.answer_forecast import forecast_answer
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.anytime.checked_process import CheckedProcess
from llmchecker.checking.anytime.model_batches import ModelBatches
from llmchecker.checking.anytime.path_sampler import Requests
from llmchecker.checking.anytime.prompt_reader import PromptReader
from llmchecker.checking.anytime.run import Run
from llmchecker.checking.budget import Budget
from llmchecker.properties.logic.ast import Probability
from llmchecker.properties.property import Property
from llmchecker.utils.interval import PROBABILITIES, Interval


class AnytimeRun(Run):
    """The run of a question to a model with probabilities: its tree, samples and batches.

    Attributes:
        check: the check.
        batches: the model's answers.
        history: the intervals after each round.

    Args:
        process: the process of the texts.
        asked: the query, its quantifiers and the horizon.
        budget: the limits on the costs, and the confidence.
        batch_invariant: as in `LanguageModel.open_prefix`.
        is_cancelled: called between batches; the work ends when it returns true.
        watch: called with the intervals after each round; the work ends when it returns true.

    Raises:
        InvalidQuery: the query is about the tokens that a tree does not select.
    """

    def __init__(
        self,
        process: CheckedProcess,
        asked: Property,
        budget: Budget,
        *,
        batch_invariant: bool = False,
        is_cancelled: Callable[[], bool] = lambda: False,
        watch: Callable[[Progress], bool | None] = lambda progress: None,
    ) -> None:
        super().__init__(process.model)
        self._asked, self._budget, self._watch = asked, budget, watch
        self._process = process
        self._start_time = time.monotonic()
        tree = process.create_tree(asked)
        # an explored tree selects other tokens after each pass
        asked.query.check_without_tree()
        deadline = None if budget.seconds is None else self._start_time + budget.seconds
        reader = PromptReader(process, batch_invariant=batch_invariant)
        self.batches = ModelBatches(reader, process.model.batch_texts, is_cancelled, deadline)
        self.history: list[Progress] = []
        self.check = AnytimeCheck(tree, asked, budget, self._record, self._estimate_affordable)

    @property
    def is_finished(self) -> bool:
        """Whether the answer is as narrow as wanted, or the work must stop."""
        return self.check.is_finished or self.must_stop

    @property
    def must_stop(self) -> bool:
        """Whether a limit of the work or an error of the model ends the run."""
        return self.failure is not None or self.batches.must_stop(len(self.check.tree))

    @property
    def has_texts(self) -> bool:
        """Whether the model has evaluated a text."""
        return self.check.tree.passes > 0

    @property
    def spent_passes(self) -> float:
        """The passes so far that the budget counts."""
        return self.check.rounds.spent_passes

    def limit_passes(self, passes: float) -> None:
        """Limit the passes that are left."""
        self.check.rounds.limit_passes(self.spent_passes + passes)

    def compute_progress(self) -> Progress:
        """Return both intervals so far."""
        return self.check.compute_progress()

    def advance(self) -> None:
        """Serve one round of the check."""
        self._serve(self.check.advance())

    def complete(self) -> None:
        """Serve rounds of the check until its end."""
        self._serve(self.check.run())

    def stop(self) -> None:
        """End the work; no request is under way between rounds."""
        self.check.is_finished = True

    def _serve(self, requests: Requests) -> None:
        self.batches.serve(requests, lambda: len(self.check.tree))
        self.failure = self.batches.failure
        self.failed_model = self.batches.failed_model or self.model

    def finish(self, *, bounds_only: bool = False) -> Answer:
        """Compute the answer from the tree and the samples so far.

        Args:
            bounds_only: whether the answer needs no sizes and no witnesses.

        Raises:
            InvalidQuery: Storm rejects the query.
            CheckFailed: Storm gave no answer.
        """
        check, asked = self.check, self._asked
        evidence = replace(
            self._process.gather_evidence(check.tree, asked),
            mean=check.samples.mean_evidence,
            samples=check.sample_values,
        )
        if check.storm_bounds is not None:
            check.storm_bounds.complete(check.tree.passes, lambda: evidence.scored)
        self.history.append(check.compute_progress())
        answer = self._compute_certain(evidence, bounds_only=bounds_only)
        sampled = _build_sampled(check, self._budget)
        if sampled is not None:
            answer = answer.with_samples(sampled)
        root, spread = asked.query.root, self._process.probability_spread
        is_threshold = isinstance(root, Probability) and root.threshold is not None
        notes = [*answer.notes, *asked.notes, *self._process.notes]
        if spread is not None:
            notes.append(
                "the numbers are those of this computation: a probability differs by up to "
                f"{spread:.2g} between batches of the model"
            )
        seconds = time.monotonic() - self._start_time
        answer = replace(
            answer,
            costs=replace(answer.costs, passes=check.tree.passes, seconds=seconds),
            history=tuple(self.history),
            probability=check.compute_certain_interval() if is_threshold else PROBABILITIES,
            endings=check.tree.measure_endings(),
            evidence=evidence,
            notes=tuple(notes),
        )
        answer = replace(answer, forecast=forecast_answer(answer, self._budget))
        return answer.with_property(asked)

    def _compute_certain(self, evidence: Evidence, *, bounds_only: bool) -> Answer:
        """Return the answer of the explored texts: bounds, and texts as witnesses."""
        check, asked = self.check, self._asked
        if check.storm_bounds is None:
            check.tree.check_law()
        answer = Answer(
            query=asked.query,
            horizon=asked.length,
            turns=self._process.turn_count,
            certain=check.bound_answer(),
            notes=() if check.storm_bounds is None else check.storm_bounds.notes,
            versions=storm.VERSIONS,
        )
        if bounds_only:
            return answer
        seconds = time.monotonic() - self._start_time
        return self._process.add_texts(answer, evidence, seconds)

    def release(self) -> None:
        """Drop the tree and the samples of a run that is over.

        The check reports to the run, so that the two would keep each other in memory.
        """
        del self.check

    def _record(self, progress: Progress) -> bool:
        self.history.append(progress)
        return bool(self._watch(progress)) or self.batches.must_stop(len(self.check.tree))

    def _estimate_affordable(self, batches: float) -> float | None:
        size = len(self.check.tree)
        return self.share_passes(self.batches.affordable_texts(size, batches))


def _build_sampled(check: AnytimeCheck, budget: Budget) -> Sampled | None:
    """Return the estimate of a check, its interval rounded outwards.

    A tree that decides everything up to rounding is an estimate without samples, whether or not
    any were drawn. The estimate is None without samples on any other tree.
    """
    samples = len(check.samples)
    estimate: float | None
    if check.is_exact:
        progress = check.compute_progress()
        low, high, samples = progress.lower, progress.upper, 0
        estimate = (low + high) / 2
    elif (ends := check.samples.ends) is not None:
        (low, high), estimate = ends, check.samples.estimate
    else:
        return None
    margin = check.rounding_error * max(1.0, abs(low), abs(high))
    return Sampled(
        interval=Interval(
            math.nextafter(low - margin, -math.inf), math.nextafter(high + margin, math.inf)
        ),
        estimate=None if estimate is None else float(estimate),
        confidence=budget.confidence,
        samples=samples,
        seed=budget.seed,
    )
