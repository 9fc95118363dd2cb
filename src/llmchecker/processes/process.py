"""Processes: how a text grows, part by part.

One answer is a process of one part. A conversation has a part for each answer and for each message
of a simulated user; all other messages are *forced*, and stand in the prompt of the next part. The
parts of a process follow in fixed *stages*, so that the number of a text's step tells its stage.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from llmchecker.models.decoding.answer_reader import WHOLE_OUTPUT, AnswerReader
from llmchecker.models.interface import LanguageModel


@dataclass(frozen=True, eq=False)
class Stage:
    """The parts that every text has at one place.

    Attributes:
        writer: the model that writes them.
        first: the largest number of tokens of all parts before.
        length: the largest number of tokens of a part; `max_tokens` of the reader ends an answer
            that has as many.
        turn: the number of the answer, or of the answer after a message.
        is_answer: whether a part is an answer, which quantifiers read.
        is_last: whether the end of a part ends the text; None if that depends on the part.
        reader: what is read of an answer.
    """

    writer: LanguageModel
    first: int
    length: int
    turn: int = 1
    is_answer: bool = True
    is_last: bool | None = True
    reader: AnswerReader = WHOLE_OUTPUT

    @property
    def end(self) -> int:
        """The step of a part with all of its tokens."""
        return self.first + self.length

    @property
    def lists_vocabulary(self) -> bool:
        """Whether the writer lists all tokens of a distribution."""
        return self.writer.listed_tokens == self.writer.vocabulary_size

    @property
    def is_limited(self) -> bool:
        """Whether a part with all of its tokens has ended, and is not cut by the horizon."""
        return self.length == self.reader.max_tokens

    def find_ended(self, step: int, has_ended: np.ndarray) -> np.ndarray:
        """Return (n,) bool: whether n texts of one step have ended, by themselves or by a limit."""
        found: np.ndarray = has_ended | (self.is_limited and step == self.end)
        return found

    def find_whole(self, step: int, has_ended: np.ndarray) -> np.ndarray:
        """Return (n,) bool: whether no token follows in the part of n texts of one step."""
        is_whole: np.ndarray = has_ended | (step == self.end)
        return is_whole


class Part(ABC):
    """What one writer writes after some messages.

    Attributes:
        stage: the stage.
        messages: the messages before it, as quantifiers read them; None for a start string.
        cut_count: number of the answers before it that the horizon cut.
        is_thought_cut: whether the first of these was cut within a thought.
    """

    stage: Stage
    messages: str | None
    cut_count: int
    is_thought_cut: bool = False

    @property
    @abstractmethod
    def prompt(self) -> tuple[int, ...]:
        """The tokens before the part.

        Raises:
            UnusableText: the model cannot read the messages.
        """


class Process(ABC):
    """A process of texts.

    Attributes:
        model: the model that writes the answers.
        stages: the stages in their order.
        first: the first part.
    """

    model: LanguageModel
    stages: tuple[Stage, ...]
    first: Part

    @property
    def length(self) -> int:
        """The largest number of tokens of a text."""
        return self.stages[-1].end

    @property
    def is_served(self) -> bool:
        """Whether no writer lists all tokens of a distribution."""
        return not any(stage.lists_vocabulary for stage in self.stages)

    @property
    def probability_spread(self) -> float | None:
        """The largest `probability_spread` of the models; None without any."""
        spreads = [stage.writer.probability_spread for stage in self.stages]
        return max((spread for spread in spreads if spread is not None), default=None)

    def find_stage(self, step: int) -> Stage:
        """Return the stage of the last token of texts, by the number of their step."""
        return next(stage for stage in self.stages if step <= stage.end)

    def find_listing(self, steps: np.ndarray) -> np.ndarray:
        """Return (n,) bool: whether the writer of the next token lists all tokens.

        Args:
            steps: (n,) int64, the numbers of the steps of texts.
        """
        lists = np.array([stage.lists_vocabulary for stage in self.stages])
        ends = [stage.end for stage in self.stages]
        # no token follows the last step
        found: np.ndarray = lists[np.searchsorted(ends, np.minimum(steps + 1, self.length))]
        return found

    def ends_text(self, part: Part, text: str) -> bool:
        """Return whether a whole part ends the text."""
        assert part.stage.is_last is not None
        return part.stage.is_last

    @abstractmethod
    def follow(self, part: Part, text: str, *, has_ended: bool, scores: Sequence[int]) -> Part:
        """Return the part after a whole one that does not end the text.

        Args:
            part: the whole part.
            text: its text.
            has_ended: whether its writer ended it, which the horizon then did not cut.
            scores: its score by each quantifier.
        """

    def find_shared(self, stage: Stage) -> tuple[int, ...]:
        """Return tokens with which prompts of a writer begin, and which are read once."""
        return ()

    def locate(self, stage: Stage) -> AbstractContextManager[None]:
        """Prefix errors of the block with the place of a stage, where a process has several."""
        return nullcontext()
