"""The answer of the command `check` to a question, for all of its outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmchecker.checking import formatting
from llmchecker.checking.answer import Answer
from llmchecker.checking.figures import Display, build_text_rows
from llmchecker.checking.question import Question
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.errors import InterruptedCheck
from llmchecker.interfaces.cli.output import write_output_file
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.models.decoding.settings import decoding_as_json
from llmchecker.trees.text_tree import Horizon
from llmchecker.utils.number_format import format_count


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question and its answer.

    Attributes:
        question: the question.
        answer: the answer.
        costs: times and files of this run, as texts by their names.
        fields: further keys of the JSON object.
        failure: what ended the work early: the error of a model that failed after it had evaluated
            texts, or Ctrl-C; None without one.
    """

    question: Question
    answer: Answer
    costs: Mapping[str, str]
    fields: Mapping[str, Any] = field(default_factory=dict)
    failure: InterruptedCheck | KeyboardInterrupt | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the keys of the answer and of the question; an absent value is null."""
        question, truncation = self.question, self.question.truncation
        # the tree of an anytime answer has no alpha and k
        return {
            **self.answer.as_json(),
            "model": question.model.name,
            "decoding": decoding_as_json(question.model.decoding),
            "template": question.model.template.as_json,
            "start": start_as_json(question.prompt),
            "alpha": None if truncation is None else truncation.alpha,
            "k": None if truncation is None else truncation.k,
            **self.fields,
            **self._describe_seed(),
        }

    def build_display(self) -> Display:
        """Build the display of the question, the figures, the costs and the texts."""
        question, answer = self.question, self.answer
        figures = formatting.build_rows(answer)
        truncation = question.truncation
        length = format_count(question.length, "token") if truncation is None else str(truncation)
        rows = {
            **{name: figures.pop(name) for name in ("query", *answer.definitions)},
            **build_text_rows(
                {
                    "model": f"{question.model.display_name()}, {length}",
                    "text": formatting.format_start(question.prompt),
                }
            ),
            **figures,
            **build_text_rows(self.costs),
            **formatting.build_forecast_row(answer.forecast),
        }
        return formatting.build_display(answer, rows)

    def write_page(self, path: Path) -> None:
        """Write the answer as one HTML page.

        Raises:
            ConfigError: the file cannot be written.
        """
        # Imported here, because a check without a page needs no templates and no pandas.
        from llmchecker.reporting.html_report import render_answer
        from llmchecker.reporting.tables import AnsweredQuery

        question = self.question
        check = Check(
            TreeSpec(question.model.name, "", question.truncation or Horizon(question.length)),
            question.query,
        )
        row = TableRow("", "", check)
        answer = AnsweredQuery(row, question.model.display_name(), question.prompt, self.answer)
        passes = self.answer.passes
        details = {} if passes is None else {"passes": f"{passes:,}"}
        details |= {**self.costs, **{key: str(seed) for key, seed in self._describe_seed().items()}}
        write_output_file("--html", path, render_answer(answer, details))

    def _describe_seed(self) -> dict[str, int]:
        """Return the seed of the samples; empty for an answer on a tree, which has none."""
        question = self.question
        return {"seed": question.budget.seed} if question.truncation is None else {}
