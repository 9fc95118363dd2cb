"""The interval of a question on texts alone: every sample is a whole answer or a conversation.

A sample satisfies the path formula, violates it, or leaves this open: because the formula needs the
division into tokens, because a content filter withheld an answer, or because it was lost. An open
sample counts as violating for the lower end of the interval and as satisfying for the upper end. So
the interval covers the probability, whatever the open samples would have been. Certain bounds are
[0, 1]: texts without probabilities rule nothing out.

A provider may list log probabilities. Then some texts have a known probability (see `listed_mass`),
which bounds the answer with certainty. A sample of such a text has no value: those of all others
estimate the mean of the others. Which texts are known is fixed before each round, so that the mean
of a value stays right whenever the work stops. If the numbers turn out wrong, all samples count as
without them.

For an expected score an answer has a score, and an open one the least or the greatest of all. The
scores are computed with as numbers from 0 to 1.
"""

import copy
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from llmchecker import __version__
from llmchecker.checking.answer import (
    Answer,
    Costs,
    Evidence,
    Progress,
    Sampled,
    select_trivial_interval,
)
from llmchecker.checking.anytime.answer_forecast import forecast_answer
from llmchecker.checking.anytime.listed_mass import ListedMass
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.anytime.text_interval import TextInterval
from llmchecker.checking.budget import Budget
from llmchecker.checking.endings import Endings
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.sample_values import SampleValues
from llmchecker.checking.witnesses import COUNTEREXAMPLE, CUT, ENDED, MAX_TOKENS, WITNESS, Witness
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.answer_format import AnswerFormat
from llmchecker.models.decoding.answer_reader import find_reader
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.text_answer import Finish, TextAnswer, TextModel
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.json_validity import JsonText
from llmchecker.utils.interval import PROBABILITIES, Interval
from llmchecker.utils.number_format import format_count

_ROUND_SHARE = 8
"""The interval narrows when the number of answers has grown by this part."""
_SCALE_ERROR = 2.0**-50
"""A limit above the relative rounding error of two conversions of a score."""
_SATISFIES_SCHEMA = 2
"""The score of a text that satisfies a JSON Schema."""
_ENDINGS = {Finish.ENDED: ENDED, Finish.MAX_TOKENS: MAX_TOKENS, Finish.TRUNCATED: CUT}
"""How the texts of samples end."""
_LEAST_LISTED = 32
"""The least number of answers, and of tested tokens, before log probabilities are used."""
_MAX_TEXTS = 5
"""Maximum number of texts that satisfy a formula, and of those that violate it."""


