"""A model whose files do not say what it is is refused, and never filled with chance."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.marks import long
from helpers.random_models import ARCHITECTURES, CAUSAL
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, BertForPreTraining, BertLMHeadModel

from llmchecker.errors import InvalidDistribution, UnusableModel
from llmchecker.models.sources.model_directory import WEIGHTS
from llmchecker.models.transformers.load import load_model

Weights = dict[str, torch.Tensor]


@pytest.fixture
def copied(random_model, tmp_path: Path) -> Callable[[str], Path]:
    """Copies of small random models, to be damaged."""

    def copy(architecture: str) -> Path:
        return Path(shutil.copytree(random_model(architecture), tmp_path / architecture))

    return copy


def change_weights(directory: Path, change: Callable[[Weights], Weights]) -> None:
    """Write the weights of a model anew as another has made them."""
    save_file(change(load_file(directory / WEIGHTS)), directory / WEIGHTS, {"format": "pt"})


def change_config(directory: Path, **values: object) -> None:
    """Give keys of the configuration other values."""
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def kind_of(architecture: str) -> str:
    return "causal" if architecture in CAUSAL else "masked"


def without(names: list[str]) -> Callable[[Weights], Weights]:
    return lambda weights: {name: t for name, t in weights.items() if name not in names}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tensor_that_is_missing_is_named(copied, architecture: str) -> None:
    """Without any one of its tensors a model is refused by the name of that tensor."""
    directory = copied(architecture)
    whole = load_file(directory / WEIGHTS)
    for name in (sorted(whole)[0], sorted(whole)[-1], sorted(whole)[len(whole) // 2]):
        change_weights(directory, lambda _, name=name: without([name])(whole))
        last = name.rpartition(".")[0].rpartition(".")[2]
        with pytest.raises(UnusableModel, match=rf"lack \d+ of its tensors \(.*{last}"):
            load_model(directory, kind_of(architecture))


def test_weights_that_are_all_missing_or_have_other_names(copied) -> None:
    """No tensor at all, or all under other names, is refused with the first names and no more."""
    directory = copied("llama")
    renamed = {f"other.{name}": tensor for name, tensor in load_file(directory / WEIGHTS).items()}
    change_weights(directory, lambda _: {"other": torch.zeros(1)})
    with pytest.raises(UnusableModel, match="num_hidden_layers is 2, but the weights have 1 tens"):
        load_model(directory)
    change_weights(directory, lambda _: renamed)
    message = r"lack \d+ of its tensors \(lm_head.*, …\), and they hold \d+ tensors that it .*other"
    with pytest.raises(UnusableModel, match=message):
        load_model(directory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 3}, r"lack 9 of its tensors \(model\.layers\.2\."),
        ({"num_hidden_layers": 1}, r"hold 9 tensors that it does not have \(model\.layers\.1\."),
        ({"intermediate_size": 32}, r"hold 6 of another shape \(model.*\(32, 64\), not \(32, 32\)"),
        ({"vocab_size": 500}, r"hold 2 of another shape \(lm_head.weight is .* not \(500, 32\)"),
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "lack .* they hold"),
        (
            {"attention_bias": True},
            r"lack 8 of its tensors \(model\.layers\.0\.self_attn\.k_proj\.b",
        ),
    ],
)
def test_a_configuration_of_another_model(copied, changes: dict, message: str) -> None:
    """Weights that a configuration does not describe are refused: which, and how they differ."""
    directory = copied("llama")
    change_config(directory, **changes)
    with pytest.raises(UnusableModel, match=message):
        load_model(directory)


@pytest.mark.parametrize("changes", [{"num_hidden_layers": 10**7}, {"num_hidden_layers": 10**30}])
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "bert"])
def test_a_huge_number_of_layers_is_refused_before_anything_is_built(
    copied, architecture: str, changes: dict
) -> None:
    """More layers than there are tensors are refused by the number, and no layer is made."""
    directory = copied(architecture)
    change_config(directory, **changes)
    with pytest.raises(UnusableModel, match=r"num_hidden_layers is 10*, but the weights have"):
        load_model(directory, kind_of(architecture))


def test_a_network_larger_than_its_weights_is_not_built(copied) -> None:
    """Where no key says layers, building ends once there are many more tensors than in the file."""
    from transformers import MixtralConfig, MixtralForCausalLM

    directory = copied("mistral")
    MixtralForCausalLM(
        MixtralConfig(
            vocab_size=380,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            num_local_experts=2,
        )
    ).save_pretrained(directory)
    change_config(directory, num_local_experts=10**12)
    with pytest.raises(UnusableModel, match=r"tensor .* numbers, but all weights"):
        load_model(directory)


def test_weights_that_are_tied_need_not_be_there(copied) -> None:
    """A tied head is no missing tensor, and the head that is no longer tied is one."""
    directory = copied("llama")
    change_weights(directory, without(["lm_head.weight"]))
    with pytest.raises(UnusableModel, match=r"lack 1 of its tensors \(lm_head.weight\)"):
        load_model(directory)
    change_config(directory, tie_word_embeddings=True)
    network = load_model(directory).network
    assert torch.equal(network.lm_head.weight, network.get_input_embeddings().weight)


def test_heads_of_pretraining_may_be_there_and_others_may_not(copied) -> None:
    """The whole of a pretrained BERT is read as it is published; a tensor of no head is refused."""
    directory = copied("bert")
    masked = AutoModelForMaskedLM.from_pretrained(directory)
    whole = BertForPreTraining(masked.config)
    kept = {name: t.clone() for name, t in masked.state_dict().items()}
    whole.load_state_dict(kept, strict=False)
    whole.save_pretrained(directory)
    assert any("pooler" in name for name in load_file(directory / WEIGHTS))
    network = load_model(directory, "masked").network
    for name, tensor in masked.state_dict().items():
        assert torch.equal(network.state_dict()[name], tensor), name
    change_weights(directory, lambda weights: weights | {"cls.pooler.weight": torch.zeros(3)})
    with pytest.raises(UnusableModel, match=r"hold 1 tensors .* \(cls.pooler.weight\)$"):
        load_model(directory, "masked")


def test_tables_that_are_computed_anew_may_be_there(copied) -> None:
    """Rotary frequencies, positions and masks of older checkpoints do not count as unexpected."""
    for architecture, name in (
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq"),
        ("bert", "bert.embeddings.position_ids"),
        ("gpt2", "transformer.h.0.attn.bias"),
    ):
        directory = copied(architecture)
        change_weights(directory, lambda weights, name=name: weights | {name: torch.ones(4)})
        load_model(directory, kind_of(architecture))


def test_a_model_that_fills_in_masks_is_not_causal(copied) -> None:
    """A masked model that is configured as causal is refused, whatever its class is called."""
    directory = copied("bert")
    with pytest.raises(UnusableModel, match=r"it reads later tokens, so .* use kind masked"):
        load_model(directory, "causal")


def test_a_causal_model_is_not_masked(copied) -> None:
    """A causal model that is configured as masked is refused, by its class or by what it reads."""
    with pytest.raises(UnusableModel, match="does not load as a masked model"):
        load_model(copied("llama"), "masked")
    directory = copied("bert")
    network = AutoModelForMaskedLM.from_pretrained(directory)
    network.config.is_decoder = True
    BertLMHeadModel(network.config).save_pretrained(directory)
    load_model(directory, "causal")
    with pytest.raises(UnusableModel, match=r"it reads no later tokens, so .* use kind causal"):
        load_model(directory, "masked")


@pytest.mark.parametrize("name", ["mask_token", "sep_token"])
def test_a_masked_model_needs_its_tokens(copied, name: str) -> None:
    """Without the token that is filled in, or the one that closes a text, a model is refused."""
    directory = copied("bert")
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        if (path := directory / file).exists():
            settings = json.loads(path.read_text()) | {name: None}
            path.write_text(json.dumps(settings))
    with pytest.raises(UnusableModel, match=f"tokenizer: no {name}"):
        load_model(directory, "masked")


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tokenizer_with_more_tokens_than_the_network(copied, architecture: str) -> None:
    """A tokenizer that makes tokens which the network lacks is refused by the last of them."""
    directory = copied(architecture)
    path = directory / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    network = load_model(directory, kind_of(architecture)).network
    last = network.config.vocab_size
    tokenizer["model"]["vocab"]["beyond"] = last
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(UnusableModel, match=f"the network's {last}, .* 'beyond' with the id"):
        load_model(directory, kind_of(architecture))


def test_a_network_with_more_tokens_than_the_tokenizer(copied) -> None:
    """Tokens that pad the tables of a network are no reason to refuse it, and have no text."""
    directory = copied("gpt2")
    network = load_model(directory).network
    network.resize_token_embeddings(network.config.vocab_size + 6)
    network.save_pretrained(directory)
    model = load_model(directory)
    (text,) = model.decode([[*model.encode("The player"), model.vocabulary_size - 1]])
    assert text == "The player"


def test_a_special_token_that_no_text_contains_may_lie_beyond(copied) -> None:
    """A token for padding that was added to the tokenizer alone does no harm."""
    from transformers import AutoTokenizer

    directory = copied("gpt2")
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokenizer.add_special_tokens({"pad_token": "<padding>"})
    tokenizer.save_pretrained(directory)
    load_model(directory)


ODD = (None, True, False, 0, -1, 3, 7, 1e300, -0.5, 10**6, 10**18, "", "gelu", [], [2, 3], {}, [[]])


def probabilities(model) -> np.ndarray:
    """The next token's probabilities after a text, by the model itself."""
    with torch.inference_mode():
        logits = model.network(input_ids=torch.tensor([model.encode("The player")])).logits
    return logits[0, -1].double().softmax(0).numpy()


SHAPES = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")


@pytest.mark.few(1)
@pytest.mark.parametrize("architecture", ["llama", *long("gemma3", "gpt2", "bert")])
@pytest.mark.parametrize("key", SHAPES)
def test_a_configuration_with_odd_values(copied, architecture: str, key: str) -> None:
    """Whatever a key of config.json holds, the model loads whole or is refused by a message.

    A key that tells the shape of the weights cannot change unseen: what loads is the original.
    """
    directory = copied(architecture)
    whole = json.loads((directory / "config.json").read_text())
    original = probabilities(load_model(directory, kind_of(architecture)))
    for value in ODD:
        change_config(directory, **whole | {key: value})
        try:
            model = load_model(directory, kind_of(architecture))
        except (UnusableModel, InvalidDistribution):
            continue
        np.testing.assert_allclose(probabilities(model), original, rtol=0, atol=1e-6)
