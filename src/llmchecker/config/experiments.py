"""What the experiments and Figure 4 ask, on which trees, and how the answers are estimated."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from llmchecker.config.checks import Check, Refinement, TableRow, TreeSpec
from llmchecker.config.models import (
    ModelConfig,
    own_decoding_of,
    require_tells,
    require_told,
)
from llmchecker.config.validation import at_key
from llmchecker.deciding.effort import Sampling
from llmchecker.errors import (
    ConfigError,
    InvalidEstimate,
    UnknownName,
    did_you_mean,
)
from llmchecker.queries.parser import parse
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class Experiments:
    """What a run asks.

    Attributes:
        table2: the rows of Table II, in order.
        figure4: the checks that Figure 4 shows; empty if there is no section `figure4`.
        shards: the number of shards of each tree that several jobs grow together.
        estimates: how the answer to each check is estimated that is to be.
    """

    table2: tuple[TableRow, ...]
    figure4: tuple[Check, ...]
    shards: Mapping[TreeSpec, int]
    estimates: Mapping[Check, Sampling]


@dataclass(frozen=True)
class _Entry:
    """An experiment or the section `figure4`.

    Attributes:
        key: names it in messages.
        checks: what it asks, in order.
        rows: the rows of Table II that it makes; none of Figure 4.
        shards: the number of jobs that grow each of its trees.
        sampling: how its answers are estimated; None if they are not.
        sampling_key: names where `sampling` stands.
    """

    key: str
    checks: tuple[Check, ...]
    rows: tuple[TableRow, ...]
    shards: int
    sampling: Sampling | None
    sampling_key: str


def read_experiments(
    filled: Mapping[str, Any], models: Mapping[str, ModelConfig], quantifiers: Collection[str]
) -> Experiments:
    """Read the experiments and the section `figure4` of a configuration.

    Args:
        filled: the content of the configuration, valid and with all defaults.
        models: by name.
        quantifiers: the names of the quantifiers.

    Raises:
        ConfigError: names the key, its value and what would be right.
    """
    starts = filled["start_strings"]
    experiments = [
        _experiment(f"experiments[{number}]", entry, filled, models, starts, quantifiers)
        for number, entry in enumerate(filled["experiments"])
    ]
    figures = []
    if (section := filled.get("figure4")) is not None:
        figures.append(_figure4(section, filled, models, starts, quantifiers))
    return Experiments(
        table2=tuple(row for entry in experiments for row in entry.rows),
        figure4=tuple(check for entry in figures for check in entry.checks),
        shards=_shards(experiments),
        estimates=_estimates([*experiments, *figures]),
    )


def _experiment(
    key: str,
    entry: Mapping[str, Any],
    filled: Mapping[str, Any],
    models: Mapping[str, ModelConfig],
    starts: Collection[str],
    quantifiers: Collection[str],
) -> _Entry:
    start = known_name(f"{key}.start", entry["start"], starts, "start string")
    queries = tuple(
        _query(f"{key}.queries[{place}]", text, quantifiers, entry["L"])
        for place, text in enumerate(entry["queries"])
    )
    cut = _cut(key, entry, filled, queries)
    tellers = [name for name, model in models.items() if model.tells]
    asked = [
        known_name(f"{key}.models", model, models, "model")
        for model in entry.get("models", tellers)
    ]
    for name in asked:
        require_tells(f"{key}.models", models[name])
    _require_told(key, cut, [models[name] for name in asked])
    trees = [
        TreeSpec(name, start, cut, own_decoding_of(f"{key}.decoding", entry, models[name]))
        for name in asked
    ]
    checks = tuple(Check(tree, query) for tree in trees for query in queries)
    rows = tuple(TableRow(entry["label"], entry["interest"], check) for check in checks)
    return _Entry(key, checks, rows, entry.get("shards", 1), *_sampling(key, entry, filled))


def _figure4(
    entry: Mapping[str, Any],
    filled: Mapping[str, Any],
    models: Mapping[str, ModelConfig],
    starts: Collection[str],
    quantifiers: Collection[str],
) -> _Entry:
    key = "figure4"
    query = _query(f"{key}.query", entry["query"], quantifiers, entry["L"])
    cut = _cut(key, entry, filled, (query,))
    tellers = {name: model for name, model in models.items() if model.tells}
    _require_told(key, cut, tellers.values())
    named = [
        known_name(f"{key}.starts[{number}]", start, starts, "start string")
        for number, start in enumerate(entry["starts"])
    ]
    checks = tuple(
        Check(TreeSpec(model, start, cut), query) for model in tellers for start in named
    )
    return _Entry(key, checks, (), 1, *_sampling(key, entry, filled))


def _cut(
    key: str, entry: Mapping[str, Any], filled: Mapping[str, Any], queries: tuple[Query, ...]
) -> Truncation | Refinement:
    """Where the trees of an entry are cut: at its alpha and k, or where `refine` ends.

    The `refine` of the top level counts for entries that have neither alpha and k nor their own.
    """
    missing = [name for name in ("alpha", "k") if name not in entry]
    if "refine" in entry and len(missing) < 2:
        raise ConfigError(
            f"{key}: refine contradicts alpha and k: a tree is cut at alpha and k, or grown as far "
            "as refine says"
        )
    if not missing:
        return truncation_of(entry)
    named, limits = (f"{key}.", entry) if "refine" in entry else ("", filled)
    if len(missing) == 1 or "refine" not in limits:
        raise ConfigError(
            f"{key}: the key {missing[0]!r} is missing; a tree needs alpha and k, or refine"
        )
    if not limits["refine"]:
        raise ConfigError(f"{named}refine: passes or width must say how far a tree is grown")
    if entry.get("shards", 1) > 1:
        raise ConfigError(f"{key}.shards: one job refines a tree; shards need alpha and k")
    return Refinement(queries, entry["L"], **limits["refine"])


def _require_told(key: str, cut: Truncation | Refinement, models: Collection[ModelConfig]) -> None:
    """Refuse a k for which a server would have to tell more tokens than it is asked for."""
    for model in models if isinstance(cut, Truncation) else ():
        require_told(f"{key}.k", cut.k, model)


def _sampling(
    key: str, entry: Mapping[str, Any], filled: Mapping[str, Any]
) -> tuple[Sampling | None, str]:
    """How the answers of an entry are estimated, and the key that says so.

    The `estimate` of the top level counts for entries that have none of their own.
    """
    named, settings = (f"{key}.", entry) if "estimate" in entry else ("", filled)
    named = f"{named}estimate"
    if "estimate" not in settings:
        return None, named
    try:
        return Sampling(**settings["estimate"]), named
    except InvalidEstimate as error:
        raise ConfigError(f"{named}: {error}") from error


def _shards(entries: Collection[_Entry]) -> dict[TreeSpec, int]:
    """The number of shards of each tree that has several.

    Where several experiments share a tree and name different numbers, the largest number counts.
    """
    shards: dict[TreeSpec, int] = {}
    for entry in entries:
        for check in entry.checks:
            shards[check.tree] = max(shards.get(check.tree, 1), entry.shards)
    return {tree: count for tree, count in shards.items() if count > 1}


def _estimates(entries: Collection[_Entry]) -> dict[Check, Sampling]:
    """How each check is estimated that is to be.

    Raises:
        ConfigError: two entries ask the same on the same tree, but want it estimated differently.
    """
    found: dict[Check, Sampling] = {}
    named: dict[Check, str] = {}
    for entry in entries:
        for check in entry.checks if entry.sampling is not None else ():
            if found.setdefault(check, entry.sampling) != entry.sampling:
                raise ConfigError(
                    f"{entry.sampling_key}: {check.query.text} on the tree {check.tree} is "
                    f"estimated otherwise by {named[check]}; the two must agree"
                )
            named.setdefault(check, entry.sampling_key)
    return found


def _query(key: str, text: str, quantifiers: Collection[str], length: int) -> Query:
    with at_key(key):
        query = parse(text)
        query.require(quantifiers, length)
        return query


def truncation_of(entry: Mapping[str, Any]) -> Truncation:
    """The truncation that an entry with the keys alpha, k and L names."""
    # + 0.0 turns -0.0, which would have a path of its own, into 0.0
    return Truncation(float(entry["alpha"]) + 0.0, entry["k"], entry["L"])


def known_name(key: str, name: str, names: Collection[str], what: str) -> str:
    """Return a name that must be among the names that are known.

    Raises:
        UnknownName: it is not; the message names the key, and the closest name that is known.
    """
    if name not in names:
        hint = did_you_mean(name, names)
        raise UnknownName(f"{key}: no {what} {name!r} is defined{hint}; known: {', '.join(names)}")
    return name
