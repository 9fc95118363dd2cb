"""The page of one answer, which `check --html` writes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from llmchecker.checking.verdict import Verdict
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.errors import ConfigError, MachineLimit
from llmchecker.interfaces.cli.arguments import CheckRequest
from llmchecker.trees.text_tree import Horizon
from llmchecker.utils.atomic_files import atomic_write


def write_answer_page(
    path: Path, request: CheckRequest, verdict: Verdict, details: Mapping[str, str]
) -> None:
    """Write the answer to a request as one HTML page.

    Args:
        path: the file.
        request: the request.
        verdict: the answer.
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
    # Its texts decide the query for the whole model, so the value of its tree is not their total.
    if request.query.is_numeric and not is_bounded:
        verdict = replace(verdict, value=None)
    check = Check(TreeSpec(request.model.name, "", texts), request.query)
    row = TableRow("", "", check)
    answer = AnsweredQuery(row, request.model.display_name(), request.start, verdict)
    try:
        with atomic_write(path) as partial:
            partial.write_text(render_answer(answer, details), encoding="utf-8")
    except (OSError, MachineLimit) as error:
        raise ConfigError(f"--html: {path} cannot be written: {error}") from error
