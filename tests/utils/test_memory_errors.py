"""Memory that ran out is recognised by class and by message."""

import pytest

from llmchecker.utils.memory_errors import is_out_of_memory


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB of memory"), True),
        (RuntimeError("a single text, please"), False),
        (ValueError("no module of this name"), False),
    ],
)
def test_memory_that_ran_out_is_recognised(error, expected):
    """Errors of memory are told from all others, whatever their class."""
    assert is_out_of_memory(error) is expected
