"""LoRA adapters of a model: their sources, and their files in the model directory.

    adapters.json                          the scales, in the order of the adapters
    adapters/1/adapter_config.json         the first adapter, as peft saves it
    adapters/1/adapter_model.safetensors

All are files of the model, so its checksums and fingerprints include them. This module does not
import peft, which takes seconds.
"""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from llmchecker.errors import ConfigError, SourceUnavailable, UnusableModel
from llmchecker.models.sources.downloads import check_hub_file, fetch_hub_snapshot
from llmchecker.models.sources.source_spec import Source, check_subfolder, parse_source
from llmchecker.models.sources.weight_sizes import read_weight_shapes
from llmchecker.utils.atomic_files import describe_kind, write_json
from llmchecker.utils.optional_packages import check_packages

ADAPTER_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_FILES = (ADAPTER_CONFIG, _WEIGHTS)
ADAPTERS_FILE = "adapters.json"
"""File of a model directory with the scales of its adapters; absent without any."""
_FOLDER = "adapters"

_LORA_SETTINGS = (
    *("r", "lora_alpha", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern"),
    *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
    "fan_in_fan_out",
)
"""Keys of adapter_config.json that determine what an adapter computes."""

_UNUSED_SETTINGS = frozenset(
    {
        # what the adapter is, and how it was trained
        *("peft_type", "task_type", "auto_mapping", "base_model_name_or_path", "revision"),
        *("peft_version", "inference_mode", "lora_dropout", "init_lora_weights", "bias"),
        # without effect unless another key, which is refused, has a value
        *("megatron_core", "qalora_group_size"),
    }
)
_KEPT_BASE = (None, True, False, "gaussian", "orthogonal", "eva")
"""Values of `init_lora_weights` that leave the weights of the model as they are."""


@dataclass(frozen=True)
class AdapterSource:
    """The source of an adapter and its scale.

    Attributes:
        source: a directory, or a repository of the hub at a commit.
        scale: factor of the adapter's contribution, in addition to its own `lora_alpha`.
        subfolder: the folder within it that has the adapter; empty for itself.

    Raises:
        ConfigError: the source has another form or no commit, or the scale is not finite.
    """

    source: Source
    scale: float = 1.0
    subfolder: str = ""

    def __post_init__(self) -> None:
        check_subfolder(f"adapter {self.source}", self.subfolder)
        if self.source.scheme not in ("path", "hf"):
            raise ConfigError(
                f"adapter {self.source}: not a directory or hf:owner/name@commit; name one of them"
            )
        if self.source.needs_lock:
            raise ConfigError(f"adapter {self.source}: no commit; add @commit")
        if not math.isfinite(self.scale):
            raise ConfigError(f"adapter {self.source}: scale {self.scale} is not finite")

    def __str__(self) -> str:
        place = f"{self.source}/{self.subfolder}" if self.subfolder else str(self.source)
        return place if self.scale == 1 else f"{place} x {self.scale}"

    @property
    def record(self) -> dict[str, Any]:
        """The source and the scale, as the record of the model directory contains them."""
        subfolder = {"subfolder": self.subfolder} if self.subfolder else {}
        return {"source": str(self.source), "scale": self.scale, **subfolder}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "AdapterSource":
        """Build the source of an adapter from its record."""
        subfolder = record.get("subfolder", "")
        return cls(parse_source(record["source"]), record["scale"], subfolder)


@dataclass(frozen=True)
class Adapter:
    """An adapter in a model directory.

    Attributes:
        name: name of the adapter in the network.
        settings: keys of its configuration that determine what it computes.
        base: name or path of the model for which it was trained, as peft saved it; empty without.
        weights: path of its weights.
        scale: as in `AdapterSource`.
    """

    name: str
    settings: Mapping[str, Any]
    base: str
    weights: Path
    scale: float


def find_adapter_files(adapters: Sequence[AdapterSource]) -> dict[str, Path]:
    """Return the files of adapters on this machine, by their names in the model directory."""
    return {
        f"{_FOLDER}/{number}/{name}": path
        for number, adapter in enumerate(adapters, 1)
        if adapter.source.scheme == "path"
        for name in _FILES
        if (path := adapter.source.path / adapter.subfolder / name).is_file()
    }


def fetch_adapters(adapters: Sequence[AdapterSource], directory: Path) -> None:
    """Add adapters to a model directory.

    Args:
        adapters: the adapters, in the order in which they are added.
        directory: path of the model directory.

    Raises:
        SourceUnavailable: an adapter cannot be reached.
        ChecksumMismatch: a file of the hub is damaged.
        UnusableModel: an adapter lacks a file.
        MissingTool: peft is not installed.
    """
    if not adapters:
        return
    check_packages("peft")
    for number, adapter in enumerate(adapters, 1):
        folder = directory / _FOLDER / str(number)
        folder.mkdir(parents=True)
        _fetch_adapter(adapter, folder)
    write_json({"scales": [adapter.scale for adapter in adapters]}, directory / ADAPTERS_FILE)


def read_adapters(directory: Path) -> list[Adapter]:
    """Read the configurations of the adapters in a model directory; empty without any.

    Raises:
        UnusableModel: a file is damaged, or an adapter has settings that are not supported.
    """
    if not (directory / ADAPTERS_FILE).is_file():
        return []
    content = _read_json(directory / ADAPTERS_FILE)
    scales = content.get("scales") if isinstance(content, dict) else None
    if not isinstance(scales, list) or not all(isinstance(s, int | float) for s in scales):
        raise UnusableModel(f"{ADAPTERS_FILE}: scales is no list of numbers; fetch the model again")
    return [
        _read_adapter(directory / _FOLDER / str(number), scale)
        for number, scale in enumerate(scales, 1)
    ]


def _fetch_adapter(adapter: AdapterSource, folder: Path) -> None:
    source, subfolder = adapter.source, PurePosixPath(adapter.subfolder)
    is_local = source.scheme == "path"
    if is_local:
        origin = source.path / subfolder
        if not origin.is_dir():
            kind = describe_kind(origin)
            raise SourceUnavailable(f"adapter {source}: {origin} is {kind}, not a directory")
    else:
        files = [str(subfolder / name) for name in _FILES]
        origin = fetch_hub_snapshot(source.name, source.revision, files) / subfolder
    for name in _FILES:
        if not (origin / name).is_file():
            raise UnusableModel(
                f"adapter {adapter}: {name} is missing; save the adapter with save_pretrained of "
                "peft, as safetensors"
            )
        if is_local:
            (folder / name).symlink_to((origin / name).resolve())
        else:
            shutil.copyfile(check_hub_file(origin / name), folder / name)


def _read_adapter(folder: Path, scale: float) -> Adapter:
    place = f"{_FOLDER}/{folder.name}/{ADAPTER_CONFIG}"
    config = _read_json(folder / ADAPTER_CONFIG)
    if not isinstance(config, dict):
        raise UnusableModel(f"{place}: not a JSON object")
    if config.get("peft_type") != "LORA":
        raise UnusableModel(
            f"{place}: peft_type is {config.get('peft_type')!r}, not 'LORA'; merge the adapter "
            "into its model and save the whole model"
        )
    for key in sorted(config.keys() - _UNUSED_SETTINGS - set(_LORA_SETTINGS)):
        # absent and empty values have no effect
        if config[key]:
            raise _build_error(place, key, config[key])
    if config.get("bias", "none") != "none":
        raise _build_error(place, "bias", config["bias"])
    if config.get("init_lora_weights") not in _KEPT_BASE:
        raise _build_error(place, "init_lora_weights", config["init_lora_weights"])
    _check_ranks(place, config, read_weight_shapes(folder / _WEIGHTS))
    settings = {key: config[key] for key in _LORA_SETTINGS if key in config}
    # peft would mistake a number for that of a layer
    base = str(config.get("base_model_name_or_path") or "")
    return Adapter(f"adapter_{folder.name}", settings, base, folder / _WEIGHTS, scale)


def _check_ranks(
    place: str, config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Check that no rank exceeds the weights, before peft builds matrices of that size."""
    patterns = config.get("rank_pattern") or {}
    if not isinstance(patterns, dict):
        raise UnusableModel(f"{place}: rank_pattern is not a JSON object")
    largest = max((size for shape in shapes.values() for size in shape), default=0)
    for rank in (config.get("r"), *patterns.values()):
        if not isinstance(rank, int) or not 0 < rank <= largest:
            raise UnusableModel(
                f"{place}: rank {rank!r} does not fit its weights, whose largest size is {largest}"
            )


def _build_error(place: str, key: str, value: object) -> UnusableModel:
    return UnusableModel(
        f"{place}: {key} {value!r} is not supported; merge the adapter into its model and save "
        "the whole model"
    )


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise UnusableModel(f"{file.parent.name}/{file.name}: not JSON: {error}") from error
