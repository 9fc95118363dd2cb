"""Checks, trees and answers of a configuration's experiments and Figure 4."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from llmchecker.checking.budget import Budget, build_budget
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
        checks: its checks, in order.
        shards: number of jobs that build each of its trees.
        budget: the budget of its answers; None without answers.
        answer_key: the key of `budget` in messages.
    """

    checks: tuple[Check, ...]
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
        _parse_entry(f"experiments[{number}]", entry, keys, models, quantifiers)
        for number, entry in enumerate(keys.experiments)
    ]
    figures = []
    if keys.figure4 is not None:
        figures.append(_parse_entry("figure4", keys.figure4, keys, models, quantifiers))
    return Experiments(
        table2=tuple(
            TableRow(entry.label, entry.interest, check)
            for entry, parsed in zip(keys.experiments, experiments, strict=True)
            for check in parsed.checks
        ),
        figure4=tuple(check for entry in figures for check in entry.checks),
        shards=_collect_shards(experiments),
        answers=_collect_answers([*experiments, *figures]),
    )


def _parse_entry(
    key: str,
    entry: ExperimentKeys | FigureKeys,
    keys: ConfigKeys,
    models: Mapping[str, ModelConfig],
    quantifiers: Collection[str],
) -> _Entry:
    """Parse an experiment, or the section `figure4`, which has several start strings."""
    # Without a list, an entry uses all models with distributions; the figure has no list.
    model_names = [name for name, model in models.items() if not model.is_text_only]
    shards = 1
    if isinstance(entry, FigureKeys):
        starts = {f"{key}.starts[{index}]": name for index, name in enumerate(entry.starts)}
        texts = {f"{key}.query": entry.query}
    else:
        starts = {f"{key}.start": entry.start}
        texts = {f"{key}.queries[{index}]": text for index, text in enumerate(entry.queries)}
        model_names = model_names if entry.models is None else list(entry.models)
        shards = entry.shards
    for start_key, name in starts.items():
        check_name(start_key, name, keys.start_strings, "start string")
    queries = [_parse_query(each, text, quantifiers, entry.L) for each, text in texts.items()]
    budget, answer_key = _select_budget(key, entry, keys)
    truncation = _select_truncation(key, entry, budget)
    for name in model_names:
        check_name(f"{key}.models", name, models, "model")
        check_has_distributions(f"{key}.models", models[name])
        # Without a tree there is no k, so no limit applies.
        if isinstance(truncation, Truncation):
            check_listed_tokens(f"{key}.k", truncation.k, models[name])
    checks = []
    for name in model_names:
        decoding = select_decoding_override(f"{key}.decoding", entry.explicit_keys, models[name])
        trees = [TreeSpec(name, start, truncation, decoding) for start in starts.values()]
        checks += [Check(tree, query) for tree in trees for query in queries]
    return _Entry(tuple(checks), shards, budget, answer_key)


def _select_budget(
    key: str, entry: ExperimentKeys | FigureKeys, keys: ConfigKeys
) -> tuple[Budget | None, str]:
    """Return the budget of an entry's answers, and its key.

    The `answer` of the top level applies to entries without an `answer` of their own.
    """
    own_key, top_key = f"{key}.answer", "answer"
    answer, answer_key = (keys.answer, top_key) if entry.answer is None else (entry.answer, own_key)
    # false switches answers off, also those of the top level
    if not answer:
        return None, answer_key
    with prefix_errors(answer_key):
        return build_budget(**answer.explicit_keys), answer_key


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
        InvalidQuery: a query is about a tree and not about the model.
    """
    budgets: dict[Check, Budget] = {}
    keys: dict[Check, str] = {}
    for entry in entries:
        # Entries without an answer contradict no other entry.
        if entry.budget is None:
            continue
        for check in entry.checks:
            with prefix_errors(entry.answer_key):
                check.query.check_without_tree()
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
