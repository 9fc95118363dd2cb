"""Settings of the loading of a local model; the module imports no torch."""

from dataclasses import dataclass
from typing import Literal

ModelKind = Literal["causal", "masked"]
"""Kind of a model: logits of the next token after the text, or at an appended mask."""

DEFAULT_MEMORY_BYTES = 2 * 1024**3
"""Default limit in bytes for the continuations of one prompt, in addition to the model."""


@dataclass(frozen=True)
class LoadSettings:
    """How to load and run a local model.

    Attributes:
        kind: `causal` predicts after the text; `masked` at a mask appended to it.
        dtype: torch name of the weights' dtype, such as `float32` or `bfloat16`.
        device: torch device, such as `cpu` or `cuda:0`.
        threads: number of batches that a CPU computes at once, one on each thread.
        memory_bytes: limit in bytes for one prompt's continuations, in addition to the model:
            batches, and the keys and values of a causal model. No answer depends on it. An
            accelerator with a known free memory has no other limit.
    """

    kind: ModelKind = "causal"
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 1
    memory_bytes: int = DEFAULT_MEMORY_BYTES
