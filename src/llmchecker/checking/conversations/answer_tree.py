"""The tree of a conversation's answers: what the model answers in each turn, and how probably.

A state is an answer after all messages before it. Row 0 is before the first answer. A *rest* state
represents the answers of its turn that have no state of their own.
"""

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from llmchecker.trees.text_tree import NO_TOKEN, Horizon, StateKind, TextTree
from llmchecker.utils.stored_fields import (
    COUNT,
    NUMBER,
    TEXT,
    TRUTH,
    check_fields,
    list_of,
    mapping_of,
    optional,
)


class GivenAnswer(NamedTuple):
    """An answer, or the beginning of answers that decide a formula alike.

    Attributes:
        text: the text.
        has_ended: whether the model ended it; None for a beginning.
        scores: the scores of the quantifiers; None where the beginning of an answer has none.
        message: the message of a simulated user before it; None for another turn.
    """

    text: str
    has_ended: bool | None
    scores: tuple[int | None, ...]
    message: str | None = None


class Path(NamedTuple):
    """The probability of all conversations that begin with some answers.

    Attributes:
        answers: the answers.
        mass: the probability.
        truth: the truth that they give the formula; None for conversations that are not explored.
    """

    answers: tuple[GivenAnswer, ...]
    mass: float
    truth: bool | None


_FIELDS = {
    "model": TEXT,
    "turns": list_of(TEXT),
    "parent": list_of(COUNT),
    "probability": list_of(NUMBER),
    **dict.fromkeys(("texts", "messages"), list_of(optional(TEXT))),
    **dict.fromkeys(("has_ended", "truths"), list_of(optional(TRUTH))),
    "merged": list_of(COUNT),
    "is_open": list_of(TRUTH),
    "scores": mapping_of(list_of(optional(COUNT))),
}
"""The fields of a tree as JSON."""


