"""Recognition of errors for memory that ran out."""

import re

_MESSAGES = re.compile(
    "alloc.*memory|memory.*alloc|bad_alloc|can't start new thread|failed to map segment"
    "|error return without exception set"
)
"""Messages of libraries that run out of memory without a `MemoryError`.

A thread needs memory for its stack, so a failed start of a thread counts too. Python's import
system reports a failed allocation as a SystemError, with the last of these messages.
"""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, of any class, tells that memory ran out."""
    return isinstance(error, MemoryError) or _MESSAGES.search(str(error)) is not None
