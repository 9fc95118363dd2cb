"""Quantised weights compute what their package computes, and are opened by it alone."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

import llmchecker as lc
from llmchecker.errors import MissingTool, UnusableModel
from llmchecker.models import lazy_model
from llmchecker.models.sources import model_directory
from llmchecker.models.transformers.load import load_model

quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")

TOKENS = torch.tensor([[5, 9, 40, 41, 7]])
QUERY = "P=? [ F letters > 5 ]"


@pytest.fixture(scope="module")
def quantised(random_model, tmp_path_factory) -> tuple[PreTrainedModel, Path]:
    """A small random model with weights of 8 bits, and the directory where it is saved."""
    from transformers import TorchAoConfig

    base, directory = random_model("llama"), tmp_path_factory.mktemp("quantised")
    config = TorchAoConfig(quantization.Int8WeightOnlyConfig())
    network = AutoModelForCausalLM.from_pretrained(
        base, dtype=torch.float32, quantization_config=config
    ).eval()
    network.save_pretrained(directory)
    AutoTokenizer.from_pretrained(base).save_pretrained(directory)
    return network, directory


def compute_logits(network: PreTrainedModel) -> torch.Tensor:
    with torch.inference_mode():
        return network(TOKENS).logits


def letters(start: str, continuation: str) -> int:
    """The number of characters of the continuation."""
    return len(continuation)


def test_quantised_weights_have_the_logits_of_torchao(quantised, random_model):
    """A directory has the very logits, bounds and greedy texts of the object that was saved, and
    not those of its weights before that; its files may change afterwards."""
    network, directory = quantised
    loaded = load_model(directory)
    (directory / "model.safetensors").write_bytes((directory / "model.safetensors").read_bytes())
    assert torch.equal(compute_logits(loaded.network), compute_logits(network))
    plain = load_model(random_model("llama"))
    assert not torch.equal(compute_logits(plain.network), compute_logits(network))
    options = {"length": 3, "passes": 60, "letters": letters}
    wrapped = lc.load(network, AutoTokenizer.from_pretrained(directory))
    answers = [lc.ask(QUERY, model, "The", **options) for model in (loaded, wrapped, plain)]
    bounds = [(answer.lower, answer.upper) for answer in answers]
    assert bounds[0] == bounds[1] != bounds[2]
    (note,) = answers[0].notes
    assert re.fullmatch("weights: float32, quantised by torchao, sha256 [0-9a-f]{12}", note)
    assert answers[1].notes == answers[2].notes == ()
    prompt = loaded.encode("The player")
    tokens = torch.tensor([prompt])
    (written,) = network.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=6, do_sample=False
    ).tolist()
    for end in range(len(prompt), len(written)):
        suffix = np.array([written[len(prompt) : end]], dtype=np.int64)
        (row,) = loaded.open_prefix(prompt).map_next(lambda _, part: part.probabilities(), suffix)
        assert row[0].argmax() == written[end]


def test_an_update_of_torchao_makes_results_again(quantised, random_model, monkeypatch):
    """The fingerprint of a quantised model depends on the version of torchao, no other does."""
    versions = {"torchao": "1"}
    monkeypatch.setattr(lazy_model, "version", lambda name: versions.get(name, "0"))

    def fingerprint(directory: Path) -> str:
        model = lazy_model.LazyModel(directory, "causal", "float32", "cpu", 1, 2**30)
        return model.model_fingerprint

    directories = quantised[1], random_model("llama")
    before = [fingerprint(directory) for directory in directories]
    versions["torchao"] = "2"
    after = [fingerprint(directory) for directory in directories]
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_a_missing_package_of_quantised_weights_is_named(quantised, monkeypatch):
    """Without torchao the message has the command that installs it."""
    monkeypatch.setattr("llmchecker.utils.optional_packages.find_spec", lambda name: None)
    with pytest.raises(MissingTool, match="torchao: the package is missing; run pip install torc"):
        load_model(quantised[1])


def test_quantised_weights_take_no_adapter(quantised, tmp_path):
    """A model with an adapter on quantised weights is refused by name."""
    for file in quantised[1].iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / model_directory.ADAPTERS_FILE).write_text('{"scales": []}')
    with pytest.raises(UnusableModel, match="quantised weights take no adapter"):
        load_model(tmp_path)
