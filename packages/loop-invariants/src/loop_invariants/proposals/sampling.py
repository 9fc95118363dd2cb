"""Proposals by sampling, as in Pirzada, Bhayat, Cordeiro and Reger (ASE 2024).

An answer is a model's continuation of a prompt at temperature 1: one or more invariants, each up to
its closing parenthesis. It depends only on the model, the prompt, the seed and the iteration. The
answers to `full` and `constrained` prompts therefore also serve `combined`.
"""

import re
from collections.abc import Sequence

import numpy as np

from llmchecker.models.interface import LanguageModel
from llmchecker.models.servers.text_client import TextClient
from llmchecker.models.text_answer import TextStream, answer_prompts
from loop_invariants.frontend.expressions import find_closing_parenthesis
from loop_invariants.proposals.prompt_templates import (
    INVARIANT_KEYWORD,
    build_message,
    max_invariants,
)

_MAX_TOKENS = 20
"""Maximum number of tokens of an answer for every begun invariant."""

_STOP_CHARACTERS = re.compile(r"""[;{}#@$'"`?:\\\n]""")
"""Characters that no condition contains; an answer stops at the first of them."""


def sample_answers(
    model: LanguageModel, prompt: str, iterations: Sequence[int], seed: int
) -> list[tuple[str, ...]]:
    """Sample a model's invariants after a prompt, for every iteration.

    All answers grow by one token at a time, so they share the prompt and every batch. Each answer
    has its own generator, whose n-th number draws the n-th token.

    Args:
        model: the language model.
        prompt: the text to continue.
        iterations: the indices of the iterations.
        seed: the seed of all generators, together with the iteration.

    Returns:
        The texts of every iteration, without closing parentheses: at most the requested number
        of invariants, fewer if other text follows. An unfinished text comes last.
    """
    tokens = model.encode(prompt)
    prefix = model.open_prefix(tokens)
    generators = [np.random.default_rng([seed, iteration]) for iteration in iterations]
    limits = [max_invariants(iteration) for iteration in iterations]
    continuations: list[list[int]] = [[] for _ in iterations]
    answers: list[tuple[str, ...]] = [()] * len(iterations)
    active_rows = list(range(len(iterations)))
    while active_rows:
        batch = np.array([continuations[row] for row in active_rows], dtype=np.int64)
        chunks = prefix.map_next(
            lambda _, part: part, batch.reshape(len(active_rows), -1), will_extend=True
        )
        positions = ((chunk, index) for chunk in chunks for index in range(len(chunk)))
        for row, (chunk, index) in zip(active_rows, positions, strict=True):
            (token,) = chunk.sample_by_inversion(index, generators[row].random(1))
            continuations[row].append(int(token))
        # Each answer is decoded as a whole: a token's text may depend on the previous tokens.
        texts = _decode_continuations(model, tokens, [continuations[row] for row in active_rows])
        unfinished_rows = []
        for row, text in zip(active_rows, texts, strict=True):
            answers[row], must_continue = _parse_answer(text, limits[row])
            # The maximum grows with every begun invariant, so a later one has its own tokens.
            is_too_long = len(continuations[row]) >= _MAX_TOKENS * len(answers[row])
            if must_continue and not is_too_long and continuations[row][-1] not in model.end_tokens:
                unfinished_rows.append(row)
        active_rows = unfinished_rows
    return answers


def request_answers(
    client: TextClient, prompt: str, iterations: Sequence[int], seed: int
) -> list[tuple[str, ...]]:
    """Request a server model's invariants after a prompt, for every iteration.

    The client stores the answers, since a server need not return equal answers for equal seeds.

    Args:
        client: the client of the server.
        prompt: the text to continue; a chat model gets it in a message.
        iterations: the indices of the iterations.
        seed: the seed of all answers, together with the iteration.

    Returns:
        The texts of every iteration, as `sample_answers` returns them. A message yields the
        invariants that it states.
    """
    source, streams = client.source, []
    for iteration in iterations:
        limit = max_invariants(iteration)
        text = build_message(prompt, limit) if source.is_chat else prompt
        # an answer to a message has a limit of its own
        length = source.tokens if source.is_chat else _MAX_TOKENS * limit
        # a provider gets a seed that is derived from this one and the prompt
        streams.append(TextStream(text, length, (seed << 32) + iteration))
    texts = [answer.text for answer in answer_prompts(client, streams)]
    # A chat model answers a request, and any other model continues the prompt.
    parse = _parse_message if source.is_chat else lambda text, most: _parse_answer(text, most)[0]
    return [parse(t, max_invariants(i)) for t, i in zip(texts, iterations, strict=True)]


def _parse_message(text: str, limit: int) -> tuple[str, ...]:
    """Parse the invariants that a message states, without its `<think>` part."""
    reasoning, _, answer = text.rpartition("</think>")
    texts = []
    for match in re.finditer(rf"\b{INVARIANT_KEYWORD}\s*\(", answer if reasoning else text):
        tail = match.string[match.end() :]
        end = find_closing_parenthesis(tail)
        # An unfinished invariant can only be the last.
        if end is None:
            texts.append(tail)
            break
        texts.append(tail[:end].strip())
        if len(texts) == limit:
            break
    return tuple(texts[:limit])


def _parse_answer(text: str, limit: int) -> tuple[tuple[str, ...], bool]:
    """Parse the invariants of an answer, and check whether the answer must continue."""
    texts: list[str] = []
    while len(texts) < limit:
        end = find_closing_parenthesis(text)
        if end is None:
            return (*texts, text), _STOP_CHARACTERS.search(text) is None
        texts.append(text[:end].strip())
        match = re.fullmatch(rf"\s*;\s*{INVARIANT_KEYWORD}\s*\((.*)", text[end + 1 :], re.DOTALL)
        # The text after an invariant may still become the beginning of another.
        if match is None:
            tail = "".join(text[end + 1 :].split())
            return tuple(texts), len(texts) < limit and f";{INVARIANT_KEYWORD}(".startswith(tail)
        text = match[1]
    return tuple(texts), False


def _decode_continuations(
    model: LanguageModel, prompt: Sequence[int], continuations: Sequence[Sequence[int]]
) -> list[str]:
    """Decode the text that each continuation adds to a prompt.

    The prompt's last token is decoded together with each continuation, since tokenizers may drop
    the space at the begin of a text. A continuation of special tokens adds nothing.
    """
    anchor = tuple(prompt[-1:])
    (anchor_text,) = model.decode([anchor])
    texts = model.decode([(*anchor, *continuation) for continuation in continuations])
    # The text of the anchor belongs to the prompt.
    return [text.removeprefix(anchor_text) for text in texts]
