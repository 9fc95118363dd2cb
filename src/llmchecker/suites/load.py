"""Loading of suites: the file, its configuration, its deployments and its cases."""

import contextlib
import gc
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmchecker import __version__
from llmchecker.checking.measurement import Threshold
from llmchecker.config.deployment import Deployment, GivenModel, resolve_deployment
from llmchecker.config.judges import list_judge_models
from llmchecker.config.models import ModelConfig, check_prices
from llmchecker.config.project import DEFAULT_CONFIG
from llmchecker.config.question import build_model_budget
from llmchecker.config.registry import Registry
from llmchecker.config.yaml_reader import YamlFile
from llmchecker.errors import (
    ConfigError,
    LLMCheckerError,
    UnknownName,
    did_you_mean,
    name_arguments,
    prefix_errors,
)
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.models.decoding.settings import GREEDY
from llmchecker.models.servers.settings import SERVER_FILE
from llmchecker.models.sources.local_files import learn_local_files
from llmchecker.suites.case_builder import CaseBuilder
from llmchecker.suites.cases import Average, Case, Suite
from llmchecker.suites.conversations import describe_turns
from llmchecker.suites.deployments import RowDeployments
from llmchecker.suites.matrix import list_alternatives
from llmchecker.suites.quantifier_pool import QuantifierPool
from llmchecker.suites.suite_file import RunKeys, SuiteKeys, read_suite_file, replace_keys
from llmchecker.suites.templates import Row, insert_columns, list_columns
from llmchecker.suites.tools import needs_tools
from llmchecker.suites.verdicts import parse_threshold
from llmchecker.utils.file_state import compute_checksums


def load_suite(
    path: str | Path,
    *,
    models: Sequence[GivenModel] = (),
    models_place: str = "models",
    config: str | Path | Registry | None = None,
    has_baseline: bool = False,
    is_measuring: bool = False,
    changes: RunKeys | None = None,
    select: Callable[[Suite], Iterable[Case]] = lambda suite: suite.cases,
) -> Suite:
    """Load a suite and check it, without loading a model.

    Args:
        path: the suite file.
        models: models in place of the suite's, as in `resolve_deployment`.
        models_place: the argument or the option with these models, for messages.
        config: the configuration in place of the suite's, as a file or as read in this folder.
        has_baseline: whether stored results take the place of the deployment in `versus`.
        is_measuring: as in `SuiteRun`.
        changes: keys in place of the suite's.
        select: returns the cases to check besides the representatives, by default all.

    Raises:
        LLMCheckerError: a key, a row or a model is invalid; the message contains file and line.
    """
    path = Path(path).absolute()
    file, keys = read_suite_file(path)
    if changes is not None:
        keys = replace_keys(keys, changes)
    registry = _read_config(file, keys.config, config)
    try:
        return _SuiteBuilder(
            file, keys, tuple(models), models_place, registry, has_baseline, is_measuring, select
        ).build()
    except LLMCheckerError as error:
        message = str(error)
        # a model in place of the suite's is not in the file
        if message.startswith(f"{models_place}: "):
            raise
        raise type(error)(file.add_location(message)) from error


