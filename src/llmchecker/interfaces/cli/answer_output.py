"""Outputs of the command `check`: an answer next to its question, as JSON, text or a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmchecker.checking import formatting
from llmchecker.checking.answer import Answer
from llmchecker.checking.figures import Rows, build_text_rows
from llmchecker.checking.question import Question
from llmchecker.interfaces.cli.output import write_output_file
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.models.decoding.settings import decoding_as_json
from llmchecker.trees.text_tree import Horizon
from llmchecker.utils.number_format import format_count


def format_answer_json(
    question: Question, answer: Answer, growth: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the keys of the answer and of the question; an absent value is null.

    Args:
        question: the question.
        answer: its answer.
        growth: the file of the tree and the seconds of its parts; empty without alpha and k.
    """
    truncation = question.truncation
    # the tree of an anytime answer has no alpha and k
    return {
        **answer.as_json(),
        "model": question.model.name,
        "decoding": decoding_as_json(question.model.decoding),
        "template": question.model.template.as_json,
        "start": start_as_json(question.prompt),
        "alpha": None if truncation is None else truncation.alpha,
        "k": None if truncation is None else truncation.k,
        **growth,
        **_describe_seed(question),
    }


def build_answer_rows(question: Question, answer: Answer, growth: Mapping[str, Any]) -> Rows:
    """Build the rows of the question, the figures, the costs and the texts.

    Args:
        question, answer, growth: as in `format_answer_json`.
    """
    figures = dict(formatting.build_figures(answer))
    truncation = question.truncation
    length = format_count(question.length, "token") if truncation is None else str(truncation)
    return formatting.build_rows(
        answer,
        {
            **{name: figures.pop(name) for name in ("query", *answer.definitions)},
            **build_text_rows(
                {
                    "model": f"{question.model.display_name()}, {length}",
                    "text": formatting.format_start(question.prompt),
                }
            ),
            **figures,
            **build_text_rows(_describe_costs(answer, growth)),
            **formatting.build_forecast_row(answer.forecast),
        },
    )


def write_answer_page(
    path: Path, question: Question, answer: Answer, growth: Mapping[str, Any]
) -> None:
    """Write the answer as one HTML page.

    Args:
        path: the file.
        question, answer, growth: as in `format_answer_json`.

    Raises:
        ConfigError: the file cannot be written.
    """
    # Imported here, because a check without a page needs no templates and no pandas.
    from llmchecker.reporting.html_report import render_answer

    details = {} if answer.passes is None else {"passes": f"{answer.passes:,}"}
    details |= _describe_costs(answer, growth)
    details |= {key: str(seed) for key, seed in _describe_seed(question).items()}
    page = render_answer(
        answer,
        question.model.display_name(),
        question.prompt,
        question.truncation or Horizon(question.length),
        details,
    )
    write_output_file("--html", path, page)


def _describe_costs(answer: Answer, growth: Mapping[str, Any]) -> dict[str, str]:
    """Describe the times and files of this run by their names."""
    if not growth:
        return {"seconds": f"{answer.seconds:.1f}"}
    seconds = growth["growing_seconds"]
    # A tree from the cache took no time in this run.
    growing = f"growing {seconds:.1f}" if seconds else "tree from the cache"
    scoring, checking = growth["scoring_seconds"], answer.costs.check_seconds
    return {
        "seconds": f"{growing}, scoring {scoring:.1f}, checking {checking:.1f}",
        "tree": growth["tree"],
    }


def _describe_seed(question: Question) -> dict[str, int]:
    """Return the seed of the samples; empty for an answer on a tree, which has none."""
    return {"seed": question.budget.seed} if question.truncation is None else {}
