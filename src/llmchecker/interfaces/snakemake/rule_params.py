"""Params of rules: what their jobs need of a configuration.

Snakemake compares lists, tuples and dicts between runs by their `repr`, and passes them on to
scripts. A frozen value in one of them is therefore compared by all of its fields; outside of them
it would not be compared. Quantifiers are no frozen values: a job creates its own of their settings.

Each item has all that a job needs, so that a change of another item does not rerun the job.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.judges import ConfiguredJudge, list_judge_models, list_judge_notes
from llmchecker.config.plan import TableRow, TreeSpec, quantifiers_in
from llmchecker.errors import DamagedFile
from llmchecker.models.sources.local_files import learn_local_files
from llmchecker.properties.definitions import describe_quantifiers
from llmchecker.properties.quantifier_state import hash_quantifiers
from llmchecker.properties.registry import find_quantifier_modules, list_quantifier_files
from llmchecker.suites.cases import Suite
from llmchecker.suites.load import list_deployments
from llmchecker.utils.atomic_files import read_json
from llmchecker.utils.file_state import learn_files


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
    trees = (c.tree for c, _ in answers)
    return {
        "answers": answers,
        "starts": {tree.start: config.start_strings[tree.start] for tree in trees},
    }


def list_rows(config: Config, rows: Iterable[TableRow]) -> tuple[TableRow, ...]:
    """List the rows of a table with the labels of their models and their prompts."""
    return tuple(
        replace(
            row,
            model=config.models[row.check.tree.model].display_name(row.check.tree.decoding),
            prompt=config.start_strings[row.check.tree.start],
        )
        for row in rows
    )


def list_judges(config: Config, model: str) -> list[str]:
    """List the names of the configured models that judge the texts of a model."""
    judges = (getattr(each, "model", None) for each in config.used_quantifiers(model).values())
    return sorted({judge.model.name for judge in judges if isinstance(judge, ConfiguredJudge)})


def compute_quantifier_states(config: Config, model: str) -> dict[str, str]:
    """Compute the states of a model's quantifiers, whose change reruns jobs.

    Files that are unchanged since the last run are not read again.
    """
    quantifiers = config.used_quantifiers(model)
    records = {name: paths.scores_record(tree, name) for tree, name in config.scores_of(model)}
    for name, quantifier in quantifiers.items():
        if name in records:
            learn_files(_read_file_states(Path(records[name])), list_quantifier_files(quantifier))
    for judge in list_judge_models(quantifiers.values()):
        learn_local_files(judge.directory, judge.source.local_files)
    return hash_quantifiers(quantifiers)


def list_suite_models(config: Config, suite: Suite, model: str) -> list[str]:
    """List the directories of the configured models that a suite needs besides its own.

    These are models of judges and simulated users, and the model to compare with. A model that
    returns texts alone has no files.
    """
    quantifiers = [
        quantifier
        for case in suite.representatives
        for quantifier in case.question.asked.quantifiers.values()
    ]
    asked = [deployment.model for deployment in list_deployments(suite)]
    needed = [*asked, *list_judge_models(quantifiers)]
    return sorted(
        {
            str(each.directory)
            for each in needed
            # a model that the suite names by a path or source is no rule's output
            if each.directory == Path(paths.model_directory(each.name))
            and each.name in config.models
            and each.name != model
            and not each.is_text_only
        }
    )


def _read_file_states(record: Path) -> Any:
    """Read the states of files in a record of scores; None without a usable record."""
    try:
        return read_json(record).get("files")
    # a damaged record is reported by the job that needs it
    except (OSError, DamagedFile):
        return None


def list_suite_modules(suite: Suite) -> list[str]:
    """List the modules of the package that define a suite's quantifiers."""
    return find_quantifier_modules(
        quantifier
        for case in suite.representatives
        for quantifier in case.question.asked.quantifiers.values()
    )
