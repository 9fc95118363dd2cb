"""Views of an answer: its line, its text, its view in a notebook and its plot.

They are methods of `Answer`, which imports this module at their first use.
"""

from typing import Any

from llmchecker.checking import formatting
from llmchecker.checking.answer import Answer
from llmchecker.checking.figures import format_display, format_row
from llmchecker.reporting.html_rows import render_display
from llmchecker.utils.optional_packages import explain_missing_packages


def format_line(answer: Answer) -> str:
    """Format the query and its figures on one line, without texts and costs."""
    rows = formatting.build_rows(answer)
    # the bounded figure has the name of its kind
    bounded = formatting.name_bounded_figure(answer.query)
    names = ("assertion", "quantifiers", "verdict", "certain", "estimate", "horizon", bounded)
    figures = [f"{name} {format_row(rows[name])}" for name in names if name in rows]
    return f"<Answer {format_row(rows['query'])}: {', '.join(figures)}>"


def format_text(answer: Answer) -> str:
    """Format figures, notes and texts, each on a line of its own."""
    return format_display(formatting.build_display(answer))


def render_html(answer: Answer) -> str:
    """Render figures, notes and texts as HTML."""
    return render_display(formatting.build_display(answer))


def draw_plot(answer: Answer, label: str | None, axes: Any) -> Any:
    """Draw an answer as `Answer.plot` describes.

    Raises:
        InvalidQuery: on a tree, the query has no =?, and no single text decides it.
        MissingTool: matplotlib is not installed.
    """
    # imported here, because matplotlib takes a second to load
    with explain_missing_packages():
        from llmchecker.reporting.answer_figure import draw_answer, draw_history

    if not answer.history:
        return draw_answer(answer, label, axes)
    return draw_history(answer, axes)
