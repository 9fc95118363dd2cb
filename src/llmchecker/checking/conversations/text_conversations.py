"""Conversations with models that return texts alone.

A conversation satisfies the formula, violates it, or leaves this open: because an answer or a
simulated message was withheld or lost, or because a limit of the run forbids a further one.
"""

from collections.abc import Callable, Mapping

from llmchecker.checking.answer import Progress
from llmchecker.checking.anytime.text_run import (
    TextRun,
    TextSample,
)
from llmchecker.checking.budget import Budget
from llmchecker.checking.conversations.turn_query import TurnMonitor, check_turn_query
from llmchecker.models.decoding.answer_reader import Reading, check_simulated_user, find_reader
from llmchecker.models.text_answer import Finish, TextAnswer, TextModel, TextStream
from llmchecker.processes.conversation import Conversation, SimulatedUser
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import check_parts, find_part
from llmchecker.properties.scores import score_pairs

_UNFINISHED = (
    Finish.MISSING,
    Finish.FILTERED,
    Finish.CALLED,
    Finish.TRUNCATED,
    Finish.MAX_TOKENS,
)
"""The ends of answers that did not end; the first that occurs is that of a conversation."""


class ConversationRun(TextRun):
    """A question about the turns of a conversation.

    Args:
        model: the model.
        conversation: the conversation.
        asked: the query, its quantifiers, and the largest number of tokens of an answer.
        budget, is_cancelled, watch: as in `TextRun`.
        user_models: the models of the simulated users.

    Raises:
        InvalidQuery: the query is not about the turns of a conversation.
        ConfigError: as in `TextRun`.
    """

    def __init__(
        self,
        model: TextModel,
        conversation: Conversation,
        asked: Property,
        budget: Budget,
        user_models: Mapping[SimulatedUser, TextModel],
        is_cancelled: Callable[[], bool] = lambda: False,
        watch: Callable[[Progress], bool | None] = lambda progress: None,
    ) -> None:
        turns = conversation.turn_count
        check_turn_query(asked.query, asked.quantifiers, turns)
        super().__init__(
            [model, *user_models.values()],
            conversation.chat,
            asked,
            budget,
            is_cancelled,
            watch,
            turns=turns,
            sample_texts=turns + len(conversation.simulated_users),
            known_turns=conversation.known_turns,
        )
        self._conversation, self._asked, self._user_models = conversation, asked, user_models
        for each in user_models.values():
            check_simulated_user(each.name, each)
        self._reader = find_reader(model).without_stops
        if self._reader.text_marks is None:
            check_parts(asked.quantifiers, self._reader)
        self._monitor = TurnMonitor(asked, turns, conversation.early_ends)
        self._seed = budget.seed

    def _create_sample(self, number: int) -> TextSample:
        stream = TextStream(self._conversation.chat, self._asked.length, self._seed)
        return TextSample(number, self.models[0], stream, self._monitor.initial_obligation)

    def _read(self, sample: TextSample, text: TextAnswer) -> None:
        user = self._find_user(sample)
        if user is None:
            self._read_answer(sample, text)
        else:
            sample.simulated.append(text)
        # a text that was withheld or lost leaves the conversation open
        sample.is_over = not text.is_sample or sample.truth is not None
        if not sample.is_over:
            user = self._find_user(sample)
            chat = self._conversation.build_chat(*self._list_contents(sample), user)
            length = self._asked.length if user is None else user.length
            sample.model = self.models[0] if user is None else self._user_models[user]
            sample.stream = TextStream(chat, length, self._seed)

    def _find_user(self, sample: TextSample) -> SimulatedUser | None:
        """Return the simulated user that writes the next text; None for the model."""
        answers, simulated = _list_texts(sample)
        turns = self._conversation.later_turns[: len(answers)]
        # the model answers a message that is written
        if len(simulated) == sum(isinstance(turn, SimulatedUser) for turn in turns):
            return None
        return self._conversation.find_simulated_user(answers)

    def _read_answer(self, sample: TextSample, answer: TextAnswer) -> None:
        """Score an answer, and advance the formula."""
        start = self._conversation.build_chat(*self._list_contents(sample)).as_text
        sample.answers.append(answer)
        if not answer.is_sample:
            return
        reading = self._read_parts(answer)
        sample.scores = {
            name: int(score_pairs(quantifier, [(start, reading.select(part))], name)[0])
            for name, quantifier in self._asked.quantifiers.items()
            for part in (find_part(quantifier),)
        }
        sample.obligation, sample.truth = self._monitor.read(
            sample.obligation,
            len(sample.answers),
            sample.scores,
            has_ended=answer.has_ended,
            is_last=self._conversation.is_last(self._list_contents(sample)[0]),
        )

    def _read_parts(self, answer: TextAnswer) -> Reading:
        """Return the parts of an answer.

        Raises:
            ConfigError: a quantifier reads thoughts, and the answer has no marks of one.
        """
        reader = self._reader.find_marks(answer.text)
        check_parts(self._asked.quantifiers, reader)
        return reader.read(answer.text, is_whole=True)

    def _format_lines(self, sample: TextSample) -> list[str]:
        """Format a sample, of which a text that is none may be the last."""
        answers, simulated = _list_texts(sample)
        contents = [
            self._read_parts(each).answer if each.is_sample else each.text
            for each in sample.answers
        ]
        return self._conversation.format_lines(answers, simulated, contents)

    def _list_contents(self, sample: TextSample) -> tuple[list[str], list[str]]:
        """Return the answers without their thoughts, and the simulated messages of a sample."""
        answers = [self._read_parts(each).answer for each in sample.answers]
        return answers, [each.text for each in sample.simulated]

    def _join(self, sample: TextSample) -> TextAnswer:
        """Return a conversation as one text, which ended if all of its answers did."""
        texts = [*sample.answers, *sample.simulated]
        # a simulated message that is cut is no cut answer
        finishes = [answer.finish for answer in sample.answers]
        finishes += [each.finish for each in sample.simulated if not each.is_sample]
        finish = next(
            (each for each in _UNFINISHED if each in finishes),
            Finish.ENDED if sample.truth is not None else Finish.MISSING,
        )
        return TextAnswer(
            text="\n".join(self._format_lines(sample)),
            finish=finish,
            is_repeated=any(text.is_repeated for text in texts),
            choice_count=max(text.choice_count for text in texts),
            time=sample.answers[-1].time,
        )


def _list_texts(sample: TextSample) -> tuple[list[str], list[str]]:
    """Return the texts of the answers and of the simulated messages of a sample."""
    return [each.text for each in sample.answers], [each.text for each in sample.simulated]
