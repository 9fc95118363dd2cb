"""How a model is asked is measured when it is taken, so that its answers keep their bits.

The networks here are made to misbehave as real ones do: with bfloat16 a row's bits depend on the
size of its batch, with experts on the other rows. A hook on the head adds what may not be there.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers.random_models import word_piece
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

from llmchecker.errors import UnusableModel
from llmchecker.models.transformers.batching import MAX_ROWS, MIN_ROWS
from llmchecker.models.transformers.load import wrap_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.shards import Shard, merge_shards
from llmchecker.trees.text_tree import TextTree, Truncation

TOKENIZER = word_piece()
START = "the player won because"
TRUNCATION = Truncation(alpha=0.9, k=9, length=3)
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}

Logits = Callable[[Tensor], Tensor]
"""What a head gives, (rows, tokens, vocabulary), and what is made of it."""


def by_size(logits: Tensor) -> Tensor:
    """Bits that depend on the number of rows, where it is not the usual one."""
    return logits * (1 + 1e-7 * max(0, len(logits) - MIN_ROWS))


def as_in_bfloat16(logits: Tensor) -> Tensor:
    """As by a product that rounds in another way where a batch is large."""
    large = len(logits) >= 2 * MIN_ROWS
    return (logits * 1.001).to(torch.bfloat16).float() / 1.001 if large else logits


def by_largest_size(logits: Tensor) -> Tensor:
    """Bits that the largest batches alone change."""
    return logits * 1.00001 if len(logits) > MAX_ROWS - 16 else logits


def by_company(logits: Tensor) -> Tensor:
    """Bits that depend on the other rows, as with experts that read their rows together."""
    return logits * (1 + 1e-6 * torch.sin(logits.sum()))


def by_place(logits: Tensor) -> Tensor:
    """Bits that depend on where a row stands."""
    return logits * (1 + 1e-6 * torch.arange(len(logits)).reshape(-1, 1, 1))


def by_late_place(logits: Tensor) -> Tensor:
    """Bits that rows in the second half of a small batch have otherwise."""
    late = torch.arange(len(logits)) >= MIN_ROWS // 2
    return logits * (1 + 1e-6 * late.reshape(-1, 1, 1))


def one_row_only(logits: Tensor) -> Tensor:
    """A network that reads one text at a time."""
    if len(logits) > 1:
        raise RuntimeError("a single text, please")
    return logits


def by_time() -> Logits:
    """Bits that differ from one call to the next."""
    calls = itertools.count()
    return lambda logits: logits * (1 + 1e-6 * (next(calls) % 7))


def llama(change: Logits | None = None, layers: int = 2) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(**SIZES, vocab_size=len(TOKENIZER), num_hidden_layers=layers)
    network = livelier(LlamaForCausalLM(config))
    if change is not None:
        network.lm_head.register_forward_hook(lambda module, given, found: change(found))
    return network


def mixtral() -> MixtralForCausalLM:
    torch.manual_seed(0)
    config = MixtralConfig(
        **SIZES,
        vocab_size=len(TOKENIZER),
        num_hidden_layers=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=None,
    )
    return livelier(MixtralForCausalLM(config))


def livelier(network):
    """With weights so large that some next tokens are likely."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(6 if parameter.dim() > 1 else 1)
    return network.eval()


def grown(network, shards: int = 1, **settings) -> TextTree:
    """The tree of a network, put together from so many shards."""
    model = wrap_model(network, TOKENIZER, **settings)
    if shards == 1:
        return build_tree(model, START, TRUNCATION)
    parts = [
        build_tree(model, START, TRUNCATION, shard=Shard(part, shards)) for part in range(shards)
    ]
    return merge_shards(parts)


def same_bits(one: TextTree, other: TextTree) -> bool:
    names = ("parent", "step", "token", "probability", "kind")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


