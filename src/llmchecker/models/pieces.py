"""What a token adds to a text, for tokenizers whose decoder joins what tokens stand for.

To decode one text for each token of a vocabulary, from its first token, takes longer than
to score them. Two kinds of decoders turn each token into characters or bytes on its own and join
these. With one all tokens stand for bytes (ByteLevel). The other replaces ▁ by a space, and has
tokens for single bytes besides (ByteFallback). So a token adds the same to every text, unless bytes
of a character are still missing there.
"""

import json
from typing import TYPE_CHECKING

import numpy as np

# transformers takes seconds to import; who only reads the constant need not wait for it
if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BROKEN = "\ufffd"
"""Stands in a text for bytes that are no character, or not yet."""

_BYTES = {"type": "ByteFallback"}
_JOINED = [
    [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, _BYTES, {"type": "Fuse"}],
    [_BYTES, {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"}],
]
"""Decoders that join what tokens stand for, one after the other."""


class Pieces:
    """What tokens add to texts. Each is decoded when it is asked for first.

    Args:
        tokenizer: one for which `joins_pieces` holds.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._tokenizer = tokenizer.backend_tokenizer
        self._pieces = np.full(0, None, dtype=object)
        self._known = np.zeros(0, dtype=bool)

    def of(self, tokens: np.ndarray) -> np.ndarray:
        """(n,) str for each token; None for one that stands for a single byte.

        A text that does not end in `BROKEN` is continued by the piece of a token.
        """
        if len(tokens) and (size := int(tokens.max()) + 1) > len(self._known):
            more = size - len(self._known)
            self._pieces = np.concatenate([self._pieces, np.full(more, None, dtype=object)])
            self._known = np.concatenate([self._known, np.zeros(more, dtype=bool)])
        if len(missing := np.unique(tokens[~self._known[tokens]])):
            found = self._tokenizer.decode_batch(
                missing[:, np.newaxis].tolist(), skip_special_tokens=True
            )
            for token, piece in zip(missing.tolist(), found, strict=True):
                self._pieces[token] = None if self._is_byte(token) else piece
            self._known[missing] = True
        return self._pieces[tokens]

    def _is_byte(self, token: int) -> bool:
        name = self._tokenizer.id_to_token(token)
        return name is not None and len(name) == 6 and name.startswith("<0x")


def joins_pieces(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether the decoder is known to join what tokens stand for."""
    if not tokenizer.is_fast:
        return False
    decoder = tokenizer.backend_tokenizer.decoder
    if decoder is None:
        return False
    decoder = json.loads(decoder.__getstate__())
    return decoder.get("type") == "ByteLevel" or decoder.get("decoders") in _JOINED
