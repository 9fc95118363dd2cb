"""The configuration of a run, checked as a whole and then frozen.

`Config.read` takes YAML files, and `Config.parse` what they hold. Both return a configuration in
which every name refers to something and every query parses, or raise an error that names the key
at fault.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from llmchecker.config.checks import Check, Refinement, TableRow, TreeSpec, quantifiers_in
from llmchecker.config.experiments import (
    Experiments,
    known_name,
    read_experiments,
    truncation_of,
)
from llmchecker.config.models import ModelConfig, check_labels, read_model, require_told
from llmchecker.config.programs import Asking, InvariantsConfig, Repairing
from llmchecker.config.strict_yaml import YamlFile, read_strictly
from llmchecker.config.validation import at_key, sha256_of_config, validate, with_defaults
from llmchecker.deciding.effort import Sampling
from llmchecker.deployed.chat import Chat, Start
from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.fetching.datasets import DatasetSource
from llmchecker.fetching.programs import parse_program_source
from llmchecker.fetching.sources import parse_source
from llmchecker.programs.expressions import Semantics
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.scoring import registry
from llmchecker.trees.outlook import GrowthLimits
from llmchecker.trees.text_tree import Truncation


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
        memory_bytes: as in `load_model`.
        store_bytes: limit of all stored distributions together.
        threads: for the trees of one model; None for a fair share of all cores.
        most_states, most_hours: of one tree.
    """

    end_of_sequence: str
    memory_bytes: int
    store_bytes: int
    threads: int | None
    most_states: int
    most_hours: float

    def limits(self, mem_mb: int) -> GrowthLimits:
        """What growing one tree may come to, in a job of so much memory."""
        return GrowthLimits(self.most_states, self.most_hours * 3600, mem_mb * 10**6)


@dataclass(frozen=True)
class Config:
    """Everything that a run needs to know.

    Attributes:
        models: by name.
        start_strings: by name; texts that models continue, or messages that they answer.
        quantifiers: by name.
        expansion: how trees are grown.
        prompts: of the top-k statistics; None if there is no section `topk`.
        experiments: what is asked in Table II and in Figure 4, and how it is estimated.
        invariants: which programs are verified; None if there is no section `invariants`.
        sha256: of the content; see `sha256_of_config`.
    """

    models: Mapping[str, ModelConfig]
    start_strings: Mapping[str, Start]
    quantifiers: Mapping[str, Quantifier]
    expansion: ExpansionConfig
    prompts: PromptsConfig | None
    experiments: Experiments
    invariants: InvariantsConfig | None
    sha256: str

    @classmethod
    def read(
        cls,
        *files: str | Path,
        changes: Mapping[str, Any] = MappingProxyType({}),
        demand: Callable[["Config"], None] = lambda config: None,
    ) -> "Config":
        """Read a configuration from YAML files.

        Args:
            files: where they are; what a later one says of a key counts.
            changes: keys and values that count more than those of the files.
            demand: what else the configuration must fulfil; it raises an error that names the key.

        Raises:
            ConfigError: as `read_strictly` and `parse` raise it, with the file and the line.
        """
        read = [read_strictly(file) for file in files]
        raw: dict[str, Any] = {}
        for content in (*(file.content for file in read), changes):
            raw = _updated(raw, content)
        try:
            config = cls.parse(raw)
            demand(config)
            return config
        except LLMCheckerError as error:
            raise type(error)(_located(read, str(error))) from error

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "Config":
        """Check the content of a YAML file and turn it into a configuration.

        Raises:
            ConfigError: names the key, its value and what would be right.
        """
        validate(raw)
        filled = with_defaults(raw)
        models = {
            name: read_model(name, entry, raw["models"][name])
            for name, entry in filled["models"].items()
        }
        check_labels(models)
        known = {name: _quantifier(name, entry) for name, entry in filled["quantifiers"].items()}
        return cls(
            models=models,
            start_strings={
                name: _start(name, entry) for name, entry in filled["start_strings"].items()
            },
            quantifiers=known,
            expansion=_expansion(filled["expansion"]),
            prompts=_prompts(filled.get("topk"), _tellers(models)),
            experiments=read_experiments(filled, models, known),
            invariants=_invariants(filled.get("invariants"), models),
            sha256=sha256_of_config(filled),
        )

    @cached_property
    def tellers(self) -> Mapping[str, ModelConfig]:
        """The models that tell distributions of next tokens: all but servers that only write."""
        return _tellers(self.models)

    @property
    def table2(self) -> tuple[TableRow, ...]:
        """The rows of Table II, in order."""
        return self.experiments.table2

    @property
    def figure4(self) -> tuple[Check, ...]:
        """The checks that Figure 4 shows; empty if there is no section `figure4`."""
        return self.experiments.figure4

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

    def truncated(self, model: str) -> tuple[TreeSpec, ...]:
        """The trees of a model that are cut at an alpha and a k."""
        return tuple(t for t in self.trees(model) if isinstance(t.truncation, Truncation))

    def refined(self, model: str) -> tuple[TreeSpec, ...]:
        """The trees of a model that are grown for the bounds of their queries."""
        return tuple(t for t in self.trees(model) if isinstance(t.truncation, Refinement))

    def estimated(self, model: str) -> tuple[tuple[Check, Sampling], ...]:
        """The checks of a model that are estimated, and how; those on one tree stand together."""
        estimates = self.experiments.estimates
        return tuple((c, estimates[c]) for c in self.checks_of(model) if c in estimates)

    def checks_of(self, model: str) -> tuple[Check, ...]:
        """Every check of a model once; the checks on one tree stand together."""
        trees = self.trees(model)
        checks = [check for check in self.checks if check.tree.model == model]
        return tuple(sorted(checks, key=lambda check: trees.index(check.tree)))

    def scored(self, tree: TreeSpec) -> tuple[str, ...]:
        """The quantifiers in the queries on a tree, sorted."""
        names = {name for c in self.checks if c.tree == tree for name in quantifiers_in(c.query)}
        return tuple(sorted(names))


