"""Proposals by sampling, as in Pirzada, Bhayat, Cordeiro and Reger (ASE 2024).

An answer is what a model writes after a prompt, at temperature 1: one invariant or several, each up
to its closing parenthesis. It depends on the model, the prompt, the seed and the number of its
iteration only, so that answers to `full` and `constrained` prompts are also those of `combined`.
"""

import re
from collections.abc import Sequence

import numpy as np

from llmchecker.invariants.prompts import STATEMENT, asked
from llmchecker.invariants.token_texts import texts_after
from llmchecker.models.distributions import Distributions
from llmchecker.models.protocols import LanguageModel
from llmchecker.programs.c_expressions import closing

TOKENS = 20
"""Tokens that an answer may have for every invariant that it has begun."""

_STRANGE = re.compile(r"""[;{}#@$'"`?:\\\n]""")
"""Characters that no condition has: an answer with one of them is not drawn further."""


def answers(
    model: LanguageModel, prompt: str, iterations: Sequence[int], seed: int
) -> list[tuple[str, ...]]:
    """The texts of the invariants that a model writes after a prompt, for every iteration.

    All answers grow by a token at a time, so that they share the prompt and every batch. The n-th
    token of an answer is drawn with the n-th number of a generator of its own.

    Returns:
        For every iteration at most as many texts as it asks for, closing parentheses left out;
        fewer if the model went on with something else. A text that did not end is the last.
    """
    tokens = model.encode(prompt)
    continuations = model.continuations(tokens)
    generators = [np.random.default_rng([seed, iteration]) for iteration in iterations]
    most = [asked(iteration) for iteration in iterations]
    suffixes: list[list[int]] = [[] for _ in iterations]
    found: list[tuple[str, ...]] = [()] * len(iterations)
    growing = list(range(len(iterations)))
    while growing:
        batch = np.array([suffixes[row] for row in growing], dtype=np.int64)
        drawn = [generators[row].random() for row in growing]
        for part in continuations.map(_cumulated, batch.reshape(len(growing), -1), extended=True):
            for sums in part:
                row = growing[len(growing) - len(drawn)]
                suffixes[row].append(_token(sums, drawn.pop(0)))
        texts = texts_after(model, tokens, [suffixes[row] for row in growing])
        unfinished = []
        for row, text in zip(growing, texts, strict=True):
            found[row], goes_on = _stated(text, most[row])
            long = len(suffixes[row]) >= TOKENS * len(found[row])
            if goes_on and not long and suffixes[row][-1] not in model.end_tokens:
                unfinished.append(row)
        growing = unfinished
    return found


def _cumulated(distributions: Distributions) -> np.ndarray:
    return distributions.probabilities().cpu().numpy().cumsum(axis=1)


def _token(sums: np.ndarray, number: float) -> int:
    """The token at a number from [0, 1) of a distribution, by its cumulated probabilities."""
    return int(np.searchsorted(sums, number * sums[-1], side="right"))


def _stated(text: str, most: int) -> tuple[tuple[str, ...], bool]:
    """The texts of the invariants in an answer, and whether it is to go on."""
    found: list[str] = []
    while len(found) < most:
        end = closing(text)
        if end is None:
            return (*found, text), _STRANGE.search(text) is None
        found.append(text[:end].strip())
        after = re.fullmatch(rf"\s*;\s*{STATEMENT}\s*\((.*)", text[end + 1 :], re.DOTALL)
        if after is None:
            begun = "".join(text[end + 1 :].split())
            return tuple(found), len(found) < most and f";{STATEMENT}(".startswith(begun)
        text = after[1]
    return tuple(found), False
