"""Text pieces and bytes of single tokens.

Decoding one whole text for each token of a vocabulary takes longer than scoring them. Two kinds of
decoders turn each token into characters or bytes on its own and concatenate these. In a ByteLevel
decoder all tokens are bytes. The other kind replaces ▁ by a space and also has tokens for single
bytes (ByteFallback). A token then adds the same piece to every text, unless the text ends within a
character.

A character may have up to four bytes, in several tokens. Both decoders replace the bytes of an
incomplete character by U+FFFD, which a model may also write itself. So only the bytes show whether
a text ends within a character.
"""

import codecs
import json
import re
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

# transformers takes seconds to import, which users of the constant alone avoid
if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REPLACEMENT_CHARACTER = "\ufffd"
"""Character that replaces bytes that are not, or not yet, a character."""

_BYTE_FALLBACK = {"type": "ByteFallback"}
_JOINING_DECODERS = [
    [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        _BYTE_FALLBACK,
        {"type": "Fuse"},
    ],
    [
        _BYTE_FALLBACK,
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "Fuse"},
    ],
]
"""Decoders that concatenate the pieces of tokens."""

_BYTE_TOKEN = re.compile("<0x[0-9A-Fa-f]{2}>")
"""Names of the tokens of single bytes in a decoder with ByteFallback."""

_MAX_INCOMPLETE_BYTES = 3
"""Largest number of bytes of an incomplete character."""


@dataclass(frozen=True)
class IncompleteCharacter:
    """An incomplete character at the end of a token sequence.

    Attributes:
        content: its bytes so far.
        position: the position of the token with the first of these bytes.
    """

    content: bytes
    position: int


class CharacterEnds:
    """The incomplete characters at the ends of token sequences.

    Args:
        tokenizer: any tokenizer. Without a ByteLevel or ByteFallback decoder all of its characters
            are complete.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        decoder_types = _find_decoder_types(_read_decoder(tokenizer))
        self.is_byte_level = "ByteLevel" in decoder_types
        """Whether all tokens are bytes, and not only those with the name of a byte."""
        self._has_bytes = self.is_byte_level or "ByteFallback" in decoder_types
        self._token_bytes: dict[int, bytes | None] = {}
        if self._has_bytes:
            self._tokenizer = tokenizer.backend_tokenizer
            added_tokens = self._tokenizer.get_added_tokens_decoder().values()
            self._special_names = {token.content for token in added_tokens if token.special}
        if self.is_byte_level:
            from transformers.convert_slow_tokenizer import bytes_to_unicode

            letters: dict[int, str] = bytes_to_unicode()
            self._byte_of_letter = {letter: byte for byte, letter in letters.items()}

    def find_incomplete(self, sequence: Sequence[int]) -> IncompleteCharacter | None:
        """Return the incomplete character at the end of a sequence; None if there is none."""
        if not self._has_bytes:
            return None
        content = b""
        positions: list[int] = []
        # a first byte is never a later one, so the bytes before the last three do not matter
        for position in range(len(sequence) - 1, -1, -1):
            token_bytes = self.read_bytes(sequence[position])
            if token_bytes is None or len(content) >= _MAX_INCOMPLETE_BYTES:
                break
            content = token_bytes + content
            positions = [position] * len(token_bytes) + positions
        # the decoder keeps the bytes that are no character yet
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(content)
        incomplete_bytes, _ = decoder.getstate()
        if not incomplete_bytes:
            return None
        return IncompleteCharacter(incomplete_bytes, positions[-len(incomplete_bytes)])

    def read_bytes(self, token: int) -> bytes | None:
        """Return the bytes of a token; None for a token of whole characters."""
        if token not in self._token_bytes:
            self._token_bytes[token] = self._find_bytes(token)
        return self._token_bytes[token]

    def _find_bytes(self, token: int) -> bytes | None:
        name: str | None = self._tokenizer.id_to_token(token)
        # decoding leaves these tokens out
        if name is None or name in self._special_names:
            return b""
        if not self.is_byte_level:
            return bytes([int(name[3:5], 16)]) if _BYTE_TOKEN.fullmatch(name) else None
        # an added token may have other characters than the letters of bytes
        if not self._byte_of_letter.keys() >= set(name):
            return name.encode()
        return bytes(self._byte_of_letter[letter] for letter in name)


class Detokenizer:
    """Text pieces of tokens, each decoded on its first use.

    Attributes:
        character_ends: the incomplete characters of the tokenizer's sequences.

    Args:
        tokenizer: a tokenizer for which `is_piecewise` is true.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.character_ends = CharacterEnds(tokenizer)
        self._tokenizer = tokenizer.backend_tokenizer
        self._pieces = np.full(0, None, dtype=object)
        self._is_incomplete = np.zeros(0, dtype=bool)
        self._is_decoded = np.zeros(0, dtype=bool)

    def decode_tokens(self, tokens: np.ndarray) -> np.ndarray:
        """Return (n,) str, the piece of each token; None for a token of a single byte.

        Append a piece only to texts that do not end within a character.
        """
        self._decode_new(tokens)
        pieces: np.ndarray = self._pieces[tokens]
        return pieces

    def read_bytes(self, vocabulary_size: int) -> list[bytes]:
        """Return (vocabulary,) the bytes that each token adds, b"" for special tokens."""
        contents = map(self.character_ends.read_bytes, range(vocabulary_size))
        pieces = self.decode_tokens(np.arange(vocabulary_size))
        # tokens of whole characters have no bytes of their own
        return [
            piece.encode() if content is None else content
            for content, piece in zip(contents, pieces, strict=True)
        ]

    def find_incomplete(self, tokens: np.ndarray) -> np.ndarray:
        """Return (n,) bool: whether each token, on its own, ends within a character."""
        self._decode_new(tokens)
        is_incomplete: np.ndarray = self._is_incomplete[tokens]
        return is_incomplete

    def _decode_new(self, tokens: np.ndarray) -> None:
        # grow the tables to the largest token id
        if len(tokens) and (size := int(tokens.max()) + 1) > len(self._is_decoded):
            added_size = size - len(self._is_decoded)
            self._pieces = np.concatenate([self._pieces, np.full(added_size, None, dtype=object)])
            added_flags = np.zeros(added_size, dtype=bool)
            self._is_incomplete = np.concatenate([self._is_incomplete, added_flags])
            self._is_decoded = np.concatenate([self._is_decoded, added_flags])
        if len(new_tokens := np.unique(tokens[~self._is_decoded[tokens]])):
            pieces = self._tokenizer.decode_batch(
                new_tokens[:, np.newaxis].tolist(), skip_special_tokens=True
            )
            for token, piece in zip(new_tokens.tolist(), pieces, strict=True):
                # the piece of a byte depends on the bytes around it
                self._pieces[token] = None if self._is_byte(token) else piece
                # few tokens end like this, and only their bytes can be incomplete
                if piece.endswith(REPLACEMENT_CHARACTER):
                    character = self.character_ends.find_incomplete([token])
                    self._is_incomplete[token] = character is not None
            self._is_decoded[new_tokens] = True

    def _is_byte(self, token: int) -> bool:
        name = self._tokenizer.id_to_token(token)
        # ByteFallback names the tokens of single bytes <0x00> to <0xFF>
        return name is not None and len(name) == 6 and name.startswith("<0x")


