"""Params of rules that follow from a whole configuration, as plain values.

Each item has all that a job needs, so that a change of another item does not rerun the job.
"""

from collections.abc import Iterable
from typing import Any

from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.judges import list_judge_notes
from llmchecker.config.models import ModelConfig
from llmchecker.config.plan import Check, TableRow, TreeSpec, quantifiers_in
from llmchecker.interfaces.snakemake.check_params import describe_check, describe_row, describe_tree
from llmchecker.interfaces.snakemake.model_params import describe_decoding
from llmchecker.models.decoding.chat_template import start_as_json


def describe_builder(config: Config, model: ModelConfig) -> dict[str, Any]:
    """Describe the tree builder of a model, in the form of `parse_model_params`."""
    settings = config.expansion
    return model.load_settings | {
        "decoding": describe_decoding(model.decoding),
        "memory_bytes": settings.memory_bytes,
        "end_of_sequence": settings.end_of_sequence,
        "cache": {"directory": paths.STORE_DIRECTORY, "bytes": settings.max_cache_bytes},
    }


def describe_trees(config: Config, trees: Iterable[TreeSpec]) -> list[dict[str, Any]]:
    """Describe trees, each with its name, start string and files of shards."""
    return [
        describe_tree(tree)
        | {"name": str(tree), "text": _describe_start(config, tree)}
        | {"shards": config.shard_files(tree)}
        for tree in trees
    ]


def describe_checks(config: Config, model: str) -> list[dict[str, Any]]:
    """Describe checks of trees, each with the notes of the judges in its query."""
    return [
        describe_check(check)
        | {
            "notes": list_judge_notes(
                [config.quantifiers[name] for name in quantifiers_in(check.query)],
                config.models[model],
            )
        }
        for check in config.bounded_checks_of(model)
    ]


def describe_answers(config: Config, model: str) -> list[dict[str, Any]]:
    """Describe checks with answers, each with its start string and budget."""
    return [
        describe_check(check)
        | {"text": _describe_start(config, check.tree), "budget": dict(vars(budget))}
        for check, budget in config.answered_checks(model)
    ]


def describe_rows(config: Config, rows: Iterable[TableRow]) -> list[dict[str, Any]]:
    """Describe rows of a table, each with its start string and model's name."""
    return [
        describe_row(row)
        | {
            "model": config.models[tree.model].display_name(tree.decoding),
            "text": _describe_start(config, tree),
        }
        for row in rows
        for tree in [row.check.tree]
    ]


def build_figure4_rows(checks: Iterable[Check]) -> list[TableRow]:
    """Return the checks of Figure 4 as rows of a table."""
    return [TableRow("Figure 4", "", check) for check in checks]


def _describe_start(config: Config, tree: TreeSpec) -> Any:
    return start_as_json(config.start_strings[tree.start])