class TextEstimator:
    """The interval of a question, and its answer, from samples that a caller reads.

    Args:
        model: the model.
        start: the prompt.
        asked: the query, its quantifiers and the horizon.
        budget: the confidence, the wanted width, and the largest number of samples as `answers`.
        turns: the largest number of turns, where each sample is a conversation; None for answers.
        masses: the log probabilities that the provider lists; None where none are requested.
    """

    def __init__(
        self,
        model: TextModel,
        start: Start,
        asked: Property,
        budget: Budget,
        turns: int | None = None,
        masses: ListedMass | None = None,
    ) -> None:
        self._model, self._asked, self._budget, self._turns = model, asked, budget, turns
        self._start = start if isinstance(start, str) else start.as_text
        self._range = asked.value_range
        self._threshold = find_threshold(asked.query)
        number = None if self._threshold is None else float(self._threshold.number)
        # the interval of all samples, and that of the samples without a known probability
        self._plain = TextInterval(budget.confidence, number)
        self._others: TextInterval | None = None
        self._masses, self._known_count = masses, 0
        self._read_count = self._text_count = 0
        self._next_round = 1
        self._evidence = MeanEvidence()
        self._finishes: Counter[Finish] = Counter()
        self._repeated_count = self._open_count = self._plural_count = 0
        # a model of a user has no grammar
        self._grammar: Mapping[str, Any] = getattr(model, "grammar", {}) if turns is None else {}
        self._is_inside, self._outside_count = _build_test(self._grammar), 0
        self._texts: Counter[tuple[bool, str]] = Counter()
        # how the first of equal answers ends, and its scores
        self._readings: dict[tuple[bool, str], tuple[str, dict[str, int]]] = {}
        self._times: list[str] = []
        self._history: list[Progress] = []
        self._start_time = time.monotonic()

    @property
    def count(self) -> int:
        """Number of samples so far."""
        return len(self._plain.shares[0])

    @property
    def round_count(self) -> int:
        """Number of rounds after which the interval narrowed."""
        return len(self._history)

    @property
    def is_late(self) -> bool:
        """Whether the time of the question is over."""
        return self._budget.is_late(self._start_time)

    @property
    def is_decided(self) -> bool:
        """Whether the interval is narrow enough, or all samples are read."""
        if self.count >= self._budget.answers:
            return True
        if self._read_count == 0:
            return False
        if self._threshold is not None:
            return self._threshold.compare(self._interval) is not None
        if (limit := self._asked.limit) is not None:
            interval = self._round(self._interval)
            return not interval.lower <= limit <= interval.upper
        return 0 < self._interval.width <= self._budget.width

    def add(
        self,
        answer: TextAnswer,
        found: float | None,
        scores: Mapping[str, int],
        answers: Sequence[TextAnswer] = (),
        text_count: int = 1,
    ) -> None:
        """Add a sample.

        Args:
            answer: the answer, or the conversation as one text.
            found: the truth or the score that was found; None if it is open.
            scores: the scores that decide it.
            answers: the answers of the conversation; none for an answer.
            text_count: number of its answers and simulated messages.
        """
        self._text_count += text_count
        value = None
        if answer.is_sample:
            # an open answer of a whole sample depends on its tokens
            self._open_count += found is None
            if found is not None:
                self._texts[bool(found), answer.text] += 1
                ending = _ENDINGS[answer.finish]
                self._readings.setdefault((bool(found), answer.text), (ending, dict(scores)))
                value = (found - self._range.lower) / (self._range.width or 1.0)
            if answer.finish == Finish.ENDED:
                self._outside_count += self._is_outside(answer.text)
        self._finishes[answer.finish] += 1
        self._repeated_count += answer.is_repeated
        self._plural_count += answer.choice_count > 1
        self._times.append(answer.time)
        self._plain.add(value)
        # an open value counts as the worst of all
        values = np.array([] if value is None else [value])
        planned = self._budget.answers - self.count + 1
        self._evidence = self._evidence.add_round(values, 1, 0.0, 1.0, planned)
        self._add_other(answers or (answer,), value, is_sample=answer.is_sample)
        is_decided = (self._others or self._plain).has_refuted_threshold
        is_last = self.count == self._budget.answers
        if is_decided or is_last or self.count >= self._next_round:
            self._narrow()

    def _add_other(
        self, answers: Sequence[TextAnswer], value: float | None, *, is_sample: bool
    ) -> None:
        """Add a sample to the interval of those without a known probability."""
        is_known = False
        if self._masses is not None and is_sample:
            number = self._masses.find(answers)
            is_known = number is not None and number < self._known_count
            value = self._masses.add(answers, value)
            if self._masses.problem is not None:
                self._others = None
        if self._others is not None and not is_known:
            self._others.add(value)

    def _is_outside(self, text: str) -> bool:
        """Return whether an answer is no text of the grammar that the provider has got."""
        if not self._grammar:
            return False
        reader = find_reader(self._model).without_stops.find_marks(text)
        answer = reader.read(text, is_whole=True).answer
        # a call of a tool has the grammar of the tool
        return not self._is_inside(answer) and not AnswerFormat().read_calls(text)

    def compute_progress(self) -> Progress:
        """Return the interval so far, of the answers that were read."""
        return Progress(
            passes=self._text_count,
            seconds=time.monotonic() - self._start_time,
            certain=self._bounds,
            sampled=self._interval if self._read_count > 0 else None,
            samples=self.count,
        )

    def build_answer(self, answer_count: int, limit: str | None = None) -> Answer:
        """Build the answer from the samples so far.

        Args:
            answer_count: number of answers and simulated messages, which is that of the costs.
            limit: the limit of tokens or money that ended the work; None for none.
        """
        self._narrow()
        query, count = self._asked.query, self.count
        is_score = isinstance(query.root, Expectation)
        certain = self._bounds if query.is_numeric else select_trivial_interval(query)
        if self._threshold is not None:
            holds = self._threshold.compare(self._bounds)
            certain = certain if holds is None else Interval(holds, holds)
        lower, upper = map(np.array, self._plain.shares)
        ones = np.ones(self.count)
        values = SampleValues(lower, upper, ones, 0 * ones, ones, ones)
        answer = Answer(
            query=query,
            horizon=self._asked.length,
            turns=self._turns,
            certain=certain,
            probability=PROBABILITIES if is_score else self._bounds,
            witnesses=self._list_witnesses(),
            notes=tuple(self._iter_notes(limit)),
            costs=Costs(answers=answer_count, seconds=time.monotonic() - self._start_time),
            versions={"llmchecker": __version__},
            endings=Endings(counted=(self._finishes[Finish.TRUNCATED], count)),
            tally=None if is_score else (self._count_texts(True), self._count_texts(False)),
            history=tuple(self._history),
            evidence=Evidence(
                None,
                self._evidence,
                (*self._list_texts(True), *self._list_texts(False)),
                samples=values.scale(self._range.lower, self._range.width),
            ),
        )
        answer = answer.with_property(self._asked)
        if count == 0:
            return answer
        answer = answer.with_samples(
            Sampled(
                self._round(self._interval),
                self._scale((self._others or self._plain).mean),
                self._budget.confidence,
                count,
                self._budget.seed,
            )
        )
        return replace(answer, forecast=forecast_answer(answer, self._budget))

    @property
    def _interval(self) -> Interval:
        low, high = self._plain.ends
        if (inside := self._listed_interval) is not None:
            low, high = inside.lower, inside.upper
        return Interval(self._scale(low), self._scale(high))

    @property
    def _listed_interval(self) -> Interval | None:
        """The interval by listed probabilities; None if these are not used."""
        if self._masses is None or self._others is None:
            return None
        inside = self._masses.certain.cut(Interval(*self._others.ends))
        low, high = self._plain.ends
        if low <= inside.upper and inside.lower <= high:
            return inside
        # the samples contradict the listed probabilities, and one of the two is wrong
        return Interval(min(low, inside.lower), max(high, inside.upper))

    @property
    def _bounds(self) -> Interval:
        """The certain bounds of the probability or of the score."""
        inside = self._listed_interval
        if self._masses is None or inside is None:
            return self._range
        certain = self._masses.certain
        is_wider = inside.lower < certain.lower or certain.upper < inside.upper
        if is_wider:
            return self._range
        bounds = Interval(self._scale(certain.lower), self._scale(certain.upper))
        return self._range.cut(self._round(bounds))

    def _round(self, interval: Interval) -> Interval:
        """Return an interval with its ends moved outwards by the error of `_scale`."""
        low, high = interval.lower, interval.upper
        if self._range != PROBABILITIES:
            # scores are converted to numbers from 0 to 1 and back
            margin = _SCALE_ERROR * max(map(abs, (self._range.lower, self._range.upper)))
            low, high = low - margin, high + margin
        return Interval(math.nextafter(low, -math.inf), math.nextafter(high, math.inf))

    def _scale(self, share: float) -> float:
        """Return the probability or the score of a number from 0 to 1."""
        return self._range.lower + share * self._range.width

    def _narrow(self) -> None:
        """Narrow the interval by the values since the last round."""
        done, count = self._read_count, self.count
        if done == count:
            return
        planned = self._budget.answers - done
        self._plain.narrow(planned)
        if self._others is not None:
            # only a part of the samples to come has a value
            self._others.narrow(max(1.0, planned * self._others.limits[0].width))
        self._choose_known_texts()
        self._read_count = count
        # the size of a round depends on nothing that its answers show
        self._next_round = count + 1 + count // _ROUND_SHARE
        self._history.append(self.compute_progress())

    def _choose_known_texts(self) -> None:
        """Fix the texts with a known probability until the next round."""
        masses = self._masses
        if masses is None or masses.problem is not None or not len(masses):
            return
        if self._others is None and min(self.count, masses.token_count) >= _LEAST_LISTED:
            # so far no text is known, and all samples have a value
            self._others = copy.deepcopy(self._plain)
        if self._others is not None:
            self._others.limits, self._known_count = masses.limits, len(masses)

    def _count_texts(self, truth: bool) -> int:
        """Return the number of answers that satisfy or violate the path formula."""
        return sum(count for (found, _), count in self._texts.items() if found is truth)

    def _list_witnesses(self) -> tuple[Witness, ...]:
        """List the most frequent answers that speak against a requirement."""
        if self._threshold is None:
            return ()
        return self._list_texts(self._threshold.comparison not in (">=", ">"))

    def _list_texts(self, truth: bool) -> tuple[Witness, ...]:
        """List the most frequent answers that satisfy or violate the path formula."""
        found = [each for each in self._texts.most_common() if each[0][0] is truth]
        return tuple(
            Witness(
                uid=0,
                text=self._start + text,
                probability=count / self.count,
                kind=WITNESS if truth else COUNTEREXAMPLE,
                rest=False,
                kept=len(self._start),
                ending=self._readings[truth, text][0],
                scores=self._readings[truth, text][1],
            )
            for (_, text), count in found[:_MAX_TEXTS]
        )

    def _iter_notes(self, limit: str | None) -> Iterator[str]:
        count = self.count
        days = sorted({each[:10] for each in self._times if each})
        period = "" if not days else f", as it answered on {days[0]}"
        if len(days) > 1:
            period = f", as it answered from {days[0]} to {days[-1]}"
        yield f"about the sampler of {self._model.description}{period}"
        unit = "answer" if self._turns is None else "conversation"
        answers, finishes = format_count(count, unit), self._finishes
        for number, problem in (
            (finishes[Finish.FILTERED], "withheld by a content filter"),
            (finishes[Finish.CALLED], "ended in a call of a tool"),
            (finishes[Finish.MISSING], "missing in the provider's responses"),
            (self._repeated_count, "requested again after one was lost"),
            (self._open_count, "undecided without their division into tokens"),
        ):
            if number:
                yield f"{number:,} of {answers} {problem}, counted neither for nor against"
        if number := finishes[Finish.MAX_TOKENS]:
            noun = "" if self._turns is None else "an answer in "
            yield f"max_tokens ended {noun}{number:,} of {answers}, which count as they are"
        if self._outside_count:
            name = next(iter(self._grammar))
            yield (
                f"{self._outside_count:,} of {answers} do not satisfy `{name}` of the decoding, "
                "which the provider does not obey"
            )
        if self._plural_count:
            yield f"{self._plural_count:,} of {answers} came with others, which were ignored"
        if self._masses is not None and self._masses.has_tokens is not None:
            yield self._describe_masses(self._masses)
        yield from self._asked.notes
        if limit is not None:
            yield limit

    def _describe_masses(self, masses: ListedMass) -> str:
        """Describe whether the listed probabilities are used."""
        tokens = format_count(masses.token_count, "token")
        if masses.problem is not None:
            return f"the listed log probabilities are not used: {masses.problem}"
        if not masses.has_tokens:
            return "the provider lists no log probabilities, which `top_logprobs` requests"
        if self._others is None:
            return f"the listed log probabilities of {tokens} decide no text often enough"
        if self._bounds == self._range:
            return "the listed log probabilities are not used: the answers contradict them"
        return (
            "the bounds are certain if the provider samples from the log probabilities that it "
            f"lists; a test of {tokens} found no difference"
        )


def _build_test(grammar: Mapping[str, Any]) -> Callable[[str], bool]:
    """Build the test whether a text satisfies the setting of a decoding.

    A grammar in Lark and a regular expression in the syntax of Rust are not tested, nor is a schema
    with keywords that are unknown here.
    """
    if "choice" in grammar:
        choices = frozenset(grammar["choice"])
        return lambda text: text in choices
    if "json_schema" not in grammar:
        return lambda text: True
    try:
        quantifier = JsonText(schema=grammar["json_schema"])
    except ConfigError:
        return lambda text: True

    def satisfies(text: str) -> bool:
        try:
            return quantifier("", text) == _SATISFIES_SCHEMA
        except ConfigError:  # the search for a pattern takes too long
            return True

    return satisfies
