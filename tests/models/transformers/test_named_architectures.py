"""Architectures that people ask for by name: grown by a configuration, equal to plain calls."""

import json

import numpy as np
import pytest
import torch
import yaml
from helpers.architectures import tiny_network
from helpers.marks import long
from helpers.random_models import word_piece
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchecker.interfaces.cli.main import main
from llmchecker.models.transformers.load import load_model
from llmchecker.trees.text_tree import StateKind, TextTree

START = "the player won because he trained and she cheered"
WINDOW = 4
FEW = ("mistral", "mamba", "mixtral")
OTHERS = ("qwen2", "qwen3", "phi", "opt", "gpt_neox", "falcon")


@pytest.fixture
def grown(tmp_path, monkeypatch, capfd):
    """A function that saves a random network, grows its tree by a configuration, and reads both."""

    def grow(name):
        model = tmp_path / name
        network = tiny_network("causal", name, len(word_piece()))
        network.save_pretrained(model)
        word_piece().save_pretrained(model)
        config = {
            "models": {name.replace("_", "-"): {"label": name, "source": f"path:{model}"}},
            "start_strings": {"player": START},
            "quantifiers": {"gender": {}},
            "experiments": [],
        }
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        words = ["--start", START, "--alpha", "0.9", "--k", "3", "--length", "3", "--json"]
        assert main(["check", "P=? [ F step = 3 ]", *words]) == 0
        tree = TextTree.read(json.loads(capfd.readouterr().out)["tree"])
        return tree, model

    return grow


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [*FEW, *long(*OTHERS)])
def test_a_tree_has_the_probabilities_of_plain_calls(name, grown):
    """Every probability is that of a plain call of the network on the whole sequence, to 1e-5."""
    tree, directory = grown(name)
    network = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    prompt = tokenizer(START)["input_ids"]
    suffixes = [()]
    for parent, token in zip(tree.parent[1:], tree.token[1:], strict=True):
        suffixes.append((*suffixes[parent], int(token)))
    parents = np.flatnonzero(tree.internal)
    assert len(parents) > 4
    for parent in parents:
        with torch.inference_mode():
            text = torch.tensor([[*prompt, *suffixes[parent]]])
            expected = network(input_ids=text, use_cache=False).logits[0, -1].double().softmax(0)
        children = np.flatnonzero((tree.parent == parent) & (tree.kind != StateKind.REST))
        found = tree.probability[children]
        assert np.abs(found - expected[tree.token[children]].numpy()).max() < 1e-5


def test_the_window_of_mistral_is_shorter_than_the_text(grown):
    """What stands before the window does not count, though it is in every text of the tree."""
    _, directory = grown("mistral")
    model = load_model(directory)
    assert model.network.config.sliding_window == WINDOW
    prompt = model.encode(START)
    assert len(prompt) > 2 * WINDOW
