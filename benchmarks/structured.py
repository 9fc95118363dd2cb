"""Structured output: passes a second of checks with a schema over those without, and masks."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from random_llama import START
from speed import count_passes, measure_check, warm_up

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.transformers.causal import CausalModel
from llmchecker.models.transformers.load import load_model

_LENGTH = 20
_QUERY = "P=? [ F gender > 0 ]"
_MASKS = 200
_SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "reasons": {"items": {"type": "string"}}},
    "required": ["answer"],
}

DEFINITIONS = {
    "passes_ratio": "passes a second of a check whose answers satisfy a schema, over those of the "
    "same check without",
    "passes_per_second": "passes a second with the schema",
    "grammar_seconds": "seconds until a loaded model has the schema",
    "mask_seconds": "seconds of the masks of a pass, without the network",
}
"""What each figure `structured.{model}.…` is."""


def measure(
    directory: Path, passes: int, report: Callable[[str], None] = print
) -> dict[str, float]:
    """Measure a check with and without a schema, in turn; nothing where no schema is possible.

    Args:
        directory: directory of the model.
        passes: the budget of each check.
        report: a function that receives the progress.

    Returns:
        The figures of `DEFINITIONS`.
    """
    plain = load_model(directory)
    assert isinstance(plain, CausalModel)
    began = time.perf_counter()
    try:
        masked = plain.with_decoding(Decoding.from_settings({"json_schema": _SCHEMA}))
    # some tokenizers write a token in another way after other tokens
    except ConfigError as error:
        report(f"structured: {error}")
        return {}
    grammar_seconds = time.perf_counter() - began
    rates = []
    for model in (plain, masked):
        warm_up(model, _QUERY, START, _LENGTH)
        rate, answer = measure_check(model, _QUERY, START, length=_LENGTH, passes=passes)
        report(f"structured: {count_passes(answer):,} passes, {rate:,.0f} a second")
        rates.append(rate)
    return {
        "passes_ratio": rates[1] / rates[0],
        "passes_per_second": rates[1],
        "grammar_seconds": grammar_seconds,
        "mask_seconds": _measure_mask(masked),
    }


def _measure_mask(model: CausalModel) -> float:
    """Return the seconds of a mask after a text within a string, in batches of 64 texts."""
    assert model.decoder is not None
    prompt = list(model.encode(START))
    answer = model.tokenizer.encode('{"answer": "It is because of', add_special_tokens=False)
    tokens = torch.tensor([[*prompt, *answer]] * 64)
    logits = torch.zeros((64, model.vocabulary_size))
    rounds = max(1, _MASKS // 64)
    began = time.perf_counter()
    for _ in range(rounds):
        model.decoder(tokens, logits, len(prompt))
    return (time.perf_counter() - began) / (rounds * 64)
