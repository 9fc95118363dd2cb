"""The explored answers of a conversation, for people: texts, drawings and files."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmchecker.checking.anytime.checked_process import CheckedProcess
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.prompt_reader import PromptReader
from llmchecker.checking.anytime.refinement import select_batch
from llmchecker.checking.conversations.answer_tree import (
    AnswerTree,
    GivenAnswer,
    Path,
    build_answer_tree,
)
from llmchecker.checking.conversations.turn_part import TurnPart
from llmchecker.checking.witnesses import COUNTEREXAMPLE, CUT, ENDED, OPEN, WITNESS, Witness
from llmchecker.errors import CheckFailed
from llmchecker.processes.conversation import Conversation
from llmchecker.properties.property import Property
from llmchecker.utils.number_format import format_count, format_number

_MAX_EXPLORING_PASSES = 10_000
"""The largest number of passes that explore all conversations."""
_MAX_SHOWN_TEXTS = 10_000
"""The largest number of decided texts of a tree that are decoded."""
_ROUNDING = 1e-9
"""A limit above the rounding error of a sum of probabilities."""


@dataclass(frozen=True)
class ExploredConversation:
    """The explored answers of a conversation.

    Attributes:
        conversation: the conversation.
        tree: its explored tree.
        asked: the query.
        plan_whole: returns a process that decides conversations after their last answer alone.
    """

    conversation: Conversation
    tree: ExploredTree
    asked: Property
    plan_whole: Callable[[], CheckedProcess]

    def build_tree(self, max_answers: float = math.inf) -> AnswerTree:
        """Build the tree of the most probable answers, up to those that decide the query."""
        return self._build(self.tree, max_answers, _MAX_SHOWN_TEXTS)

    def explore_all(self, max_passes: int = _MAX_EXPLORING_PASSES) -> AnswerTree:
        """Explore all conversations to their last answer, and build their tree.

        Args:
            max_passes: the largest number of texts that the model evaluates.

        Raises:
            CheckFailed: more are needed.
            Exception: the error of a model that fails.
        """
        process = self.plan_whole()
        tree, reader = process.create_tree(self.asked), PromptReader(process)
        while len(rows := select_batch(tree)):
            step = tree.step[rows[0]]
            tree.score(rows)
            rows = rows[tree.is_undecided[rows] & (tree.step[rows] == step)]
            if len(rows) and tree.passes >= max_passes:
                left, advice = float(tree.undecided_mass.sum()), "lower length or temperature"
                raise _find_failure(tree, left, f"; {advice}, or raise the passes")
            if len(rows := rows[: max_passes - tree.passes]):
                request = tree.build_request(rows)
                tree.add_step(rows, request, reader.answer(request, np.arange(len(rows))))
        unlisted = tree.mass * np.where(tree.is_visited & tree.is_undecided, tree.rest, 0.0)
        if (left := float(unlisted.sum())) > _ROUNDING:
            raise _find_failure(tree, left, " in tokens that are not listed; set top-k or top-p")
        return self._build(tree, math.inf, math.inf)

    @cached_property
    def all_answers(self) -> AnswerTree:
        """The answers of all conversations, as in `explore_all`."""
        return self.explore_all()

    def list_texts(self, truth: bool, max_texts: int) -> tuple[Witness, ...]:
        """List the most probable conversations that satisfy or violate the path formula."""
        tree = self.tree
        rows = _find_decided(tree)
        rows = rows[tree.truth[0, rows] == truth]
        rows = rows[np.argsort(-tree.mass[rows], kind="stable")[:max_texts]]
        return tuple(
            Witness(
                uid=0,
                text="\n".join(self._format(row, given)),
                probability=float(tree.mass[row]),
                kind=WITNESS if truth else COUNTEREXAMPLE,
                rest=False,
                kept=0,
                ending=_find_ending(given[-1]),
                scores={
                    name: score
                    for name, score in zip(tree.quantifiers, given[-1].scores, strict=True)
                    if score is not None
                },
            )
            for row, given in _find_answers(tree, rows)
        )

    def _format(self, row: int, given: tuple[GivenAnswer, ...]) -> list[str]:
        simulated = [answer.message for answer in given if answer.message is not None]
        return self.conversation.format_lines([answer.text for answer in given], simulated)

    def _build(self, tree: ExploredTree, max_answers: float, max_texts: float) -> AnswerTree:
        return build_answer_tree(
            tree.model_name,
            self.conversation.user_texts,
            tuple(tree.quantifiers),
            _iter_paths(tree, max_texts),
            max_answers,
        )


def _find_failure(tree: ExploredTree, left: float, advice: str) -> CheckFailed:
    return CheckFailed(
        f"conversation: {format_count(tree.passes, 'pass')} leave a probability of "
        f"{format_number(left, 3)}{advice}"
    )


def _find_decided(tree: ExploredTree) -> np.ndarray:
    """Return the texts that decide the formula."""
    return np.flatnonzero(tree.is_listed & tree.is_scored & ~tree.is_undecided)


def _iter_paths(tree: ExploredTree, max_texts: float) -> Iterator[Path]:
    """Yield the decided conversations, and the probabilities of what has no text.

    Args:
        tree: the explored tree.
        max_texts: the largest number of decided texts; the others count as not explored.
    """
    decided = _find_decided(tree)
    order = np.argsort(-tree.mass[decided], kind="stable")
    shown = decided if len(decided) <= max_texts else decided[order[: int(max_texts)]]
    for row, given in _find_answers(tree, shown):
        yield Path(given, float(tree.mass[row]), bool(tree.truth[0, row]))
    # the probability of a text without that of its children, which have paths of their own
    left = np.where(tree.is_listed & tree.is_undecided, tree.mass, 0.0)
    visited = tree.is_visited & tree.is_undecided
    left[visited] *= tree.rest[visited]
    hidden = np.setdiff1d(decided, shown)
    left[hidden] = tree.mass[hidden]
    for row in np.flatnonzero(left > 0).tolist():
        part = tree.parts[tree.part[row]]
        assert isinstance(part, TurnPart)
        yield Path(part.given, float(left[row]), None)


def _find_answers(
    tree: ExploredTree, rows: np.ndarray
) -> Iterator[tuple[int, tuple[GivenAnswer, ...]]]:
    """Yield decided texts and their answers, of which the last one may be a beginning."""
    texts: dict[int, str] = {}
    for step in np.unique(tree.step[rows]):
        group = rows[tree.step[rows] == step]
        texts |= dict(zip(group.tolist(), tree.decode_parts(group), strict=True))
    is_whole = tree.is_terminal
    for row in rows.tolist():
        part = tree.parts[tree.part[row]]
        assert isinstance(part, TurnPart)
        if not part.stage.is_answer:
            yield row, part.given
            continue
        scores = tuple(
            # the beginning of an answer may have no score
            score if is_whole[row] or name not in tree.end_scores else None
            for name, score in zip(tree.quantifiers, tree.scores[:, row].tolist(), strict=True)
        )
        has_ended = bool(tree.has_ended[row]) if is_whole[row] else None
        yield row, (*part.given, GivenAnswer(texts[row], has_ended, scores, part.message))


def _find_ending(answer: GivenAnswer) -> str:
    """Return how the last answer of a conversation ends."""
    if answer.has_ended is None:
        return OPEN
    return ENDED if answer.has_ended else CUT
