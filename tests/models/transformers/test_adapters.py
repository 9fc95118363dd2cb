"""LoRA adapters compute what peft computes, and none is used for another model."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.fake_hub import COMMIT, make_client_new, point_client_at, serving
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

import llmchecker as lc
from llmchecker.config.deployment import resolve_deployment
from llmchecker.config.registry import Registry
from llmchecker.errors import ConfigError, LLMCheckerError, UnusableModel
from llmchecker.interfaces.cli.main import main
from llmchecker.interfaces.python.load import load
from llmchecker.interfaces.snakemake.source_params import (
    describe_model_source,
    parse_model_source,
)
from llmchecker.models import lazy_model
from llmchecker.models.sources.adapters import AdapterSource
from llmchecker.models.sources.checkpoints import ModelSource, ensure_checkpoint, fetch_checkpoint
from llmchecker.models.sources.checksums import read_checksums
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.models.transformers.load import load_model

peft = pytest.importorskip("peft", reason="the extra adapters is not installed")

TOKENS = torch.tensor([[5, 9, 40, 41, 7]])
TARGETS = {"llama": ["q_proj", "v_proj", "down_proj"], "gpt2": ["c_attn"]}


@pytest.fixture
def save_adapter(random_model, tmp_path) -> Callable[..., Path]:
    """Saves a random adapter of a small random model, as peft does."""

    def save(name: str, architecture: str = "llama", seed: int = 0, **settings) -> Path:
        torch.manual_seed(seed)
        network = AutoModelForCausalLM.from_pretrained(random_model(architecture))
        settings = {"r": 3, "lora_alpha": 5, "target_modules": TARGETS[architecture]} | settings
        model = peft.get_peft_model(network, peft.LoraConfig(**settings))
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if "lora_" in key and "magnitude" not in key:
                    parameter.normal_(std=0.3)
        model.save_pretrained(tmp_path / name)
        return tmp_path / name

    return save


def fetch(base: Path, directory: Path, *adapters: tuple[Path, float]) -> Path:
    sources = tuple(AdapterSource(parse_source(f"path:{p}"), scale) for p, scale in adapters)
    fetch_checkpoint(ModelSource(parse_source(f"path:{base}"), adapters=sources), directory)
    return directory


def compute_logits(network: PreTrainedModel) -> torch.Tensor:
    with torch.inference_mode():
        return network(TOKENS).logits


def merge_by_hand(base: Path, *adapters: tuple[Path, float]) -> PreTrainedModel:
    """The base model with the products of the adapters added to its weights, without peft."""
    network = AutoModelForCausalLM.from_pretrained(base)
    weights = network.state_dict()
    for folder, scale in adapters:
        config = json.loads((folder / "adapter_config.json").read_text())
        tensors = load_file(folder / "adapter_model.safetensors")
        root = config["r"] ** 0.5 if config["use_rslora"] else config["r"]
        for key in tensors:
            if ".lora_A." in key:
                product = tensors[key.replace("lora_A", "lora_B")] @ tensors[key]
                name = key.removeprefix("base_model.model.").replace("lora_A.", "")
                weight = weights[name]
                product = product.T if product.shape != weight.shape else product
                weight += scale * config["lora_alpha"] / root * product
    return network.eval()


def test_a_low_precision_has_the_logits_of_peft(random_model, save_adapter, tmp_path):
    """In bfloat16 a model with an adapter has the very logits of peft."""
    base, adapter = random_model("llama"), save_adapter("lora", use_dora=True)
    directory = fetch(base, tmp_path / "m", (adapter, 1.0))
    network = load_model(directory, dtype="bfloat16").network
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    expected = peft.PeftModel.from_pretrained(plain, adapter).eval()
    assert torch.equal(compute_logits(network), compute_logits(expected))


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_one_adapter_has_the_logits_of_peft(architecture, random_model, save_adapter, tmp_path):
    """A model with an adapter has the logits of peft, and of weights that are added by hand."""
    base, adapter = random_model(architecture), save_adapter("lora", architecture)
    network = load_model(fetch(base, tmp_path / "m", (adapter, 1.0))).network
    expected = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter)
    assert torch.equal(compute_logits(network), compute_logits(expected.eval()))
    plain = compute_logits(AutoModelForCausalLM.from_pretrained(base).eval())
    by_hand = compute_logits(merge_by_hand(base, (adapter, 1.0)))
    assert (plain - by_hand).abs().max() > 0.1
    assert (compute_logits(network) - by_hand).abs().max() < 1e-4 * by_hand.abs().max()


@pytest.mark.parametrize("use_rslora", [False, True])
def test_two_adapters_add_up_with_their_scales(use_rslora, random_model, save_adapter, tmp_path):
    """Two adapters of other ranks and layers add what their matrices and scales say."""
    first = save_adapter("first", use_rslora=use_rslora)
    second = save_adapter("second", seed=1, r=2, target_modules=["q_proj", "o_proj"])
    base, scaled = random_model("llama"), ((first, 0.5), (second, -2.0))
    network = load_model(fetch(base, tmp_path / "m", *scaled)).network
    by_hand = compute_logits(merge_by_hand(base, *scaled))
    assert (compute_logits(network) - by_hand).abs().max() < 1e-4 * by_hand.abs().max()


def test_texts_are_those_of_generate(random_model, save_adapter, tmp_path, monkeypatch):
    """Greedy tokens of a model by name with an adapter are those of `generate` of peft."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base, adapter = random_model("llama"), save_adapter("lora")
    model = load({"source": str(base), "adapter": str(adapter)}, decoding="greedy")
    tokenizer = AutoTokenizer.from_pretrained(base)
    expected = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapter)
    inputs = tokenizer("The player", return_tensors="pt")
    written = expected.eval().generate(**inputs, max_new_tokens=6, do_sample=False)[0].tolist()
    prompt, suffix = list(model.encode("The player")), []
    assert written[: len(prompt)] == prompt
    for token in written[len(prompt) :]:
        continuations = model.open_prefix(tuple(prompt))
        rows = continuations.map_next(lambda _, part: part.probabilities(), np.array([suffix], int))
        assert int(next(iter(rows))[0].argmax()) == token
        suffix.append(token)


