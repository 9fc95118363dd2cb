"""Texts are read at their right places, or refused by name before anything is computed."""

import numpy as np
import pytest
import torch
from helpers.architectures import tiny_network
from helpers.random_models import save, word_piece
from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM

from llmchecker.errors import UnusableText
from llmchecker.models.transformers.load import load_model, wrap_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation

SIZES = {
    "vocab_size": 160,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def strong(network: torch.nn.Module) -> torch.nn.Module:
    """The network with larger weights: as they are made all next tokens are about as likely."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(6 if parameter.dim() > 1 else 1)
    return network.eval()


def longrope() -> Phi3ForCausalLM:
    """A Phi-3 that turns from short to long factors behind 16 tokens."""
    torch.manual_seed(0)
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0, 5.0, 9.0, 20.0]}
    places = {"rope_type": "longrope", "rope_theta": 10_000.0, **factors}
    return strong(
        Phi3ForCausalLM(
            Phi3Config(
                **SIZES,
                rope_parameters=places | {"original_max_position_embeddings": 16},
                max_position_embeddings=64,
                original_max_position_embeddings=16,
            )
        )
    )


def dynamic() -> LlamaForCausalLM:
    """A Llama whose rotation is stretched as soon as a text has more than 16 tokens."""
    torch.manual_seed(0)
    places = {"rope_type": "dynamic", "rope_theta": 10_000.0, "factor": 4.0}
    return strong(
        LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=places, max_position_embeddings=16))
    )


def rows(continuations, suffixes) -> torch.Tensor:
    return torch.cat(
        list(continuations.map_next(lambda _, part: part.probabilities(), np.array(suffixes)))
    )


def plain(network, text) -> torch.Tensor:
    with torch.inference_mode():
        return torch.softmax(network(input_ids=torch.tensor([text])).logits[0, -1].double(), 0)


@pytest.mark.parametrize("length", [3, 13, 14, 16, 17, 30])
def test_longrope_is_right_or_refused(length):
    """Texts on one side of the turn have the answers of plain passes; those across are refused."""
    network = longrope()
    model = wrap_model(network, word_piece(), threads=3)
    assert model.executor.threads == 1
    prompt = np.random.default_rng(length).integers(5, 150, length).tolist()
    if length <= 16 < length + 3:
        with pytest.raises(UnusableText, match="16 tokens in another way"):
            model.open_prefix(prompt, 3)
        with pytest.raises(UnusableText, match="16 tokens in another way"):
            rows(model.open_prefix(prompt), [[7] * 17])
        return
    found = rows(model.open_prefix(prompt, 3), [[7, 11, 12], [9, 5, 30]])
    for suffix, row in zip([[7, 11, 12], [9, 5, 30]], found, strict=True):
        torch.testing.assert_close(row, plain(longrope(), [*prompt, *suffix]), rtol=0, atol=1e-5)


def test_dynamic_ntk_is_right_or_refused():
    """A rotation that grows with the text is asked only where it has not begun to."""
    model = wrap_model(dynamic(), word_piece())
    found = rows(model.open_prefix([9] * 13, 3), [[7, 11, 12]])
    torch.testing.assert_close(
        found[0], plain(dynamic(), [9] * 13 + [7, 11, 12]), rtol=0, atol=1e-5
    )
    with pytest.raises(UnusableText, match="17 tokens are too long, it reads at most 16"):
        model.open_prefix([9] * 14, 3)


@pytest.mark.parametrize(
    ("kind", "architecture", "most"),
    [
        ("causal", "gpt2", 64),
        ("causal", "opt", 64),
        ("causal", "llama", 64),
        ("causal", "mpt", 64),
        ("masked", "bert", 64),
        ("masked", "roberta", 63),
        ("masked", "xlm-roberta", 63),
    ],
)
def test_the_longest_text_is_answered_and_no_longer_one(kind, architecture, most):
    """A text as long as the table of positions is read as plain passes read it, and no longer one.

    RoBERTa's table has a place for the padding, before the first.
    """
    tokenizer = word_piece()
    network = tiny_network(kind, architecture, len(tokenizer))
    model = wrap_model(network, tokenizer, kind)
    tail = list(model.tail)
    prompt = np.random.default_rng(0).integers(5, len(tokenizer), most - len(tail) - 2).tolist()
    (found,) = rows(model.open_prefix(prompt, 2), [[7, 11]])
    with torch.inference_mode():
        text = torch.tensor([[*prompt, 7, 11, *tail]])
        expected = network(input_ids=text).logits[0, -max(len(tail), 1)].double().softmax(0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    with pytest.raises(UnusableText, match=f"too long, it reads at most {most}"):
        model.open_prefix(prompt, 3)
    with pytest.raises(UnusableText, match=f"too long, it reads at most {most}"):
        rows(model.open_prefix(prompt), [[7, 11, 12]])


def test_a_tree_that_grows_too_long_is_refused_at_once(tmp_path):
    """A tree whose last texts would be too long is refused before its first text is computed."""
    model = load_model(save("llama", tmp_path))
    model.network = None
    with pytest.raises(UnusableText, match=rf"{tmp_path.name}: texts of \d+ tokens are too long"):
        build_tree(model, "The player", Truncation(0.8, 1, 2000))