LADDER = [
    (None, (MIN_ROWS, MAX_ROWS)),
    (by_size, (MIN_ROWS, MIN_ROWS)),
    (as_in_bfloat16, (MIN_ROWS, MIN_ROWS)),
    (by_largest_size, (MIN_ROWS, MIN_ROWS)),
    (by_company, (1, 1)),
    (by_place, (1, 1)),
    (by_late_place, (1, 1)),
    (one_row_only, (1, 1)),
]


@pytest.mark.parametrize(("change", "rows"), LADDER)
def test_a_network_is_asked_in_the_fastest_way_that_keeps_its_bits(change, rows) -> None:
    """As it is, in one shape, or one text at a time: whichever is the first to change no bit."""
    batches = wrap_model(llama(change), TOKENIZER, threads=2).executor
    assert (batches.min_rows, batches.max_rows) == rows
    assert batches.threads == 2


@pytest.mark.parametrize("rows", [1, 2, MIN_ROWS])
def test_memory_that_runs_out_is_not_blamed_on_the_network(rows) -> None:
    """A pass without memory ends the measurement; the network is neither refused nor slowed."""

    def change(logits: Tensor) -> Tensor:
        if len(logits) >= rows:
            raise RuntimeError("std::bad_alloc")
        return logits

    with pytest.raises(RuntimeError, match="bad_alloc"):
        wrap_model(llama(change), TOKENIZER)


def test_a_network_that_answers_anew_each_time_is_refused() -> None:
    """Where not even a text alone has the same bits twice, the model is refused with the reason."""
    with pytest.raises(UnusableModel, match="returns other bits for the same text"):
        wrap_model(llama(by_time()), TOKENIZER)


NETWORKS = {
    **{change.__name__: (lambda change=change: llama(change)) for change, _ in LADDER[1:]},
    "llama in bfloat16": lambda: llama().to(torch.bfloat16),
    "mixtral in float32": mixtral,
    "mixtral in bfloat16": lambda: mixtral().to(torch.bfloat16),
}


FEW = ("as_in_bfloat16", "by_company", "mixtral in float32")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", [n if n in FEW else pytest.param(n, marks=pytest.mark.long) for n in NETWORKS]
)
def test_trees_do_not_depend_on_how_they_were_grown(name: str) -> None:
    """Whatever a network's bits depend on, its tree has the same in shards, memory and threads."""
    network = NETWORKS[name]()
    expected = grown(network)
    assert len(expected) > 100
    for settings in ({"shards": 2}, {"shards": 3, "threads": 2}, {"memory_bytes": 0}):
        assert same_bits(grown(network, **settings), expected), settings


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_full_precision_has_no_spread(dtype) -> None:
    """Nothing is measured where probabilities differ in their last digits at most."""
    assert wrap_model(llama().to(dtype), TOKENIZER).probability_spread is None


def test_the_spread_of_reduced_precision_is_measured() -> None:
    """The spread is the largest difference of a probability alone, in a small and a full batch."""
    # in full batches, one token of a row is more probable
    shift = torch.zeros(len(TOKENIZER), dtype=torch.bfloat16)
    shift[7] = 2.0

    def change(logits: Tensor) -> Tensor:
        return logits + shift if len(logits) >= MIN_ROWS else logits

    model = wrap_model(llama(change).to(torch.bfloat16), TOKENIZER)
    usual = wrap_model(llama().to(torch.bfloat16), TOKENIZER).probability_spread
    assert 0 <= usual < 0.05 < 0.1 < model.probability_spread < 1


def test_a_kind_of_layer_that_comes_last_is_measured_too() -> None:
    """Of a network with many layers one of each kind is measured, and the network is left whole."""
    network = llama(layers=8)
    network.model.layers[6].mlp.act_fn = BySize()
    batches = wrap_model(network, TOKENIZER).executor
    assert len(network.model.layers) == 8
    assert (batches.min_rows, batches.max_rows) == (MIN_ROWS, MIN_ROWS)


class BySize(torch.nn.Module):
    """An activation whose bits depend on the number of rows."""

    def forward(self, values: Tensor) -> Tensor:
        return by_size(torch.nn.functional.silu(values))