def test_a_changed_adapter_is_another_model(random_model, save_adapter, tmp_path):
    """Another adapter or scale changes the checksums of a model, and other files are fetched."""
    base, adapter = random_model("llama"), save_adapter("lora")
    half = read_checksums(fetch(base, tmp_path / "half", (adapter, 0.5)))
    directory = fetch(base, tmp_path / "m", (adapter, 1.0))
    before = read_checksums(directory)
    assert before != half
    assert before["adapters/1/adapter_model.safetensors"]
    save_adapter("lora", seed=2)
    source = AdapterSource(parse_source(f"path:{adapter}"), 1.0)
    model = ModelSource(parse_source(f"path:{base}"), adapters=(source,))
    ensure_checkpoint(model, directory, tmp_path / "lock")
    after = read_checksums(directory)
    assert {name for name in after if after[name] != before[name]} == {
        "adapters/1/adapter_model.safetensors"
    }
    assert json.loads((directory / "source.json").read_text())["files"] == after
    assert parse_model_source(describe_model_source(model, directory)) == model


def test_a_directory_with_an_adapter_is_not_the_plain_model(random_model, save_adapter, tmp_path):
    """A directory that was fetched with an adapter is refused for the model without one."""
    base = random_model("llama")
    directory = fetch(base, tmp_path / "m", (save_adapter("lora"), 1.0))
    with pytest.raises(ConfigError, match=r"not .* with the configured settings"):
        ensure_checkpoint(ModelSource(parse_source(f"path:{base}")), directory, tmp_path / "lock")


def change_config(**values) -> Callable[[Path], None]:
    def change(adapter: Path) -> None:
        file = adapter / "adapter_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change


