"""All conversations as a file in the PRISM or JANI language, with the turn as a variable.

Storm reads such a file, and computes the probability of a query independently of this package.
"""

from pathlib import Path

import numpy as np

from llmchecker.checking.conversations.answer_tree import AnswerTree
from llmchecker.checking.conversations.explored_conversation import ExploredConversation
from llmchecker.checking.conversations.turn_query import TURN
from llmchecker.checking.markov import jani, prism
from llmchecker.checking.markov.modeling_languages import Answers
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.errors import UnknownName


def write_prism(explored: ExploredConversation, path: str | Path) -> None:
    """Write all conversations as a PRISM program, with a checksum file next to it.

    Args:
        explored: the conversation, which is explored to its last answer.
        path: the file.

    Raises:
        CheckFailed: the conversations are too many.
        UnknownName: the name of a quantifier cannot be a variable.
    """
    # an answer that decides the query of the check may not decide another one
    answers = explored.all_answers
    prism.write_prism(_score_answers(answers), path, _describe(answers))


def write_jani(explored: ExploredConversation, path: str | Path) -> None:
    """Write all conversations as a JANI model, as in `write_prism`."""
    answers = explored.all_answers
    jani.write_jani(_score_answers(answers), path, _describe(answers))


def _score_answers(answers: AnswerTree) -> ScoredTree:
    """Return the tree of a file, with the turn and the scores as its variables."""
    for name in (TURN, prism.HAS_ENDED):
        if name in answers.scores:
            raise UnknownName(
                f"quantifier {name!r}: the file of a conversation has a variable of this name; "
                "rename it"
            )
    # the state before the first answer has no scores
    columns = {
        name: np.array([score or 0 for score in column]) for name, column in answers.scores.items()
    }
    return ScoredTree(answers.tree, {TURN: answers.tree.step, **columns})


def _describe(answers: AnswerTree) -> Answers:
    return Answers(
        description=(
            "The conversations of a language model: each state is an answer.",
            f"model: {answers.model!r}",
            *(f"user before turn {turn}: {text!r}" for turn, text in enumerate(answers.turns, 1)),
            'turn is 0 before the first answer. "end": the model ended the answer.',
            "A query is about the first answer and those after it: ask F x = 1 as X (F x = 1).",
        ),
        has_ended=np.array([has_ended is True for has_ended in answers.has_ended]),
    )