def show_marks(
    tokenizer: "PreTrainedTokenizerBase", marks: Sequence[str], end_tokens: Collection[int]
) -> "PreTrainedTokenizerBase":
    """Return a tokenizer whose texts contain the special tokens of marks, as of thoughts.

    Args:
        tokenizer: the tokenizer, which does not change.
        marks: the texts of the marks, each of one or several tokens.
        end_tokens: ids of the tokens that end a text, which remain hidden.
    """
    if not tokenizer.is_fast:
        return tokenizer
    names = ("bos_token", "eos_token", "pad_token", "unk_token")
    hidden = {getattr(tokenizer, name) for name in names}
    shown = {
        added.content
        for token, added in tokenizer.added_tokens_decoder.items()
        if added.special and token not in end_tokens and added.content not in hidden
        if any(added.content in mark for mark in marks)
    }
    if not shown:
        return tokenizer
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    for entry in settings["added_tokens"]:
        entry["special"] = entry["special"] and entry["content"] not in shown
    # transformers takes seconds to import, and so does its backend
    from tokenizers import Tokenizer

    changed = copy(tokenizer)
    changed._tokenizer = Tokenizer.from_str(json.dumps(settings))
    return changed


def is_piecewise(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Return whether the decoder is known to concatenate the pieces of tokens."""
    decoder = _read_decoder(tokenizer)
    return decoder.get("type") == "ByteLevel" or decoder.get("decoders") in _JOINING_DECODERS


def _read_decoder(tokenizer: "PreTrainedTokenizerBase") -> dict[str, Any]:
    """Return the settings of a tokenizer's decoder; {} if it is not known."""
    if not tokenizer.is_fast or (decoder := tokenizer.backend_tokenizer.decoder) is None:
        return {}
    settings: dict[str, Any] = json.loads(decoder.__getstate__())
    return settings


def _find_decoder_types(decoder: dict[str, Any]) -> set[str]:
    """Return the types of a decoder and of its parts."""
    parts = decoder.get("decoders", [])
    return {decoder.get("type", "")}.union(*map(_find_decoder_types, parts))
