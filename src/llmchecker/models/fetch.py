"""Model directories of every source: weights from a hub or a file, and models on servers.

The client of servers is imported only for a model on a server, because its packages are optional.
"""

from pathlib import Path

from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.checkpoints import ModelSource, ensure_checkpoint, fetch_checkpoint
from llmchecker.utils.optional_packages import explain_missing_packages


def fetch_model(
    source: ModelSource | ServerSource, directory: str | Path, lock: str | Path | None = None
) -> None:
    """Create a model directory from weights or, for a served model, from its server.

    Raises:
        SourceError: the model cannot be fetched.
        MissingTool: the model is on a server, and the packages for servers are not installed.
    """
    if isinstance(source, ServerSource):
        with explain_missing_packages():
            from llmchecker.models.servers.connection import fetch_served_model

        fetch_served_model(source, directory)
    else:
        fetch_checkpoint(source, directory, lock=lock)


def ensure_model(
    source: ModelSource | ServerSource, directory: str | Path, lock: str | Path
) -> None:
    """Fetch a model if its directory is absent; otherwise check its record.

    Raises:
        SourceError: the model is absent and cannot be fetched.
        ConfigError: the directory contains another model, or one with other settings.
        DamagedFile: the record of the model's source is damaged.
        MissingTool: the model is on a server, and the packages for servers are not installed.
    """
    if isinstance(source, ServerSource):
        with explain_missing_packages():
            from llmchecker.models.servers.connection import ensure_served_model

        ensure_served_model(source, directory)
    else:
        ensure_checkpoint(source, directory, lock)
