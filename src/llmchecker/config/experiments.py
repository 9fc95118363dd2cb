"""Checks, trees and answers of a configuration's experiments and Figure 4."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from llmchecker.checking.anytime.budget import Budget
from llmchecker.config.keys import ConfigKeys, ExperimentKeys, FigureKeys, build_truncation
from llmchecker.config.models import (
    ModelConfig,
    check_has_distributions,
    check_listed_tokens,
    select_decoding_override,
)
from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.errors import (
    ConfigError,
    UnknownName,
    did_you_mean,
    prefix_errors,
)
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import Horizon, Truncation


@dataclass(frozen=True)
class Experiments:
    """The checks of a run.

    Attributes:
        table2: the rows of Table II, in order.
        figure4: the checks of Figure 4; empty without the section `figure4`.
        shards: number of shards of each tree with more than one.
        answers: the budget of each check with an answer for the whole model.
    """

    table2: tuple[TableRow, ...]
    figure4: tuple[Check, ...]
    shards: Mapping[TreeSpec, int]
    answers: Mapping[Check, Budget]


@dataclass(frozen=True)
class _Entry:
    """An experiment or the section `figure4`.

    Attributes:
        key: its key in messages.
        checks: its checks, in order.
        rows: its rows of Table II; empty for Figure 4.
        shards: number of jobs that build each of its trees.
        budget: the budget of its answers; None without answers.
        answer_key: the key of `budget` in messages.
    """

    key: str
    checks: tuple[Check, ...]
    rows: tuple[TableRow, ...]
    shards: int
    budget: Budget | None
    answer_key: str


def parse_experiments(
    keys: ConfigKeys, models: Mapping[str, ModelConfig], quantifiers: Collection[str]
) -> Experiments:
    """Parse the experiments and the section `figure4` of a configuration.

    Args:
        keys: the keys of the configuration.
        models: models by name.
        quantifiers: names of the quantifiers.

    Raises:
        ConfigError: a key is invalid; the message contains the key, its value and the fix.
    """
    experiments = [
        _parse_experiment(f"experiments[{number}]", entry, keys, models, quantifiers)
        for number, entry in enumerate(keys.experiments)
    ]
    figures = []
    if keys.figure4 is not None:
        figures.append(_parse_figure4(keys.figure4, keys, models, quantifiers))
    return Experiments(
        table2=tuple(row for entry in experiments for row in entry.rows),
        figure4=tuple(check for entry in figures for check in entry.checks),
        shards=_collect_shards(experiments),
        answers=_collect_answers([*experiments, *figures]),
    )


def _parse_experiment(
    key: str,
    entry: ExperimentKeys,
    keys: ConfigKeys,
    models: Mapping[str, ModelConfig],
    quantifiers: Collection[str],
) -> _Entry:
    start = check_name(f"{key}.start", entry.start, keys.start_strings, "start string")
    queries = tuple(
        _parse_query(f"{key}.queries[{index}]", text, quantifiers, entry.L)
        for index, text in enumerate(entry.queries)
    )
    budget, answer_key = _select_budget(key, entry, keys)
    truncation = _select_truncation(key, entry, budget)
    distribution_models = [name for name, model in models.items() if model.has_distributions]
    # Without a list, an experiment uses all models with distributions.
    model_names = [
        check_name(f"{key}.models", model, models, "model")
        for model in (distribution_models if entry.models is None else entry.models)
    ]
    for name in model_names:
        check_has_distributions(f"{key}.models", models[name])
    _check_listed_tokens(key, truncation, [models[name] for name in model_names])
    trees = [
        TreeSpec(
            name,
            start,
            truncation,
            select_decoding_override(f"{key}.decoding", entry.explicit_keys, models[name]),
        )
        for name in model_names
    ]
    checks = tuple(Check(tree, query) for tree in trees for query in queries)
    rows = tuple(TableRow(entry.label, entry.interest, check) for check in checks)
    return _Entry(key, checks, rows, entry.shards, budget, answer_key)


def _parse_figure4(
    entry: FigureKeys,
    keys: ConfigKeys,
    models: Mapping[str, ModelConfig],
    quantifiers: Collection[str],
) -> _Entry:
    key = "figure4"
    query = _parse_query(f"{key}.query", entry.query, quantifiers, entry.L)
    budget, answer_key = _select_budget(key, entry, keys)
    truncation = _select_truncation(key, entry, budget)
    # The figure has no list of models of its own.
    distribution_models = {name: model for name, model in models.items() if model.has_distributions}
    _check_listed_tokens(key, truncation, distribution_models.values())
    starts = [
        check_name(f"{key}.starts[{index}]", start, keys.start_strings, "start string")
        for index, start in enumerate(entry.starts)
    ]
    checks = tuple(
        Check(TreeSpec(model, start, truncation), query)
        for model in distribution_models
        for start in starts
    )
    # Figure 4 has no rows in Table II, and its trees have no shards.
    return _Entry(key, checks, (), 1, budget, answer_key)


def _select_budget(
    key: str, entry: ExperimentKeys | FigureKeys, keys: ConfigKeys
) -> tuple[Budget | None, str]:
    """Return the budget of an entry's answers, and its key.

    The `answer` of the top level applies to entries without an `answer` of their own.
    """
    own_key, top_key = f"{key}.answer", "answer"
    answer, answer_key = (keys.answer, top_key) if entry.answer is None else (entry.answer, own_key)
    # false switches answers off, also those of the top level
    return (answer.budget if answer else None), answer_key


def _select_truncation(
    key: str, entry: ExperimentKeys | FigureKeys, budget: Budget | None
) -> Truncation | Horizon:
    """Return the truncation of an entry, or its horizon without alpha and k."""
    if entry.alpha is not None and entry.k is not None:
        return build_truncation(entry.alpha, entry.k, entry.L)
    missing_keys = [name for name in ("alpha", "k") if getattr(entry, name) is None]
    # One of the two keys alone is a mistake, even with an answer.
    if len(missing_keys) == 1 or budget is None:
        raise ConfigError(
            f"{key}: the key {missing_keys[0]!r} is missing; name alpha and k, or an answer"
        )
    if isinstance(entry, ExperimentKeys) and entry.shards > 1:
        raise ConfigError(f"{key}.shards: one job computes an answer; shards need alpha and k")
    return Horizon(entry.L)


def _check_listed_tokens(
    key: str, truncation: Truncation | Horizon, models: Collection[ModelConfig]
) -> None:
    """Check that k is at most the number of tokens that each server reports."""
    # Without a tree there is no k, so no limit applies.
    if not isinstance(truncation, Truncation):
        return
    for model in models:
        check_listed_tokens(f"{key}.k", truncation.k, model)


def _collect_shards(entries: Collection[_Entry]) -> dict[TreeSpec, int]:
    """Return the number of shards of each tree with more than one.

    If several experiments share a tree, the largest number applies.
    """
    shards: dict[TreeSpec, int] = {}
    for entry in entries:
        for check in entry.checks:
            # Other experiments may have named a larger number for the same tree.
            shards[check.tree] = max(shards.get(check.tree, 1), entry.shards)
    return {tree: count for tree, count in shards.items() if count > 1}


def _collect_answers(entries: Collection[_Entry]) -> dict[Check, Budget]:
    """Return the budget of each check with an answer.

    Raises:
        ConfigError: two entries have different budgets for the same check.
    """
    budgets: dict[Check, Budget] = {}
    keys: dict[Check, str] = {}
    for entry in entries:
        # Entries without an answer contradict no other entry.
        if entry.budget is None:
            continue
        for check in entry.checks:
            if budgets.setdefault(check, entry.budget) != entry.budget:
                raise ConfigError(
                    f"{entry.answer_key}: {keys[check]} has other limits for {check.query.text} "
                    f"on {check.tree}; name the same limits"
                )
            keys.setdefault(check, entry.answer_key)
    return budgets


def _parse_query(key: str, text: str, quantifiers: Collection[str], length: int) -> Query:
    with prefix_errors(key):
        query = parse(text)
        query.check_references(quantifiers, length)
        return query


def check_name(key: str, name: str, names: Collection[str], kind: str) -> str:
    """Check that a name is defined, and return it.

    Raises:
        UnknownName: the name is not defined; the message contains the key and the closest name.
    """
    if name not in names:
        hint = did_you_mean(name, names)
        raise UnknownName(f"{key}: {kind} {name!r} is not defined{hint}; known: {', '.join(names)}")
    return name
