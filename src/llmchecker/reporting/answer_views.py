"""Views of answers and comparisons: line, text, view in a notebook and plot.

They are methods of these values, which load this module at their first use.
"""

from typing import Any

from llmchecker.checking import comparison_formatting, formatting
from llmchecker.checking.answer import Answer
from llmchecker.checking.comparison import Comparison
from llmchecker.checking.figures import Rows, format_row, format_rows
from llmchecker.reporting.html_rows import render_rows
from llmchecker.utils.optional_packages import explain_missing_packages


def format_line(answer: Answer) -> str:
    """Format the query and its figures on one line, without texts and costs."""
    rows = formatting.build_figures(answer)
    # the bounded figure has the name of its kind
    bounded = formatting.name_bounded_figure(answer.query)
    names = ("assertion", "quantifiers", "verdict", "certain", "estimate", "horizon", bounded)
    figures = [f"{name} {format_row(rows[name])}" for name in names if name in rows]
    return f"<Answer {format_row(rows['query'])}: {', '.join(figures)}>"


def format_text(shown: Answer | Comparison) -> str:
    """Format figures, notes and texts, each on a line of its own."""
    return format_rows(_build_rows(shown))


def render_html(shown: Answer | Comparison) -> str:
    """Render figures, notes and texts as HTML."""
    return render_rows(_build_rows(shown))


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


def _build_rows(shown: Answer | Comparison) -> Rows:
    if isinstance(shown, Comparison):
        return comparison_formatting.build_rows(shown)
    return formatting.build_rows(shown)
