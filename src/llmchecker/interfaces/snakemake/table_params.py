"""Params of rules for tables: the answers of a job, from its params and inputs."""

from typing import Any

from llmchecker.config.prompt import parse_prompt
from llmchecker.interfaces.snakemake.check_params import parse_row
from llmchecker.reporting import tables


def read_job_answers(params: Any, inputs: Any) -> tuple[tables.AnsweredQuery, ...]:
    """Read the answers of a table.

    Args:
        params: `rows` in the form of `describe_row`, each with the label of its `model` and the
            `text` of its start string.
        inputs: the files `verdicts`, one for each row with a tree, and `answers`, which may be
            absent.
    """
    rows = [parse_row(row) for row in params.rows]
    models = [row["model"] for row in params.rows]
    starts = {row["check"]["tree"]["start"]: parse_prompt(row["text"]) for row in params.rows}
    return tables.read_answers(rows, inputs.verdicts, models, starts, inputs.get("answers", ()))
