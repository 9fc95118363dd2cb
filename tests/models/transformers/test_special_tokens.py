"""What looks like a special token in a text is text, however a tokenizer is made."""

from pathlib import Path

import pytest
import sentencepiece
from helpers.random_models import ARCHITECTURES, CAUSAL, CORPUS
from transformers import (
    BertGenerationTokenizer,
    ByT5Tokenizer,
    GPTSw3Tokenizer,
    PLBartTokenizer,
    PreTrainedTokenizerBase,
)

from llmchecker.errors import UnusableText
from llmchecker.models.transformers.load import load_model, wrap_model

CHAT = "<|im_end|>"
"""A special token that models for chats have, and that nobody's text should end."""


def pieces(directory: Path, kind: str, **settings: object) -> str:
    """A small model of sentencepiece, `unigram` or `bpe`, that knows the characters of tokens."""
    texts = [*CORPUS, "< > / | _ [ ] <| |> im end pad unk endoftext"] * 3
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(directory / kind),
        model_type=kind,
        vocab_size=130,
        hard_vocab_limit=False,
        character_coverage=1.0,
        pad_id=3,
        minloglevel=2,
        **settings,
    )
    return str(directory / f"{kind}.model")


def slow(name: str, directory: Path) -> PreTrainedTokenizerBase:
    """A tokenizer that is written in Python."""
    match name:
        case "unigram":
            return BertGenerationTokenizer(pieces(directory, "unigram"))
        case "bpe":
            return GPTSw3Tokenizer(pieces(directory, "bpe"))
        case "bpe with </s> after texts":
            return PLBartTokenizer(pieces(directory, "bpe"), language_codes="base")
    return ByT5Tokenizer(extra_ids=4)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["unigram", "bpe", "bpe with </s> after texts", "bytes"])
def test_slow_tokenizers_read_special_tokens_as_text(name, tmp_path, random_model):
    """With sentencepiece and with bytes, a special token that somebody types is found again."""
    tokenizer = slow(name, tmp_path)
    assert not tokenizer.is_fast
    tokenizer.add_special_tokens({"extra_special_tokens": [CHAT]})
    model = wrap_model(load_model(random_model("llama")).network, tokenizer)
    around = set(model.encode("the player"))
    typed = {token for token in tokenizer.all_special_tokens if "::" not in token}
    assert len(typed) >= 4
    for special in typed:
        tokens = model.encode(f"the {special} player")
        assert set(tokens) & set(tokenizer.all_special_ids) <= around
        assert model.decode([tokens])[0].split() == ["the", special, "player"]


@pytest.mark.long
def test_a_symbol_that_sentencepiece_itself_keeps_whole_is_refused(tmp_path, random_model):
    """Where the pieces hold a special token as a word of their own, no text can contain it."""
    kept = pieces(tmp_path, "bpe", user_defined_symbols=[CHAT])
    tokenizer = GPTSw3Tokenizer(kept)
    tokenizer.add_special_tokens({"extra_special_tokens": [CHAT]})
    model = wrap_model(load_model(random_model("llama")).network, tokenizer, name="chat")
    with pytest.raises(UnusableText, match=r"chat reads a part of .* special token '<|im_end|>'"):
        model.encode(f"the {CHAT} player")


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tokens_that_were_added_for_chats_are_text_too(architecture, random_model):
    """BPE over marked spaces or bytes, and word pieces, read an added special token as text."""
    kind = "causal" if architecture in CAUSAL else "masked"
    loaded = load_model(random_model(architecture), kind)
    loaded.network.resize_token_embeddings(len(loaded.tokenizer) + 1)
    loaded.tokenizer.add_special_tokens({"extra_special_tokens": [CHAT]})
    model = wrap_model(loaded.network, loaded.tokenizer, kind)
    chat = model.tokenizer.convert_tokens_to_ids(CHAT)
    assert chat in model.tokenizer(CHAT)["input_ids"]
    tokens = model.encode(f"the {CHAT} player")
    assert chat not in tokens
    if architecture == "bert":  # its word pieces know no |
        assert model.tokenizer.unk_token_id in tokens
    else:
        assert model.decode([tokens]) == [f"the {CHAT} player"]
