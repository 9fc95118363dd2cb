"""An accelerator that a processor pretends to be: `device: cuda` without a GPU.

Tensors report the device `cuda:0`, and the functions of torch run on tensors of the processor. A
function is refused as on a GPU if its tensors are on several devices. Functions that wait for the
device, and those without a deterministic algorithm on a GPU, are counted by name.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

_FACTORIES = (
    *("arange", "as_tensor", "empty", "full", "linspace", "ones", "tensor", "zeros"),
    *("empty_like", "full_like", "ones_like", "zeros_like"),
)
"""Functions of torch that create a tensor on a device without having one there."""

_TRANSFERS = {"to", "cpu", "cuda", "copy_"}
"""Functions that take or return tensors of several devices."""

_WAITING = {
    "__bool__",
    "__float__",
    "__int__",
    "__index__",
    "argwhere",
    "equal",
    "item",
    "masked_select",
    "nonzero",
    "tolist",
    "unique",
    "unique_consecutive",
}
"""Functions whose result is a number, or has a size that only the device knows."""

_STRICT = {"cat", "concat", "hstack", "searchsorted", "stack", "vstack"}
"""Functions that take no tensor of a processor, not even one without dimensions."""

_NONDETERMINISTIC = {
    "bincount",
    "cumsum",
    "cumsum_",
    "histc",
    "index_add",
    "index_add_",
    "index_copy",
    "index_copy_",
    "median",
    "put_",
    "scatter_add",
    "scatter_add_",
    "scatter_reduce",
    "scatter_reduce_",
}
"""Functions that the documentation of `torch.use_deterministic_algorithms` names for CUDA.

Those that only lack determinism when they are differentiated are left out, and so is writing by
index, whose result is determined if no place is written twice.
"""

_INDEXING = {"__getitem__", "__setitem__", "index_put", "index_put_"}


@dataclass
class Accelerators:
    """What pretended accelerators were asked to do.

    Attributes:
        waits: number of functions for which the host waits for a device, by name.
        uploads: number of copies from the host.
        nondeterministic: number of functions that may give other bits in each run, by name.
        free_bytes: free memory of each device.
    """

    waits: Counter[str] = field(default_factory=Counter)
    uploads: int = 0
    nondeterministic: Counter[str] = field(default_factory=Counter)
    free_bytes: int = 8 * 10**9

    def reset(self) -> None:
        """Forget all functions."""
        self.waits.clear()
        self.nondeterministic.clear()
        self.uploads = 0

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict) -> Any:
        """Call a function of torch on the processor, and return its results on their device."""
        name = function.__name__
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        source = self._find_device(name, tensors)
        target = _find_target(name, args, kwargs) or source
        self._count(name, args, tensors, source, target)
        args, kwargs = tree_map_only(_Tensor, lambda t: t.plain, (args, kwargs))
        # the processor computes what another device is asked for
        args, kwargs = tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
        if name == "to" or kwargs.get("device") is not None:
            args = tuple("cpu" if isinstance(argument, str) else argument for argument in args)
            kwargs = {k: "cpu" if k == "device" else v for k, v in kwargs.items()}
        if name in ("cpu", "cuda"):
            function, args, kwargs = Tensor.clone, args[:1], {}
        if name == "to" and source != target:
            kwargs = kwargs | {"copy": True}
        result = function(*args, **kwargs)
        # a function that writes into a tensor returns that tensor
        written = {id(t.plain): t for t in tensors if isinstance(t, _Tensor)}

        def wrap(tensor: Tensor) -> Tensor:
            if id(tensor) in written:
                return written[id(tensor)]
            return tensor if target.type == "cpu" else _Tensor(tensor, target, self)

        return tree_map_only(Tensor, wrap, result)

    def _find_device(self, name: str, tensors: list[Tensor]) -> torch.device:
        """Return the device of a function's tensors by the rules of torch."""
        is_free = {id(t) for t in tensors if t.device.type == "cpu" and t.dim() == 0}
        if name in _INDEXING:
            # tensors of a processor may be indices
            is_free |= {id(t) for t in tensors[1:] if not t.is_floating_point()}
        if name in _STRICT:
            is_free = set()
        devices = {t.device for t in tensors if id(t) not in is_free}
        if len(devices) > 1 and name not in _TRANSFERS:
            raise RuntimeError(
                f"{name}: Expected all tensors to be on the same device, but found "
                f"{', '.join(sorted(map(str, devices)))}"
            )
        return tensors[0].device if name in _TRANSFERS else next(iter(devices), _PROCESSOR)

    def _count(
        self, name: str, args: tuple, tensors: list[Tensor], source: torch.device, target: Any
    ) -> None:
        if name == "copy_":
            source, target = args[1].device, args[0].device
        indices = tensors[1:] if name in _INDEXING else []
        is_mask = any(t.dtype == torch.bool and t.dim() for t in indices) and name != "__setitem__"
        if source.type == "cuda" and (name in _WAITING or is_mask):
            self.waits[name] += 1
        if source.type == "cuda" and target.type == "cpu":
            self.waits["copy"] += 1
        self.uploads += source.type == "cpu" and target.type == "cuda"
        self.uploads += sum(i.device.type == "cpu" and i.dim() > 0 for i in indices)
        # whole numbers are added exactly in any order
        if name in _NONDETERMINISTIC and any(t.is_floating_point() for t in tensors):
            self.nondeterministic[name] += 1