def change_tensors(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def rewrite(adapter: Path) -> None:
        file = adapter / "adapter_model.safetensors"
        tensors = load_file(file)
        change(tensors)
        save_file(tensors, file)

    return rewrite


def drop_one(tensors: dict) -> None:
    del tensors[min(tensors)]


def add_one(tensors: dict) -> None:
    tensors["base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight"] = torch.ones(3, 32)


def widen_one(tensors: dict) -> None:
    tensors[min(tensors)] = torch.ones(3, 99)


def only_pickle(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (change_config(peft_type="LOHA"), "peft_type is 'LOHA', not 'LORA'"),
        (change_config(bias="all"), "bias 'all' is not supported"),
        (change_config(init_lora_weights="pissa"), "init_lora_weights 'pissa'"),
        (change_config(modules_to_save=["lm_head"]), "modules_to_save .* is not supported"),
        (change_config(megatron_config={"a": 1}), "megatron_config .* is not supported"),
        (change_config(a_new_key=3), "a_new_key 3 is not supported"),
        (change_config(target_modules=["query"]), "made for another model: .*query"),
        (change_config(target_modules=["q_proj"]), "made for another model: .* tensors"),
        (
            change_config(r=10**9),
            "rank 1000000000 does not fit its weights, whose largest size is 64",
        ),
        (change_config(r=4), "made for another model: 12 of its tensors"),
        (change_tensors(drop_one), "made for another model: 1 of its tensors"),
        (change_tensors(add_one), "made for another model: 1 of its tensors"),
        (change_tensors(widen_one), "made for another model: 1 of its tensors"),
        (only_pickle, "adapter_model.safetensors is missing; .* as safetensors"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unsuitable_adapter_is_refused(damage, reason, random_model, save_adapter, tmp_path):
    """An adapter of another model, of another kind, or without safetensors is refused by name."""
    adapter = save_adapter("lora")
    damage(adapter)
    with pytest.raises(UnusableModel, match=reason):
        load_model(fetch(random_model("llama"), tmp_path / "m", (adapter, 1.0)))


def test_an_adapter_of_another_architecture_is_refused(random_model, save_adapter, tmp_path):
    """An adapter of a GPT-2 is refused for a Llama."""
    directory = fetch(random_model("llama"), tmp_path / "m", (save_adapter("lora", "gpt2"), 1.0))
    with pytest.raises(UnusableModel, match="made for another model"):
        load_model(directory)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"source": "openai:gpt-4o-mini"}, "adapter: .* is a server"),
        ({"source": "http://localhost:1", "api": "vllm", "tokenizer": "path:."}, "is a server"),
        ({"source": "path:model.gguf"}, "a GGUF file takes no adapter"),
        ({"source": "path:.", "adapter": "pypi:a==1"}, "adapter"),
        ({"source": "path:.", "adapter": [{"source": "a", "scale": 1e9}]}, "adapter.*too large"),
        ({"source": "path:.", "adapter": []}, "adapter: .* too short"),
    ],
)
def test_models_without_weights_here_take_no_adapter(keys, reason):
    """A server, a provider, a GGUF file and a source that is no adapter are refused by name."""
    with pytest.raises(LLMCheckerError, match=reason):
        load({"adapter": "./lora", **keys})


def test_a_missing_package_is_named(random_model, save_adapter, tmp_path, monkeypatch):
    """Without peft the message has the command that installs it."""
    adapter = save_adapter("lora")
    monkeypatch.setattr("llmchecker.utils.optional_packages.find_spec", lambda name: None)
    with pytest.raises(LLMCheckerError, match=r"peft: .* pip install 'llmchecker\[adapters\]'"):
        fetch(random_model("llama"), tmp_path / "m", (adapter, 1.0))


def test_an_adapter_is_no_model(save_adapter):
    """An adapter that is named as a model is refused, with the form to write."""
    adapter = save_adapter("lora")
    with pytest.raises(UnusableModel, match=r"is an adapter; write \{source: ITS_MODEL, adapter"):
        load(adapter)


def test_an_update_of_peft_makes_results_again(random_model, save_adapter, tmp_path, monkeypatch):
    """The fingerprint of a model with an adapter depends on the version of peft, no other does."""
    versions = {"peft": "1"}
    monkeypatch.setattr(lazy_model, "version", lambda name: versions.get(name, "0"))
    base = random_model("llama")

    def fingerprint(directory: Path) -> str:
        model = lazy_model.LazyModel(directory, "causal", "float32", "cpu", 1, 2**30)
        return model.model_fingerprint

    adapted = fetch(base, tmp_path / "m", (save_adapter("lora"), 1.0))
    before = fingerprint(adapted), fingerprint(base)
    versions["peft"] = "2"
    assert fingerprint(adapted) != before[0]
    assert fingerprint(base) == before[1]


