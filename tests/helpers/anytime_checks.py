"""Anytime checks of small tables: a server of requests, the enumerated truth, and kinds of queries.

The server shares no code with the package's batches and token sampler.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np
from helpers import oracle
from helpers.random_tables import END, LETTERS, PARTS, READ_QUANTIFIERS, START, whole_tree

from llmchecker.checking.anytime.answer_process import AnswerProcess
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.refinement import select_batch
from llmchecker.checking.anytime.step_request import ContinuationRequest, StepRequest
from llmchecker.checking.anytime.token_step import StepResult
from llmchecker.models.continuation import Continuation, ContinuationTask
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.scores import score_tree
from llmchecker.trees.text_tree import StateKind

FEW_LISTED = 2
"""A number of listed tokens that leaves something to the rest on a vocabulary of five."""


class FakeClock:
    """A clock that advances for each text that a model evaluates."""

    def __init__(self, monkeypatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def slow(
        self, model: TableModel, seconds: Callable[[float], float] = lambda now: 1.0
    ) -> TableModel:
        """Return a model whose every distribution takes a second, or what depends on the time."""

        def distribution(tokens):
            self.now += seconds(self.now)
            return model.distribution(tokens)

        return TableModel(model.vocabulary, distribution, model.end_tokens)


class TableServer:
    """Answers to the requests of a check, text by text and token by token.

    Args:
        model: the table.
        prompt: the tokens of the start string.
    """

    def __init__(self, model: TableModel, prompt: tuple[int, ...]) -> None:
        self.distribution = cache(lambda text: model.distribution((*prompt, *text)))
        self._listed = model.listed_tokens

    def answer(self, request: StepRequest | ContinuationRequest) -> StepResult | list[Continuation]:
        """Return the next tokens of texts, or their sampled continuations."""
        if isinstance(request, ContinuationRequest):
            return [self._continue(task) for task in request.continuations]
        texts = [tuple(row) for row in request.continuations.tolist()]
        return StepResult.concatenate(
            [self._step(text, request, index) for index, text in enumerate(texts)]
        )

    def _step(self, text: tuple[int, ...], request: StepRequest, index: int) -> StepResult:
        weights = {token: p for token, p in enumerate(self.distribution(text)) if p > 0}
        by_weight = sorted(weights, key=lambda token: (-weights[token], token))
        listed = by_weight[: self._listed]
        unlisted = math.fsum(weights[token] for token in by_weight[self._listed :])
        left = [t for t in listed if t not in request.known[index].tolist()]
        row, values = request.rows[index], request.values[request.rows.row_of[index]]
        classes = request.order.class_of
        is_open = {t: bool(row.is_undecided[classes[t]]) for t in left}
        k = int(request.k[index])
        top = left[:k]
        padding = [t for t in range(len(classes)) if t not in top][: k - len(top)]
        tokens = top + padding
        options = [t for t in left if is_open[t]]
        shares = [weights[t] for t in options]
        drawn = [self._draw(options, shares, u) for u in request.uniforms[index]]
        rest = [t for t in left if t not in top]

        def total(chosen) -> float:
            return math.fsum(weights[t] for t in chosen)

        return StepResult(
            sums=np.array([[math.fsum(weights[t] * v[classes[t]] for t in left) for v in values]]),
            tokens=np.array([tokens]),
            probabilities=np.array([[weights[t] if t in top else 0.0 for t in tokens]]),
            undecided=np.array([total(t for t in left if is_open[t]) + unlisted]),
            undecided_rest=np.array([total(t for t in rest if is_open[t]) + unlisted]),
            rest=np.array([total(rest) + unlisted]),
            drawn=np.array([drawn], dtype=np.int64).reshape(1, -1),
            positions=np.array(
                [[top.index(t) if t in top else len(classes) for t in drawn]], dtype=np.int64
            ).reshape(1, -1),
            drawn_probabilities=np.array(
                [[weights[t] if t in options else 0.0 for t in drawn]]
            ).reshape(1, -1),
        )

    @staticmethod
    def _draw(options: list[int], shares: list[float], uniform: float) -> int:
        reached, target = 0.0, uniform * sum(shares)
        for option, share in zip(options, shares, strict=True):
            reached += share
            if reached > target:
                return option
        # any token where none is undecided
        return options[-1] if options else 0

    def _continue(self, task: ContinuationTask) -> Continuation:
        chance = random.Random(task.seed)
        tokens: list[int] = []
        lists = []
        while len(tokens) < task.max_tokens:
            weights = list(self.distribution((*task.tokens, *tokens)))
            if task.excluded and not tokens:
                weights = [0.0 if t in task.excluded else w for t, w in enumerate(weights)]
            else:
                # the most probable tokens, as a server lists them
                order = sorted(range(len(weights)), key=lambda t: (-weights[t], t))
                lists.append([(t, weights[t]) for t in order[: self._listed]])
            tokens += chance.choices(range(len(weights)), weights)
        pairs = np.array(lists, dtype=float).reshape(-1, self._listed, 2)
        return Continuation(np.array(tokens), pairs[..., 0].astype(np.int64), pairs[..., 1])


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


def plant(
    asked: Property, model: TableModel, listed_tokens: int = FEW_LISTED
) -> tuple[ExploredTree, TableServer]:
    """Return the tree of a check that has only its root, and a server for it."""
    process = AnswerProcess(model, START, asked.length)
    estimand = Estimand.from_query(asked)
    tree = ExploredTree(
        process, estimand, asked.quantifiers, listed_tokens=listed_tokens, min_share=0.0
    )
    return tree, TableServer(model, process.first.prompt)


def refine(tree: ExploredTree, server: TableServer, most: float = math.inf) -> bool:
    """Visit the next batch of a refinement; return whether there was one."""
    rows = select_batch(tree, most)
    tree.score(rows)
    open_rows = rows[tree.is_undecided[rows]]
    if len(open_rows):
        request = tree.build_request(open_rows)
        tree.add_step(open_rows, request, server.answer(request))
    return len(rows) > 0


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
    quantifiers: dict[str, Callable] = field(default_factory=lambda: dict(READ_QUANTIFIERS))

    @property
    def query(self) -> str:
        """The query as text."""
        if self.path is None:
            return f'R{{"gender"}}=? [ I={self.step} ]'
        condition = "" if self.given is None else f" || {oracle.written(self.given)}"
        return f"P=? [ {oracle.written(self.path)}{condition} ]"

    def ask(self) -> Property:
        """The query with its quantifiers."""
        return Property(parse(self.query), self.quantifiers, self.length)

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
