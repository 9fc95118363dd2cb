"""Text pieces of single tokens, for decoders that concatenate them.

Decoding one whole text for each token of a vocabulary takes longer than scoring them. Two kinds of
decoders turn each token into characters or bytes on its own and concatenate these. In a ByteLevel
decoder all tokens are bytes. The other kind replaces ▁ by a space and also has tokens for single
bytes (ByteFallback). A token then adds the same piece to every text, unless the text ends within a
character.
"""

import json
from typing import TYPE_CHECKING

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


class Detokenizer:
    """Text pieces of tokens, each decoded on its first use.

    Args:
        tokenizer: a tokenizer for which `is_piecewise` is true.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._tokenizer = tokenizer.backend_tokenizer
        self._pieces = np.full(0, None, dtype=object)
        self._is_decoded = np.zeros(0, dtype=bool)

    def decode_tokens(self, tokens: np.ndarray) -> np.ndarray:
        """Return (n,) str, the piece of each token; None for a token of a single byte.

        Append a piece only to texts that do not end in `REPLACEMENT_CHARACTER`.
        """
        # grow the tables to the largest token id
        if len(tokens) and (size := int(tokens.max()) + 1) > len(self._is_decoded):
            added_size = size - len(self._is_decoded)
            self._pieces = np.concatenate([self._pieces, np.full(added_size, None, dtype=object)])
            self._is_decoded = np.concatenate([self._is_decoded, np.zeros(added_size, dtype=bool)])
        if len(new_tokens := np.unique(tokens[~self._is_decoded[tokens]])):
            pieces = self._tokenizer.decode_batch(
                new_tokens[:, np.newaxis].tolist(), skip_special_tokens=True
            )
            for token, piece in zip(new_tokens.tolist(), pieces, strict=True):
                # the piece of a byte depends on the bytes around it
                self._pieces[token] = None if self._is_byte(token) else piece
            self._is_decoded[new_tokens] = True
        return self._pieces[tokens]

    def _is_byte(self, token: int) -> bool:
        name = self._tokenizer.id_to_token(token)
        # ByteFallback names the tokens of single bytes <0x00> to <0xFF>
        return name is not None and len(name) == 6 and name.startswith("<0x")


def is_piecewise(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Return whether the decoder is known to concatenate the pieces of tokens."""
    if not tokenizer.is_fast:
        return False
    decoder = tokenizer.backend_tokenizer.decoder
    if decoder is None:
        return False
    decoder = json.loads(decoder.__getstate__())
    return decoder.get("type") == "ByteLevel" or decoder.get("decoders") in _JOINING_DECODERS