@dataclass(frozen=True)
class _SuiteBuilder:
    """A builder of the suite of a file.

    Attributes:
        file, keys: the file and its keys.
        models: models in place of the suite's; empty for none.
        models_place: as in `load_suite`.
        registry: the configuration.
        has_baseline, is_measuring, select: as in `load_suite`.
    """

    file: YamlFile
    keys: SuiteKeys
    models: tuple[GivenModel, ...]
    models_place: str
    registry: Registry
    has_baseline: bool
    is_measuring: bool
    select: Callable[[Suite], Iterable[Case]]

    def build(self) -> Suite:
        """Build the suite."""
        file, keys, registry = self.file, self.keys, self.registry
        folder = file.path.parent
        variants = self._build_matrix()
        versus = None if self.has_baseline else self._resolve_versus()
        pool = QuantifierPool(registry, keys.properties or {}, folder)
        # paths in the settings of a configuration are relative to the project
        with contextlib.chdir(registry.project), _pause_collections():
            _check_properties(pool, keys.has_tables)
            builder = CaseBuilder(pool, keys, folder, file.find_line)
            cases, averages = _build_cases(
                keys, builder, variants if versus is None else [*variants, versus]
            )
            suite = Suite(
                path=file.path,
                name=file.path.name.partition(".")[0] or file.path.name,
                project=registry.project,
                expansion=registry.expansion,
                deployments=tuple(each.deployment for each in variants),
                versus=None if versus is None else versus.deployment,
                cases=cases,
                averages=averages,
                differences={},
                confidence=keys.confidence,
                seed=keys.seed,
                digest="",
                quantifier_files=pool.files,
                max_tokens=keys.budget.tokens,
                max_dollars=keys.budget.dollars,
            )
            # too many intervals for the confidence are an error before any question is built
            builder.confidence = suite.case_confidence
            for case in (*suite.representatives, *self.select(suite)):
                case.build()
            deployments = list_deployments(suite)
            checksums = {
                deployment.model: _hash_model_files(deployment.model) for deployment in deployments
            }
            models = [deployment.model for deployment in deployments]
            _check_limits(keys, models, list_judge_models(pool.judges))
            check_prices(
                "budget.dollars", [*models, *list_judge_models(pool.judges)], keys.budget.dollars
            )
            return replace(
                suite,
                differences=_parse_differences(keys, suite),
                digest=self._compute_digest(suite, builder.row_digests, checksums),
                model_files={path: each[path] for each in checksums.values() for path in each},
                weights=_compute_weights(deployments, checksums),
            )

    def _build_matrix(self) -> list[RowDeployments]:
        """Find the models of the suite, and combine each with each system prompt."""
        key = self.models_place if self.models else "model"
        names: Sequence[GivenModel] = self.models or self.keys.model
        if not names:
            raise ConfigError(
                f"suite: the key 'model' is missing; add it, or give {self.models_place}"
            )
        models = [self._resolve(key, name, None, self.keys.explicit_keys) for name in names]
        labels = [each.deployment.name for each in models]
        if len(set(labels)) < len(labels):
            raise ConfigError(f"{key}: {', '.join(labels)} has a model twice; remove one")
        systems = list_alternatives("system", self.keys.system, "system")
        variants = [model.add_alternative(system) for model in models for system in systems]
        labels = [each.deployment.name for each in variants]
        # a name may have a comma
        if len(set(labels)) < len(labels):
            raise ConfigError(f"system: {', '.join(labels)} has a name twice; rename one")
        return variants

    def _resolve(
        self,
        key: str,
        name: GivenModel,
        system: str | None,
        explicit_keys: Mapping[str, Any],
        suffix: str = "",
        **options: str,
    ) -> RowDeployments:
        """Find the model of a name, with a decoding that may have columns.

        Args:
            key, name, system: as in `resolve_deployment`.
            explicit_keys: keys with or without those of `OutputKeys`.
            suffix: the end of the deployment's name.
            options: as in `RowDeployments`.
        """
        decoding = explicit_keys.get("decoding")
        has_columns = self.keys.has_tables and bool(list_columns(decoding))
        folder = self.file.path.parent
        deployment = resolve_deployment(
            key,
            name,
            self.registry,
            folder=folder,
            system=system,
            # the model must support a decoding, whatever it is
            decoding={"decoding": GREEDY} if has_columns else explicit_keys,
            template=explicit_keys.get("template"),
            reading=explicit_keys,
        )
        deployment = replace(deployment, name=f"{deployment.name}{suffix}")
        return RowDeployments(deployment, decoding if has_columns else None, folder, **options)

    def _compute_digest(
        self,
        suite: Suite,
        row_digests: Sequence[str],
        model_files: Mapping[ModelConfig, Mapping[Path, str]],
    ) -> str:
        """Compute the sha256 of what determines the results, but for quantifiers' files.

        Representatives have all that no cell contains.
        """
        digest = hashlib.sha256()

        def add(content: Any) -> None:
            digest.update(json.dumps(content, sort_keys=True, default=str).encode() + b"\n")

        # a comparison and a measurement change how thresholds are checked
        is_measuring = self.has_baseline or self.is_measuring
        add([__version__, suite.confidence, suite.seed, is_measuring, row_digests])
        # each added case makes the share of the others in the confidence smaller
        add([case.name for case in suite.cases])
        deployments = list_deployments(suite)
        for deployment in deployments:
            files = model_files[deployment.model]
            add([deployment.describe(), sorted((path.name, files[path]) for path in files)])
        numbers = {each.key: number for number, each in enumerate(deployments)}
        for case in suite.representatives:
            question, number = case.question, numbers[case.deployment.key]
            named = question.asked.quantifiers.items()
            quantifiers = {name: repr(quantifier) for name, quantifier in named}
            settings = {name: (self.keys.properties or {}).get(name) for name in quantifiers}
            limits = {"passes": question.budget.passes, "seconds": question.budget.seconds}
            if case.deployment.model.is_text_only:
                limits["answers"] = question.budget.answers
            budget = {name: limit for name, limit in limits.items() if limit is not None}
            add([case.name, number, start_as_json(question.prompt), question.query.text])
            add([] if question.conversation is None else describe_turns(question.conversation))
            add([quantifiers, question.length, budget])
            # the columns of their settings
            add(settings if case.row else {})
        for average in suite.averages:
            statistic = average.statistic
            about = [statistic.scope, str(statistic.figure), statistic.column]
            about += [str(statistic.truth)] if statistic.truth else []
            add([average.name, str(average.threshold), about])
        return digest.hexdigest()

    def _resolve_versus(self) -> RowDeployments | None:
        """Find the deployment to compare with; None without one."""
        keys, versus = self.keys, self.keys.versus
        if versus is None:
            return None
        if not versus.explicit_keys.keys() - {"require"}:
            raise ConfigError(
                "versus: nothing differs; name a model, or give results by --baseline"
            )
        names: Sequence[GivenModel] = self.models or keys.model
        # of several models none is the obvious one
        if versus.model is None and len(names) > 1:
            raise ConfigError("versus: the suite has several models; name one by `model`")
        # other stops are not included by default
        inclusion: dict[str, Any] = {} if versus.stop is None else {"include_stop": None}
        has_system, has_decoding = versus.system is not None, versus.decoding is not None
        systems = list_alternatives("system", keys.system, "system")
        if not has_system and len(systems) > 1:
            raise ConfigError("versus: the suite has several system prompts; write one as `system`")
        with prefix_errors("versus"):
            return self._resolve(
                "model",
                versus.model or names[0],
                versus.system if has_system else systems[0].content,
                keys.explicit_keys | inclusion | versus.explicit_keys,
                suffix=" (versus)",
                system_key="versus.system" if has_system else "system",
                decoding_key="versus.decoding" if has_decoding else "decoding",
            )


