"""Probabilities of fixed continuations, as of the choices of a multiple-choice question."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llmchecker.config.prompt import parse_prompt
from llmchecker.errors import ConfigError

if TYPE_CHECKING:
    from llmchecker.models.decoding.chat_template import Start
    from llmchecker.models.distribution import Distributions
    from llmchecker.models.interface import LanguageModel, Prefix

_Tokens = tuple[int, ...]


def probability_of(
    model: "LanguageModel",
    prompt: str | Sequence[Mapping[str, str]],
    continuations: Sequence[str],
) -> tuple[float, ...]:
    """Compute the probability that a model writes each continuation, token by token.

        lc.probability_of(model, "The capital of France is", [" Paris", " Rome"])

    It is that of the tokens into which the tokenizer divides the continuation, as harnesses for
    multiple-choice questions compute it. Other tokens may write the same text, so it is at most the
    probability that the answer begins with the text.

    Args:
        model: a model with probabilities of all tokens, which `load` returned.
        prompt: a text to continue, or messages to answer.
        continuations: the texts, which follow the prompt as they are: with a space where a word
            begins.

    Raises:
        ConfigError: the model returns no probabilities of all tokens, or a continuation is empty or
            has no tokens of its own after the prompt.
    """
    if not hasattr(model, "open_prefix") or model.listed_tokens < model.vocabulary_size:
        raise ConfigError(f"model: {model!r} has no probabilities of all tokens; load its weights")
    if isinstance(continuations, str) or not continuations:
        raise ConfigError(f"continuations: {continuations!r} is no list; write several texts")
    start = parse_prompt(prompt)
    tokens = model.encode(start)
    suffixes = [_encode(model, start, tokens, text) for text in continuations]
    reader = model.open_prefix(tokens, max(map(len, suffixes)))
    logs = _compute_log_probabilities(reader, suffixes)
    return tuple(math.exp(each) for each in logs)


def _encode(model: "LanguageModel", start: "Start", prompt: _Tokens, text: str) -> _Tokens:
    """Return the tokens of a continuation.

    Raises:
        ConfigError: it has none of its own, or they write another text.
    """
    if not isinstance(text, str) or not text:
        raise ConfigError(f"continuations: {text!r} is no text; write what the model may write")
    if isinstance(start, str):
        whole = model.encode(start + text)
        suffix = whole[len(prompt) :]
        is_own = whole[: len(prompt)] == prompt
    else:
        # a text has the special tokens of a beginning, which no answer has
        beginning = model.encode("")
        whole = model.encode(text)
        suffix = whole[len(beginning) :]
        is_own = whole[: len(beginning)] == beginning
    written = model.decode([(*prompt, *suffix)])[0] if suffix else ""
    if not is_own or not suffix or written != model.decode([prompt])[0] + text:
        raise ConfigError(
            f"continuations: {text!r} has no tokens of its own after the prompt; move a space from "
            "the prompt's end to its beginning"
        )
    if model.end_tokens.intersection(suffix):
        raise ConfigError(f"continuations: {text!r} has the end of a text; leave it out")
    return suffix


def _compute_log_probabilities(reader: "Prefix", suffixes: Sequence[_Tokens]) -> np.ndarray:
    """Return the logarithms of probabilities (n,), reading all texts in shared batches."""
    reader.read_ahead([suffix[:-1] for suffix in suffixes])
    logs = np.zeros(len(suffixes))
    for depth in range(max(map(len, suffixes))):
        members = [number for number, suffix in enumerate(suffixes) if len(suffix) > depth]
        # continuations with a common beginning are read once
        texts = list(dict.fromkeys(suffixes[number][:depth] for number in members))
        wanted = [
            [(n, suffixes[n][depth]) for n in members if suffixes[n][:depth] == text]
            for text in texts
        ]

        def read(
            rows: np.ndarray,
            distributions: "Distributions",
            wanted: list[list[tuple[int, int]]] = wanted,
        ) -> list[tuple[int, float]]:
            probabilities = distributions.probabilities()
            return [
                (number, float(probabilities[index, token]))
                for index, row in enumerate(rows.tolist())
                for number, token in wanted[row]
            ]

        continuations = np.array(texts, dtype=np.int64).reshape(len(texts), depth)
        for found in reader.map_next(read, continuations, will_extend=True):
            for number, probability in found:
                logs[number] += math.log(probability) if probability > 0 else -math.inf
    return logs
