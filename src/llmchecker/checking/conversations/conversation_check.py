"""The anytime check of a conversation: certain bounds, and an interval from samples.

Let X be 1 if a conversation satisfies the formula, and else 0. The explored tree splits its
probability into D (decided true), V (decided false) and U. Every conversation has a probability of
its own, and each decided state decides all conversations that begin with it. So P(X = 1) is at
least D and at most D + U, whatever the undecided conversations are. With truncating decoding there
are few conversations, and a visit of each leaves U = 0.

P(X = 1) = D + U p, where p is the probability of the formula among the undecided conversations. A
round fixes D and U, samples undecided conversations in proportion to their probabilities, and
takes the values D + U X. Given all earlier rounds, each value has the mean P(X = 1) and is from D
to D + U. That is all that a confidence sequence requires (see `confidence_sequence`), so that its
interval holds at every stop. The states that a round visits join the tree after the round.

Where a limit interrupts a round, which samples are incomplete depends on their tokens. The values
before the first incomplete one are used, and no round follows.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from llmchecker import __version__
from llmchecker.checking.answer import Answer, Costs, Evidence, Progress, Sampled
from llmchecker.checking.anytime.answer_forecast import forecast_answer
from llmchecker.checking.anytime.anytime_run import describe_failure, describe_spread
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.checked_query import CheckedQuery
from llmchecker.checking.anytime.confidence_sequence import (
    LEAST_VARIANCE,
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.conversations.answer_tree import AnswerTree, build_answer_tree
from llmchecker.checking.conversations.conversation import Conversation, SimulatedUser
from llmchecker.checking.conversations.conversation_state import State
from llmchecker.checking.conversations.conversation_tree import ConversationTree
from llmchecker.checking.conversations.text_conversations import check_text_conversation
from llmchecker.checking.conversations.turn_query import TurnMonitor, check_turn_query
from llmchecker.checking.interval import Interval
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.witnesses import COUNTEREXAMPLE, CUT, ENDED, OPEN, WITNESS, Witness
from llmchecker.errors import CheckFailed, ConfigError, InterruptedCheck
from llmchecker.models.decoding.chat_template import describe_prompt_date
from llmchecker.models.interface import LanguageModel
from llmchecker.models.text_answer import TextModel
from llmchecker.utils.number_format import format_count, format_number

_MIN_ROUND, _MAX_ROUND = 16, 1024
"""The limits of the number of samples of a round."""
_SAMPLES_PER_NEW_SAMPLE = 4
"""The number of earlier samples for each sample of a later round."""
_BUDGET_SHARE = 0.95
"""The share of the remaining passes that a round may be expected to need."""
_LOOKS_PER_PASS = 64
"""The number of tokens or samples without a pass that cost as much as one."""
_MAX_EXPLORING_PASSES = 10_000
"""The largest number of passes that explore all conversations."""
_MAX_WITNESSES = 5
"""The largest number of conversations that an answer shows."""


def check_conversation(
    model: LanguageModel | TextModel,
    conversation: Conversation,
    asked: CheckedQuery,
    budget: Budget,
    *,
    user_models: Mapping[SimulatedUser, Any] | None = None,
    watch: Callable[[Progress], bool | None] = lambda progress: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Answer:
    """Check a query about the turns of a conversation, as narrowly as the budget allows.

    The answer is right whenever the work stops. Without a limit of seconds it depends on the seed
    alone.

    Args:
        model: the language model, or one that returns texts alone.
        conversation: the conversation.
        asked: the query, its quantifiers, and the largest number of tokens of an answer.
        budget: the limits on the costs, and the confidence.
        user_models: the models of the simulated users, which have the access of the model.
        watch: called with the intervals after each round; the work ends when it returns true.
        is_cancelled: called between batches; the work ends when it returns true.

    Raises:
        InvalidQuery: the query is not about the turns of a conversation.
        UnusableText: the model cannot read the conversation.
        ConfigError: the model does not list all tokens of a distribution.
        InterruptedCheck: a model failed after texts had been evaluated.
    """
    user_models = user_models or {}
    if isinstance(model, TextModel):
        return check_text_conversation(
            model, conversation, asked, budget, user_models, watch=watch, is_cancelled=is_cancelled
        )
    for each in (model, *user_models.values()):
        if each.listed_tokens < each.vocabulary_size:
            raise ConfigError(
                f"turns: {each.name} returns only its most probable tokens; use a model in this "
                "process"
            )
    check_turn_query(asked.query, asked.quantifiers, conversation.turn_count)
    explored = ExploredConversation(model, conversation, asked, user_models)
    check = _ConversationCheck(explored, budget, watch, is_cancelled)
    check.run()
    failure = explored.tree.failure
    # without a single pass there is no answer that the error could hold
    if failure is not None and explored.tree.passes == 0:
        raise failure
    answer = check.build_answer()
    if failure is not None:
        raise InterruptedCheck(describe_failure(model, failure), answer) from failure
    return answer


@dataclass(frozen=True)
class ExploredConversation:
    """The explored answers of a conversation.

    Attributes:
        model: the language model.
        conversation: the conversation.
        asked: the query.
        user_models: the models of the simulated users.
    """

    model: LanguageModel
    conversation: Conversation
    asked: CheckedQuery
    user_models: Mapping[SimulatedUser, LanguageModel]

    @cached_property
    def tree(self) -> ConversationTree:
        """The explored beginnings of answers."""
        return self._create_tree(decides_early=True)

    def build_tree(self, max_answers: float = math.inf) -> AnswerTree:
        """Build the tree of the most probable answers, up to those that decide the query."""
        return self._build(self.tree, max_answers)

    def explore_all(self, max_passes: int = _MAX_EXPLORING_PASSES) -> AnswerTree:
        """Explore all conversations to their last answer, and build their tree.

        Args:
            max_passes: the largest number of texts that the model evaluates.

        Raises:
            CheckFailed: more are needed.
            Exception: the error of a model that fails.
        """
        tree = self._create_tree(decides_early=False)
        while (left := tree.undecided) > 0:
            if tree.failure is not None:
                raise tree.failure
            if tree.passes >= max_passes:
                advice = "; lower length or temperature, or raise the passes"
            elif not tree.refine(max_passes - tree.passes):
                if tree.failure is not None:
                    continue
                advice = " in tokens that are not listed; set top-k or top-p"
            else:
                continue
            raise CheckFailed(
                f"conversation: {format_count(tree.passes, 'pass')} leave a probability of "
                f"{format_number(left, 3)}{advice}"
            )
        return self._build(tree, math.inf)

    @cached_property
    def all_answers(self) -> AnswerTree:
        """The answers of all conversations, as in `explore_all`."""
        return self.explore_all()

    def _create_tree(self, *, decides_early: bool) -> ConversationTree:
        """Create a tree before its first pass; see `TurnMonitor` on `decides_early`."""
        asked, conversation = self.asked, self.conversation
        monitor = TurnMonitor(
            asked, conversation.turn_count, conversation.early_ends, decides_early=decides_early
        )
        return ConversationTree(
            self.model,
            conversation,
            monitor,
            asked.quantifiers,
            asked.length,
            self.user_models,
        )

    def _build(self, tree: ConversationTree, max_answers: float) -> AnswerTree:
        return build_answer_tree(
            self.model.name,
            self.conversation.user_texts,
            tuple(self.asked.quantifiers),
            tree.iter_paths(),
            max_answers,
        )


class _ConversationCheck:
    """The check of one query."""

    def __init__(
        self,
        explored: ExploredConversation,
        budget: Budget,
        watch: Callable[[Progress], bool | None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._start_time = time.monotonic()
        self._explored, self._budget, self._watch = explored, budget, watch
        self._is_cancelled = is_cancelled
        self._asked = asked = explored.asked
        self._conversation = conversation = explored.conversation
        self._tree = explored.tree
        self._threshold = find_threshold(asked.query)
        number = None if self._threshold is None else float(self._threshold.number)
        self._sequence = ConfidenceSequence(budget.confidence, number)
        self._evidence = MeanEvidence()
        self._bits = np.zeros(0)
        self._drawn = 0
        self._can_sample = not budget.certain
        self._refining_costs = self._sampling_costs = 0.0
        simulated_tokens = sum(user.length for user in conversation.simulated_users)
        self._passes_per_sample = float(asked.length * conversation.turn_count + simulated_tokens)
        self._history: list[Progress] = []

    def run(self) -> None:
        """Refine and sample in turns, until the answer is narrow enough or the work must stop."""
        while True:
            self._history.append(progress := self._compute_progress())
            if self._watch(progress) or self._is_narrow() or self._remaining() < 1:
                return
            if self._tree.failure is not None:
                return
            # both halves of the work get the same number of passes
            is_due = self._sampling_costs < self._refining_costs
            if not (is_due and self._sample()) and not self._refine() and not self._sample():
                return

    def build_answer(self) -> Answer:
        """Compute the answer from the tree and the samples so far."""
        query, tree = self._asked.query, self._tree
        models = (self._explored.model, *self._explored.user_models.values())
        spreads = [each.probability_spread for each in models]
        spread = max((each for each in spreads if each is not None), default=None)
        probability = tree.compute_mass().interval
        certain = probability
        if self._threshold is not None:
            meets = self._threshold.compare(probability)
            certain = Interval(meets is True, meets is not False)
        texts = {truth: self._list_texts(truth) for truth in (True, False)}
        # those that speak against a requirement
        is_lower_limit = self._threshold is not None and self._threshold.comparison in (">=", ">")
        answer = Answer(
            query=query,
            horizon=self._asked.length,
            turns=self._conversation.turn_count,
            certain=certain,
            witnesses=() if self._threshold is None else texts[not is_lower_limit],
            notes=(
                *describe_prompt_date(self._explored.model, self._conversation.chat),
                *describe_spread(spread),
                *self._asked.notes,
            ),
            costs=Costs(passes=tree.passes, seconds=time.monotonic() - self._start_time),
            versions={"llmchecker": __version__},
            probability=probability,
            endings=tree.measure_endings(),
            history=tuple(self._history),
            evidence=Evidence(
                None,
                self._evidence if any(self._evidence.used) else None,
                (*texts[True], *texts[False]),
                self._explored,
                None if self._budget.certain else self._sequence.values,
            ),
        )
        if (sampled := self._build_sampled(probability)) is not None:
            answer = answer.with_samples(sampled)
        answer = replace(answer, forecast=forecast_answer(answer, self._budget))
        return self._asked.define(answer)

    def _build_sampled(self, probability: Interval) -> Sampled | None:
        """Return the interval of the samples, rounded outwards; None without samples."""
        budget = self._budget
        # a tree that decides everything needs no sample
        if self._tree.undecided == 0:
            middle = (probability.lower + probability.upper) / 2
            return Sampled(probability, middle, budget.confidence, 0, budget.seed)
        if len(self._sequence) == 0:
            return None
        low, high = self._sampled_interval
        estimate = float(self._sequence.estimate)
        return Sampled(
            Interval(low, high), estimate, budget.confidence, len(self._sequence), budget.seed
        )

    @property
    def _sampled_interval(self) -> tuple[float, float]:
        low, high = self._sequence.interval
        margin = self._tree.rounding_error
        return math.nextafter(low - margin, -math.inf), math.nextafter(high + margin, math.inf)

    def _compute_progress(self) -> Progress:
        certain = self._tree.compute_mass().interval
        sampled = None
        if len(self._sequence):
            sampled = Interval(*(certain.clip(end) for end in self._sampled_interval))
        seconds = time.monotonic() - self._start_time
        return Progress(self._tree.passes, seconds, certain, sampled, len(self._sequence))

    def _is_narrow(self) -> bool:
        """Return whether the answer is exact, as narrow as wanted, or decides a threshold."""
        if self._tree.undecided == 0 or self._history[-1].width <= self._budget.width:
            return True
        if self._threshold is None:
            return False
        intervals = [self._tree.compute_mass().interval]
        if len(self._sequence):
            intervals.append(Interval(*self._sampled_interval))
        return any(self._threshold.compare(interval) is not None for interval in intervals)

    @property
    def _costs(self) -> float:
        return self._refining_costs + self._sampling_costs

    def _remaining(self) -> float:
        """Return the passes that the limits allow."""
        if self._must_stop():
            return 0.0
        return math.inf if self._budget.passes is None else self._budget.passes - self._costs

    def _must_stop(self) -> bool:
        """Return whether the work is cancelled or its time is over."""
        return self._is_cancelled() or self._budget.is_late(self._start_time)

    def _plan_samples(self) -> int:
        """Return the number of samples of the next round; 0 if the limits allow none."""
        if not self._can_sample or self._tree.failure is not None:
            return 0
        affordable = _BUDGET_SHARE * self._remaining() / self._passes_per_sample
        wanted = max(_MIN_ROUND, self._drawn // _SAMPLES_PER_NEW_SAMPLE)
        return int(min(wanted, _MAX_ROUND, affordable))

    def _refine(self) -> bool:
        """Visit probable states; return whether any was left."""
        passes, looks = self._tree.passes, self._tree.looks
        is_left = self._tree.refine(self._remaining())
        visited = self._tree.passes - passes
        self._refining_costs += max(visited, (self._tree.looks - looks) / _LOOKS_PER_PASS)
        return is_left

    def _sample(self) -> bool:
        """Draw a round of samples, and narrow the interval; return whether any was affordable."""
        tree, first = self._tree, self._drawn
        if (count := self._plan_samples()) == 0:
            return False
        satisfied, undecided = tree.satisfied, tree.undecided
        # bets on a round must not depend on what it shows
        planned = count + self._expect_samples(count)
        passes, limit = tree.passes, self._remaining()
        # the seed is half of a 128-bit key, and the number of the sample the other half
        generators = [
            np.random.Generator(np.random.Philox(key=[self._budget.seed, number]))
            for number in range(first, first + count)
        ]
        truths = tree.sample(
            generators,
            lambda visits: not self._must_stop() and tree.passes - passes + visits <= limit,
        )
        complete = truths.index(None) if None in truths else count
        self._can_sample = complete == count
        bits = np.array(truths[:complete], dtype=np.float64)
        self._drawn += count
        costs = max(tree.passes - passes, count / _LOOKS_PER_PASS)
        self._sampling_costs += costs
        self._passes_per_sample = max(costs / count, 1 / _LOOKS_PER_PASS)
        self._append(bits, satisfied, undecided, planned, count)
        return True

    def _expect_samples(self, count: int) -> float:
        """Return the number of samples that are expected after a round."""
        if self._budget.passes is None:
            return float(self._drawn + count)
        # the other half of the passes refines
        return max(0.0, self._remaining() / 2 / self._passes_per_sample - count)

    def _append(
        self, bits: np.ndarray, satisfied: float, undecided: float, planned: float, count: int
    ) -> None:
        """Add the values D + U X of a round to the confidence sequence."""
        low, high = satisfied, satisfied + undecided
        values = satisfied + undecided * bits
        self._evidence = self._evidence.add_round(values, count, low, high, planned)
        if len(bits) == 0:
            return
        variances = predict_variances(self._bits, bits)
        self._bits = np.append(self._bits, bits)
        self._sequence.narrow_interval(
            Values(
                numerator=values,
                denominator=np.ones(len(bits)),
                low=low,
                high=high,
                size=1.0,
                variances=np.maximum(undecided**2 * variances, LEAST_VARIANCE),
                planned=planned,
            )
        )

    def _list_texts(self, truth: bool) -> tuple[Witness, ...]:
        """List the most probable conversations that satisfy or violate the path formula."""
        found = [state for state in self._tree.decided if state.truth is truth]
        found.sort(key=lambda state: -state.mass)
        return tuple(
            Witness(
                uid=0,
                text="\n".join(self._conversation.format_lines(state.answers, state.simulated)),
                probability=state.mass,
                kind=WITNESS if truth else COUNTEREXAMPLE,
                rest=False,
                kept=0,
                ending=_find_ending(state),
                scores={
                    name: score
                    for name, score in zip(
                        self._asked.quantifiers, state.given[-1].scores, strict=True
                    )
                    if score is not None
                },
            )
            for state in found[:_MAX_WITNESSES]
        )


def _find_ending(state: State) -> str:
    """Return how the last answer of a conversation ends."""
    has_ended = state.given[-1].has_ended
    if has_ended is None:
        return OPEN
    return ENDED if has_ended else CUT