def _check_limits(
    keys: SuiteKeys, models: Sequence[ModelConfig], judges: Sequence[ModelConfig]
) -> None:
    """Check that each limit of a suite and of its cases has an effect on a model or a judge.

    Raises:
        ConfigError: a limit has none.
    """
    accesses = [(model.name, model.is_text_only) for model in models]
    places = {"": keys.budget} | {
        f"cases[{number}].": entry.budget for number, entry in enumerate(keys.cases) if entry.budget
    }
    for place, budget in places.items():
        with name_arguments(f"{place}budget."):
            build_model_budget(
                accesses,
                has_paid_judge=any(judge.is_text_only for judge in judges),
                **budget.explicit_keys,
            )


@contextlib.contextmanager
def _pause_collections() -> Iterator[None]:
    """Pause garbage collections in the block, where the objects of all rows stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read_config(file: YamlFile, name: str | None, given: str | Path | Registry | None) -> Registry:
    """Read the registry of a suite's configuration; it is empty without one.

    Args:
        file: the suite file.
        name: the configuration that the suite names; None for the nearest one.
        given: the configuration in place of the suite's, as in `load_suite`.
    """
    if isinstance(given, Registry):
        return given
    if given is not None:
        return Registry.read(given)
    folder = file.path.parent
    if name is None:
        return find_registry(folder)
    path = folder / name
    # an error inside of the configuration has its own file and line
    if not path.is_file():
        raise ConfigError(file.add_location(f"config: {path} is absent; name a configuration"))
    return Registry.read(path)


def find_registry(folder: Path) -> Registry:
    """Read the configuration in a folder or the nearest one above it; empty without one."""
    candidates = (parent / DEFAULT_CONFIG for parent in (folder, *folder.parents))
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    # a suite of directories needs no configuration
    return Registry(project=folder) if found is None else Registry.read(found)


def _check_properties(pool: QuantifierPool, has_tables: bool) -> None:
    """Check the suite's quantifiers; those with columns are checked with each row."""
    for name, settings in pool.properties.items():
        # each case has its own tools
        if needs_tools(name, settings):
            continue
        with prefix_errors(f"properties.{name}"):
            if has_tables:
                try:
                    settings = insert_columns(settings, Row())
                except UnknownName:
                    continue
            pool.create(name, settings)


