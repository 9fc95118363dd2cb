"""What a run needs of this machine, looked at before its first job: local sources, and folders."""

from collections.abc import Iterable
from pathlib import Path

from llmchecker.config import paths
from llmchecker.config.configuration import Config, PromptsConfig
from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.fetching.datasets import columns_of_local
from llmchecker.fetching.prompts import demand_column
from llmchecker.files import demand_writable, read_json


def demand_inputs(config: Config) -> None:
    """Check that the models and prompts that are to come from this machine are there.

    What was fetched already needs its source no more. It must have a chat template where it is to
    answer messages.

    Raises:
        ConfigError: a model or the prompts are absent, a model has no chat template, or the prompts
            are no table with the column and the rows that the configuration names.
    """
    for model in config.models.values():
        source = model.source.source
        fetched = Path(paths.model_directory(model.name)).exists()
        if source.scheme == "path" and not fetched and not source.path.exists():
            raise ConfigError(f"models.{model.name}.source: {source.path} does not exist")
    _demand_templates(config)
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
    """Check that models which are to answer messages are made for that, as far as is known now."""
    for check in config.checks:
        tree = check.tree
        if isinstance(config.start_strings[tree.start], str):
            continue
        model = config.models[tree.model]
        directory = Path(paths.model_directory(model.name))
        if not directory.exists() and model.source.source.scheme == "path":
            directory = model.source.source.path
        if model.kind == "masked":
            reason = "is a masked model, which answers no messages"
        elif directory.exists() and not _has_template(directory):
            reason = f"has no chat template: there is none in {directory}"
        else:
            continue
        raise ConfigError(
            f"start_strings.{tree.start}: these are messages, and models.{model.name} {reason}; "
            "an experiment may name the models that it asks"
        )


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
