"""Fingerprints: hashes of a result's inputs; equal hashes mean equal results.

Files enter by their content, so copying or downloading files again keeps a fingerprint. The source
code that computes a result enters too: results of other code have other fingerprints.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llmchecker.models.decoding.chat_template import Start, start_as_json
from llmchecker.models.decoding.settings import DecodingChoice, decoding_as_json
from llmchecker.models.servers.settings import SERVER_FILE
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.atomic_files import compute_sha256

MODEL_MODULES = (
    "models/device.py",
    "models/decoding/chat_template.py",
    "models/decoding/tools.py",
    "models/decoding/control_tokens.py",
    "models/decoding/settings.py",
    "models/decoding/logits_processor.py",
    "models/decoding/top_p.py",
    "models/transformers/batch_invariance.py",
    "models/transformers/load.py",
    "models/transformers/load_settings.py",
    "models/transformers/batch_size.py",
    "models/transformers/batching.py",
    "models/transformers/causal.py",
    "models/transformers/key_values.py",
    "models/transformers/prompt_attention.py",
    "models/distribution.py",
    "models/transformers/masked.py",
    "models/transformers/token_pieces.py",
    "models/transformers/position_limits.py",
    "models/transformers/base.py",
    "models/transformers/uncached.py",
    "trees/selection.py",
)
"""Modules that determine a model's output."""

SERVER_MODULES = (
    "models/transformers/tokenizer.py",
    "models/servers/http_client.py",
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
    "models/servers/text_client.py",
    "models/text_answer.py",
)
"""Modules that determine the distributions from a server, besides selection."""

TREE_MODULES = (*MODEL_MODULES, "trees/expansion.py", "trees/shards.py")
"""Modules that determine a tree."""


def hash_model(
    files: Mapping[str, str], kind: str, dtype: str, device: str, decoding: DecodingChoice = None
) -> str:
    """Return the fingerprint of all inputs of a model's output, to the last bit.

    The processor and the libraries enter, because they determine the order of floating-point
    additions.

    Args:
        files: sha256 of every file of the model by name.
        kind, dtype, device: as in `load_model`.
        decoding: decoding settings; None for temperature 1.
    """
    return _hash_parts(
        dict(files),
        [kind, dtype, device, find_processor_name(), decoding_as_json(decoding)],
        [version(package) for package in ("torch", "transformers", "tokenizers")],
        _hash_modules(MODEL_MODULES),
        _hash_modules(_select_server_modules(files)),
    )


def hash_tree(
    files: Mapping[str, str],
    kind: str,
    dtype: str,
    start: Start,
    truncation: Truncation,
    end_of_sequence: str,
    decoding: DecodingChoice = None,
) -> str:
    """Return the fingerprint of a tree, up to the last bits of probabilities.

    The machine does not enter: the tree may be from another machine.

    Args:
        files: sha256 of every file of the model by name.
        kind, dtype: as in `load_model`.
        start: the start string or chat.
        truncation: alpha, k and L.
        end_of_sequence: as in `expansion.build_tree`.
        decoding: decoding settings; None for temperature 1.
    """
    decoding_settings = decoding_as_json(decoding)
    truncation_values = [truncation.alpha, truncation.k, truncation.length]
    request = [kind, dtype, start_as_json(start), *truncation_values, end_of_sequence]
    return _hash_parts(
        dict(files),
        request,
        decoding_settings,
        _hash_modules(TREE_MODULES),
        _hash_modules(_select_server_modules(files)),
    )


def hash_masses(model: str, prompts: Sequence[str], k: int) -> str:
    """Return the fingerprint of the masses of the 1 to k most probable tokens.

    Args:
        model: fingerprint of `hash_model`.
        prompts: the prompts after which the masses are computed.
        k: maximum number of tokens.
    """
    # the model's fingerprint contains the model's modules already
    return _hash_parts([model, list(prompts), k], _hash_modules(("trees/top_k_mass.py",)))


def _select_server_modules(files: Mapping[str, str]) -> Sequence[str]:
    """Return the modules of server requests if the files are a served model's."""
    return SERVER_MODULES if SERVER_FILE in files else ()


def _hash_parts(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _hash_modules(modules: Sequence[str]) -> dict[str, str]:
    return {name: compute_sha256(Path(__file__).parents[1] / name) for name in modules}


def find_processor_name() -> str:
    """Return the processor's name."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
