"""The tree of a conversation: beginnings of answers, over all turns.

A state is the beginning of an answer after the messages before it. A visit evaluates the model on
a state once, and lists the most probable next tokens. A token that ends an answer, or is its last,
leads to the first state of the next turn, whose prompt is the chat template over the messages with
that answer. The rest of a state, its tokens that are not listed, stays undecided.

A simulated user writes the message of a turn in the same way: a state is then the beginning of the
message, and the model is that of the user. So the tree is the product of both models.

A state is decided if every continuation of the conversation gives the formula the same truth. No
decided state is the beginning of another one, so that the sums of their probabilities are D, the
mass decided true, and V, the mass decided false. The rest of the probability is U.
"""

import heapq
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from llmchecker.checking.conversations.answer_tree import GivenAnswer, Path
from llmchecker.checking.conversations.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
)
from llmchecker.checking.conversations.conversation_state import Row, RowKey, State, Step, Texts
from llmchecker.checking.conversations.turn_query import TurnMonitor
from llmchecker.checking.conversations.writer import Writer, locate_turn
from llmchecker.checking.decided_mass import DecidedMass, Mass
from llmchecker.checking.endings import Endings
from llmchecker.checking.interval import Interval
from llmchecker.checking.probabilities import MIN_NORMAL
from llmchecker.errors import UnusableText
from llmchecker.models.distribution import find_by_inversion
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.scores import score_texts, split_text
from llmchecker.utils.processes import raise_interrupt

_MIN_BATCH, _MAX_BATCH = 16, 1024
"""The limits of the number of states that a refinement visits at once."""
_ROUNDOFF = 2.0**-53


