"""What is no probability distribution stops the job; model, dtype and text are named."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from helpers.random_models import save

from llmchecker.errors import InvalidDistribution
from llmchecker.models.distribution import Distributions
from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.causal import CausalModel
from llmchecker.models.transformers.load import load_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.selection import select_tokens
from llmchecker.trees.text_tree import Truncation

NAN, INFINITE = float("nan"), float("inf")
TRUNCATION = Truncation(0.8, 3, 3)


@pytest.fixture
def llama(random_model) -> CausalModel:
    """A small random model that a test may damage."""
    return load_model(random_model("llama"))


def test_a_nan_weight_is_refused_when_a_model_is_loaded(tmp_path):
    """One NaN among the weights that every text needs, and the model is not loaded."""
    damage = {"llama": "model.norm.weight", "bert": "cls.predictions.bias"}
    for architecture, name in damage.items():
        directory = save(architecture, tmp_path / architecture)
        kind = "masked" if architecture == "bert" else "causal"
        state = load_model(directory, kind).network
        with torch.no_grad():
            state.get_parameter(name)[0] = NAN
        state.save_pretrained(directory)
        with pytest.raises(InvalidDistribution, match=rf"{architecture}: logits in float32 after"):
            load_model(directory, kind)


@pytest.mark.parametrize("damage", [NAN, INFINITE])
def test_a_weight_that_one_text_needs_is_found_there(damage, llama):
    """Where the damage shows after one token alone, the tree stops there and names the text."""
    prompt = llama.encode("The player")
    first = build_tree(llama, "The player", Truncation(0.8, 3, 1))
    token = int(first.token[1])
    assert token not in prompt
    with torch.no_grad():
        llama.network.get_input_embeddings().weight[token] = damage
    (text,) = llama.decode([[*prompt, token]])
    with pytest.raises(InvalidDistribution, match=r"llama.* in float32") as refusal:
        build_tree(llama, "The player", TRUNCATION)
    assert repr(text) in str(refusal.value)


def test_float16_that_overflows_is_refused(tmp_path):
    """Weights too large for float16 give answers in float32, and in float16 a refusal."""
    directory = save("llama", tmp_path)
    network = load_model(directory).network
    with torch.no_grad():
        for layer in network.model.layers:
            layer.mlp.up_proj.weight.mul_(3e4)
    network.save_pretrained(directory)
    assert len(build_tree(load_model(directory), "The player", TRUNCATION)) > 1
    with pytest.raises(InvalidDistribution, match="logits in float16 after"):
        load_model(directory, dtype="float16")


def logits(*values: float) -> Distributions:
    return Distributions.from_logits(torch.tensor([values]))


def test_a_logit_of_minus_infinity_is_a_probability_of_zero():
    """Tokens that cannot follow have probability 0, and no tree goes on with them."""
    distributions = logits(0.0, -INFINITE, 0.0, -INFINITE)
    assert distributions.find_invalid_row() is None
    selection = select_tokens(distributions, 1.0, 4)
    assert selection.tokens[0, : selection.counts[0]].tolist() == [0, 2]
    assert selection.probabilities[0, :2].tolist() == [0.5, 0.5]
    assert selection.rest.tolist() == [0.0]


@pytest.mark.parametrize(
    "values",
    [(0.0, NAN), (NAN, NAN), (0.0, INFINITE), (INFINITE, -INFINITE), (-INFINITE, -INFINITE)],
)
def test_logits_without_a_softmax_are_found(values):
    """NaN, an infinite logit and nothing but -inf have no softmax, at any place of a vocabulary."""
    for place in (0, 200, 998):
        row = torch.zeros(1000)
        row[place : place + 2] = torch.tensor(values)
        if set(values) == {-INFINITE}:
            row[:] = -INFINITE
        distributions = Distributions.from_logits(torch.stack([torch.zeros(1000), row]))
        assert distributions.find_invalid_row() == 1


@pytest.mark.parametrize(
    "row",
    [
        (0.5, 0.4),
        (0.5, 0.6),
        (1.5, -0.5),
        (NAN, 1.0),
        (INFINITE, 0.0),
        (0.0, 0.0),
        (0.5, 0.5 + 1e-6),
    ],
)
def test_a_table_is_held_to_its_probabilities(row):
    """A table's row that is negative, not finite or no sum of 1 is refused with its text."""
    model = TableModel("ab", lambda tokens: row if tokens == (0, 1) else (0.5, 0.5), name="coin")
    with pytest.raises(InvalidDistribution, match=r"coin: probabilities .* after 'ab'"):
        build_tree(model, "a", TRUNCATION)


def test_rounded_fractions_are_probabilities():
    """Probabilities written as decimals or fractions add up to 1 but for rounding, and pass."""
    thirds, sixths = [0.3333333333] * 3, [Fraction(1, 6)] * 6
    for row in (thirds, sixths, [0.1] * 10):
        model = TableModel("abcdefghij"[: len(row)], lambda tokens, row=row: row)
        assert len(build_tree(model, "a", Truncation(1, 10, 1))) >= len(row) + 1


@pytest.mark.parametrize("probability", [0.0, NAN])
def test_a_selection_is_never_empty(probability):
    """Whatever gets as far as the selection, it selects a token or refuses."""
    nothing = torch.full((1, 4), probability, dtype=torch.float64)
    with pytest.raises(InvalidDistribution, match="no token"):
        select_tokens(Distributions.from_probabilities(nothing), 0.5, 2)


@pytest.mark.parametrize("logits", [True, False])
def test_nothing_is_sampled_where_no_token_is_left(logits):
    """After both possible tokens are left out, as after other bits of another batch, it refuses."""
    both = [0.5, 0.5, 0.0]
    distributions = (
        Distributions.from_logits(torch.tensor([both]).log())
        if logits
        else Distributions.from_probabilities(torch.tensor([both], dtype=torch.float64))
    )
    left = distributions.exclude([np.array([0, 1])])
    with pytest.raises(InvalidDistribution, match="no further token is left"):
        left.sample_by_inversion(0, np.array([0.5]))


def test_damaged_values_do_not_reach_a_function(llama):
    """No function is ever given distributions of which one is none."""
    with torch.no_grad():
        llama.network.get_input_embeddings().weight[7] = NAN
    seen = []
    suffixes = np.array([[5], [6], [7], [8]])
    with pytest.raises(InvalidDistribution):
        list(llama.open_prefix((4, 3)).map_next(lambda _, part: seen.append(part), suffixes))
    assert all(part.find_invalid_row() is None for part in seen)
