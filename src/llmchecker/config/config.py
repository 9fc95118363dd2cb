"""The configuration of a run: parsing, validation as a whole, derived plans.

`Config.read` reads YAML files, and `Config.parse` their content. Both return a frozen configuration
in which every name is defined and every query parses. Otherwise they raise an error with the key at
fault.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from llmchecker.checking.budget import Budget
from llmchecker.config import paths
from llmchecker.config.experiments import (
    Experiments,
    check_name,
    parse_experiments,
)
from llmchecker.config.keys import PromptsConfig, SuiteEntry
from llmchecker.config.models import ModelConfig, check_listed_tokens
from llmchecker.config.plan import Check, TableRow, TreeSpec, quantifiers_in
from llmchecker.config.plugins import complete_sections, extend_keys
from llmchecker.config.registry import Registry
from llmchecker.config.schema import compute_config_sha256
from llmchecker.config.yaml_reader import SHARED_SCHEMA, locate_keys, read_yaml
from llmchecker.errors import prefix_errors
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.utils.section import parse_section


@dataclass(frozen=True, kw_only=True)
class Config(Registry):
    """The validated configuration of a run: its registry, and the plan of the workflow.

    Attributes:
        prompts: the prompts of the top-k statistics; None without the section `topk`.
        experiments: the checks of Table II and Figure 4, and the budgets of their answers.
        suites: the names of models and the file of each suite, by name.
        sections: the sections of installed packages by name; see `extend_keys`.
        sha256: checksum of the content; see `compute_config_sha256`.
    """

    prompts: PromptsConfig | None
    experiments: Experiments
    suites: Mapping[str, SuiteEntry]
    sections: Mapping[str, Any]
    sha256: str

    @classmethod
    def read(
        cls,
        *files: str | Path,
        changes: Mapping[str, Any] = MappingProxyType({}),
        validate: Callable[["Config"], None] = lambda config: None,
    ) -> "Config":
        """Read a configuration from YAML files.

        Args:
            files: paths of YAML files; a later file overrides the keys of the earlier ones.
            changes: keys and values that override those of the files.
            validate: an additional check of the configuration, which raises an error that begins
                with the key.

        Raises:
            ConfigError: as in `read_yaml` and `parse`, with the file and the line.
        """
        yaml_files = [read_yaml(file, SHARED_SCHEMA) for file in files]
        data: dict[str, Any] = {}
        for content in (*(file.content for file in yaml_files), changes):
            data = _merge(data, content)
        with locate_keys(yaml_files):
            config = Config.parse(data)
            validate(config)
            return config

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "Config":
        """Validate the content of YAML files and build the configuration.

        Raises:
            ConfigError: a key is invalid; the message contains the key, its value and the fix.
        """
        keys = parse_section(extend_keys(raw), raw)
        registry = Registry.from_keys(keys)
        # a run checks the settings of all, also of those that no query names
        registry = replace(registry, quantifiers=dict(registry.quantifiers))
        models = registry.models
        return Config(
            **{entry.name: getattr(registry, entry.name) for entry in fields(registry)},
            prompts=_parse_prompts(keys.topk, registry.distribution_models),
            experiments=parse_experiments(keys, models, registry.quantifiers),
            suites=_parse_suites(keys.suites, registry.distribution_models),
            sections=complete_sections(keys, models),
            sha256=compute_config_sha256(keys),
        )

    @cached_property
    def causal_models(self) -> Mapping[str, ModelConfig]:
        """The local models that continue a text."""
        return {name: model for name, model in self.models.items() if model.kind == "causal"}

    @cached_property
    def used_models(self) -> Mapping[str, ModelConfig]:
        """The models with results: those with checks, or all with the section `topk`."""
        return {
            name: model
            for name, model in self.distribution_models.items()
            if self.prompts is not None or self.checks_of(name)
        }

    @property
    def table2(self) -> tuple[TableRow, ...]:
        """The rows of Table II, in order."""
        return self.experiments.table2

    @property
    def figure4(self) -> tuple[Check, ...]:
        """The checks of Figure 4; empty without the section `figure4`."""
        return self.experiments.figure4

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """All checks of the run, without duplicates."""
        return tuple(dict.fromkeys([*(row.check for row in self.table2), *self.figure4]))

    @cached_property
    def bounded_checks(self) -> tuple[Check, ...]:
        """The checks on trees, without duplicates."""
        return tuple(check for check in self.checks if check.is_bounded)

    def trees(self, model: str) -> tuple[TreeSpec, ...]:
        """Return all trees of a model without duplicates, the longest texts first.

        The shorter trees then find most of their distributions in the cache.
        """
        return tuple(dict.fromkeys(check.tree for check in self.bounded_checks_of(model)))

    def answered_checks(self, model: str) -> tuple[tuple[Check, Budget], ...]:
        """Return the checks of a model with answers and their budgets, grouped by tree."""
        answers = self.experiments.answers
        return tuple((c, answers[c]) for c in self.checks_of(model) if c in answers)

    def checks_of(self, model: str) -> tuple[Check, ...]:
        """Return all checks of a model without duplicates, grouped by tree.

        The checks of the longest texts are first.
        """
        checks = [check for check in self.checks if check.tree.model == model]
        # A stable sort keeps the order of the file among trees of one length.
        trees = sorted(
            dict.fromkeys(check.tree for check in checks), key=lambda tree: -tree.truncation.length
        )
        # Checks are grouped by tree so that a job reads each tree only once.
        return tuple(sorted(checks, key=lambda check: trees.index(check.tree)))

    def bounded_checks_of(self, model: str) -> tuple[Check, ...]:
        """Return the checks on a model's trees without duplicates, grouped by tree."""
        return tuple(check for check in self.checks_of(model) if check.is_bounded)

    def quantifiers_of(self, tree: TreeSpec) -> tuple[str, ...]:
        """Return the names of the quantifiers in the queries on a tree, sorted."""
        names = {name for c in self.checks if c.tree == tree for name in quantifiers_in(c.query)}
        return tuple(sorted(names))

    def scores_of(self, model: str) -> tuple[tuple[TreeSpec, str], ...]:
        """Return all pairs of a model's tree and a quantifier in the queries on it."""
        return tuple((t, name) for t in self.trees(model) for name in self.quantifiers_of(t))

    def used_quantifiers(self, model: str) -> Mapping[str, Quantifier]:
        """Return the quantifiers in the queries on a model, by name, sorted."""
        names = {name for check in self.checks_of(model) for name in quantifiers_in(check.query)}
        return {name: self.quantifiers[name] for name in sorted(names)}

    def chains_of(self, model: str) -> tuple[Check, ...]:
        """Return one check for each chain of a model.

        Queries on one tree with the same quantifiers share a chain.
        """
        checks = {paths.chain_file(c, "prism"): c for c in self.bounded_checks_of(model)}
        return tuple(checks.values())

    def shard_files(self, tree: TreeSpec) -> list[str]:
        """Return the files of a tree's shards; empty if one job builds the tree."""
        return paths.shard_files(tree, self.experiments.shards.get(tree, 0))

    @cached_property
    def suite_files(self) -> list[str]:
        """The files with the results of each suite and model."""
        return [
            paths.suite_file(name, model)
            for name, suite in self.suites.items()
            for model in suite.models or ()
        ]

    def suite_shard_files(self, name: str, model: str) -> list[str]:
        """Return the files of the shards of a suite; empty if one job decides all cases."""
        count = self.suites[name].shards
        return paths.suite_shard_files(name, model, count) if count > 1 else []

    def answer_files(self, checks: Iterable[Check]) -> list[str]:
        """Return the files of the answers of those checks that have one."""
        return [paths.answer_file(c) for c in checks if c in self.experiments.answers]


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings at every depth; values of `new` override old values."""
    # Lists and single values are replaced as a whole.
    merged_values = {
        key: _merge(old[key], value)
        for key, value in new.items()
        if isinstance(value, Mapping) and isinstance(old.get(key), Mapping)
    }
    return {**old, **new, **merged_values}


def _parse_prompts(
    prompts: PromptsConfig | None, models: Mapping[str, ModelConfig]
) -> PromptsConfig | None:
    if prompts is None:
        return None
    for model in models.values():
        check_listed_tokens("topk.maximum_k", prompts.maximum_k, model)
    with prefix_errors("topk.source"):
        parse_source(prompts.source)
    with prefix_errors("topk"):
        _ = prompts.dataset  # raises if the keys contradict each other
    return prompts


def _parse_suites(
    suites: Mapping[str, SuiteEntry], models: Mapping[str, ModelConfig]
) -> dict[str, SuiteEntry]:
    """Return the suites with the names of their models."""
    for suite_name, suite in suites.items():
        for number, name in enumerate(suite.models or ()):
            check_name(f"suites.{suite_name}.models[{number}]", name, models, "model")
    return {
        name: suite.model_copy(update={"models": suite.models or tuple(models)})
        for name, suite in suites.items()
    }
