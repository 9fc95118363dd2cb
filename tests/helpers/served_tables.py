"""Tables that a server would serve: they list few tokens, and sample continuations themselves."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from helpers.conversations import ChatTable

from llmchecker.models.continuation import Continuation, ContinuationTask
from llmchecker.models.servers.top_logprobs import TopLogprobs


class ServedTable(ChatTable):
    """A table of which a server lists the most probable tokens.

    Args:
        table: the table, whose `distribution` is read.
        listed_tokens: number of tokens that a distribution lists.
    """

    def __init__(self, table: ChatTable, listed_tokens: int) -> None:
        super().__init__(table.vocabulary, table.distribution, table.end_tokens, table.name)
        self.drops_answers, self.drops_results = table.drops_answers, table.drops_results
        self.listed_tokens = listed_tokens

    def open_prefix(self, prompt, max_length=0, *, batch_invariant=True):
        return _ServedPrefix(self, tuple(prompt))


class _ServedPrefix:
    def __init__(self, table: ServedTable, prompt: tuple[int, ...]) -> None:
        self._table, self._prompt = table, prompt

    def map_next(self, function, continuations, will_extend=False):
        lists = [self._list((*self._prompt, *row)) for row in continuations.tolist()]
        tokens, probabilities = map(np.array, zip(*lists, strict=True))
        distributions = TopLogprobs(tokens, probabilities, self._table.vocabulary_size)
        yield function(np.arange(len(continuations)), distributions)

    def read_ahead(self, continuations):
        """Do nothing: a table stores nothing."""

    @contextmanager
    def open_stream(self) -> "Iterator[_ServedPrefix]":
        yield self

    def continue_texts(
        self, tasks: Sequence[ContinuationTask], expected: Sequence[ContinuationTask] = ()
    ) -> Iterator[Continuation]:
        yield from map(self._continue, tasks)

    def _list(self, text: tuple[int, ...]) -> tuple[list[int], list[float]]:
        weights = list(map(float, self._table.distribution(text)))
        order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
        listed = order[: self._table.listed_tokens]
        return listed, [weights[token] for token in listed]

    def _continue(self, task: ContinuationTask) -> Continuation:
        chance, tokens, lists = random.Random(task.seed), [], []
        while len(tokens) < task.max_tokens and not self._table.end_tokens & set(tokens):
            text = (*self._prompt, *task.tokens, *tokens)
            weights = list(map(float, self._table.distribution(text)))
            if task.excluded and not tokens:
                weights = [0.0 if t in task.excluded else w for t, w in enumerate(weights)]
            else:
                lists.append(self._list(text))
            tokens += chance.choices(range(len(weights)), weights)
        pairs = np.array(lists, dtype=float).reshape(len(lists), 2, self._table.listed_tokens)
        return Continuation(np.array(tokens), pairs[:, 0].astype(np.int64), pairs[:, 1])
