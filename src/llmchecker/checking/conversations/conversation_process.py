"""The process of a conversation: answers and simulated messages in turns.

The end of an answer leads to the next turn, whose prompt is the chat template over all messages
before it. A simulated user writes the message of its turn in the same way. So a conversation is one
text, and the messages of scripted users and of tools are forced.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from os.path import commonprefix
from typing import Any

from llmchecker.checking.answer import Answer, Evidence
from llmchecker.checking.anytime.checked_process import CheckedProcess
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.conversations.answer_tree import GivenAnswer
from llmchecker.checking.conversations.explored_conversation import ExploredConversation
from llmchecker.checking.conversations.token_monitor import TokenMonitor
from llmchecker.checking.conversations.turn_part import Texts, TurnPart
from llmchecker.checking.conversations.turn_query import TurnMonitor, check_turn_query
from llmchecker.checking.measurement import find_threshold
from llmchecker.checking.witnesses import COUNTEREXAMPLE, WITNESS
from llmchecker.errors import UnusableText, prefix_errors
from llmchecker.models.decoding.answer_format import find_answer_format
from llmchecker.models.decoding.answer_reader import (
    WHOLE_OUTPUT,
    check_simulated_user,
    find_prompt_reader,
)
from llmchecker.models.decoding.chat_template import describe_prompt_date
from llmchecker.models.decoding.settings import check_thinking, list_model_notes
from llmchecker.models.interface import LanguageModel
from llmchecker.processes.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
)
from llmchecker.processes.process import Part, Stage
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import bind_quantifiers, check_parts
from llmchecker.properties.transducers.interface import HasTransducer

_MAX_WITNESSES = 5
"""The largest number of conversations that an answer shows."""
_WHOLE: dict[str, Any] = {"listed_tokens": 4096, "min_share": 0.0}
"""Settings of a tree that lists nearly all tokens of every text."""


class ConversationProcess(CheckedProcess):
    """The process of a conversation.

    Attributes:
        conversation: the conversation.

    Args:
        model: the language model.
        conversation: likewise.
        length: the largest number of tokens of an answer.
        user_models: the models of the simulated users, whose own tokens end a message.
        decides_early: whether conversations are decided before their last answer.

    Raises:
        UnusableText: a model cannot read the conversation, whatever its answers are.
        ConfigError: a simulated user has stops, `max_tokens` or thoughts.
    """

    def __init__(
        self,
        model: LanguageModel,
        conversation: Conversation,
        length: int,
        user_models: Mapping[SimulatedUser, LanguageModel],
        *,
        decides_early: bool = True,
    ) -> None:
        self.model, self._reader = (
            model,
            find_prompt_reader(model, conversation.chat, model.encode(conversation.chat)),
        )
        if self._reader.marks is not None and self._reader.marks.is_open:
            check_thinking(model)
        answer_format = self._reader.adapt_format(find_answer_format(model, conversation.chat))
        self.conversation = replace(
            conversation,
            chat=replace(conversation.chat, answer_format=answer_format),
            reader=self._reader.without_stops,
        )
        for each in user_models.values():
            check_simulated_user(each.name, each)
        self._length, self._user_models = length, user_models
        self._decides_early = decides_early
        self.turn_count = conversation.turn_count
        date_notes = describe_prompt_date(model, conversation.chat)
        self.notes = (*date_notes, *list_model_notes(model))
        # by turn: of the answer, and of the message of a simulated user before it
        self._stages: dict[tuple[int, bool], Stage] = {}
        for turn in range(1, self.turn_count + 1):
            self._add_stages(turn)
        self.stages = tuple(self._stages.values())
        self._encode = cache(self._encode_messages)
        self._shared: dict[int, tuple[int, ...]] = {}
        self._check_turns()
        self.first = self._create_part(None, (), None)

    def _add_stages(self, turn: int) -> None:
        """Add the stages of a turn."""

        def add(writer: LanguageModel, length: int, is_answer: bool, is_last: bool | None) -> None:
            first = max((stage.end for stage in self._stages.values()), default=0)
            reader = self._reader if is_answer else WHOLE_OUTPUT
            self._stages[turn, is_answer] = Stage(
                writer, first, length, turn, is_answer, is_last, reader
            )

        scripted = self.conversation.later_turns[turn - 2] if turn > 1 else None
        if isinstance(scripted, SimulatedUser):
            add(self._user_models[scripted], scripted.length, False, False)
        may_end = turn in self.conversation.early_ends
        length = self._reader.limit_length(self._length)
        add(self.model, length, True, None if may_end else turn == self.turn_count)

    def ends_text(self, part: Part, text: str) -> bool:
        """Return whether an answer ends the conversation, as one without a call of a tool may."""
        assert isinstance(part, TurnPart)
        return part.stage.is_answer and self.conversation.is_last((*part.answers, text))

    def follow(
        self, part: Part, text: str, *, has_ended: bool, scores: Sequence[int]
    ) -> "TurnPart":
        """Return the next answer, or the message of a simulated user before it."""
        assert isinstance(part, TurnPart)
        if not part.stage.is_answer:
            return self._create_part(None, part.given, text)
        given = (*part.given, GivenAnswer(text, has_ended, tuple(scores), part.message))
        answers = tuple(answer.text for answer in given)
        return self._create_part(self.conversation.find_simulated_user(answers), given, None)

    def _create_part(
        self, user: SimulatedUser | None, given: tuple[GivenAnswer, ...], message: str | None
    ) -> TurnPart:
        answers = tuple(answer.text for answer in given)
        simulated = tuple(each.message for each in given if each.message is not None)
        if message is not None:
            simulated = (*simulated, message)
        cut = next((answer.text for answer in given if answer.has_ended is False), "")
        return TurnPart(
            self._stages[1 + len(given), user is None],
            given,
            message,
            # quantifiers read no message of a simulated user
            "" if user else self.conversation.build_chat(answers, simulated).as_text,
            lambda: self._encode(user, answers, simulated),
            is_thought_cut=self._reader.without_stops.read(cut, is_whole=True).is_thinking,
        )

    def create_tree(self, asked: Property) -> ExploredTree:
        """Create the tree that a check of a query explores.

        Raises:
            InvalidQuery: the query is not about the turns of the conversation.
            ConfigError: a quantifier reads thoughts that the answers do not have.
        """
        check_parts(asked.quantifiers, self._reader)
        conversation = self.conversation
        check_turn_query(asked.query, asked.quantifiers, conversation.turn_count)
        turns = TurnMonitor(
            asked,
            conversation.turn_count,
            conversation.early_ends,
            decides_early=self._decides_early,
        )
        # a beginning has a score only where it may decide
        end_scores = [
            name
            for name, quantifier in asked.quantifiers.items()
            if not isinstance(quantifier, HasTransducer) and len(asked.ranges[name]) == 2
        ]
        return ExploredTree(
            self,
            Estimand.from_query(asked, (TokenMonitor(turns, self),)),
            bind_quantifiers(asked.quantifiers, conversation.chat.answer_format),
            end_scores=end_scores,
            **({} if self._decides_early else _WHOLE),
        )

    def gather_evidence(self, tree: ExploredTree, asked: Property) -> Evidence:
        """Return the explored conversations, and the most probable ones that decide."""

        def plan_whole() -> ConversationProcess:
            return ConversationProcess(
                self.model,
                self.conversation,
                self._length,
                self._user_models,
                decides_early=False,
            )

        explored = ExploredConversation(self.conversation, tree, asked, plan_whole)
        texts = [
            text for truth in (True, False) for text in explored.list_texts(truth, _MAX_WITNESSES)
        ]
        return Evidence(None, texts=tuple(texts), conversation=explored)

    def add_texts(self, answer: Answer, evidence: Evidence, seconds: float) -> Answer:
        """Return an answer with the conversations that speak against its requirement."""
        threshold = find_threshold(answer.query)
        if threshold is None:
            return answer
        kind = COUNTEREXAMPLE if threshold.comparison in (">=", ">") else WITNESS
        return replace(answer, witnesses=tuple(t for t in evidence.texts if t.kind == kind))

    def find_shared(self, stage: Stage) -> tuple[int, ...]:
        """Return tokens with which prompts of a writer begin, and which are read once."""
        return self._shared.get(id(stage.writer), ())

    def locate(self, stage: Stage) -> AbstractContextManager[None]:
        """Prefix errors of the block with the turn; the first turn is the prompt itself."""
        return _locate_turn(stage.turn, is_answer=stage.is_answer)

    def _encode_messages(
        self, user: SimulatedUser | None, answers: Texts, simulated: Texts
    ) -> tuple[int, ...]:
        """Return the tokens of the messages before an answer, or before a simulated message."""
        with _locate_turn(1 + len(answers), is_answer=user is None):
            writer = self.model if user is None else self._user_models[user]
            return tuple(writer.encode(self.conversation.build_chat(answers, simulated, user)))

    def _check_turns(self) -> None:
        """Check that the models read later turns, and find the tokens that their prompts share.

        Raises:
            UnusableText: a chat template rejects or drops messages, or begins a thought before
                some of the answers alone, or the context is too short.
        """
        conversation, model = self.conversation, self.model
        answers: Texts = ()
        simulated: Texts = ()
        one = self._encode(None, (), ())
        prompts: dict[int, list[tuple[int, ...]]] = defaultdict(list, {id(model): [one]})
        for count, turn in enumerate(conversation.later_turns, start=1):
            tool = turn.tool if isinstance(turn, ScriptedTurn) else ""
            # the result of a tool follows a call alone
            first, second = (_write_call(tool, x) for x in ({}, {"x": 1})) if tool else ("A", "B")
            earlier, answers = answers, (*answers, self._write_answer(first))
            if (user := conversation.find_simulated_user(answers)) is not None:
                one, other = (
                    self._encode(user, (*earlier, self._write_answer(answer)), simulated)
                    for answer in ("A", "B")
                )
                stage = self._stages[1 + count, False]
                self._check_read(stage, one, other, "the answer before it")
                with self.locate(stage):
                    stage.writer.open_prefix(one, stage.length)
                prompts[id(stage.writer)] += [one, other]
                simulated = (*simulated, "A")
            one = self._encode(None, answers, simulated)
            chat = conversation.build_chat(answers, simulated)
            *before, answer, (role, message) = chat.messages
            # the user's message may repeat the answer, so that only the answer itself changes
            changed = [((*before, ("assistant", second), (role, message)), "the answer before it")]
            if tool:
                changed.append(((*before, answer, (role, f"{message}A")), "the result of the tool"))
            stage = self._stages[1 + count, True]
            if find_prompt_reader(model, chat, one) != self._reader:
                raise UnusableText(
                    f"turns[{stage.turn - 1}]: the chat template of {model.name} begins a thought "
                    "before some answers alone; write `thought: false`"
                )
            for messages, part in changed:
                with self.locate(stage):
                    other = tuple(model.encode(replace(chat, messages=messages)))
                self._check_read(stage, one, other, part)
                prompts[id(model)] += [one, other]
        if conversation.turn_count > 1:
            # answers of one letter make the shortest prompt
            with self.locate(self.stages[-1]):
                model.open_prefix(one, self.stages[-1].length)
            self._share_beginnings(prompts)

    def _write_answer(self, content: str) -> str:
        """Return an answer with a thought, where answers have some."""
        if (marks := self._reader.marks) is None:
            return content
        return f"{'' if marks.is_open else marks.begin}A{marks.end}{content}"

    def _check_read(
        self, stage: Stage, one: tuple[int, ...], other: tuple[int, ...], part: str
    ) -> None:
        """Check that a chat template keeps a part of the chat in which two prompts differ."""
        if one == other:
            key = "" if stage.is_answer else ".simulated_user"
            raise UnusableText(
                f"turns[{stage.turn - 1}]{key}: the chat template of {stage.writer.name} drops "
                f"{part}; choose a model whose template has several turns"
            )

    def _share_beginnings(self, prompts: Mapping[int, Sequence[tuple[int, ...]]]) -> None:
        """Find the beginning of the prompts of each writer, which is evaluated once."""
        for stage in self.stages:
            # each prompt is evaluated alone where decoding compares it with the text
            if not stage.writer.compares_prompt:
                writer = id(stage.writer)
                # of tokens, not paths
                self._shared[writer] = tuple(commonprefix(prompts[writer]))  # noqa: RUF071


def _write_call(tool: str, arguments: Mapping[str, int]) -> str:
    """Return a short call of a tool."""
    return json.dumps({"name": tool, "parameters": arguments})


def _locate_turn(turn: int, *, is_answer: bool) -> AbstractContextManager[None]:
    key = "" if is_answer else ".simulated_user"
    return prefix_errors(f"turns[{turn - 1}]{key}") if turn > 1 else nullcontext()