def _build_cases(
    keys: SuiteKeys, builder: CaseBuilder, deployments: Sequence[RowDeployments]
) -> tuple[tuple[Case, ...], tuple[Average, ...]]:
    """Name the cases, those of a deployment in a row, and the averages."""
    cases: list[Case] = []
    averages: list[Average] = []
    entries: dict[str, int] = {}
    for number, entry in enumerate(keys.cases):
        entry_cases, entry_averages = builder.build(number, entry, deployments)
        names = dict.fromkeys(case.entry for case in entry_cases)
        for name in names:
            if name in entries:
                raise ConfigError(
                    f"cases[{number}].name: {name!r} is also the name of cases[{entries[name]}]; "
                    "rename one"
                )
        entries |= dict.fromkeys(names, number)
        cases += entry_cases
        averages += entry_averages
    # one model with one decoding is in memory at a time
    labels = [each.deployment.name for each in deployments]
    found = {id(case.deployment): case.deployment for case in cases}
    order = {key: number for number, key in enumerate(dict.fromkeys(d.key for d in found.values()))}
    places = {number: (labels.index(each.name), order[each.key]) for number, each in found.items()}
    cases.sort(key=lambda case: places[id(case.deployment)])
    return tuple(cases), tuple(averages)


def _parse_differences(keys: SuiteKeys, suite: Suite) -> Mapping[str, Threshold]:
    """Parse requirements such as `difference >= -0.02`."""
    if keys.versus is None or keys.versus.require is None:
        return {}
    labels = {average.label for average in suite.averages} | {
        case.label for case in suite.representatives if case.threshold is not None
    }
    differences = {}
    for label, text in keys.versus.require.items():
        key = f"versus.require.{label}"
        if label not in labels:
            hint = did_you_mean(label, labels) or ";"
            raise ConfigError(
                f"{key}: no average and no requirement has this name{hint} they are "
                f"{', '.join(sorted(labels))}"
            )
        prefix, _, threshold = text.strip().partition("difference")
        if prefix or not threshold:
            raise ConfigError(f"{key}: {text!r} is no difference; write difference >= -0.02")
        with prefix_errors(key):
            differences[label] = parse_threshold(threshold)
    return differences


def list_deployments(suite: Suite) -> list[Deployment]:
    """List the deployments and the models of simulated users, each once."""
    # a hundred thousand cases share few deployments, whose comparison takes longer than that of ids
    found = {id(case.deployment): case.deployment for case in suite.cases}
    deployments = {each.key: each for each in found.values()}
    conversations = [case.question.conversation for case in suite.representatives]
    users = (user for each in conversations if each is not None for user in each.simulated_users)
    return [*deployments.values(), *dict.fromkeys(user.model for user in users)]


def _compute_weights(
    deployments: Sequence[Deployment], model_files: Mapping[ModelConfig, Mapping[Path, str]]
) -> dict[str, str]:
    """Compute the sha256 of the files and settings of deployments in this process, by name."""
    contents: dict[str, list[Any]] = {}
    for each in deployments:
        # what a server or an application computes with is unknown
        if each.model.kind not in ("served", "texts"):
            files = sorted((path.name, sha256) for path, sha256 in model_files[each.model].items())
            # neither a name nor the place of files is a part of the model
            left_out = {"name", "source"} if files else {"name"}
            settings = {name: v for name, v in each.describe().items() if name not in left_out}
            contents.setdefault(each.name, []).append([settings, files])
    # the rows of a table may have several decodings
    texts = {
        name: sorted(json.dumps(each, sort_keys=True, default=str) for each in found)
        for name, found in contents.items()
    }
    return {
        name: hashlib.sha256("\n".join(each).encode()).hexdigest() for name, each in texts.items()
    }


def _hash_model_files(model: ModelConfig) -> dict[Path, str]:
    """Return the sha256 of each file of a local model; other sources have a checksum or a commit.

    Files that are unchanged since the model was fetched are not read.
    """
    files = model.source.local_files
    # a directory that a user names may be that of a served model
    if model.given_directory is not None and (model.given_directory / SERVER_FILE).is_file():
        files = {**files, SERVER_FILE: model.given_directory / SERVER_FILE}
    learn_local_files(model.directory, files)
    return compute_checksums({path.absolute(): path for path in files.values()})
