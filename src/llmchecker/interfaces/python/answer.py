"""Answers of the Python library: text, notebook view and plot."""

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING

from llmchecker.checking import answer, formatting
from llmchecker.checking.figures import format_display, format_row
from llmchecker.errors import NoTruthValue
from llmchecker.interfaces.python.tree import AnswerTree, Tree
from llmchecker.reporting.html_rows import render_display
from llmchecker.utils.optional_packages import explain_missing_packages

if TYPE_CHECKING:
    # the type of matplotlib, which reporting alone imports
    from llmchecker.reporting.answer_figure import Axes  # type: ignore[attr-defined]

_MAX_ANSWERS = 100
"""The largest number of answers of a conversation that are drawn."""


class Answer(answer.Answer):
    """An answer with a format for terminals and for notebooks, a truth value and a plot."""

    @classmethod
    def from_answer(cls, found: answer.Answer) -> "Answer":
        """Return the same answer as this class."""
        return cls(**{field.name: getattr(found, field.name) for field in fields(answer.Answer)})

    @cached_property
    def tree(self) -> Tree | AnswerTree | None:
        """The tree that was built for the bounds, or the most probable answers of a conversation.

        None on a tree, and for texts alone.
        """
        if self.evidence is None:
            return None
        if (explored := self.evidence.conversation) is not None:
            return AnswerTree(explored.build_tree(_MAX_ANSWERS), explored)
        if self.evidence.explore is None:
            return None
        return Tree.from_text_tree(self.evidence.scored.tree)

    def __bool__(self) -> bool:
        """Return whether the query holds.

        Raises:
            NoTruthValue: this is unknown, or the query has =?.
        """
        if self.holds is not None:
            return self.holds
        text = self.query.text
        if not self.query.is_numeric:
            raise NoTruthValue(
                f"{text}: the outcome is UNKNOWN; test answer.holds, or allow more passes"
            )
        raise NoTruthValue(
            f"{text}: the answer is a number; compare answer.low and answer.high, or ask with a "
            "threshold"
        )

    def __repr__(self) -> str:
        """Return the query and its figures on one line, without texts and costs."""
        rows = formatting.build_rows(self)
        # the bounded figure has the name of its kind
        bounded = formatting.name_bounded_figure(self.query)
        names = ("assertion", "quantifiers", "verdict", "certain", "estimate", "horizon", bounded)
        figures = [f"{name} {format_row(rows[name])}" for name in names if name in rows]
        return f"<Answer {format_row(rows['query'])}: {', '.join(figures)}>"

    def __str__(self) -> str:
        return format_display(formatting.build_display(self))

    def _repr_html_(self) -> str:
        return render_display(formatting.build_display(self))

    def plot(self, label: str | None = None, *, axes: "Axes | None" = None) -> "Axes":
        """Plot the answer.

        On a model: both intervals against the passes, and any threshold as a line. On a tree: value
        and bounds; for a query without =?, the texts that decide it.

        Args:
            label: on a tree, the label of the row; the start string if it is None.
            axes: axes of the plot of another answer, to which this one is added; None for new axes.

        Raises:
            InvalidQuery: on a tree, the query has no =?, and no single text decides it.
        """
        # imported here, because matplotlib takes a second to load
        with explain_missing_packages():
            from llmchecker.reporting.answer_figure import draw_answer, draw_history

        if not self.history:
            return draw_answer(self, label, axes)
        return draw_history(self, axes)
