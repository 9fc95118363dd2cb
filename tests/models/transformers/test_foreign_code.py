"""No key of a model's files makes transformers take code, kernels or weights from elsewhere."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from llmchecker.errors import UnusableModel
from llmchecker.models.servers.connection import read_vocabulary_size
from llmchecker.models.transformers.load import load_model
from llmchecker.models.transformers.tokenizer import load_tokenizer

KERNELS = [
    *("some-org/kernel", "some-org/kernel@main:attention", "kernels-community/flash-attn2"),
    *("flash_attention_2", "flash_attention_3", "paged|eager", "flex_attention", "nonsense"),
    {"": "some-org/kernel"},
]
EXPERTS = ["sonicmoe", "deepgemm", "some-org/kernel", {"": "sonicmoe"}]
OWN_CODE = {
    "AutoConfig": "some-org/some-model--config.Config",
    "AutoModelForCausalLM": "network.Network",
    "AutoTokenizer": ["tokenizer.Tokenizer", None],
}


@pytest.fixture
def changed(random_model, tmp_path) -> Callable[..., Path]:
    """A copy of a small random Llama, with other values in one of its JSON files."""

    def change(file: str, values: dict) -> Path:
        directory = Path(shutil.copytree(random_model("llama"), tmp_path / "changed"))
        path = directory / file
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        return directory

    return change


@pytest.mark.few(1)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_kernels_of_attention_are_not_taken_from_a_configuration(
    key, kernel, changed, random_model
):
    """Whatever attention a configuration names, the network has that of transformers itself."""
    found = load_model(changed("config.json", {key: kernel})).network
    plain = load_model(random_model("llama")).network
    assert found.config._attn_implementation == plain.config._attn_implementation
    tokens = torch.tensor([[5, 9, 40, 41]])
    with torch.inference_mode():
        assert torch.equal(found(tokens).logits, plain(tokens).logits)


@pytest.mark.few(1)
@pytest.mark.parametrize("kernel", EXPERTS, ids=str)
@pytest.mark.parametrize("key", ["experts_implementation", "_experts_implementation"])
def test_kernels_of_experts_are_not_taken_from_a_configuration(key, kernel, changed, random_model):
    """Whatever experts a configuration names, the network has those of transformers itself."""
    found = load_model(changed("config.json", {key: kernel})).network
    plain = load_model(random_model("llama")).network
    assert found.config._experts_implementation == plain.config._experts_implementation


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "values",
    [
        {"auto_map": OWN_CODE},
        {"use_kernels": True, "kernel_config": {"RMSNorm": "some-org/kernel:RMSNorm"}},
        {"allow_all_kernels": True, "trust_remote_code": True},
    ],
    ids=str,
)
def test_further_keys_do_not_bring_code(values, changed, random_model):
    """An architecture of transformers stays its own, with other code named or not."""
    found = load_model(changed("config.json", values)).network
    assert type(found) is type(load_model(random_model("llama")).network)


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("config.json", {"model_type": "mystery", "auto_map": OWN_CODE}),
        ("tokenizer_config.json", {"tokenizer_class": "Mystery", "auto_map": OWN_CODE}),
    ],
)
def test_code_of_a_model_is_refused_without_advice_to_run_it(file, values, changed):
    """A model that needs code of its own is refused, and no message advises to trust it."""
    directory = changed(file, values)
    load = {"config.json": lambda path: read_vocabulary_size(path, None)}.get(file, load_tokenizer)
    for act in (load_model, load):
        with pytest.raises(UnusableModel, match="foreign code, which never runs") as refusal:
            act(directory)
        assert "trust_remote_code" not in str(refusal.value)


@pytest.mark.parametrize("method", ["mxfp4", "fp8", "eetq", "bitsandbytes", "nonsense"])
@pytest.mark.parametrize("place", [(), ("text_config",)], ids=str)
def test_quantized_weights_are_refused(place, method, changed):
    """Quantized weights, also by a method that transformers would ignore, are refused by name."""
    values = {"quantization_config": {"quant_method": method, "load_in_4bit": True}}
    for name in place:
        values = {name: values}
    with pytest.raises(UnusableModel, match=r"config\.json: quantization_config"):
        load_model(changed("config.json", values))


def test_an_adapter_of_another_model_is_refused(changed):
    """A directory that names another model as the base of an adapter is refused by the file."""
    directory = changed("config.json", {"quantization_config": None})
    base = {"base_model_name_or_path": "some-org/some-model", "peft_type": "LORA"}
    (directory / "adapter_config.json").write_text(json.dumps(base))
    with pytest.raises(UnusableModel, match=r"adapter_config\.json: the model is an adapter"):
        load_model(directory)
