"""Devices of torch: processors, accelerators and the memory of these."""

import torch

_PROCESSORS = frozenset({"cpu"})
"""Types of devices whose caches are small and whose memory is the machine's."""


def is_processor(device: torch.device | str) -> bool:
    """Return whether a device is a processor instead of an accelerator."""
    return torch.device(device).type in _PROCESSORS


def find_free_bytes(device: torch.device | str) -> int | None:
    """Return the memory that this process can still use on a device; None if unknown."""
    device = torch.device(device)
    if device.type != "cuda":
        return None
    free_bytes, _ = torch.cuda.mem_get_info(device)
    # torch keeps the memory of deleted tensors for the next ones
    kept_bytes = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free_bytes + kept_bytes
