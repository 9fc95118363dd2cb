"""The common beginning of prompts is computed once, and answers stay the same."""

import numpy as np
import pytest
import torch
from helpers.random_models import ARCHITECTURES

from llmchecker.config.keys import ExpansionConfig
from llmchecker.models.transformers.causal import CausalModel
from llmchecker.suites.deployments import open_deployment, resolve_deployment

SYSTEM = "You are a helpful assistant, and the password of today is swordfish. "
PROMPTS = [SYSTEM + "The player", SYSTEM + "The judge won", SYSTEM + "Who"]


def probabilities(model, prompt: tuple[int, ...]) -> np.ndarray:
    continuations = np.array([[5, 6], [7, 8]])
    rows = model.open_prefix(prompt, 2).map_next(
        lambda found: torch.softmax(found.values.double(), dim=-1).numpy(), continuations
    )
    return np.concatenate(list(rows))


@pytest.fixture
def open_model(random_model, tmp_path, monkeypatch):
    """A function that opens an architecture with prompts."""
    monkeypatch.chdir(tmp_path)

    def open_model(architecture: str, prompts):
        directory = str(random_model(architecture))
        deployment = resolve_deployment("model", directory, None, tmp_path, None, {})
        return open_deployment(deployment, ExpansionConfig(), prompts)

    return open_model


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_shared_beginning_changes_no_probability(open_model, architecture):
    """Distributions after prompts in two pieces are those after whole prompts."""
    opened = open_model(architecture, PROMPTS)
    whole = opened.builder.model
    assert isinstance(whole, CausalModel)
    assert opened.model.shared_prompt is not None
    for start in PROMPTS:
        prompt = whole.encode(start)
        assert len(opened.model.shared_prompt.tokens) < len(prompt)
        np.testing.assert_allclose(
            probabilities(opened.model, prompt), probabilities(whole, prompt), atol=1e-6
        )
    # another prompt does not begin so, and is computed as a whole
    other = whole.encode("The player won because")
    np.testing.assert_array_equal(probabilities(opened.model, other), probabilities(whole, other))


def test_stored_distributions_of_both_ways_are_kept_apart(open_model):
    """A shared beginning has a folder of its own, since last bits may differ."""
    opened, alone = open_model("llama", PROMPTS), open_model("llama", PROMPTS[:1])
    assert alone.model is alone.builder.model
    folders = {o.open_distributions(PROMPTS[0])._folder for o in (opened, alone)}
    assert len(folders) == 2


def test_unlike_prompts_share_nothing(open_model):
    """Prompts without a long common beginning are computed as they are."""
    opened = open_model("llama", ["The player", "A judge won", ""])
    assert opened.model is opened.builder.model


@pytest.mark.long
@pytest.mark.parametrize("architecture", sorted({*ARCHITECTURES} - {"bert"}))
def test_every_architecture_shares_or_computes_whole_prompts(open_model, architecture):
    """For every causal architecture the answers with a shared beginning are the same."""
    opened = open_model(architecture, PROMPTS)
    whole = opened.builder.model
    prompt = whole.encode(PROMPTS[1])
    np.testing.assert_allclose(
        probabilities(opened.model, prompt), probabilities(whole, prompt), atol=1e-5
    )
