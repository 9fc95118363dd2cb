"""The configuration of a run, checked as a whole and then frozen.

`Config.parse` takes the content of a YAML file. It returns a configuration in which every name
refers to something and every query parses, or it raises an error that names the key at fault.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from llmchecker.config.checks import Check, TableRow, TreeSpec, quantifiers_in
from llmchecker.config.programs import Asking, InvariantsConfig
from llmchecker.config.validation import read_yaml, sha256_of_config, validate, with_defaults
from llmchecker.errors import ConfigError, LLMCheckerError, UnknownName, did_you_mean
from llmchecker.fetching.datasets import DatasetSource
from llmchecker.fetching.models import ModelSource
from llmchecker.fetching.programs import parse_program_source
from llmchecker.fetching.sources import parse_source
from llmchecker.programs.expressions import Semantics
from llmchecker.quantifiers import registry
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.queries.parser import parse
from llmchecker.queries.query import Query
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class ModelConfig:
    """A language model: where it comes from and how it runs.

    Attributes:
        name: in the configuration and in paths.
        label: in tables and figures.
        source: where the weights come from.
        kind, dtype, device: as in `loading.load_model`.
        mem_mb: memory of a job with the model, in MB.
        gpu_mem_mb: memory of the GPU that such a job needs, in MB.
    """

    name: str
    label: str
    source: ModelSource
    kind: str
    dtype: str
    device: str
    mem_mb: int
    gpu_mem_mb: int


@dataclass(frozen=True)
class PromptsConfig:
    """The prompts of the top-k statistics.

    Attributes:
        dataset: where the prompts come from.
        column: the column of the data set that holds them.
        maximum_k: the largest k of the statistics.
    """

    dataset: DatasetSource
    column: str
    maximum_k: int


@dataclass(frozen=True)
class ExpansionConfig:
    """How trees are grown, whatever their truncation.

    Attributes:
        end_of_sequence: as in `expansion.grow_tree`.
        memory_bytes: as in `loading.load_model`.
        store_bytes: limit of all stored distributions together.
        threads: for the trees of one model; None for a fair share of all cores.
    """

    end_of_sequence: str
    memory_bytes: int
    store_bytes: int
    threads: int | None


@dataclass(frozen=True)
class Config:
    """Everything that a run needs to know.

    Attributes:
        models: by name.
        start_strings: by name.
        quantifiers: by name.
        expansion: how trees are grown.
        prompts: of the top-k statistics; None if there is no section `topk`.
        table2: the rows of Table II, in order.
        figure4: the checks that Figure 4 shows; empty if there is no section `figure4`.
        shards: the number of shards of each tree that several jobs grow together.
        invariants: which programs are verified; None if there is no section `invariants`.
        sha256: of the content; see `sha256_of_config`.
    """

    models: Mapping[str, ModelConfig]
    start_strings: Mapping[str, str]
    quantifiers: Mapping[str, Quantifier]
    expansion: ExpansionConfig
    prompts: PromptsConfig | None
    table2: tuple[TableRow, ...]
    figure4: tuple[Check, ...]
    shards: Mapping[TreeSpec, int]
    invariants: InvariantsConfig | None
    sha256: str

    @classmethod
    def read(cls, path: str | Path) -> "Config":
        """Read a configuration from a YAML file.

        Raises:
            ConfigError: as `read_yaml` and `parse` raise it.
        """
        return cls.parse(read_yaml(path))

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "Config":
        """Check the content of a YAML file and turn it into a configuration.

        Raises:
            ConfigError: names the key, its value and what would be right.
        """
        validate(raw)
        filled = with_defaults(raw)
        models = {name: _model(name, entry) for name, entry in filled["models"].items()}
        _check_labels(models)
        starts = filled["start_strings"]
        known = {name: _quantifier(name, entry) for name, entry in filled["quantifiers"].items()}
        return cls(
            models=models,
            start_strings=starts,
            quantifiers=known,
            expansion=_expansion(filled["expansion"]),
            prompts=_prompts(filled.get("topk")),
            table2=tuple(_table2(filled["experiments"], models, starts, known)),
            figure4=tuple(_figure4(filled.get("figure4"), models, starts, known)),
            shards=_shards(filled["experiments"], models),
            invariants=_invariants(filled.get("invariants"), models),
            sha256=sha256_of_config(filled),
        )

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the run, each once."""
        return tuple(dict.fromkeys([*(row.check for row in self.table2), *self.figure4]))

    def trees(self, model: str) -> tuple[TreeSpec, ...]:
        """Every tree of a model once, those with the longest texts first.

        The other trees then find most of the distributions that they need in the store.
        """
        trees = dict.fromkeys(check.tree for check in self.checks if check.tree.model == model)
        return tuple(sorted(trees, key=lambda tree: -tree.truncation.length))

    def checks_of(self, model: str) -> tuple[Check, ...]:
        """Every check of a model once; the checks on one tree stand together."""
        trees = self.trees(model)
        checks = [check for check in self.checks if check.tree.model == model]
        return tuple(sorted(checks, key=lambda check: trees.index(check.tree)))

    def scored(self, tree: TreeSpec) -> tuple[str, ...]:
        """The quantifiers in the queries on a tree, sorted."""
        names = {name for c in self.checks if c.tree == tree for name in quantifiers_in(c.query)}
        return tuple(sorted(names))


@contextmanager
def _at(key: str) -> Iterator[None]:
    """Name the key in whatever error the block raises."""
    try:
        yield
    except LLMCheckerError as error:
        raise type(error)(f"{key}: {error}") from error