class ConversationTree:
    """The explored states of a conversation.

    Attributes:
        decided: the states that decide the formula, none of which follows another.
        passes: number of texts that the model evaluated.
        looks: number of listed tokens that were looked at without a pass.
        failure: the error of a model that ended the work; None without one. The explored states
            stay right, and nothing more may be explored.

    Args:
        model: the language model, which lists all tokens of a distribution.
        conversation: the conversation.
        monitor: the monitor of the formula.
        quantifiers: the quantifiers of the formula by name.
        length: the largest number of tokens of an answer.
        user_models: the models of the simulated users, whose own tokens end a message.

    Raises:
        UnusableText: a model cannot read the conversation, whatever its answers are.
    """

    def __init__(
        self,
        model: LanguageModel,
        conversation: Conversation,
        monitor: TurnMonitor,
        quantifiers: Mapping[str, Quantifier],
        length: int,
        user_models: Mapping[SimulatedUser, LanguageModel] | None = None,
    ) -> None:
        self.passes = self.looks = 0
        self.failure: Exception | None = None
        self._conversation, self._monitor = conversation, monitor
        self._quantifiers = dict(quantifiers)
        self._prompts: dict[tuple[SimulatedUser | None, Texts, Texts], tuple[int, ...]] = {}
        self._start_texts: dict[tuple[SimulatedUser | None, tuple[int, ...]], str] = {}
        self._messages: dict[tuple[Texts, Texts], str] = {}
        self._writers: dict[SimulatedUser | None, Writer] = {None: Writer(model, length)}
        for user, user_model in (user_models or {}).items():
            self._writers[user] = Writer(user_model, user.length)
        self._check_turns()
        self._root = State(
            parent=None,
            user=None,
            prompt=self._encode(None, (), ()),
            tokens=(),
            given=(),
            message=None,
            obligation=monitor.initial_obligation,
            mass=1.0,
        )
        self._rows: dict[RowKey, Row] = {}
        self._touched: set[State] = set()
        self.decided: list[State] = []
        self._defects: list[float] = []
        # the most probable next tokens of visited states: negative mass, tie, state, index
        self._queue: list[tuple[float, int, State, int]] = []
        self._ties = itertools.count()
        self._batch = min(_MAX_BATCH, max(_MIN_BATCH, model.batch_texts))

    @property
    def undecided(self) -> float:
        """U, the undecided mass; exactly 0 if everything is decided."""
        self._settle()
        return self._root.undecided_share

    @property
    def satisfied(self) -> float:
        """D, the mass that is decided true."""
        return math.fsum(state.mass for state in self.decided if state.truth)

    @property
    def rounding_error(self) -> float:
        """A limit above the relative error of a sum of masses.

        A mass is a product of as many probabilities as it has tokens. Each of them is a quotient of
        a weight and a sum of as many weights as the vocabulary has tokens, which errs by at most
        one unit roundoff for each of them (Higham 2002, section 4.2).
        """
        writer = self._writers[None]
        tokens = (writer.length + 1) * self._conversation.turn_count
        terms = (writer.model.vocabulary_size + 64) * (tokens + 1)
        for user in self._conversation.simulated_users:
            writer = self._writers[user]
            terms += (writer.model.vocabulary_size + 64) * (writer.length + 1)
        return terms * _ROUNDOFF

    def compute_mass(self) -> DecidedMass:
        """Compute D, V and U with limits above their rounding errors."""
        error = self.rounding_error

        def add(truth: bool) -> Mass:
            masses = [state.mass for state in self.decided if state.truth is truth]
            # a small product may be computed as 0
            return Mass(math.fsum(masses), error, MIN_NORMAL if masses else 0.0)

        undecided = self.undecided
        return DecidedMass(
            add(True),
            add(False),
            Mass(undecided, error, MIN_NORMAL if undecided else 0.0),
            math.fsum(self._defects) * (1 + error),
        )

    def measure_endings(self) -> Endings:
        """Measure how probably no answer is cut, and an answer is."""
        ended = cut = 0.0
        for state in self.decided:
            ended += state.mass * (state.is_complete and state.cut_count == 0)
            cut += state.mass * (state.cut_count > 0)
        error = self.rounding_error
        low = min(1.0, max(0.0, ended * (1 - error)))
        high = max(low, min(1.0, 1 - cut * (1 - error)))
        return Endings(Interval(low, high), min(1.0, (cut + self.undecided) * (1 + error)))

    def iter_paths(self) -> Iterator[Path]:
        """Yield the decided conversations, and the probabilities of what is not explored."""
        waiting = [self._root]
        while waiting:
            state = waiting.pop()
            if state.truth is not None or state.row is None:
                yield Path(state.given, state.mass, state.truth)
                continue
            waiting.extend(state.children.values())
            is_unexplored = np.ones(len(state.row.tokens), dtype=bool)
            is_unexplored[list(state.children)] = False
            left = math.fsum([state.row.rest, *state.row.probabilities[is_unexplored].tolist()])
            yield Path(state.given, state.mass * left, None)

    def refine(self, max_passes: float) -> bool:
        """Visit the most probable undecided states.

        Args:
            max_passes: the largest number of visits.

        Returns:
            Whether anything was left to look at.
        """
        try:
            return self._refine(max_passes)
        except _ModelFailed as error:
            self.failure = error.cause
            return False

    def _refine(self, max_passes: float) -> bool:
        if self._root.row is None:
            self._visit([self._root])
            return True
        steps: list[Step] = []
        while self._queue and len(steps) < min(self._batch, max_passes):
            _, _, parent, index = heapq.heappop(self._queue)
            self._enqueue(parent, index + 1)
            steps.append(self._list_step(parent, index))
        if not steps:
            return False
        self._visit(
            [state for state in self._reach(steps) if state.truth is None and state.row is None]
        )
        return True

    def sample(
        self, generators: Sequence[np.random.Generator], allows: Callable[[int], bool]
    ) -> list[bool | None]:
        """Sample conversations of the undecided mass, all side by side.

        The tokens follow the undecided parts of their probabilities before the round, whatever the
        round decides.

        Args:
            generators: the random numbers of each sample.
            allows: returns whether so many further visits are allowed.

        Returns:
            The truth of the formula on each conversation; None where visits were not allowed, or a
            model failed.
        """
        self._settle()
        states = [self._root] * len(generators)
        try:
            self._lead_to_ends(states, generators, allows)
        except _ModelFailed as error:
            self.failure = error.cause
        return [state.truth for state in states]

    def _lead_to_ends(
        self,
        states: list[State],
        generators: Sequence[np.random.Generator],
        allows: Callable[[int], bool],
    ) -> None:
        """Lead each state to a decided one, as far as visits are allowed."""
        while active := [index for index, state in enumerate(states) if state.truth is None]:
            unvisited = list(
                dict.fromkeys(states[index] for index in active if states[index].row is None)
            )
            if unvisited and not allows(len(unvisited)):
                break
            self._visit(unvisited)
            numbers = {index: float(generators[index].random()) for index in active}
            steps, rests = self._choose(states, numbers)
            if rests and not allows(len({states[index] for index in rests})):
                break
            steps |= self._choose_in_rests(states, rests, generators)
            order = list(steps)
            reached = self._reach([steps[index] for index in order])
            for index, state in zip(order, reached, strict=True):
                states[index] = state

    def _check_turns(self) -> None:
        """Check that the models read later turns, and find the tokens that their prompts share.

        Raises:
            UnusableText: a chat template rejects or drops messages, or the context is too short.
        """
        conversation, model = self._conversation, self._writers[None].model
        answers: Texts = ()
        simulated: Texts = ()
        one = self._encode(None, (), ())
        prompts: dict[SimulatedUser | None, list[tuple[int, ...]]] = defaultdict(
            list, {None: [one]}
        )
        for count, turn in enumerate(conversation.later_turns, start=1):
            tool = turn.tool if isinstance(turn, ScriptedTurn) else ""
            # the result of a tool follows a call alone
            first, second = (_write_call(tool, x) for x in ({}, {"x": 1})) if tool else ("A", "B")
            earlier, answers = answers, (*answers, first)
            if (user := conversation.find_simulated_user(answers)) is not None:
                one, other = (
                    self._encode(user, (*earlier, answer), simulated) for answer in ("A", "B")
                )
                self._check_read(count, user, one, other, "the answer before it")
                with locate_turn(1 + count, user):
                    self._writers[user].open_prefix(one)
                prompts[user] += [one, other]
                simulated = (*simulated, "A")
            one = self._encode(None, answers, simulated)
            chat = conversation.build_chat(answers, simulated)
            *before, answer, (role, message) = chat.messages
            # the user's message may repeat the answer, so that only the answer itself changes
            changed = [((*before, ("assistant", second), (role, message)), "the answer before it")]
            if tool:
                changed.append(((*before, answer, (role, f"{message}A")), "the result of the tool"))
            for messages, part in changed:
                with locate_turn(1 + count):
                    other = tuple(model.encode(replace(chat, messages=messages)))
                self._check_read(count, None, one, other, part)
                prompts[None] += [one, other]
        if conversation.turn_count > 1:
            # answers of one letter make the shortest prompt
            with locate_turn(conversation.turn_count):
                self._writers[None].open_prefix(one)
        for user, texts in prompts.items():
            self._writers[user].share_beginning(texts)

    def _check_read(
        self,
        count: int,
        user: SimulatedUser | None,
        one: tuple[int, ...],
        other: tuple[int, ...],
        part: str,
    ) -> None:
        """Check that a chat template keeps a part of the chat in which two prompts differ."""
        if one == other:
            key = "" if user is None else ".simulated_user"
            raise UnusableText(
                f"turns[{count}]{key}: the chat template of {self._writers[user].model.name} drops "
                f"{part}; choose a model whose template has several turns"
            )

    def _encode(
        self, user: SimulatedUser | None, answers: Texts, simulated: Texts
    ) -> tuple[int, ...]:
        """Return the tokens of the messages before an answer, or before a simulated message."""
        key = user, answers, simulated
        if key not in self._prompts:
            with locate_turn(1 + len(answers), user):
                chat = self._conversation.build_chat(answers, simulated, user)
                self._prompts[key] = tuple(self._writers[user].model.encode(chat))
        return self._prompts[key]

    def _enqueue(self, state: State, index: int) -> None:
        row = state.row
        if row is not None and state.is_listed and index < len(row.tokens):
            mass = state.mass * float(row.probabilities[index])
            heapq.heappush(self._queue, (-mass, next(self._ties), state, index))

    def _list_step(self, state: State, index: int) -> Step:
        assert state.row is not None
        row = state.row
        return state, index, int(row.tokens[index]), float(row.probabilities[index])

    def _visit(self, states: Sequence[State]) -> None:
        """Find the next tokens of states without a row."""
        # different tokens of an answer may be the same text, and so lead to the same prompt
        unread = {state.row_key: state for state in states if state.row_key not in self._rows}
        by_writer: dict[SimulatedUser | None, list[State]] = defaultdict(list)
        for state in unread.values():
            by_writer[state.user].append(state)
        for user, group in by_writer.items():
            with _catch_failures():
                for state, row in self._writers[user].read(group):
                    self._rows[state.row_key] = row
                    self.passes += 1
        for state in states:
            row = self._rows[state.row_key]
            state.row, state.weights = row, np.append(row.probabilities, row.rest)
            if state.is_listed:
                total = math.fsum([*row.probabilities.tolist(), row.rest])
                self._defects.append(state.mass * abs(total - 1))
                self._touched.add(state)
            self._enqueue(state, 0)

    def _reach(self, steps: Sequence[Step]) -> list[State]:
        """Return the state after each step, with its truth."""
        self.looks += len(steps)
        reached: list[State] = []
        new: list[State] = []
        for parent, index, token, probability in steps:
            child = parent.children.get(index)
            if child is None:
                child = State(
                    parent=parent,
                    user=parent.user,
                    prompt=parent.prompt,
                    tokens=(*parent.tokens, token),
                    given=parent.given,
                    message=parent.message,
                    obligation=parent.obligation,
                    mass=parent.mass * probability,
                    depth=parent.depth + 1,
                    is_listed=parent.is_listed and index >= 0,
                )
                if index >= 0:
                    parent.children[index] = child
                new.append(child)
            reached.append(child)
        try:
            self._read_texts(new)
        # also after a failure in the middle, so that the masses stay those of all states
        finally:
            for child in new:
                if child.is_listed and child.truth is not None:
                    self.decided.append(child)
                    assert child.parent is not None
                    self._touched.add(child.parent)
        return reached

    def _is_over(self, state: State) -> bool:
        """Return whether the answer or the message of a state is whole."""
        return len(state.tokens) == self._writers[state.user].length or self._has_ended(state)

    def _has_ended(self, state: State) -> bool:
        return state.tokens[-1] in self._writers[state.user].model.end_tokens

    def _read_texts(self, states: Sequence[State]) -> None:
        """Score new states, and lead those with a whole text to the next turn."""
        groups: dict[tuple[SimulatedUser | None, tuple[int, ...], str], list[State]]
        groups = defaultdict(list)
        for state in states:
            looks_within = state.user is None and self._monitor.final_names
            if looks_within or self._is_over(state):
                # a template may drop a difference between two messages
                groups[state.user, state.prompt, self._format_messages(state)].append(state)
        for (user, prompt, messages), group in groups.items():
            start, texts = self._find_start(user, prompt), self._decode(user, prompt, group)
            if user is not None:
                for state, text in zip(group, texts, strict=True):
                    state.message = split_text(start, text)[1]
                    self._begin_text(state, None)
                continue
            scores: list[dict[str, int]] = [{} for _ in group]
            for name, quantifier in self._quantifiers.items():
                # only a final score of a beginning is of use
                rows = [
                    row
                    for row, state in enumerate(group)
                    if name in self._monitor.final_names or self._is_over(state)
                ]
                if not rows:
                    continue
                chosen = [texts[row] for row in rows]
                found = score_texts(quantifier, start, chosen, name, messages)
                for row, score in zip(rows, found.tolist(), strict=True):
                    scores[row][name] = score
            for state, text, values in zip(group, texts, scores, strict=True):
                self._advance(state, split_text(start, text)[1], values)

    def _advance(self, state: State, text: str, scores: Mapping[str, int]) -> None:
        """Decide a state by its text, or lead it to the next turn."""
        is_over, turn = self._is_over(state), state.turn
        has_ended = self._has_ended(state) if is_over else None
        values = tuple(scores.get(name) for name in self._quantifiers)
        given = (*state.given, GivenAnswer(text, has_ended, values, state.message))
        if has_ended is None:
            state.truth = self._monitor.decide_beginning(state.obligation, turn, scores)
            if state.truth is not None:
                state.given, state.message = given, None
            return
        state.given, state.message = given, None
        state.is_complete = self._conversation.is_last(state.answers)
        state.obligation, state.truth = self._monitor.read(
            state.obligation, turn, scores, has_ended, state.is_complete
        )
        if state.truth is None:
            self._begin_text(state, self._conversation.find_simulated_user(state.answers))

    def _begin_text(self, state: State, user: SimulatedUser | None) -> None:
        """Lead a state with a whole text to the next answer, or to the message of a user."""
        state.user, state.tokens = user, ()
        with _catch_failures():
            state.prompt = self._encode(user, state.answers, state.simulated)

    def _find_start(self, user: SimulatedUser | None, prompt: tuple[int, ...]) -> str:
        key = user, prompt
        if key not in self._start_texts:
            (self._start_texts[key],) = self._writers[user].model.decode_unfinished([prompt])
        return self._start_texts[key]

    def _format_messages(self, state: State) -> str:
        """Return the messages before a state's answer, as quantifiers read them."""
        # quantifiers read no message of a simulated user
        if state.user is not None:
            return ""
        key = state.answers, state.simulated
        if key not in self._messages:
            self._messages[key] = self._conversation.build_chat(*key).as_text
        return self._messages[key]

    def _decode(
        self, user: SimulatedUser | None, prompt: tuple[int, ...], states: Sequence[State]
    ) -> list[str]:
        """Return the texts of states with one prompt, as `decode_texts` of trees does."""
        texts, model = [""] * len(states), self._writers[user].model
        for has_ended, decode in ((False, model.decode_unfinished), (True, model.decode)):
            rows = [i for i, state in enumerate(states) if self._has_ended(state) == has_ended]
            with _catch_failures():
                decoded = decode([[*prompt, *states[row].tokens] for row in rows]) if rows else []
            for row, text in zip(rows, decoded, strict=True):
                texts[row] = text
        return texts

    def _choose(
        self, states: Sequence[State], numbers: Mapping[int, float]
    ) -> tuple[dict[int, Step], list[int]]:
        """Choose the next token of each sample; the second part are those of a rest."""
        steps: dict[int, Step] = {}
        rests: list[int] = []
        by_state: dict[State, list[int]] = defaultdict(list)
        for index in numbers:
            by_state[states[index]].append(index)
        for state, indices in by_state.items():
            assert state.weights is not None
            assert state.row is not None
            sums = state.weights.cumsum()
            targets = np.array([numbers[index] for index in indices]) * sums[-1]
            for index, position in zip(
                indices, find_by_inversion(sums, targets).tolist(), strict=True
            ):
                if position == len(state.row.tokens):
                    rests.append(index)
                else:
                    steps[index] = self._list_step(state, position)
        return steps, rests

    def _choose_in_rests(
        self,
        states: Sequence[State],
        rests: Sequence[int],
        generators: Sequence[np.random.Generator],
    ) -> dict[int, Step]:
        """Choose tokens that are not listed, which takes a second evaluation of the model."""
        by_state: dict[State, list[int]] = defaultdict(list)
        for index in rests:
            by_state[states[index]].append(index)
        steps: dict[int, Step] = {}
        for state, indices in by_state.items():
            numbers = np.array([generators[index].random() for index in indices])
            with _catch_failures():
                tokens = self._writers[state.user].choose_unlisted(state, numbers).tolist()
            self.passes += 1
            for index, token in zip(indices, tokens, strict=True):
                # its mass stays in the rest, so that its own is of no use
                steps[index] = (state, -1, token, 0.0)
        return steps

    def _settle(self) -> None:
        """Update the undecided parts of all states before changed ones, the deepest first."""
        levels: dict[int, set[State]] = defaultdict(set)
        for state in self._touched:
            levels[state.depth].add(state)
        self._touched = set()
        for depth in range(max(levels, default=-1), -1, -1):
            for state in levels[depth]:
                _update_weights(state)
                if state.parent is not None:
                    levels[depth - 1].add(state.parent)


class _ModelFailed(Exception):
    """A model that failed.

    Attributes:
        cause: its error.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


@contextmanager
def _catch_failures() -> Iterator[None]:
    """Mark the errors of the block as those of a model, unlike those of a quantifier."""
    try:
        yield
    except Exception as error:
        raise_interrupt(error)
        raise _ModelFailed(error) from error


def _write_call(tool: str, arguments: Mapping[str, int]) -> str:
    """Return a short call of a tool."""
    return json.dumps({"name": tool, "parameters": arguments})


def _update_weights(state: State) -> None:
    assert state.row is not None
    weights = np.append(state.row.probabilities, state.row.rest)
    for index, child in state.children.items():
        share = child.undecided_share
        weights[index] *= share
        # an undecided state keeps a weight, since 0 means that everything is decided
        if share > 0 and weights[index] == 0:
            weights[index] = MIN_NORMAL
    state.weights = weights
