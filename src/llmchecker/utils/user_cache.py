"""The cache folder of the user, whose files serve all projects on this machine."""

from pathlib import Path

import platformdirs


def find_user_cache() -> Path:
    """Return the cache folder, such as `~/.cache/llmchecker`; it may be absent."""
    return platformdirs.user_cache_path("llmchecker")
