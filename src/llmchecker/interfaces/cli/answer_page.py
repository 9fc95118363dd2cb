"""The page of one answer, which `check --html` writes."""

from collections.abc import Mapping
from pathlib import Path

from llmchecker.checking.answer import Answer
from llmchecker.config.plan import Check, Horizon, TableRow, TreeSpec
from llmchecker.errors import ConfigError, MachineLimit
from llmchecker.interfaces.cli.arguments import CheckRequest
from llmchecker.utils.atomic_files import atomic_write


def write_answer_page(
    path: Path, request: CheckRequest, result: Answer, details: Mapping[str, str]
) -> None:
    """Write the answer to a request as one HTML page.

    Args:
        path: the file.
        request: the request.
        result: the answer.
        details: costs and files of the answer, each by its name.

    Raises:
        ConfigError: the file cannot be written.
    """
    # Imported here, because a check without a page needs no templates and no pandas.
    from llmchecker.reporting.html_report import render_answer
    from llmchecker.reporting.tables import AnsweredQuery

    # An anytime answer has no alpha and k; those of its request are arbitrary.
    is_bounded = request.budget is None
    texts = request.truncation if is_bounded else Horizon(request.truncation.length)
    check = Check(TreeSpec(request.model.name, "", texts), request.query)
    row = TableRow("", "", check)
    answer = AnsweredQuery(row, request.model.display_name(), request.start, result)
    try:
        with atomic_write(path) as partial:
            partial.write_text(render_answer(answer, details), encoding="utf-8")
    except (OSError, MachineLimit) as error:
        raise ConfigError(f"--html: {path} cannot be written: {error}") from error
