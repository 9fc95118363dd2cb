"""Size limits of a network, from the headers of its weight files.

A configuration may describe ten million layers. Building them would take days and all memory before
the missing weights cause an error. The headers of the files contain the real sizes.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from llmchecker.errors import UnusableModel

if TYPE_CHECKING:
    from torch import Tensor, nn

_MAX_TENSORS_PER_STORED_TENSOR = 16
"""Largest number of network tensors for each tensor in a file: tied tensors and slices."""
_MAX_UNSTORED_TENSORS = 1_000
"""Largest number of network tensors outside the files: masks, positions, frequencies."""
_MAX_UNSTORED_ELEMENTS = 1 << 28
"""Largest number of elements of a tensor outside the files, unless these have more."""


@dataclass(frozen=True)
class WeightSizes:
    """Sizes of a model's weight files.

    Attributes:
        tensors: number of tensors.
        elements: number of elements of all tensors together.
    """

    tensors: int
    elements: int


def read_weight_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a safetensors file's tensors by name, from its header.

    Raises:
        UnusableModel: the file is truncated or damaged.
    """
    try:
        with safe_open(file, framework="numpy") as tensors:
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UnusableModel(f"{file.name}: truncated or damaged: {error}") from error


def read_weight_sizes(files: Iterable[Path]) -> WeightSizes:
    """Return the total sizes of safetensors files.

    Raises:
        UnusableModel: a file is truncated or damaged.
    """
    shapes = [shape for file in files for shape in read_weight_shapes(file).values()]
    return WeightSizes(len(shapes), sum(prod(shape) for shape in shapes))


@contextmanager
def limit_network_size(sizes: WeightSizes) -> Iterator[None]:
    """Limit the size of networks that this thread builds within the block.

    transformers builds networks without memory for their weights and fills them afterwards, so an
    early stop costs almost nothing.

    Raises:
        UnusableModel: the network has many more tensors than the files, or a larger tensor.
    """
    from torch.nn.modules import module as registry

    max_tensors = _MAX_TENSORS_PER_STORED_TENSOR * sizes.tensors + _MAX_UNSTORED_TENSORS
    max_elements = max(sizes.elements, _MAX_UNSTORED_ELEMENTS)
    thread_id, tensor_count = threading.get_ident(), 0

    def count_tensor(_: "nn.Module", name: str, tensor: "Tensor | None") -> None:
        nonlocal tensor_count
        # the hooks are global: ignore networks that other threads build
        if tensor is None or threading.get_ident() != thread_id:
            return
        tensor_count += 1
        if tensor_count > max_tensors:
            raise UnusableModel(
                f"config.json: it describes more than {max_tensors} tensors, but the weights "
                f"have {sizes.tensors}"
            )
        if tensor.numel() > max_elements:
            raise UnusableModel(
                f"config.json: tensor {name} has {tensor.numel()} numbers, but all weights "
                f"together have {sizes.elements}"
            )

    # the hooks run for every tensor that a module registers
    handles = [
        registry.register_module_parameter_registration_hook(count_tensor),
        registry.register_module_buffer_registration_hook(count_tensor),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
