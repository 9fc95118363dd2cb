"""The page of one answer, which `check --html` writes."""

from collections.abc import Mapping
from pathlib import Path

from llmchecker.checking.answer import Answer
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.config.question import Question
from llmchecker.errors import ConfigError, MachineLimit
from llmchecker.utils.atomic_files import atomic_write


def write_answer_page(
    path: Path, question: Question, result: Answer, details: Mapping[str, str]
) -> None:
    """Write the answer to a question as one HTML page.

    Args:
        path: the file.
        question: the question.
        result: the answer.
        details: costs and files of the answer, each by its name.

    Raises:
        ConfigError: the file cannot be written.
    """
    # Imported here, because a check without a page needs no templates and no pandas.
    from llmchecker.reporting.html_report import render_answer
    from llmchecker.reporting.tables import AnsweredQuery

    check = Check(TreeSpec(question.model.name, "", question.truncation), question.query)
    row = TableRow("", "", check)
    answer = AnsweredQuery(row, question.model.display_name(), question.prompt, result)
    try:
        with atomic_write(path) as partial:
            partial.write_text(render_answer(answer, details), encoding="utf-8")
    except (OSError, MachineLimit) as error:
        raise ConfigError(f"--html: {path} cannot be written: {error}") from error
