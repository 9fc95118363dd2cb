"""What a token adds to a text is what decoding the whole text gives."""

import random

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from llmchecker.models.transformers.token_pieces import (
    REPLACEMENT_CHARACTER,
    Detokenizer,
    is_piecewise,
)

WORDS = ["▁he", "▁", "s", "é", "▁won<0x41>", "<unk>"]
REPLACE, BYTES, FUSE = decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()


def with_bytes(*parts) -> PreTrainedTokenizerFast:
    """A tokenizer of a few words and all single bytes, with a decoder of these parts."""
    names = WORDS + [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(list(parts))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def byte_level() -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are one byte each, with some of two bytes, and special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = [*alphabet, *(one + other for one in alphabet[100:140] for other in alphabet[150:160])]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")


def differing(tokenizer: PreTrainedTokenizerFast, seed: int, texts: int = 300) -> list[str]:
    """Random texts of up to six tokens that their pieces do not make."""
    pieces, draw, found = Detokenizer(tokenizer), random.Random(seed), []
    decode = tokenizer.backend_tokenizer.decode
    for _ in range(texts):
        tokens = [draw.randrange(len(tokenizer)) for _ in range(draw.randint(1, 6))]
        before, after = decode(tokens[:-1]), decode(tokens)
        (piece,) = pieces.decode_tokens(np.array(tokens[-1:]))
        if (
            piece is not None
            and not before.endswith(REPLACEMENT_CHARACTER)
            and before + piece != after
        ):
            found.append(after)
    return found


@pytest.mark.parametrize(
    "tokenizer",
    [byte_level(), with_bytes(REPLACE, BYTES, FUSE), with_bytes(BYTES, REPLACE, FUSE)],
    ids=["bytes", "replaced", "replaced last"],
)
@pytest.mark.parametrize("seed", range(5))
def test_pieces_make_the_text(tokenizer, seed):
    """A text with the piece of the next token is the text of all tokens, whatever bytes there are,
    wherever it does not end within a character."""
    assert is_piecewise(tokenizer)
    assert differing(tokenizer, seed) == []


def test_single_bytes_have_no_piece():
    """A token that stands for a byte depends on the bytes before, and has no piece."""
    tokenizer = with_bytes(REPLACE, BYTES, FUSE)
    numbers = np.arange(len(tokenizer))
    single = [piece is None for piece in Detokenizer(tokenizer).decode_tokens(numbers)]
    assert single == [number >= len(WORDS) for number in numbers]


@pytest.mark.parametrize(
    "decoder", [decoders.WordPiece(), decoders.Metaspace(), decoders.CTC(), None]
)
def test_other_decoders_are_left_alone(decoder):
    """A decoder that may look at neighbouring tokens is not taken for one that joins pieces."""
    tokenizer = with_bytes()
    if decoder is None:
        tokenizer.backend_tokenizer.decoder = decoders.Sequence([REPLACE, decoders.Strip(" ", 1)])
    else:
        tokenizer.backend_tokenizer.decoder = decoder
    assert not is_piecewise(tokenizer)


def test_the_pieces_of_a_real_vocabulary_make_its_texts(smollm2):
    """After each of three texts, every token of SmolLM2 adds its piece."""
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    assert is_piecewise(tokenizer)
    numbers = np.arange(len(tokenizer))
    pieces = Detokenizer(tokenizer).decode_tokens(numbers)
    for start in ("The player won because", "naïve 東京", "he's 🙂\n"):
        prompt = tokenizer(start)["input_ids"]
        texts = tokenizer.backend_tokenizer.decode_batch(
            [[*prompt, number] for number in numbers.tolist()], skip_special_tokens=True
        )
        assert texts == [start + piece for piece in pieces]
