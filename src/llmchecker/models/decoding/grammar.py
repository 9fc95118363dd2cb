"""Structured output: the tokens with which an answer remains in the language of a grammar.

A token is allowed if a text of the grammar begins with the answer so far and the token, however the
tokenizer splits that text. The answer may end where it is itself a text of the grammar. llguidance
finds these tokens. It knows no prompt: the grammar describes the answer alone.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import FloatTensor, LongTensor
from transformers import LogitsProcessor

from llmchecker.errors import ConfigError, InvalidDistribution
from llmchecker.models.decoding.settings import Decoding
from llmchecker.utils.optional_packages import explain_missing_packages

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_NO_FORCING = '\n%llguidance {"no_forcing": true}\n'
"""The end of each grammar.

Otherwise llguidance allows only the usual tokens of a text that is determined, such as the name of
a required property.
"""

_NO_EXTENSION = "NoExtensionBias"
"""The message of llguidance after a text with which no text of the grammar begins."""

_DETAILS = ("\n<state>", "\n<backtrace>", "\n   1 |", "; following special tokens")
"""Beginnings of what follows a message of llguidance."""

_DEFINITIONS = ("$defs", "definitions")
"""Keys of schemas that others refer to, where a problem is before it is at a reference."""


@dataclass(frozen=True)
class TokenBytes:
    """The bytes that each token adds to a text.

    Attributes:
        tokens: (vocabulary,) the bytes; those of a special token are its name, and b"" is no text.
        special_tokens: ids of the special tokens, which are no part of a text.
    """

    tokens: Sequence[bytes]
    special_tokens: Sequence[int]


class GrammarLogitsProcessor(LogitsProcessor):
    """A transformers logits processor that excludes tokens outside of a grammar.

    Several threads may call it at once.

    Args:
        decoding: a decoding with a grammar.
        token_bytes: the bytes of the tokens; None for a tokenizer whose tokens have no text of
            their own.
        end_tokens: ids of the tokens that end a text.

    Raises:
        ConfigError: llguidance rejects the grammar, or the grammar has no text; the tokens have no
            bytes, or none ends a text.
        MissingTool: llguidance is not installed.
    """

    def __init__(
        self, decoding: Decoding, token_bytes: TokenBytes | None, end_tokens: Sequence[int]
    ) -> None:
        name = decoding.grammar_setting
        assert name is not None
        if token_bytes is None:
            raise ConfigError(
                f"{name}: the text of a token depends on its context; use a model whose tokenizer "
                "joins pieces"
            )
        if not end_tokens:
            raise ConfigError(f"{name}: the model has no end token, so no answer ends; remove it")
        self._name, self._end_tokens = name, list(end_tokens)
        self._vocabulary_size = len(token_bytes.tokens)
        self._start = _build_matcher(decoding, name, _build_tokenizer(token_bytes, end_tokens))
        if not self._find_allowed(()).any():
            raise ConfigError(f"{name}: the grammar has no text; correct it")

    def __call__(
        self, input_ids: LongTensor, scores: FloatTensor, prompt_length: int
    ) -> FloatTensor:
        answers = input_ids[:, prompt_length:].tolist()
        allowed = torch.from_numpy(np.stack([self._find_allowed(tokens) for tokens in answers]))
        return cast(FloatTensor, scores.masked_fill_(~allowed.to(scores.device), -torch.inf))

    def _find_allowed(self, tokens: Sequence[int]) -> np.ndarray:
        """Return (vocabulary,) bool: whether each token may follow the tokens of an answer."""
        # a copy of one that read nothing: after a reset, llguidance 1.9.1 may allow tokens that
        # continue the text before
        matcher = self._start.deep_copy()
        ends = [index for index, token in enumerate(tokens) if token in self._end_tokens]
        # where an end token is an ordinary token, only further ones follow it
        answer = tokens[: ends[0]] if ends else tokens
        is_complete = matcher.try_consume_tokens(list(answer)) == len(answer)
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.unpackbits(bits, bitorder="little").astype(bool)[: self._vocabulary_size]
        has_extension = not (error := matcher.get_error()).startswith(_NO_EXTENSION)
        if error and has_extension:
            raise InvalidDistribution(
                f"decoding: {self._name}: {_shorten(error)}; use a simpler grammar"
            )
        # llguidance also allows the end where no other token is left
        allowed[self._end_tokens] = has_extension and matcher.is_accepting()
        # a text outside of the grammar has probability 0, and yet a distribution
        if ends or not is_complete:
            allowed[:] = False
            allowed[self._end_tokens] = True
        return allowed


def _build_tokenizer(token_bytes: TokenBytes, end_tokens: Sequence[int]) -> "LLTokenizer":
    with explain_missing_packages():
        from llguidance import LLTokenizer, TokenizerWrapper
    return LLTokenizer(
        TokenizerWrapper(_Vocabulary(token_bytes, end_tokens[0])), eos_token=list(end_tokens)
    )


class _Vocabulary:
    """A vocabulary in the form that llguidance reads.

    Args:
        token_bytes: the bytes of the tokens.
        end_token: id of a token that ends a text.
    """

    def __init__(self, token_bytes: TokenBytes, end_token: int) -> None:
        self.tokens = token_bytes.tokens
        self.special_token_ids = token_bytes.special_tokens
        self.eos_token_id = end_token
        self.bos_token_id = None

    def __call__(self, text: str | bytes) -> list[int]:
        """Return no tokens: a grammar without forcing splits no text into tokens."""
        return []


def _build_matcher(decoding: Decoding, name: str, tokenizer: "LLTokenizer") -> "LLMatcher":
    """Return the matcher of an empty answer."""
    from llguidance import LLMatcher

    matcher = LLMatcher(tokenizer, _write_lark(decoding) + _NO_FORCING, log_level=0)
    if not matcher.is_error():
        return matcher
    if decoding.json_schema is None:
        raise ConfigError(f"{name}: {_shorten(matcher.get_error())}")
    schema = json.loads(decoding.json_schema)
    find_problem = partial(_find_schema_problem, tokenizer)
    place, problem = _find_problem_place(schema, find_problem)
    problem = problem or _shorten(matcher.get_error())
    raise ConfigError(f"{name}: #{place}: llguidance: {problem}; change that part")


def _write_lark(decoding: Decoding) -> str:
    """Write the grammar of a decoding in the Lark syntax of llguidance."""
    from llguidance import regex_to_lark

    if decoding.json_schema is not None:
        return f"start: %json {decoding.json_schema}"
    if decoding.regex is not None:
        # classes such as \d have the meaning of Python
        return f"start: /{regex_to_lark(decoding.regex, use_ascii='')}/"
    if decoding.choice is not None:
        return "start: " + " | ".join(
            json.dumps(text, ensure_ascii=False) for text in decoding.choice
        )
    assert decoding.grammar is not None
    return decoding.grammar


def _find_schema_problem(tokenizer: "LLTokenizer", schema: Any) -> str:
    """Return the message of llguidance about a JSON Schema; empty if it accepts the schema."""
    from llguidance import LLMatcher

    grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))
    return _shorten(LLMatcher(tokenizer, grammar, log_level=0).get_error())


def _find_problem_place(schema: Any, find_problem: Callable[[Any], str]) -> tuple[str, str]:
    """Find the part of a JSON Schema without which llguidance has another problem or none.

    Args:
        schema: the whole schema.
        find_problem: returns the message about a schema.

    Returns:
        The JSON pointer of the part, and the message.
    """
    problem, place, part = find_problem(schema), "", schema
    while True:
        for key in _list_keys(part):
            if find_problem(_leave_out(schema, part, key)) != problem:
                place, part = f"{place}/{_escape(key)}", part[key]
                break
        else:
            return place, problem


def _leave_out(schema: Any, part: Any, key: Any) -> Any:
    """Return a schema without a key of one of its parts; an item of a list becomes `{}`."""
    if isinstance(schema, list):
        return [
            {} if schema is part and index == key else _leave_out(each, part, key)
            for index, each in enumerate(schema)
        ]
    if isinstance(schema, dict):
        return {
            name: _leave_out(each, part, key)
            for name, each in schema.items()
            if schema is not part or name != key
        }
    return schema


def _list_keys(part: Any) -> list[Any]:
    """List the keys or positions of a part of a schema, those of definitions first."""
    if isinstance(part, dict):
        # without its type, a schema has no problem with other keywords
        return sorted(part, key=lambda key: (key not in _DEFINITIONS, key == "type"))
    return list(range(len(part))) if isinstance(part, list) else []


def _escape(key: object) -> str:
    """Return a key as a part of a JSON pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")


def _shorten(message: str) -> str:
    """Return a message of llguidance in one line, without the state of its parser."""
    for detail in _DETAILS:
        message = message.partition(detail)[0]
    return " ".join(message.split())
