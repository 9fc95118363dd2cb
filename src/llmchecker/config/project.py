"""The directory of a project, to which paths of a configuration are relative.

The module imports no large package, so that a command finds its project at once.
"""

from pathlib import Path

from llmchecker.errors import ConfigError
from llmchecker.utils.atomic_files import describe_kind

DEFAULT_CONFIG = "config.yaml"
"""Name of the configuration that commands use by default."""
MODELS_DIRECTORY = "resources/models"
"""The directory of all models, relative to the project."""

_WORKFLOW_FILE = "Snakefile"
"""Marker file of a checkout, which uses the workflow's paths."""


def find_project(config: Path) -> Path:
    """Return the nearest directory above a config with the workflow, or its own.

    Args:
        config: absolute path of the config.

    Raises:
        ConfigError: the config is not a file.
    """
    if not config.is_file():
        raise ConfigError(
            f"{config}: {describe_kind(config)}, not a configuration file; run llmchecker "
            f"next to {DEFAULT_CONFIG}, or name a configuration by --config"
        )
    projects = (directory for directory in config.parents if (directory / _WORKFLOW_FILE).is_file())
    return next(projects, config.parent)
