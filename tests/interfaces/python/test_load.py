"""Models of one's own: a directory, or what transformers has loaded already."""

from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    GPT2LMHeadModel,
)

import llmchecker as lc
from llmchecker.errors import ConfigError, UnknownName, UnusableModel
from llmchecker.interfaces.python.load import _check_network

START = "The player won because"
HEADS = {"gpt2": AutoModelForCausalLM, "bert": AutoModelForMaskedLM}


@pytest.fixture(scope="module")
def loaded(random_model):
    """A network and a tokenizer as transformers loads them, by architecture."""

    def load(architecture: str, head=None):
        directory = random_model(architecture)
        head = head or HEADS[architecture]
        return head.from_pretrained(directory), AutoTokenizer.from_pretrained(directory)

    return load


@pytest.mark.parametrize("architecture", HEADS)
def test_a_network_that_is_loaded_grows_the_tree_of_its_directory(
    architecture, loaded, random_model
):
    """Both grow one tree, for causal and masked models.

    Weights that a file maps into memory may be placed otherwise, where products round otherwise.
    """
    trees = [
        lc.grow(model, START, alpha=0.8, k=3, length=2).frame()
        for model in (lc.load(random_model(architecture)), lc.load(*loaded(architecture)))
    ]
    pd.testing.assert_frame_equal(*trees, rtol=1e-5)
    assert len(trees[0]) > 5


def test_what_was_given_is_as_it_was(loaded):
    """Growing a tree changes neither weights, mode, device and settings of a caller's network."""
    network, tokenizer = loaded("gpt2")
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    settings, words = network.config.to_dict(), len(tokenizer)
    lc.grow(lc.load(network, tokenizer), START, alpha=0.8, k=3, length=2)
    assert all(torch.equal(weights[name], value) for name, value in network.state_dict().items())
    assert network.config.to_dict() == settings
    assert (network.training, network.device.type, len(tokenizer)) == (False, "cpu", words)
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_the_dtype_is_that_of_the_network(loaded):
    """A network in another dtype is asked in that dtype."""
    network, tokenizer = loaded("gpt2")
    wide = lc.grow(lc.load(network.double(), tokenizer), START, alpha=0.8, k=3, length=1)
    narrow = lc.grow(lc.load(network.bfloat16(), tokenizer), START, alpha=0.8, k=3, length=1)
    assert network.dtype == torch.bfloat16
    assert not (wide.probability[1:4] == narrow.probability[1:4]).any()


def refused(error: type[Exception], *arguments, **named) -> str:
    """The message with which arguments of `load` are refused."""
    with pytest.raises(error) as caught:
        lc.load(*arguments, **named)
    return str(caught.value)


def test_a_network_that_cannot_be_asked_is_refused(loaded):
    """No head, training mode, weights nowhere, no tokenizer: each is named, with a remedy."""
    network, tokenizer = loaded("gpt2")
    assert "needs its tokenizer, not none; call load(network, tokenizer)" in refused(
        UnusableModel, network
    )
    assert "needs its tokenizer, not a str" in refused(UnusableModel, network, "gpt2")
    assert "no known head" in refused(UnusableModel, *loaded("gpt2", AutoModel))
    assert "call network.eval()" in refused(UnusableModel, network.train(), tokenizer)
    nowhere = network.eval().to("meta")
    assert "are on meta" in refused(UnusableModel, nowhere, tokenizer)


def test_a_network_on_several_devices_needs_a_device_map(loaded):
    """Weights on two devices are taken if a device map moves inputs between them, else refused."""

    class Network(GPT2LMHeadModel):
        devices = ("cuda:0", "cuda:1")

        def parameters(self, recurse=True):
            return (SimpleNamespace(device=torch.device(name)) for name in self.devices)

    network, tokenizer = loaded("gpt2")
    network.__class__ = Network
    assert "on cuda:0, cuda:1; move all to one device" in refused(UnusableModel, network, tokenizer)
    network.hf_device_map = {"transformer.h.0": 0, "transformer.h.1": 1}
    _check_network(network, tokenizer)
    # offloaded weights are not read from a disk for each pass
    Network.devices = ("cuda:0", "meta")
    assert "on cuda:0, meta" in refused(UnusableModel, network, tokenizer)
    assert "list is neither a directory" in refused(UnusableModel, [], tokenizer)


def test_arguments_that_do_not_go_together_are_refused(loaded, random_model, tmp_path):
    """A tokenizer beside a directory, a dtype beside a network, no thread: each is a message."""
    network, tokenizer = loaded("gpt2")
    directory = random_model("gpt2")
    assert "leave the argument out" in refused(ConfigError, directory, tokenizer)
    assert "network.to" in refused(ConfigError, network, tokenizer, dtype="bfloat16")
    assert "threads=0" in refused(ConfigError, directory, threads=0)
    assert "memory_gb=nan" in refused(ConfigError, directory, memory_gb=float("nan"))
    message = refused(UnknownName, "owner/name")
    assert message.endswith("; for a model of the hub write hf:owner/name")
    texts = {"source": "http://localhost:1", "api": "openai-chat", "served_as": "m"}
    assert "device: m at http" in refused(ConfigError, texts, device="cpu")
    assert "tokens, dollars" in refused(ConfigError, network, tokenizer, tokens=3)
    assert str(tmp_path) in refused(UnusableModel, tmp_path)
