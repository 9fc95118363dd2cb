"""The models that write the answers and the messages of a conversation."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from os.path import commonprefix

import numpy as np

from llmchecker.checking.conversations.conversation import SimulatedUser
from llmchecker.checking.conversations.conversation_state import Row, State
from llmchecker.errors import prefix_errors
from llmchecker.models.distribution import Distributions
from llmchecker.models.interface import LanguageModel, Prefix

_LISTED_TOKENS = 512
"""The largest number of most probable tokens that a visit lists."""
_MAX_PREFIXES = 8
"""The largest number of prompts whose keys and values are kept for models that need each whole."""


class Writer:
    """A model that writes answers or simulated messages, and its distributions after states.

    Attributes:
        open_prefix: opens the continuations of a prompt, as the model does, and keeps recent ones.

    Args:
        model: the language model.
        length: the largest number of tokens of a text.
    """

    def __init__(self, model: LanguageModel, length: int) -> None:
        self.model, self.length = model, length
        self._shared: tuple[int, ...] = ()
        self._listed = min(_LISTED_TOKENS, model.vocabulary_size)
        self.open_prefix: Callable[[tuple[int, ...]], Prefix] = lru_cache(_MAX_PREFIXES)(
            lambda prompt: model.open_prefix(prompt, length)
        )

    def share_beginning(self, prompts: Sequence[tuple[int, ...]]) -> None:
        """Evaluate the beginning that prompts share once for all that begin with it."""
        # each prompt is evaluated alone where decoding compares it with the text
        if not self.model.compares_prompt:
            self._shared = tuple(commonprefix(prompts))  # noqa: RUF071 - of tokens, not paths

    def read(self, states: Sequence[State]) -> Iterator[tuple[State, Row]]:
        """Yield the next tokens of each state, in batches of texts of one length."""
        batches: dict[tuple[tuple[int, ...], int], list[State]] = defaultdict(list)
        tails: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
        for state in states:
            key, continuation = self._split(state)
            batches[key, len(continuation)].append(state)
            # the prompt of a new turn
            if not state.tokens and len(continuation) > 1:
                tails[key].append(continuation[:-1])
        for key, texts in tails.items():
            with locate_turn(states[0].turn, states[0].user):
                self.open_prefix(key).read_ahead(texts)
        for (key, _), batch in batches.items():
            continuations = np.array([self._split(state)[1] for state in batch], dtype=np.int64)
            with locate_turn(batch[0].turn, batch[0].user):
                parts = self.open_prefix(key).map_next(self._list_tokens, continuations, True)
                rows = [row for part in parts for row in part]
            yield from ((batch[position], row) for position, row in rows)

    def choose_unlisted(self, state: State, numbers: np.ndarray) -> np.ndarray:
        """Return (n,) int64: tokens that are not listed, one for each random number."""
        assert state.row is not None
        listed = state.row.tokens

        def choose(rows: np.ndarray, distributions: Distributions) -> np.ndarray:
            del rows
            return distributions.exclude([listed]).sample_by_inversion(0, numbers)

        key, continuation = self._split(state)
        texts = np.array([continuation], dtype=np.int64)
        with locate_turn(state.turn, state.user), prefix_errors(self.model.name):
            (tokens,) = self.open_prefix(key).map_next(choose, texts)
        return tokens

    def _split(self, state: State) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the tokens that a prefix has evaluated, and those after them."""
        shared = self._shared
        if shared and state.prompt[: len(shared)] == shared:
            return shared, (*state.prompt[len(shared) :], *state.tokens)
        return state.prompt, state.tokens

    def _list_tokens(self, rows: np.ndarray, distributions: Distributions) -> list[tuple[int, Row]]:
        probabilities, tokens = (
            column.cpu().numpy() for column in distributions.top_k(self._listed)
        )
        counts = np.count_nonzero(probabilities > 0, axis=1)
        rest = np.zeros(len(rows))
        # where the least listed probability is above 0, others may be
        has_others = (counts == self._listed) & (self._listed < distributions.vocabulary_size)
        if has_others.any():
            rest[has_others] = distributions.masses_excluding(
                np.flatnonzero(has_others), tokens[has_others]
            )
        return [
            (row, Row(tokens[i, :count].copy(), probabilities[i, :count].copy(), float(rest[i])))
            for i, (row, count) in enumerate(zip(rows.tolist(), counts.tolist(), strict=True))
        ]


def locate_turn(turn: int, user: SimulatedUser | None = None) -> AbstractContextManager[None]:
    """Prefix errors in the block with the turn; the first turn is the prompt itself."""
    key = "" if user is None else ".simulated_user"
    return prefix_errors(f"turns[{turn - 1}]{key}") if turn > 1 else nullcontext()
