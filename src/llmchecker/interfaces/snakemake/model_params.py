"""Params of rules for models and their decodings as plain values.

Snakemake detects changes of plain values between runs, but not of other objects. Therefore the
rules describe models by text, numbers, lists and dicts, and the scripts parse them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmchecker.models.decoding.settings import AS_PUBLISHED, Decoding, DecodingChoice
from llmchecker.trees.distribution_cache import DistributionCache


def describe_decoding(decoding: DecodingChoice) -> dict[str, Any] | str | None:
    """Describe a decoding: {} for settings without effect, None for no settings."""
    return decoding.settings if isinstance(decoding, Decoding) else decoding


def parse_decoding_param(described: Mapping[str, Any] | str | None) -> DecodingChoice:
    """Parse the description of `describe_decoding`."""
    if described is None:
        return None
    return AS_PUBLISHED if described == AS_PUBLISHED else Decoding.from_settings(described)


def parse_model_params(settings: Mapping[str, Any], directory: str, threads: int) -> dict[str, Any]:
    """Parse the settings of a model to the arguments of a `LazyModel`.

    Args:
        settings: the fields of a `LazyModel` in the configuration. `cache` has the directory and
            the bytes of the cache, and `decoding` has the form of `describe_decoding`.
        directory: the directory of the model.
        threads: number of CPU threads.
    """
    cache = DistributionCache(Path(settings["cache"]["directory"]), settings["cache"]["bytes"])
    decoding = parse_decoding_param(settings["decoding"])
    arguments = {
        "directory": Path(directory),
        "threads": threads,
        "cache": cache,
        "decoding": decoding,
    }
    return {**settings, **arguments}
