"""Fingerprints: hashes of a result's inputs; equal hashes mean equal results.

Files enter by their content, so copying or downloading files again keeps a fingerprint. The source
code that computes a result enters too: results of other code have other fingerprints.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from llmchecker.models.servers.settings import SERVER_FILE
from llmchecker.utils.atomic_files import compute_sha256
from llmchecker.utils.json_digest import compute_json_digest

MODEL_MODULES = (
    "models/device.py",
    "models/decoding/answer_format.py",
    "models/decoding/call_formats.py",
    "models/decoding/template_format.py",
    "models/decoding/template_settings.py",
    "models/decoding/chat_template.py",
    "models/decoding/tools.py",
    "models/decoding/control_tokens.py",
    "models/decoding/settings.py",
    "models/decoding/grammar.py",
    "models/decoding/logits_processor.py",
    "models/decoding/top_p.py",
    "models/transformers/batch_invariance.py",
    "models/transformers/load.py",
    "models/transformers/adapters.py",
    "models/transformers/batch_size.py",
    "models/transformers/batching.py",
    "models/transformers/causal.py",
    "models/transformers/key_values.py",
    "models/transformers/prompt_attention.py",
    "models/distribution.py",
    "models/transformers/masked.py",
    "models/transformers/token_pieces.py",
    "models/transformers/position_limits.py",
    "models/transformers/tokenizer.py",
    "models/transformers/base.py",
    "models/transformers/uncached.py",
    "trees/selection.py",
)
"""Modules that determine a model's output, and what is stored of it."""

SERVER_MODULES = (
    "models/servers/http_client.py",
    "models/servers/event_stream.py",
    "models/servers/json_body.py",
    "models/servers/json_api.py",
    "models/servers/connection.py",
    "models/servers/apis.py",
    "models/servers/event_loop.py",
    "models/servers/schema.py",
    "models/servers/top_logprobs.py",
    "models/servers/served_model.py",
    "models/servers/sampling_test.py",
    "models/continuation.py",
    "models/servers/settings.py",
    "models/servers/answer_store.py",
    "models/servers/spending.py",
    "models/servers/text_apis.py",
    "models/servers/tool_messages.py",
    "models/servers/text_client.py",
    "models/text_answer.py",
)
"""Modules that determine the distributions from a server, besides selection."""


def select_modules(modules: Sequence[str], files: Mapping[str, str]) -> tuple[Sequence[str], ...]:
    """Select the modules that determine a result of a model: these, and those of its server.

    Args:
        modules: `MODEL_MODULES`, and those of a result that is computed from its output.
        files: sha256 of every file of the model by name.
    """
    return modules, SERVER_MODULES if SERVER_FILE in files else ()


def hash_inputs(*inputs: Any, modules: Iterable[Sequence[str]]) -> str:
    """Return the fingerprint of inputs in the form of JSON, and of modules of this package."""
    parts = (*inputs, *map(_hash_modules, modules))
    return compute_json_digest(parts)


@cache
def _hash_modules(modules: Sequence[str]) -> dict[str, str]:
    return {name: compute_sha256(Path(__file__).parents[1] / name) for name in modules}


def find_processor_name() -> str:
    """Return the processor's name."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
