"""Tokenizers whose tokens are parts of characters, a table over them, and the texts by UTF-8 alone.

The texts come from Python's incremental decoder and from the code points of Unicode. They share no
code with the package.
"""

import codecs
import random
import re
from collections.abc import Callable, Sequence
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.base import TokenizedModel

CHARACTERS = "né߿‰東\ufffd▁😀🏽\u200d"
"""Characters of one to four bytes, U+FFFD itself among them."""
WORDS = ["▁he", "▁", "s", "é", "▁won<0x41>", "<unk>"]
REPLACE, BYTES, FUSE = decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()
STRIP = decoders.Strip(" ", 1, 0)
END = "<|end|>"


def byte_fallback(*parts) -> PreTrainedTokenizerFast:
    """A tokenizer of a few words and all single bytes, with a decoder of these parts."""
    names = WORDS + [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(list(parts))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token=END)


def byte_level(decoder=None) -> PreTrainedTokenizerFast:
    """A tokenizer of single bytes, of pairs of bytes, and of whole and added tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    names = [*alphabet, *(one + other for one in alphabet[100:140] for other in alphabet[150:160])]
    for text in ("he said", "😀", "a😀", "\ufffd"):
        ((letters, _),) = splitter.pre_tokenize_str(text)
        # the last tokens of these end within a character
        names += [letters[:size] for size in range(2, len(letters) + 1)]
    vocabulary = {name: number for number, name in enumerate(dict.fromkeys(names))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoder or decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in ("é", "é ", "東")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END)


TOKENIZERS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "bytes": byte_level,
    "bytes in a sequence": lambda: byte_level(decoders.Sequence([decoders.ByteLevel()])),
    "fallback": lambda: byte_fallback(REPLACE, BYTES, FUSE),
    "fallback first": lambda: byte_fallback(BYTES, REPLACE, FUSE),
    "stripped fallback": lambda: byte_fallback(REPLACE, BYTES, FUSE, STRIP),
}


def has_byte_tokens(tokenizer: PreTrainedTokenizerFast) -> bool:
    """Whether bytes have tokens of their own, apart from those of characters."""
    return tokenizer.backend_tokenizer.token_to_id("<0x00>") is not None


@cache
def special_tokens(tokenizer: PreTrainedTokenizerFast) -> frozenset[int]:
    """The tokens that decoding leaves out."""
    added = tokenizer.added_tokens_decoder.items()
    return frozenset(number for number, token in added if token.special)


def drop_special(tokenizer: PreTrainedTokenizerFast, tokens: Sequence[int]) -> list[int]:
    """The tokens that decoding does not leave out."""
    return [token for token in tokens if token not in special_tokens(tokenizer)]


def read_bytes(tokenizer: PreTrainedTokenizerFast, tokens: Sequence[int]) -> bytes:
    """The bytes of tokens without special ones, by the rule that GPT-2 published."""
    names = tokenizer.convert_ids_to_tokens(drop_special(tokenizer, tokens))
    if has_byte_tokens(tokenizer):
        parts = [re.fullmatch("<0x(..)>", name) for name in names]
        return b"".join(
            bytes.fromhex(part[1]) if part else name.replace("▁", " ").encode()
            for part, name in zip(parts, names, strict=True)
        )
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {chr(byte): byte for byte in shown}
    letters |= {chr(256 + number): byte for number, byte in enumerate(hidden)}
    return b"".join(
        bytes(letters[letter] for letter in name) if letters.keys() >= set(name) else name.encode()
        for name in names
    )


def stream(content: bytes) -> str:
    """What a streaming decoder has written after these bytes."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(content)


_STARTS = {
    code[:size]
    for code in (chr(point).encode("utf-8", "surrogatepass") for point in range(0x80, 0x110000, 64))
    for size in range(1, len(code))
}
"""The bytes that begin a code point of Unicode without completing it.

Python waits for the third byte of a surrogate too.
"""


def count_incomplete(content: bytes) -> int:
    """The number of bytes at the end that begin a character."""
    return next((len(end) for size in (3, 2, 1) if (end := content[-size:]) in _STARTS), 0)


def expected_text(tokenizer: PreTrainedTokenizerFast, tokens: Sequence[int], is_ended: bool) -> str:
    """The text of tokens: all of them decoded if it ended, and else without half a character."""
    plain = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    content = read_bytes(tokenizer, tokens)
    if is_ended or not (count := count_incomplete(content)):
        return tokenizer.decode(list(tokens), **plain)
    if not has_byte_tokens(tokenizer):
        return stream(content)
    return tokenizer.decode(drop_special(tokenizer, tokens)[:-count], **plain)


@cache
def byte_tokens(tokenizer: PreTrainedTokenizerFast) -> dict[int, int]:
    """The token of each single byte from 128 on."""
    contents = {token: read_bytes(tokenizer, [token]) for token in range(len(tokenizer))}
    return {
        content[0]: token
        for token, content in contents.items()
        if len(content) == 1 and content[0] >= 128
    }


def draw_tokens(tokenizer: PreTrainedTokenizerFast, draw: random.Random, most: int) -> list[int]:
    """Up to so many random tokens, of which many are the bytes of characters in their order."""
    tokens: list[int] = []
    while len(tokens) < most:
        if draw.random() < 0.6:
            content = draw.choice(CHARACTERS[1:]).encode()[: draw.randint(1, 4)]
            tokens += [byte_tokens(tokenizer)[byte] for byte in content]
        else:
            tokens.append(draw.randrange(len(tokenizer)))
    return tokens[: draw.randint(1, most)]


class TokenTable(TokenizedModel, TableModel):
    """A model given as a table of the tokens of a tokenizer.

    Args:
        tokenizer: the tokenizer, whose end token ends a text.
        distribution: as of a `TableModel`.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, distribution: Callable) -> None:
        TokenizedModel.__init__(self, "tokens", tokenizer, frozenset([tokenizer.eos_token_id]))
        self.vocabulary_size = self.listed_tokens = len(tokenizer)
        self.distribution = distribution


def scripted_table(tokenizer: PreTrainedTokenizerFast, content: bytes) -> TokenTable:
    """A model that writes these bytes token by token after a prompt of one token, and then ends."""
    tokens = range(len(tokenizer))
    single = {read_bytes(tokenizer, [token]): token for token in tokens}
    script = [single[bytes([byte])] for byte in content] + [tokenizer.eos_token_id]

    def distribution(text: tuple[int, ...]) -> list[float]:
        row = [0.0] * len(tokenizer)
        row[script[len(text) - 1]] = 1.0
        return row

    return TokenTable(tokenizer, distribution)


def random_table(tokenizer: PreTrainedTokenizerFast, seed: int) -> TokenTable:
    """A model of up to four next tokens, drawn by the text; a character often goes on."""

    def distribution(text: tuple[int, ...]) -> list[float]:
        draw = random.Random(repr((seed, text)))
        row = [0.0] * len(tokenizer)
        drawn = [*draw_tokens(tokenizer, draw, 3), tokenizer.eos_token_id]
        for token in drawn:
            row[token] += 1 / len(drawn)
        return row

    return TokenTable(tokenizer, distribution)
