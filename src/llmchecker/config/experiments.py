"""Checks, trees and estimates of a configuration's experiments and Figure 4."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from llmchecker.checking.anytime.budget import SamplingPlan
from llmchecker.config.keys import ConfigKeys, ExperimentKeys, FigureKeys, build_truncation
from llmchecker.config.models import (
    ModelConfig,
    check_has_distributions,
    check_listed_tokens,
    select_decoding_override,
)
from llmchecker.config.plan import Check, Refinement, TableRow, TreeSpec
from llmchecker.errors import (
    ConfigError,
    InvalidEstimate,
    UnknownName,
    did_you_mean,
    prefix_errors,
)
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class Experiments:
    """The checks of a run.

    Attributes:
        table2: the rows of Table II, in order.
        figure4: the checks of Figure 4; empty without the section `figure4`.
        shards: number of shards of each tree with more than one.
        estimates: the sampling plan of each check with an estimate.
    """

    table2: tuple[TableRow, ...]
    figure4: tuple[Check, ...]
    shards: Mapping[TreeSpec, int]
    estimates: Mapping[Check, SamplingPlan]


@dataclass(frozen=True)
class _Entry:
    """An experiment or the section `figure4`.

    Attributes:
        key: its key in messages.
        checks: its checks, in order.
        rows: its rows of Table II; empty for Figure 4.
        shards: number of jobs that build each of its trees.
        sampling: the sampling plan of its estimates; None without estimates.
        sampling_key: the key of `sampling` in messages.
    """

    key: str
    checks: tuple[Check, ...]
    rows: tuple[TableRow, ...]
    shards: int
    sampling: SamplingPlan | None
    sampling_key: str


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
        estimates=_collect_estimates([*experiments, *figures]),
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
    truncation = _select_truncation(key, entry, keys, queries)
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
    return _Entry(key, checks, rows, entry.shards, *_parse_sampling(key, entry, keys))


def _parse_figure4(
    entry: FigureKeys,
    keys: ConfigKeys,
    models: Mapping[str, ModelConfig],
    quantifiers: Collection[str],
) -> _Entry:
    key = "figure4"
    query = _parse_query(f"{key}.query", entry.query, quantifiers, entry.L)
    truncation = _select_truncation(key, entry, keys, (query,))
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
    return _Entry(key, checks, (), 1, *_parse_sampling(key, entry, keys))


def _select_truncation(
    key: str, entry: ExperimentKeys | FigureKeys, keys: ConfigKeys, queries: tuple[Query, ...]
) -> Truncation | Refinement:
    """Return the truncation of an entry by its alpha and k, or its refinement.

    The `refine` of the top level applies to entries without alpha, k and a `refine` of their own.
    """
    missing_keys = [name for name in ("alpha", "k") if getattr(entry, name) is None]
    if entry.refine is not None and len(missing_keys) < 2:
        raise ConfigError(f"{key}: refine contradicts alpha and k; remove refine, or alpha and k")
    if not missing_keys:
        return build_truncation(entry.alpha, entry.k, entry.L)
    prefix, refine = ("", keys.refine) if entry.refine is None else (f"{key}.", entry.refine)
    # One of the two keys alone is a mistake, even with a `refine` at the top level.
    if len(missing_keys) == 1 or refine is None:
        raise ConfigError(
            f"{key}: the key {missing_keys[0]!r} is missing; add alpha and k, or refine"
        )
    # Only passes and width bound a refinement.
    if not refine.explicit_keys:
        raise ConfigError(f"{prefix}refine: passes and width are missing; add one as a limit")
    if isinstance(entry, ExperimentKeys) and entry.shards > 1:
        raise ConfigError(
            f"{key}.shards: one job refines a tree; remove shards, or set alpha and k"
        )
    return Refinement(queries, entry.L, **refine.explicit_keys)


def _check_listed_tokens(
    key: str, truncation: Truncation | Refinement, models: Collection[ModelConfig]
) -> None:
    """Check that k is at most the number of tokens that each server reports."""
    # A refined tree has no k, so no limit applies to it.
    for model in models if isinstance(truncation, Truncation) else ():
        check_listed_tokens(f"{key}.k", truncation.k, model)


def _parse_sampling(
    key: str, entry: ExperimentKeys | FigureKeys, keys: ConfigKeys
) -> tuple[SamplingPlan | None, str]:
    """Return the sampling plan of an entry, and its key.

    The `estimate` of the top level applies to entries without an `estimate` of their own.
    """
    estimate_key, estimate = "estimate", keys.estimate
    if entry.estimate is not None:
        estimate_key, estimate = f"{key}.estimate", entry.estimate
    if estimate is None:
        return None, estimate_key
    try:
        return estimate.sampling, estimate_key
    # An estimate without a limit of its samples is invalid.
    except InvalidEstimate as error:
        raise ConfigError(f"{estimate_key}: {error}") from error


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


def _collect_estimates(entries: Collection[_Entry]) -> dict[Check, SamplingPlan]:
    """Return the sampling plan of each check with an estimate.

    Raises:
        ConfigError: two entries have different plans for the same check.
    """
    plans: dict[Check, SamplingPlan] = {}
    keys: dict[Check, str] = {}
    for entry in entries:
        # Entries without an estimate contradict no other entry.
        for check in entry.checks if entry.sampling is not None else ():
            if plans.setdefault(check, entry.sampling) != entry.sampling:
                raise ConfigError(
                    f"{entry.sampling_key}: {check.query.text} on the tree {check.tree} has "
                    f"another estimate in {keys[check]}; make both equal"
                )
            keys.setdefault(check, entry.sampling_key)
    return plans


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
