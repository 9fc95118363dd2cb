"""A token adds to a text what decoding the whole text gives; half a character is no text."""

import random

import numpy as np
import pytest
from helpers.byte_texts import (
    BYTES,
    FUSE,
    REPLACE,
    TOKENIZERS,
    WORDS,
    TokenTable,
    byte_fallback,
    byte_level,
    draw_tokens,
    expected_text,
    read_bytes,
    stream,
)
from tokenizers import AddedToken, decoders
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from llmchecker.models.transformers.token_pieces import Detokenizer, is_piecewise


def differing(tokenizer: PreTrainedTokenizerFast, seed: int, texts: int = 300) -> list[str]:
    """Random texts of up to six tokens that their pieces do not make."""
    pieces, draw, found = Detokenizer(tokenizer), random.Random(seed), []
    decode = tokenizer.backend_tokenizer.decode
    for _ in range(texts):
        tokens = draw_tokens(tokenizer, draw, 6)
        before, after = decode(tokens[:-1]), decode(tokens)
        (piece,) = pieces.decode_tokens(np.array(tokens[-1:]))
        is_whole = pieces.character_ends.find_incomplete(tokens[:-1]) is None
        if piece is not None and is_whole and before + piece != after:
            found.append(after)
    return found


@pytest.mark.parametrize(
    "tokenizer",
    [byte_level(), byte_fallback(REPLACE, BYTES, FUSE), byte_fallback(BYTES, REPLACE, FUSE)],
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
    tokenizer = byte_fallback(REPLACE, BYTES, FUSE)
    numbers = np.arange(len(WORDS) + 256)
    single = [piece is None for piece in Detokenizer(tokenizer).decode_tokens(numbers)]
    assert single == [number >= len(WORDS) for number in numbers]


@pytest.mark.few(5)
@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("seed", range(3))
def test_texts_that_may_go_on_have_whole_characters(name, seed):
    """The text of tokens that may go on ends before the bytes that are no character yet, as
    Python's streaming decoder writes it; where it ended, all bytes are decoded as by the tokenizer.
    """
    tokenizer, draw = TOKENIZERS[name](), random.Random(seed)
    model = TokenTable(tokenizer, lambda text: [])
    sequences = [draw_tokens(tokenizer, draw, 8) for _ in range(300)]
    unfinished = model.decode_unfinished(sequences)
    ended = [expected_text(tokenizer, tokens, is_ended=True) for tokens in sequences]
    assert model.decode(sequences) == ended
    assert unfinished == [expected_text(tokenizer, tokens, False) for tokens in sequences]
    assert sum(text != whole for text, whole in zip(unfinished, ended, strict=True)) > 50


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_character_appears_with_its_last_byte(name):
    """Token by token, special ones between them, a text grows by whole characters, U+FFFD too."""
    tokenizer = TOKENIZERS[name]()
    model = TokenTable(tokenizer, lambda text: [])
    text = "é\ufffd😀東"
    single = {read_bytes(tokenizer, [token]): token for token in range(len(tokenizer))}
    tokens = []
    for byte in text.encode():
        tokens += [single[bytes([byte])], tokenizer.eos_token_id]
    texts = model.decode_unfinished([tokens[:size] for size in range(len(tokens) + 1)])
    content = text.encode()
    assert texts == [stream(content[: (size + 1) // 2]) for size in range(len(tokens) + 1)]
    assert set(texts) == {"", "é", "é\ufffd", "é\ufffd😀", text}


@pytest.mark.parametrize(
    "decoder", [decoders.WordPiece(), decoders.Metaspace(), decoders.CTC(), None]
)
def test_other_decoders_are_left_alone(decoder):
    """A decoder that may look at neighbouring tokens is not taken for one that joins pieces."""
    tokenizer = byte_fallback()
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


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_texts_of_a_real_tokenizer_have_whole_characters(seed, smollm2):
    """After any tokens of SmolLM2, its texts are those of Python's streaming decoder."""
    tokenizer, draw = AutoTokenizer.from_pretrained(smollm2), random.Random(seed)
    model = TokenTable(tokenizer, lambda text: [])
    characters = [chr(draw.randrange(0x80, 0xD800)) for _ in range(60)] + list("🙂🏽\u200d👩\ufffd")
    sequences = []
    for _ in range(300):
        tokens = tokenizer("".join(draw.choices(characters, k=3)))["input_ids"]
        tokens = tokens[: draw.randint(1, len(tokens))]
        if draw.random() < 0.5:
            tokens.insert(draw.randrange(len(tokens) + 1), draw.randrange(len(tokenizer)))
        sequences.append(tokens)
    contents = [read_bytes(tokenizer, tokens) for tokens in sequences]
    assert model.decode_unfinished(sequences) == [stream(content) for content in contents]
    assert model.decode(sequences) == [content.decode(errors="replace") for content in contents]


def test_words_without_bytes_are_complete(random_model):
    """A tokenizer without bytes keeps every character, U+FFFD too."""
    tokenizer = AutoTokenizer.from_pretrained(random_model("bert"))
    tokenizer.add_tokens([AddedToken("\ufffd", normalized=False)])
    model = TokenTable(tokenizer, lambda text: [])
    sequences = [[9, 10, len(tokenizer) - 1]]
    assert model.decode_unfinished(sequences) == model.decode(sequences)
    assert model.decode(sequences)[0].endswith("\ufffd")