def _tellers(models: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
    return {name: model for name, model in models.items() if model.tells}


def _updated(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Keys and values, at every depth with those of `new` where it has some."""
    both = {
        key: _updated(old[key], value)
        for key, value in new.items()
        if isinstance(value, Mapping) and isinstance(old.get(key), Mapping)
    }
    return {**old, **new, **both}


def _located(files: Sequence[YamlFile], message: str) -> str:
    """A message about a key, with the last file that has the key and the line there."""
    told = [file.located(message) for file in reversed(files)]
    return next((one for one in told if ", line " in one[: -len(message)]), told[0])


def _start(name: str, entry: str | Sequence[Mapping[str, str]]) -> Start:
    if isinstance(entry, str):
        return entry
    try:
        return Chat.of(entry)
    except ConfigError as error:
        place = "" if str(error).startswith("[") else ": "
        raise ConfigError(f"start_strings.{name}{place}{error}") from error


def _quantifier(name: str, settings: Mapping[str, Any]) -> Quantifier:
    with at_key(f"quantifiers.{name}"):
        return registry.create(name, settings)


def _expansion(entry: Mapping[str, Any]) -> ExpansionConfig:
    return ExpansionConfig(
        end_of_sequence=entry["end_of_sequence"],
        memory_bytes=int(entry["memory_gb"] * 1024**3),
        store_bytes=int(entry["store_gb"] * 1024**3),
        threads=entry.get("threads"),
        most_states=entry["most_states"],
        most_hours=entry["most_hours"],
    )


def _prompts(
    entry: Mapping[str, Any] | None, models: Mapping[str, ModelConfig]
) -> PromptsConfig | None:
    if entry is None:
        return None
    for model in models.values():
        require_told("topk.maximum_k", entry["maximum_k"], model)
    with at_key("topk.source"):
        source = parse_source(entry["source"])
    with at_key("topk"):
        dataset = DatasetSource(source, entry.get("file"), entry.get("sha256"), entry.get("rows"))
    return PromptsConfig(dataset, entry["column"], entry["maximum_k"])


def _invariants(
    entry: Mapping[str, Any] | None, models: Mapping[str, ModelConfig]
) -> InvariantsConfig | None:
    if entry is None:
        return None
    named = entry["programs"]
    with at_key("invariants.programs"):
        source = parse_program_source(**({"source": named} if isinstance(named, str) else named))
        # raises now, and not in a job hours later, if a local directory is not there
        source.state()
    causal = [name for name, model in models.items() if model.kind == "causal"]
    plain = [name for name in causal if models[name].decoding is None]
    for number, name in enumerate(asked := entry.get("models", plain)):
        key = f"invariants.models[{number}]"
        if models[known_name(key, name, models, "model")].kind == "masked":
            raise ConfigError(f"{key}: {name!r} is a masked model; only causal ones write on")
        if models[name].decoding is not None:
            raise ConfigError(
                f"{key}: {name!r} has a decoding, and proposals are drawn at temperature 1"
            )
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
        repairing=Repairing(**entry["repair"]),
        provable=truncation_of(entry["provable"]),
    )
