"""Drawings of conversations: the answers of each turn, with their probabilities and scores."""

from dataclasses import dataclass
from typing import ClassVar

from llmchecker.checking.conversations.answer_tree import AnswerTree
from llmchecker.checking.witnesses import COUNTEREXAMPLE, WITNESS
from llmchecker.reporting.tree_drawing import MAX_LABEL_LENGTH, Drawing, Wording
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import escape_unprintable


@dataclass(frozen=True)
class ConversationDrawing(Drawing):
    """A conversation with the data of its drawing, whose columns are turns.

    Attributes:
        answers: the answers.
    """

    answers: AnswerTree

    wording: ClassVar[Wording] = Wording(
        number="probability given the messages before",
        rest="other answers",
        end="the query is decided",
        other_texts="conversations with other answers",
    )

    @classmethod
    def from_answers(cls, answers: AnswerTree) -> "ConversationDrawing":
        """Return the drawing of a tree of answers; those that decide have a sign."""
        kinds = {
            uid: WITNESS if truth else COUNTEREXAMPLE
            for uid, truth in enumerate(answers.truths)
            if truth is not None
        }
        return cls(answers.tree, {}, kinds, answers)

    @property
    def headings(self) -> tuple[str, ...]:
        """The turns, each with the message of the user before it."""
        later = enumerate(map(escape_unprintable, self.answers.turns[1:]), start=2)
        return ("user", "turn 1", *(f"turn {number}: {text}" for number, text in later))

    def rest_label(self, uid: int) -> str:
        """Return the number of answers that a rest represents, as far as it is known."""
        merged = self.answers.merged[uid]
        if merged == 0:
            return "not explored"
        count = format_count(merged, "other answer")
        return f"at least {count}" if self.answers.is_open[uid] else count

    def display_text(self, uid: int) -> str:
        """Return an answer in printable form; an ellipsis follows the beginning of answers."""
        text = self.answers.texts[uid]
        if text is None:
            return escape_unprintable(self.answers.turns[0])
        shown = escape_unprintable(text)
        shown = shown.replace(" ", "␣") if text.isspace() else shown
        shown = shown if self.answers.has_ended[uid] else f"{shown}…"
        if (message := self.answers.messages[uid]) is not None:
            shown = f"{escape_unprintable(message)} → {shown}"
        # answers often begin alike, and differ at their ends
        half = MAX_LABEL_LENGTH // 2
        return shown if len(shown) <= 2 * half else f"{shown[:half]}…{shown[1 - half :]}"

    def state_scores(self, uid: int) -> list[tuple[str, int]]:
        """Return the names and scores of an answer, as far as they are known."""
        scores = ((name, column[uid]) for name, column in self.answers.scores.items())
        return [(name, score) for name, score in scores if score is not None]