def _model(name: str, entry: Mapping[str, Any]) -> ModelConfig:
    with _at(f"models.{name}"):
        source = ModelSource(
            source=parse_source(entry["source"]),
            file=entry.get("file"),
            parts=tuple((parse_source(p["source"]), p["file"]) for p in entry.get("parts", [])),
            sha256=entry.get("sha256"),
        )
    settings = {
        key: entry[key] for key in ("label", "kind", "dtype", "device", "mem_mb", "gpu_mem_mb")
    }
    return ModelConfig(name=name, source=source, **settings)


def _check_labels(models: Mapping[str, ModelConfig]) -> None:
    """Refuse equal labels: tables and figures tell models apart by them alone."""
    first: dict[str, str] = {}
    for name, model in models.items():
        if first.setdefault(model.label, name) != name:
            raise ConfigError(
                f"models.{name}.label: {model.label!r} is the label of "
                f"models.{first[model.label]} too; labels must differ"
            )


def _quantifier(name: str, settings: Mapping[str, Any]) -> Quantifier:
    with _at(f"quantifiers.{name}"):
        return registry.create(name, settings)


def _expansion(entry: Mapping[str, Any]) -> ExpansionConfig:
    return ExpansionConfig(
        end_of_sequence=entry["end_of_sequence"],
        memory_bytes=int(entry["memory_gb"] * 1024**3),
        store_bytes=int(entry["store_gb"] * 1024**3),
        threads=entry.get("threads"),
    )


def _prompts(entry: Mapping[str, Any] | None) -> PromptsConfig | None:
    if entry is None:
        return None
    with _at("topk.source"):
        source = parse_source(entry["source"])
    with _at("topk"):
        dataset = DatasetSource(source, entry.get("file"), entry.get("sha256"), entry.get("rows"))
    return PromptsConfig(dataset, entry["column"], entry["maximum_k"])


def _table2(
    experiments: list[Mapping[str, Any]],
    models: Mapping[str, ModelConfig],
    starts: Mapping[str, str],
    known: Collection[str],
) -> Iterator[TableRow]:
    for number, entry in enumerate(experiments):
        key = f"experiments[{number}]"
        start = _known(f"{key}.start", entry["start"], starts, "start string")
        for model in entry.get("models", models):
            _known(f"{key}.models", model, models, "model")
            tree = TreeSpec(model, start, _truncation(entry))
            for place, text in enumerate(entry["queries"]):
                query = _query(f"{key}.queries[{place}]", text, known, entry["L"])
                yield TableRow(entry["label"], entry["interest"], Check(tree, query))


def _shards(
    experiments: list[Mapping[str, Any]], models: Mapping[str, ModelConfig]
) -> dict[TreeSpec, int]:
    """The number of shards of each tree that has several.

    Where several experiments share a tree and name different numbers, the largest number counts.
    """
    shards: dict[TreeSpec, int] = {}
    for entry in experiments:
        for model in entry.get("models", models):
            tree = TreeSpec(model, entry["start"], _truncation(entry))
            shards[tree] = max(shards.get(tree, 1), entry.get("shards", 1))
    return {tree: count for tree, count in shards.items() if count > 1}


def _figure4(
    entry: Mapping[str, Any] | None,
    models: Mapping[str, ModelConfig],
    starts: Mapping[str, str],
    known: Collection[str],
) -> Iterator[Check]:
    if entry is None:
        return
    query = _query("figure4.query", entry["query"], known, entry["L"])
    for model in models:
        for number, start in enumerate(entry["starts"]):
            _known(f"figure4.starts[{number}]", start, starts, "start string")
            yield Check(TreeSpec(model, start, _truncation(entry)), query)


def _invariants(
    entry: Mapping[str, Any] | None, models: Mapping[str, ModelConfig]
) -> InvariantsConfig | None:
    if entry is None:
        return None
    named = entry["programs"]
    with _at("invariants.programs"):
        source = parse_program_source(**({"source": named} if isinstance(named, str) else named))
        # raises now, and not in a job hours later, if a local directory is not there
        source.state()
    causal = [name for name, model in models.items() if model.kind == "causal"]
    for number, name in enumerate(asked := entry.get("models", causal)):
        key = f"invariants.models[{number}]"
        if _known(key, name, models, "model") not in causal:
            raise ConfigError(f"{key}: {name!r} is a masked model; only causal ones write on")
    if not asked:
        raise ConfigError("invariants.models: there is no causal model to ask")
    asking = {key: entry[key] for key in ("iterations", "nodes", "candidates", "seed")}
    return InvariantsConfig(
        programs=source,
        models=tuple(asked),
        semantics=tuple(map(Semantics, entry["semantics"])),
        seconds=entry["seconds"],
        tool_seconds=entry["tool_seconds"],
        asking=Asking(**asking),
        provable=_truncation(entry["provable"]),
    )


def _truncation(entry: Mapping[str, Any]) -> Truncation:
    return Truncation(float(entry["alpha"]), entry["k"], entry["L"])


def _query(key: str, text: str, known: Collection[str], length: int) -> Query:
    with _at(key):
        query = parse(text)
        query.require(known, length)
        return query


def _known(key: str, name: str, names: Collection[str], what: str) -> str:
    if name not in names:
        hint = did_you_mean(name, names)
        raise UnknownName(f"{key}: no {what} {name!r} is defined{hint}; known: {', '.join(names)}")
    return name
