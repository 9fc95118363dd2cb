"""What a run needs of this machine, looked at before its first job: local sources, and folders."""

from collections.abc import Iterable
from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.checks import TreeSpec
from llmchecker.config.configuration import Config, PromptsConfig
from llmchecker.config.models import ModelConfig
from llmchecker.config.validation import at_key
from llmchecker.deployed.chat import chat_tokens
from llmchecker.deployed.decoding import AS_PUBLISHED, Decoding
from llmchecker.errors import ConfigError, LLMCheckerError, UnusableModel
from llmchecker.fetching.datasets import columns_of_local
from llmchecker.fetching.model_files import MODEL_CONFIG
from llmchecker.fetching.prompts import demand_column
from llmchecker.files import demand_writable, read_json
from llmchecker.loading.tokenizers import load_tokenizer


def demand_inputs(config: Config) -> None:
    """Check that the models and prompts that are to come from this machine are there.

    What was fetched already needs its source no more. Where the files of a model are there, they
    must have what its decoding names, and a chat template for the messages that it is to answer.

    Raises:
        ConfigError: a model or the prompts are absent, a model has no chat template, a decoding is
            none for a model, or the prompts are no table with the column and the rows that the
            configuration names.
        UnusableText: a chat template does not take the messages.
    """
    for model in config.models.values():
        source = model.source.source
        fetched = Path(paths.model_directory(model.name)).exists()
        if source.scheme == "path" and not fetched and not source.path.exists():
            raise ConfigError(f"models.{model.name}.source: {source.path} does not exist")
    _demand_templates(config)
    _demand_decodings(config)
    if config.prompts is not None and config.prompts.dataset.source.scheme == "path":
        _demand_prompts(config.prompts)


def demand_folders(models: Iterable[str]) -> None:
    """Check that a run can write what it makes.

    Args:
        models: those that the run needs. Where all of them were fetched, their folder may be one
            that can only be read.

    Raises:
        MachineLimit: a folder cannot be written.
    """
    demand_writable("results")
    demand_writable(".snakemake")
    for directory in map(Path, map(paths.model_directory, models)):
        if not directory.exists():
            demand_writable(directory.parent)


def _demand_templates(config: Config) -> None:
    """Check that models which are to answer messages can do that, as far as is known now."""
    asked: dict[Path, list[TreeSpec]] = {}
    for check in config.checks:
        tree = check.tree
        if isinstance(config.start_strings[tree.start], str):
            continue
        model = config.models[tree.model]
        directory = _known_directory(model)
        if model.kind == "masked":
            reason = "is a masked model, which answers no messages"
        elif directory is not None and not _has_template(directory):
            reason = f"has no chat template: there is none in {directory}"
        else:
            if directory is not None:
                asked.setdefault(directory, []).append(tree)
            continue
        raise ConfigError(
            f"start_strings.{tree.start}: these are messages, and models.{model.name} {reason}; "
            "an experiment may name the models that it asks"
        )
    for directory, trees in asked.items():
        try:
            tokenizer = load_tokenizer(directory)
        except UnusableModel:
            continue  # which is told where the model is loaded
        for start, model in dict.fromkeys((tree.start, tree.model) for tree in trees):
            with at_key(f"start_strings.{start}"):
                chat_tokens(tokenizer, config.start_strings[start], f"models.{model}")


def _demand_decodings(config: Config) -> None:
    """Check that models can be decoded as they are to be, as far as is known now."""
    for tree in dict.fromkeys(check.tree for check in config.checks):
        model = config.models[tree.model]
        key, asked = f"models.{model.name}.decoding", model.decoding
        if tree.decoding is not None:
            key, asked = f"experiments: the decoding after {tree.start!r}", tree.decoding
        directory = _known_directory(model)
        if directory is None or not asked:
            continue
        with at_key(key):
            if isinstance(asked, Decoding):
                if (directory / MODEL_CONFIG).is_file():
                    described = read_json(directory / MODEL_CONFIG)
                    tokens = described.get("text_config", described).get("vocab_size")
                    if tokens is not None:
                        asked.require_tokens(tokens, frozenset())
            else:
                # Imported here: it loads torch, for which other runs need not wait.
                from llmchecker.deployed.logits import demand_published

                with at_key(AS_PUBLISHED):
                    demand_published(directory)


def _known_directory(model: ModelConfig) -> Path | None:
    """The directory that holds the files of a model; None where it is not there yet."""
    fetched = Path(paths.model_directory(model.name))
    if not fetched.exists() and model.source.source.scheme == "path":
        fetched = model.source.source.path
    return fetched if fetched.is_dir() else None  # a path may lead to a GGUF file


def _has_template(directory: Path) -> bool:
    """Whether there is a chat template in the directory of a model."""
    settings = directory / "tokenizer_config.json"
    written = read_json(settings) if settings.is_file() else {}
    return (directory / "chat_template.jinja").is_file() or bool(written.get("chat_template"))


def _demand_prompts(prompts: PromptsConfig) -> None:
    source = prompts.dataset.source
    if not source.path.exists():
        if not Path(paths.PROMPTS_FILE).exists():
            raise ConfigError(f"topk.source: {source.path} does not exist")
        return
    try:
        columns = columns_of_local(prompts.dataset)
    except LLMCheckerError as error:
        raise type(error)(f"topk: {error}") from error
    demand_column(prompts.column, columns, f"topk.column: {source}")
