"""Proposals by sampling, as in Pirzada, Bhayat, Cordeiro and Reger (ASE 2024).

An answer is what a model writes after a prompt, at temperature 1: one invariant or several, each up
to its closing parenthesis. It depends only on the model, the prompt, the seed and the number of its
iteration. So the answers to `full` and `constrained` prompts serve for `combined` too.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from llmchecker.invariants.prompts import STATEMENT, asked, message
from llmchecker.invariants.token_texts import texts_after
from llmchecker.models.protocols import LanguageModel
from llmchecker.reading.c_expressions import closing
from llmchecker.serving.writing import Request, ServedWriter

TOKENS = 20
"""The most tokens of an answer, for every invariant that it has begun."""

_STRANGE = re.compile(r"""[;{}#@$'"`?:\\\n]""")
"""Characters that no condition has; an answer stops at the first one of them."""


def answers(
    model: LanguageModel, prompt: str, iterations: Sequence[int], seed: int
) -> list[tuple[str, ...]]:
    """The texts of the invariants that a model writes after a prompt, for every iteration.

    All answers grow by one token at a time, so they share the prompt and every batch. Each answer
    has its own generator, whose n-th number draws the n-th token.

    Args:
        model: the model to ask.
        prompt: the text to continue.
        iterations: the numbers of the iterations.
        seed: the seed of all generators, together with the iteration's number.

    Returns:
        For every iteration its texts without their closing parentheses. There are as many as the
        iteration asks for, or fewer if the model went on with something else. A text that did not
        end comes last.
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
        parts = continuations.map(lambda part: part, batch.reshape(len(growing), -1), extended=True)
        after = ((part, place) for part in parts for place in range(len(part)))
        for row, (part, place) in zip(growing, after, strict=True):
            (token,) = part.chosen(place, generators[row].random(1))
            suffixes[row].append(int(token))
        texts = texts_after(model, tokens, [suffixes[row] for row in growing])
        unfinished = []
        for row, text in zip(growing, texts, strict=True):
            found[row], goes_on = _stated(text, most[row])
            long = len(suffixes[row]) >= TOKENS * len(found[row])
            if goes_on and not long and suffixes[row][-1] not in model.end_tokens:
                unfinished.append(row)
        growing = unfinished
    return found


def served_answers(
    writer: ServedWriter, prompt: str, iterations: Sequence[int], seed: int, kept: Path
) -> list[tuple[str, ...]]:
    """The texts of the invariants that a server's model writes, for every iteration.

    Whether the server's answer depends on the seed alone is up to the server, so they are kept.

    Args:
        writer: what asks the server.
        prompt: the text to continue; a model for chats is asked to do so by a message.
        iterations: the numbers of the iterations.
        seed: the seed of all answers, together with the iteration's number.
        kept: the directory of the answers.

    Returns:
        As `answers` does. Of a message, what it states as invariants.
    """
    requests = []
    for iteration in iterations:
        most = asked(iteration)
        text = message(prompt, most) if writer.chats else prompt
        requests.append(Request(text, TOKENS * most, (seed, iteration)))
    texts = writer.written(requests, kept)
    read = _in_message if writer.chats else lambda text, most: _stated(text, most)[0]
    return [read(t, asked(i)) for t, i in zip(texts, iterations, strict=True)]


def _in_message(text: str, most: int) -> tuple[str, ...]:
    """The texts of the invariants that a message states; what it thinks aloud is left out."""
    thought, _, answer = text.rpartition("</think>")
    found = []
    for stated in re.finditer(rf"\b{STATEMENT}\s*\(", answer if thought else text):
        rest = stated.string[stated.end() :]
        end = closing(rest)
        if end is None:
            found.append(rest)
            break
        found.append(rest[:end].strip())
        if len(found) == most:
            break
    return tuple(found[:most])


def _stated(text: str, most: int) -> tuple[tuple[str, ...], bool]:
    """The texts of the invariants in an answer, and whether the answer is to go on."""
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