def test_the_shell_takes_adapters(random_model, save_adapter, tmp_path, monkeypatch, capfd):
    """`--adapter` opens the model of the same keys in Python, and is refused without a path of a
    model, with another key, and for a model of the configuration."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    base, adapter = random_model("llama"), save_adapter("lora")
    keys = {"source": str(base), "adapter": ["lora", {"source": str(adapter), "scale": -2}]}
    command = ["check", "P=? [ F gender > 0 ]", "--start=The", "--length=1", "--passes=2"]
    command += ["--json", "--model", str(base), "--adapter=lora"]
    assert main([*command, "--adapter", "{source: ./lora, scale: -2}"]) == 0
    found = json.loads(capfd.readouterr().out)
    answer = lc.ask("P=? [ F gender > 0 ]", load(keys), "The", length=1, passes=2)
    assert (found["lower"], found["upper"]) == (answer.lower, answer.upper)
    (note,) = found["notes"]
    tree = ["--alpha=1", "--k=2", "--adapter", "{source: ./lora, scale: -2}"]
    assert main([word for word in command if word != "--passes=2"] + tree) == 0
    assert note in json.loads(capfd.readouterr().out)["notes"]
    assert main([*command, "--adapter={source: lora, size: 3}"]) == 3
    assert "--adapter: unknown key 'size'" in capfd.readouterr().err
    models = {"m": {"label": "M", "source": f"path:{base}"}}
    (tmp_path / "config.yaml").write_text(json.dumps({"models": models}))
    for name, reason in (
        ("m", "'m' is a model of the conf"),
        ("openai:m", "is on a server; leave"),
    ):
        assert main([name if word == str(base) else word for word in command]) == 3
        assert reason in capfd.readouterr().err


def test_an_adapter_of_the_hub_is_that_of_its_directory(
    random_model, save_adapter, tmp_path, monkeypatch
):
    """A folder of the hub at a commit has the logits of the same files on this machine."""
    adapter, base = save_adapter("lora"), parse_source(f"path:{random_model('llama')}")
    make_client_new(tmp_path, monkeypatch)
    networks = []
    with serving() as hub:
        hub.files.update({f"last/{file.name}": file.read_bytes() for file in adapter.iterdir()})
        point_client_at(hub.address, monkeypatch)
        (whole, name), commit = (adapter.parent, adapter.name), f"hf:owner/name@{COMMIT}"
        for number, (source, folder) in enumerate(((f"path:{whole}", name), (commit, "last"))):
            adapter_source = AdapterSource(parse_source(source), subfolder=folder)
            assert AdapterSource.from_record(adapter_source.record) == adapter_source
            model = ModelSource(base, adapters=(adapter_source,))
            fetch_checkpoint(model, tmp_path / f"{number}")
            networks.append(load_model(tmp_path / f"{number}").network)
    assert torch.equal(*map(compute_logits, networks))
    assert {"last/adapter_config.json", "last/adapter_model.safetensors"} == set(hub.asked)
    with pytest.raises(ConfigError, match=r"adapter path:a: subfolder '\.\./b' is no folder"):
        AdapterSource(parse_source("path:a"), subfolder="../b")


def test_answers_state_the_adapters(random_model, save_adapter, tmp_path):
    """An answer has one note with each adapter and its scale, which changes with its weights, and
    names the model that an adapter was trained for if that is another."""
    first, second = save_adapter("first"), save_adapter("second", seed=1)
    change_config(base_model_name_or_path="owner/sibling")(second)
    notes = []
    for scale in (1.0, 0.5):
        directory = fetch(random_model("llama"), tmp_path / f"{scale}", (first, scale), (second, 2))
        options = {"length": 1, "passes": 2}
        (note,) = lc.ask("P=? [ F gender > 0 ]", load_model(directory), "The", **options).notes
        notes.append(note)
    assert notes[0].startswith(
        f"weights: float32, adapter path:{first}, adapter path:{second} x 2, which was trained for "
        "'owner/sibling', sha256 "
    )
    assert notes[1] == notes[0].replace(f"{first},", f"{first} x 0.5,")
    save_adapter("first", seed=3)
    directory = fetch(random_model("llama"), tmp_path / "again", (first, 1.0), (second, 2))
    again = load_model(directory).weight_note
    assert again.rpartition(" ")[0] == notes[0].rpartition(" ")[0]
    assert again != notes[0]


def test_names_tell_adapters_apart(random_model, save_adapter, tmp_path, monkeypatch):
    """Deployments of one source have names that differ by their adapters and scales."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    adapter = str(save_adapter("lora"))
    entries = [adapter, [{"source": adapter, "scale": 0.5}], [adapter, adapter]]
    source = {"source": str(random_model("llama"))}
    found = [
        resolve_deployment("model", source | ({"adapter": entry} if entry else {}), Registry())
        for entry in [None, *entries]
    ]
    endings = ["", " + lora", " + lora x 0.5", " + lora + lora"]
    assert [deployment.name for deployment in found] == [source["source"] + e for e in endings]
    assert len({deployment.model.directory for deployment in found}) == len(found)
