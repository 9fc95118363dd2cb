"""Devices of torch: processors and accelerators, their memory and their running sums."""

import torch
from torch import Tensor
from torch.nn.functional import pad

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


def compute_running_sums(values: Tensor) -> Tensor:
    """Return the sums of the first values of each row, with additions in a fixed order.

    `cumsum` of torch has no fixed order on an accelerator. There, this is the parallel scan of
    Sklansky (1960). As in a plain scan, a value of 0 has the same sum as the value before it.

    Args:
        values: (n, m), at least 0.

    Returns:
        (n, m).
    """
    if is_processor(values.device):
        return values.cumsum(dim=1)
    rows, count = values.shape
    sums = pad(values, (0, (1 << (count - 1).bit_length()) - count))
    step = 1
    while step < sums.shape[1]:
        # each second group follows the sum of the group before it
        first, second = sums.view(rows, -1, 2, step).unbind(2)
        second.add_(first[:, :, -1:])
        step *= 2
    return sums[:, :count].contiguous()
