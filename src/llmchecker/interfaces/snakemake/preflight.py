"""Checks of local sources and folders before the first job of a run."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.keys import PromptsConfig
from llmchecker.config.models import ModelConfig
from llmchecker.config.project import DEFAULT_CONFIG
from llmchecker.errors import ChecksumMismatch, ConfigError, UnusableModel, prefix_errors
from llmchecker.models.decoding.chat_template import Chat, encode_chat
from llmchecker.models.decoding.settings import AS_PUBLISHED, Decoding
from llmchecker.models.sources.datasets import read_local_columns
from llmchecker.models.sources.model_directory import MODEL_CONFIG, has_chat_template
from llmchecker.models.sources.prompt_set import check_column
from llmchecker.models.transformers.tokenizer import load_tokenizer
from llmchecker.properties.quantifier_state import check_quantifiers
from llmchecker.suites.cases import Suite
from llmchecker.suites.load import load_suite
from llmchecker.utils.atomic_files import check_writable, describe_kind, read_json

_CHECKED_ROWS = 1_000
"""Number of rows of a table that are checked before the first job."""
_planned_suites: dict[tuple[int, str, str], tuple[Config, Suite]] = {}
"""Suites by the id of their configuration, their file and their model."""

_RUN_VARIABLE = "LLMCHECKER_RUN"
"""Environment variable with the state of the run to which a job belongs."""


def check_inputs(config: Config) -> None:
    """Check that the local sources of models and prompts exist and are usable.

    A fetched model or prompt set does not need its source. The files of a model, if present, must
    support its decoding. For messages in its experiments, they must contain a chat template.

    Raises:
        ConfigError: a model or the prompts are absent, or a model lacks a chat template or does not
            support its decoding; or the prompts lack the configured column or rows.
        UnusableText: a chat template rejects the messages.
    """
    for model in config.models.values():
        source = model.origin
        is_fetched = Path(paths.model_directory(model.name)).exists()
        if source.scheme != "path" or is_fetched or source.path.is_dir() or source.path.is_file():
            continue
        kind = describe_kind(source.path)
        raise ConfigError(
            f"models.{model.name}.source: {source.path} is {kind}; name a model's directory"
        )
    _check_templates(config)
    _check_decodings(config)
    for name, suite in config.suites.items():
        for model_name in suite.models or ():
            with prefix_errors(f"suites.{name}.file"):
                load_planned_suite(config, suite.file, model_name)
    if config.prompts is not None and config.prompts.dataset.source.scheme == "path":
        _check_prompts(config.prompts)


def load_planned_suite(config: Config, file: str, model: str) -> Suite:
    """Load a suite once, and check the first rows of its tables; each job checks its own.

    Args:
        config: the configuration.
        file: the suite file.
        model: name of the model that answers.

    Raises:
        LLMCheckerError: as in `load_suite`.
    """
    # a configuration has no hash; it is kept, so that no other one has its id
    key = id(config), file, model
    if key not in _planned_suites:
        suite = load_suite(
            file,
            models=[model],
            config=config,
            select=lambda suite: [case for case in suite.cases if case.row <= _CHECKED_ROWS],
        )
        _planned_suites[key] = config, suite
    return _planned_suites[key][1]


def check_directory(checkout: Path) -> None:
    """Check that a run without a named configuration is in the folder of one.

    Args:
        checkout: the folder of the workflow.

    Raises:
        ConfigError: it is in another folder.
    """
    if not Path(DEFAULT_CONFIG).is_file():
        raise ConfigError(
            f"{Path.cwd()}: no {DEFAULT_CONFIG} here; name the folder of one, such as "
            f"--directory {checkout}"
        )


def begin_run(config_sha256: str, states: Mapping[str, Mapping[str, str]]) -> None:
    """Pass on the state of a run to its jobs, which read the workflow and its files again.

    Args:
        config_sha256: checksum of the configuration.
        states: the state of each quantifier by model and name.
    """
    state = {"config": config_sha256, "quantifiers": states}
    os.environ[_RUN_VARIABLE] = json.dumps(state)


def check_run(config: Config, states: Mapping[str, Mapping[str, str]]) -> None:
    """Check that a job reads what its run began with.

    Results of a run would otherwise be of several configurations or quantifiers.

    Args:
        config: the configuration that the job read.
        states: the state of each quantifier by model and name.

    Raises:
        ChecksumMismatch: the configuration or a file of a quantifier changed.
    """
    # a job that was started by hand
    if (state := os.environ.get(_RUN_VARIABLE)) is None:
        return
    began = json.loads(state)
    if config.sha256 != began["config"]:
        raise ChecksumMismatch(
            "config: the configuration changed during the run; run the same command again"
        )
    for model, expected in began["quantifiers"].items():
        if states[model] != expected:
            check_quantifiers(expected, config.quantifiers)


def check_folders(models: Iterable[str]) -> None:
    """Check that a run can write to its folders.

    Args:
        models: names of the models of the run. If all of them were fetched, their folder may be
            read-only.

    Raises:
        MachineLimit: a folder is not writable.
    """
    check_writable("results")
    check_writable(".snakemake")
    for directory in map(Path, map(paths.model_directory, models)):
        if not directory.exists():
            check_writable(directory.parent)


def _check_templates(config: Config) -> None:
    """Check that models with messages to answer have a usable chat template."""
    chats_by_directory: dict[Path, dict[tuple[str, str], Chat]] = {}
    for check in config.checks:
        tree = check.tree
        chat = config.start_strings[tree.start]
        # A plain text needs no chat template.
        if isinstance(chat, str):
            continue
        model = config.models[tree.model]
        directory = _find_model_directory(model)
        if model.kind == "masked":
            reason = "is a masked model, which answers no messages"
        elif directory is not None and not has_chat_template(directory):
            reason = f"has no chat template: there is none in {directory}"
        else:
            if directory is not None:
                chats = chats_by_directory.setdefault(directory, {})
                chats[tree.start, tree.model] = chat
            continue
        raise ConfigError(
            f"start_strings.{tree.start}: these are messages, and models.{model.name} {reason}; "
            "an experiment may name the models that it asks"
        )
    # Each tokenizer is loaded once for all chats of its model.
    for directory, chats in chats_by_directory.items():
        try:
            tokenizer = load_tokenizer(directory)
        except UnusableModel:
            continue  # the job that loads the model reports the error
        for (start, model_name), chat in chats.items():
            with prefix_errors(f"start_strings.{start}"):
                encode_chat(
                    tokenizer, chat, f"models.{model_name}", config.models[model_name].template
                )


def _check_decodings(config: Config) -> None:
    """Check that the decodings apply to their models, if the models are present."""
    for tree in dict.fromkeys(check.tree for check in config.checks):
        model = config.models[tree.model]
        key, decoding = f"models.{model.name}.decoding", model.decoding
        if tree.decoding is not None:
            key, decoding = f"experiments: the decoding after {tree.start!r}", tree.decoding
        directory = _find_model_directory(model)
        # A model that is not fetched yet is checked by its job.
        if directory is None or not decoding:
            continue
        with prefix_errors(key):
            if isinstance(decoding, Decoding):
                if (directory / MODEL_CONFIG).is_file():
                    model_config = read_json(directory / MODEL_CONFIG)
                    # Some models describe their text part in a section of its own.
                    tokens = model_config.get("text_config", model_config).get("vocab_size")
                    if tokens is not None:
                        decoding.check_tokens(tokens, frozenset())
            else:
                # Imported here, because it loads torch, which only these runs need.
                from llmchecker.models.decoding.logits_processor import check_published_decoding

                with prefix_errors(AS_PUBLISHED):
                    check_published_decoding(directory)


def _find_model_directory(model: ModelConfig) -> Path | None:
    """Return the directory with the files of a model; None if they are absent."""
    directory = Path(paths.model_directory(model.name))
    if not directory.exists() and model.origin.scheme == "path":
        directory = model.origin.path
    return directory if directory.is_dir() else None  # a path may lead to a GGUF file


def _check_prompts(prompts: PromptsConfig) -> None:
    source = prompts.dataset.source
    if not source.path.exists():
        # Fetched prompts do not need their source.
        if not Path(paths.PROMPTS_FILE).exists():
            raise ConfigError(
                f"topk.source: {source.path} is {describe_kind(source.path)}; name a CSV file"
            )
        return
    with prefix_errors("topk"):
        columns = read_local_columns(prompts.dataset)
    check_column(prompts.column, columns, f"topk.column: {source}")