@dataclass(frozen=True)
class AnswerTree:
    """The states of a conversation in breadth-first order, the most probable child first.

    Attributes:
        model: name of the language model.
        turns: the message of the user before each answer.
        parent: (n,) int64, row of the parent; -1 for row 0.
        probability: (n,) float64, of this answer given the messages before it.
        texts: the answers; None for row 0 and for rest.
        messages: the message of a simulated user before each answer; None for another turn.
        has_ended: whether the model ended the answer; None for a beginning, row 0 and rest.
        truths: the truth of the formula in every continuation; None where that is open.
        merged: for a rest, the number of explored answers that it represents; else 0.
        is_open: for a rest, whether it also represents answers that are not explored; else False.
        scores: the score of each answer by each quantifier, by name; None where it is unknown.
    """

    model: str
    turns: tuple[str, ...]
    parent: np.ndarray
    probability: np.ndarray
    texts: tuple[str | None, ...]
    messages: tuple[str | None, ...]
    has_ended: tuple[bool | None, ...]
    truths: tuple[bool | None, ...]
    merged: tuple[int, ...]
    is_open: tuple[bool, ...]
    scores: Mapping[str, tuple[int | None, ...]]

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def is_rest(self) -> np.ndarray:
        """(n,) bool: the states that represent answers without a state."""
        return np.array([uid > 0 and text is None for uid, text in enumerate(self.texts)])

    @cached_property
    def tree(self) -> TextTree:
        """The states as a tree whose steps are turns; a conversation that is decided has ended."""
        is_leaf = np.ones(len(self), dtype=bool)
        is_leaf[self.parent[1:]] = False
        step = np.zeros(len(self), dtype=np.int64)
        texts: list[str | None] = [self.turns[0]]
        for uid in range(1, len(self)):
            parent = self.parent[uid]
            step[uid] = step[parent] + 1
            text = self.texts[uid]
            texts.append(None if text is None else f"{texts[parent]}\n{text}")
        return TextTree(
            model=self.model,
            truncation=Horizon(len(self.turns)),
            parent=self.parent,
            step=step,
            token=np.full(len(self), NO_TOKEN),
            probability=self.probability,
            kind=np.select(
                [self.is_rest, is_leaf], [StateKind.REST, StateKind.END], StateKind.TEXT
            ).astype(np.int8),
            text=np.array(texts, dtype=object),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the tree as an object for JSON."""
        return {
            "model": self.model,
            "turns": list(self.turns),
            "parent": self.parent.tolist(),
            "probability": self.probability.tolist(),
            "texts": list(self.texts),
            "messages": list(self.messages),
            "has_ended": list(self.has_ended),
            "truths": list(self.truths),
            "merged": list(self.merged),
            "is_open": list(self.is_open),
            "scores": {name: list(column) for name, column in self.scores.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "AnswerTree":
        """Return the tree of an object of `as_json`.

        Raises:
            KeyError, TypeError, ValueError: the object is damaged.
        """
        check_fields(content, _FIELDS, "conversation")
        columns = ("turns", "texts", "messages", "has_ended", "truths", "merged", "is_open")
        return cls(
            model=content["model"],
            parent=np.array(content["parent"], dtype=np.int64),
            probability=np.array(content["probability"], dtype=np.float64),
            scores={name: tuple(column) for name, column in content["scores"].items()},
            **{name: tuple(content[name]) for name in columns},
        )


def build_answer_tree(
    model: str,
    turns: Sequence[str],
    quantifiers: Sequence[str],
    paths: Iterable[Path],
    max_answers: float = math.inf,
) -> AnswerTree:
    """Build the tree of the most probable answers.

    Args:
        model: name of the language model.
        turns: the message of the user before each answer.
        quantifiers: names of the scores of each answer.
        paths: paths of which none continues another with a truth; their probabilities sum to 1.
        max_answers: the largest number of answers with a state of their own.
    """
    root = _Node()
    for path in paths:
        # a probability that is computed as 0 has no share of its parent
        if path.mass > 0:
            root.add(path)
    root.compute_mass()
    shown = _select_most_probable(root, max_answers)
    rows: list[tuple[int, float, _Node]] = [(-1, 1.0, root)]
    # the list grows in breadth-first order
    for uid, (_, _, node) in enumerate(rows):
        if node.is_rest:
            continue
        children = sorted(node.children.values(), key=lambda child: -child.mass)
        hidden = [child for child in children if id(child) not in shown]
        rest = math.fsum([node.unexplored, *(child.mass for child in hidden)])
        for child in children:
            if id(child) in shown:
                rows.append((uid, child.mass / node.mass, child))
        if rest > 0:
            other = _Node(is_rest=True, merged=len(hidden), unexplored=node.unexplored)
            rows.append((uid, rest / node.mass, other))
    nodes = [node for _, _, node in rows]
    answers = [node.answer for node in nodes]
    return AnswerTree(
        model=model,
        turns=tuple(turns),
        parent=np.array([parent for parent, _, _ in rows], dtype=np.int64),
        # a quotient may be rounded to a number above 1
        probability=np.minimum(1.0, [share for _, share, _ in rows]),
        texts=tuple(None if answer is None else answer.text for answer in answers),
        messages=tuple(None if answer is None else answer.message for answer in answers),
        has_ended=tuple(None if answer is None else answer.has_ended for answer in answers),
        truths=tuple(node.truth for node in nodes),
        merged=tuple(node.merged for node in nodes),
        is_open=tuple(node.is_rest and node.unexplored > 0 for node in nodes),
        scores={
            name: tuple(None if answer is None else answer.scores[i] for answer in answers)
            for i, name in enumerate(quantifiers)
        },
    )


@dataclass(eq=False)
class _Node:
    """A state while the tree is built.

    Attributes:
        answer: the answer; None for the first state and for rest.
        truth: as in `Path`.
        unexplored: the probability of conversations without a child.
        children: the next answers.
        mass: the probability of all paths through the state.
        is_rest: whether it represents other answers.
        merged: as in `AnswerTree`.
    """

    answer: GivenAnswer | None = None
    truth: bool | None = None
    unexplored: float = 0.0
    children: "dict[GivenAnswer, _Node]" = field(default_factory=dict)
    mass: float = 0.0
    is_rest: bool = False
    merged: int = 0
    _masses: list[float] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Add a path that begins here."""
        node = self
        for answer in path.answers:
            node = node.children.setdefault(answer, _Node(answer))
        node.truth = path.truth
        node._masses.append(path.mass)

    def compute_mass(self) -> None:
        """Compute the probabilities of this state and of all after it."""
        own = math.fsum(self._masses)
        if self.truth is None:
            self.unexplored = own
        # a conversation has few turns
        for child in self.children.values():
            child.compute_mass()
        self.mass = math.fsum([own, *(child.mass for child in self.children.values())])


def _select_most_probable(root: _Node, count: float) -> set[int]:
    """Return the ids of the most probable states, with the parents of each."""
    ties = itertools.count()
    queue = [(-root.mass, next(ties), root)]
    shown: set[int] = set()
    # the first state is no answer
    while queue and len(shown) <= count:
        _, _, node = heapq.heappop(queue)
        shown.add(id(node))
        for child in node.children.values():
            heapq.heappush(queue, (-child.mass, next(ties), child))
    return shown
