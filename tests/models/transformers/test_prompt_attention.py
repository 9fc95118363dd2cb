"""Long prompts whose keys and values all rows of a batch share."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from helpers.architectures import tiny_network
from helpers.random_models import word_piece
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from llmchecker.errors import UnusableModel
from llmchecker.models.transformers.batching import MAX_ROWS
from llmchecker.models.transformers.load import wrap_model

TOKENIZER = word_piece()
PROMPT = np.random.default_rng(0).integers(5, len(TOKENIZER), 300).tolist()
TEXTS = np.random.default_rng(1).integers(5, len(TOKENIZER), (MAX_ROWS + 30, 3))
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "vocab_size": len(TOKENIZER),
}
WINDOWS = {"sliding_window": 8, "head_dim": 8}
SHARING = {
    "llama": LlamaConfig(**SIZES),
    "mistral": MistralConfig(**SIZES, **WINDOWS),
    "gemma3": Gemma3TextConfig(
        **SIZES, **WINDOWS, layer_types=["sliding_attention", "full_attention"]
    ),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES, head_dim=8),
    "gpt2": GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=512, vocab_size=len(TOKENIZER)),
    "gpt_neox": GPTNeoXConfig(**{**SIZES, "num_key_value_heads": None}),
}
COPYING = {
    # scores with a cap, and with a bias of their own
    "gemma2": Gemma2Config(**SIZES, head_dim=8, attn_logit_softcapping=5.0),
    "bloom": BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=len(TOKENIZER)),
    # the prompt that shows the bits of a shared prompt does not fit
    "short": LlamaConfig(**{**SIZES, "max_position_embeddings": 200}),
}


def build(config: PreTrainedConfig):
    torch.manual_seed(0)
    # loading changes the configuration
    network = AutoModelForCausalLM.from_config(deepcopy(config)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 1)
    return network


def probabilities(prefix, texts) -> torch.Tensor:
    return torch.cat(list(prefix.map_next(lambda _, part: part.probabilities(), texts, True)))


def compare_with_plain_passes(network, model, prompt) -> float:
    """Return the largest difference of probabilities from plain passes over whole texts."""
    prefix = model.open_prefix(prompt, 3)
    differences = []
    for depth in (1, 2, 3):
        found = probabilities(prefix, TEXTS[:, :depth])
        for row in (0, 5, MAX_ROWS + 3):
            text = torch.tensor([[*prompt, *TEXTS[row, :depth].tolist()]])
            with torch.inference_mode():
                expected = network(input_ids=text).logits[0, -1].double().softmax(0)
            differences.append((found[row] - expected).abs().max().item())
    return max(differences)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", SHARING)
def test_a_shared_prompt_gives_the_probabilities_of_plain_passes(name):
    """With groups of heads, sliding windows or learned positions, a long prompt is shared."""
    network = build(SHARING[name])
    model = wrap_model(network, TOKENIZER)
    assert model.shared_from == 256
    (layer,) = {len(b) for b in model.open_prefix(PROMPT)._allocate_layers(70, 2)[0].own_tokens}
    assert layer == 70
    assert compare_with_plain_passes(network, model, PROMPT) < 1e-6


@pytest.mark.parametrize("name", COPYING)
def test_a_prompt_that_cannot_be_shared_is_copied(name):
    """Attention with a cap or a bias, or without room for the trial, stays what it was."""
    network = build(COPYING[name])
    model = wrap_model(network, TOKENIZER)
    assert model.shared_from is None
    assert network.config._attn_implementation == build(COPYING[name]).config._attn_implementation
    assert compare_with_plain_passes(network, model, PROMPT[:100]) < 1e-6


@pytest.mark.parametrize("name", ["mamba", "gpt_oss", "jamba"])
def test_states_and_sinks_are_not_shared(name):
    """A network with a state or with sinks of attention is evaluated as before."""
    network = tiny_network("causal", name, len(TOKENIZER))
    assert wrap_model(network, TOKENIZER).shared_from is None


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_company_changes_no_bit_after_a_shared_prompt(name):
    """On a processor, a text has the same bits alone and in a full batch, on several threads."""
    model = wrap_model(build(SHARING[name]), TOKENIZER, threads=2)
    together = probabilities(model.open_prefix(PROMPT), TEXTS)
    few = [0, 17, MAX_ROWS + 20]
    assert torch.equal(probabilities(model.open_prefix(PROMPT), TEXTS[few]), together[few])


def test_a_short_prompt_keeps_its_bits():
    """A prompt below the limit has the bits of a network whose attention is not replaced."""
    config = SHARING["llama"]
    model, other = wrap_model(build(config), TOKENIZER), wrap_model(build(config), TOKENIZER)
    other.network.set_attn_implementation("sdpa")
    other.shared_from = None
    one, two = (probabilities(m.open_prefix(PROMPT[:255]), TEXTS) for m in (model, other))
    assert torch.equal(one, two)


def test_a_shared_prompt_takes_no_memory_in_a_batch():
    """Batches after a long prompt have many rows where copies would leave room for few."""
    model = wrap_model(build(SHARING["llama"]), TOKENIZER, memory_bytes=24 * 10**6)
    shared = model.open_prefix(PROMPT)._compute_max_rows(2)
    model.shared_from = None
    copied = model.open_prefix(PROMPT)._compute_max_rows(2)
    assert shared > 3 * copied


def test_an_attention_that_is_changed_after_loading_is_noticed():
    """No logits are computed by an attention that does not read the shared prompt."""
    model = wrap_model(build(SHARING["llama"]), TOKENIZER)
    model.network.set_attn_implementation("sdpa")
    with pytest.raises(UnusableModel, match="changed after loading"):
        probabilities(model.open_prefix(PROMPT), TEXTS)


def test_a_network_of_the_caller_still_generates():
    """The replaced attention writes the texts that the network wrote before."""
    network = build(SHARING["llama"])
    prompt = torch.tensor([PROMPT[:20]])
    before = network.generate(prompt, max_new_tokens=8, do_sample=False)
    # a network that is wrapped a second time shares its prompts too
    assert [wrap_model(network, TOKENIZER).shared_from for _ in range(2)] == [256, 256]
    assert torch.equal(network.generate(prompt, max_new_tokens=8, do_sample=False), before)
