"""How large a model can be, judged by the files of its weights before anything is built.

A configuration may ask for ten million layers. Building them would take days and all memory, only
to find out that their weights are missing. The headers of the files tell beforehand what they hold.
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

_TENSORS_FOR_ONE = 16
"""The most tensors of a network that one tensor in a file may become: tied ones, and its slices."""
_TENSORS_BESIDE = 1_000
"""The most tensors of a network without one in a file: masks, tables of positions, frequencies."""
_NUMBERS_BESIDE = 1 << 28
"""The most numbers of a tensor without one in a file, unless the files hold more numbers."""


@dataclass(frozen=True)
class WeightSizes:
    """What the files of a model's weights hold.

    Attributes:
        tensors: the number of tensors.
        numbers: the number of entries in all tensors together.
    """

    tensors: int
    numbers: int


def weight_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of a safetensors file by name, from its header alone.

    Raises:
        UnusableModel: the file is truncated or damaged.
    """
    try:
        with safe_open(file, framework="numpy") as tensors:
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UnusableModel(f"{file.name} is truncated or damaged: {error}") from error


def sizes_of(files: Iterable[Path]) -> WeightSizes:
    """The sizes of safetensors files together.

    Raises:
        UnusableModel: one of them is truncated or damaged.
    """
    shapes = [shape for file in files for shape in weight_shapes(file).values()]
    return WeightSizes(len(shapes), sum(prod(shape) for shape in shapes))


@contextmanager
def built_within(sizes: WeightSizes) -> Iterator[None]:
    """Stop building a network in this thread as soon as it is larger than its weights can be.

    transformers builds networks without memory for their numbers and fills them afterwards, so a
    network that is stopped here has cost almost nothing.

    Raises:
        UnusableModel: the network has many more tensors than the files, or a larger one.
    """
    from torch.nn.modules import module as registry

    most = _TENSORS_FOR_ONE * sizes.tensors + _TENSORS_BESIDE
    largest = max(sizes.numbers, _NUMBERS_BESIDE)
    builder, registered = threading.get_ident(), 0

    def count(_: "nn.Module", name: str, tensor: "Tensor | None") -> None:
        nonlocal registered
        if tensor is None or threading.get_ident() != builder:
            return
        registered += 1
        if registered > most:
            raise UnusableModel(
                f"the configuration describes more than {most} tensors, and the weights are "
                f"{sizes.tensors}"
            )
        if tensor.numel() > largest:
            raise UnusableModel(
                f"the configuration describes a tensor {name} of {tensor.numel()} numbers, and "
                f"all weights together are {sizes.numbers}"
            )

    handles = [
        registry.register_module_parameter_registration_hook(count),
        registry.register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