_PROCESSOR = torch.device("cpu")


def _find_target(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Return the device that a function is asked for."""
    if name in ("cpu", "cuda"):
        return _build_device(name)
    named = [kwargs.get("device"), *(args[1:2] if name == "to" else ())]
    for value in named:
        if isinstance(value, Tensor):
            return value.device
        if isinstance(value, str | int | torch.device) and not isinstance(value, bool):
            return _build_device(value)
    return None


def _build_device(value: Any) -> torch.device:
    device = torch.device("cuda", value) if isinstance(value, int) else torch.device(value)
    return torch.device("cuda", 0) if str(device) == "cuda" else device


class _Tensor(Tensor):
    """A tensor of a pretended device, with the processor's tensor that has its values."""

    @staticmethod
    def __new__(cls, plain: Tensor, device: torch.device, record: Accelerators):
        tensor = Tensor._make_wrapper_subclass(
            cls,
            plain.size(),
            strides=plain.stride(),
            storage_offset=plain.storage_offset(),
            dtype=plain.dtype,
            device=device,
        )
        tensor.plain, tensor.record = plain.detach(), record
        return tensor

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is Tensor.requires_grad_:
            return args[0]
        if function is torch._has_compatible_shallow_copy_type:
            return False
        if function in (Tensor.numpy, Tensor.__array__):
            raise TypeError(f"can't convert {args[0].device} device type tensor to numpy")
        # sizes, types and other attributes
        if function.__name__ in ("__get__", "__set__") or function in _ATTRIBUTES:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **kwargs)
        tensors = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, cls))
        return next(tensors).record.call(function, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        raise NotImplementedError(f"{operation}: not pretended")

    def __repr__(self, **_: object) -> str:
        return f"_Tensor({self.plain!r}, {self.device})"


_ATTRIBUTES = {Tensor.dim, Tensor.size, Tensor.stride, Tensor.numel, Tensor.is_floating_point}
_ATTRIBUTES |= {Tensor.nelement, Tensor.element_size, Tensor.__len__, Tensor.is_contiguous}


@contextmanager
def pretend_accelerators(count: int = 1) -> Iterator[Accelerators]:
    """Let torch have accelerators within the block."""
    record = Accelerators()

    def pretend(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            target = _find_target(function.__name__, args, kwargs)
            if target is None or target.type == "cpu":
                return function(*args, **kwargs)
            return record.call(function, args, kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in _FACTORIES:
            patch.setattr(torch, name, pretend(getattr(torch, name)))
        for name in ("to", "cuda"):
            patch.setattr(Tensor, name, pretend(getattr(Tensor, name)))
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: count)
        patch.setattr(torch.cuda, "current_device", lambda: 0)
        patch.setattr(torch.cuda, "synchronize", lambda *_: None)
        patch.setattr(torch.cuda, "mem_get_info", lambda *_: (record.free_bytes, 8 * 10**10))
        patch.setattr(torch.cuda, "memory_reserved", lambda *_: 0)
        patch.setattr(torch.cuda, "memory_allocated", lambda *_: 0)
        yield record
