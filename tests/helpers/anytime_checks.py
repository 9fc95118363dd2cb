"""Anytime checks of small tables: a server of requests, the enumerated truth, and kinds of queries.

The server shares no code with the package's batches and token sampler.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np
import torch
from helpers import oracle
from helpers.random_tables import END, LETTERS, PARTS, QUANTIFIERS, START, whole_tree

from llmchecker.checking.anytime.partial_tree import ModelRequest, PartialTree, TailRequest
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.scores import score_tree
from llmchecker.trees.selection import Selection, top_alpha_k
from llmchecker.trees.text_tree import StateKind

SHORT_VISITS = ((0.5, 1), (0.9, 2), (1.0, 2**31 - 1))
"""Visits that leave something to the next one on a vocabulary of five."""


class FakeClock:
    """A clock that advances by a second for each text that a model evaluates."""

    def __init__(self, monkeypatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def slow(self, model: TableModel) -> TableModel:
        """Return a model whose every distribution takes a second."""

        def distribution(tokens):
            self.now += 1.0
            return model.distribution(tokens)

        return TableModel(model.vocabulary, distribution, model.end_tokens)


class TableServer:
    """Answers to the requests of a check, text by text.

    Args:
        model: the table.
        prompt: the tokens of the start string.
    """

    def __init__(self, model: TableModel, prompt: tuple[int, ...]) -> None:
        self.distribution = cache(lambda text: model.distribution((*prompt, *text)))
        self._select = cache(self._select_uncached)

    def answer(self, request: ModelRequest | TailRequest) -> list | np.ndarray:
        """Return the selections or the sampled tokens of a request."""
        texts = [tuple(row) for row in request.continuations.tolist()]
        if isinstance(request, TailRequest):
            rows = zip(texts, request.excluded, request.uniforms, strict=True)
            return np.array([self._sample(*row) for row in rows])
        selections = [self._select(text, request.alpha, request.k) for text in texts]
        return [(np.array([row]), selection) for row, selection in enumerate(selections)]

    def _select_uncached(self, text: tuple[int, ...], alpha: float, k: int) -> Selection:
        row = torch.tensor([self.distribution(text)], dtype=torch.float64)
        return top_alpha_k(row, alpha, k)

    def _sample(self, text: tuple[int, ...], excluded: np.ndarray, uniform: float) -> int:
        weights = np.array(self.distribution(text), dtype=float)
        weights[excluded] = 0
        return int(np.searchsorted(weights.cumsum(), uniform * weights.sum(), side="right"))


def serve(requests: Iterator, server: TableServer, most: int | None = None) -> int:
    """Answer requests until there are no more, or `most` of them; return their number."""
    answer, served = None, 0
    while True:
        try:
            request = requests.send(answer)
        except StopIteration:
            return served
        if served == most:
            requests.close()
            return served
        answer, served = server.answer(request), served + 1


def plant(asked: CheckedQuery, model: TableModel) -> tuple[PartialTree, TableServer]:
    """Return the tree of a check that has only its root, and a server for it."""
    prompt = model.encode(START)
    tree = PartialTree(model, prompt, asked.monitors, asked.quantifiers)
    return tree, TableServer(model, prompt)


def copied(model: TableModel, copies: int) -> TableModel:
    """Return a model with several tokens of equal probability for each letter of a table."""

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        letters = tuple(min(token // copies, END) for token in tokens)
        *of_letters, end = model.distribution(letters)
        return [p / copies for p in of_letters for _ in range(copies)] + [end]

    vocabulary = [letter for letter in LETTERS for _ in range(copies)] + ["."]
    wide = TableModel(vocabulary, distribution, frozenset([len(vocabulary) - 1]))
    wide.is_truncated = model.is_truncated
    return wide


def truncated(model: TableModel) -> TableModel:
    """Return a model whose decoding gives the share of improbable tokens to the most probable."""

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        weights = np.array(model.distribution(tokens))
        is_cut = weights < 10 / PARTS
        weights[weights.argmax()] += weights[is_cut].sum()
        return np.where(is_cut, 0, weights).tolist()

    cut = TableModel(model.vocabulary, distribution, model.end_tokens)
    cut.is_truncated = True
    return cut


class RangedBalance:
    """How many more of one letter than of another a text has, with a range for its horizon."""

    def __init__(self, length: int) -> None:
        self.minimum, self.maximum = -length, length + 1

    def __call__(self, start: str, continuation: str) -> int:
        text = start + continuation
        return text.count("a") - text.count("b")


@dataclass(frozen=True)
class Kind:
    """A kind of query.

    Attributes:
        path: a path formula of the oracle; None for an expected score.
        given: the condition; None without one.
        step: of the expected score.
        length: the horizon.
        quantifiers: by name.
    """

    path: tuple | None
    given: tuple | None = None
    step: int = 0
    length: int = 3
    quantifiers: dict[str, Callable] = field(default_factory=lambda: dict(QUANTIFIERS))

    @property
    def query(self) -> str:
        """The query as text."""
        if self.path is None:
            return f'R{{"gender"}}=? [ I={self.step} ]'
        condition = "" if self.given is None else f" || {oracle.written(self.given)}"
        return f"P=? [ {oracle.written(self.path)}{condition} ]"

    def ask(self) -> CheckedQuery:
        """The query with its quantifiers."""
        return CheckedQuery(parse(self.query), self.quantifiers, self.length)

    def find_truth(self, model: TableModel) -> Fraction | None:
        """The answer by enumeration of all texts; None if no text meets the condition."""
        whole = whole_tree(model, self.length)
        columns = {name: score_tree(each, whole) for name, each in self.quantifiers.items()}
        columns |= {"step": whole.step}
        exact = oracle.Tree(whole.parent, whole.probability, whole.kind, columns)
        assert (whole.kind != StateKind.REST).all()
        if self.path is None:
            return exact.expectation("gender", self.step)
        if self.given is None:
            return exact.probability_of(self.path)
        return exact.conditional(self.path, self.given)


def expected_score(step: int, length: int = 3) -> Kind:
    """The kind that asks for an expected score."""
    return Kind(None, step=step, length=length, quantifiers={"gender": RangedBalance(length)})


def spread_model(seed: int) -> TableModel:
    """Return a random table in which each letter has 4 to 24 of 64 parts, and the end the rest."""

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        chance = random.Random(repr((seed, tokens)))
        of_letters = [4] * END
        for _ in range(PARTS - 4 * (END + 1)):
            of_letters[min(chance.randrange(END), chance.randrange(END))] += chance.random() < 0.9
        return [part / PARTS for part in (*of_letters, PARTS - sum(of_letters))]

    return TableModel([*LETTERS, "."], distribution, frozenset([END]))
