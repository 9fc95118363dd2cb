"""A scripted judge: a table of the probabilities of its answers by the judged text."""

from collections.abc import Callable, Mapping, Sequence

import llmchecker as lc
from llmchecker.models.decoding.chat_template import Chat

ANSWERS = ("Yes", " yes", "YES", "No", " no", "1", " 2", "3", "4", "5", "nothing", "", "maybe")
"""The tokens of its answers; the empty one ends a text."""


class ScriptedJudge(lc.TableModel):
    """A judge that answers each text by its row of a table, and counts what it reads.

    Args:
        table: the probabilities of answers by judged text, or a function of it; the rest is
            `maybe`.
        default: the row of all other texts.
    """

    def __init__(
        self,
        table: Mapping[str, Mapping[str, float]] | Callable[[str], Mapping[str, float]],
        default: Mapping[str, float] | None = None,
        name: str = "scripted",
    ) -> None:
        self.rows: list[Sequence[float]] = []
        self.chats: list[Chat] = []
        self._table, self._default = table, default or {}
        super().__init__(ANSWERS, lambda tokens: self.rows[tokens[0]], frozenset({11}), name)

    def encode(self, start):
        """One token: the number of the text."""
        assert isinstance(start, Chat)
        self.chats.append(start)
        text = judged_text(start)
        table = self._table
        found = table(text) if callable(table) else table.get(text, self._default)
        row = [found.get(answer, 0.0) for answer in ANSWERS]
        row[-1] += 1 - sum(row)
        self.rows.append(row)
        return (len(self.rows) - 1,)


def judged_text(chat: Chat) -> str:
    """The judged text of the messages to a judge."""
    return chat.messages[-3][1].removeprefix("Text:\n")
