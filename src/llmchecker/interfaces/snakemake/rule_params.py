"""Params of rules: what their jobs need of a configuration.

Snakemake compares lists, tuples and dicts between runs by their `repr`, and passes them on to
scripts. A frozen value in one of them is therefore compared by all of its fields; outside of them
it would not be compared. Quantifiers are no frozen values: a job creates its own of their settings.

Each item has all that a job needs, so that a change of another item does not rerun the job.
"""

from collections.abc import Iterable
from typing import Any

from llmchecker.config.config import Config
from llmchecker.config.judges import ConfiguredJudge, list_judge_notes
from llmchecker.config.plan import TableRow, TreeSpec, quantifiers_in
from llmchecker.models.decoding.chat_template import Start
from llmchecker.properties.definitions import describe_quantifiers
from llmchecker.properties.registry import find_quantifier_modules
from llmchecker.suites.cases import Suite


def list_trees(config: Config, trees: Iterable[TreeSpec]) -> list[dict[str, Any]]:
    """List what `grow_trees` needs of each tree."""
    return [
        {
            "name": str(tree),
            "start": config.start_strings[tree.start],
            "truncation": tree.truncation,
            "decoding": tree.decoding,
            "shards": config.shard_files(tree),
        }
        for tree in trees
    ]


def list_checks(config: Config, model: str) -> dict[str, Any]:
    """List the checks on the trees of a model, with the quantifiers of each query.

    These are the notes of its judges, and the settings of its quantifiers by name.
    """
    checks = config.bounded_checks_of(model)
    quantifiers = [
        {name: config.quantifiers[name] for name in quantifiers_in(check.query)} for check in checks
    ]
    notes = tuple(
        tuple(list_judge_notes(each.values(), config.models[model])) for each in quantifiers
    )
    # in a list, Snakemake would read the braces of a pattern as wildcards
    definitions = tuple(map(describe_quantifiers, quantifiers))
    return {"checks": checks, "notes": notes, "definitions": definitions}


def list_answers(config: Config, model: str) -> dict[str, Any]:
    """List the checks of a model with answers, each with its budget, and their start strings."""
    answers = config.answered_checks(model)
    return {"answers": answers, "starts": _select_starts(config, (c.tree for c, _ in answers))}


def list_rows(config: Config, rows: Iterable[TableRow]) -> dict[str, Any]:
    """List the rows of a table, the name of the model of each, and the start strings by name."""
    rows = tuple(rows)
    trees = [row.check.tree for row in rows]
    return {
        "rows": rows,
        # in a list, Snakemake would read the braces of a label as wildcards
        "models": tuple(config.models[tree.model].display_name(tree.decoding) for tree in trees),
        "starts": _select_starts(config, trees),
    }


def list_judges(config: Config, model: str) -> list[str]:
    """List the names of the configured models that judge the texts of a model."""
    judges = (getattr(each, "model", None) for each in config.used_quantifiers(model).values())
    return sorted({judge.model.name for judge in judges if isinstance(judge, ConfiguredJudge)})


def list_suite_modules(suite: Suite) -> list[str]:
    """List the modules of the package that define a suite's quantifiers."""
    return find_quantifier_modules(
        quantifier
        for case in suite.cases
        for quantifier in case.question.checked_query.quantifiers.values()
    )


def _select_starts(config: Config, trees: Iterable[TreeSpec]) -> dict[str, Start]:
    return {tree.start: config.start_strings[tree.start] for tree in trees}
