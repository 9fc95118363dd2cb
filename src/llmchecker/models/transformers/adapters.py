"""LoRA adapters in a network, as peft computes them, without merging them into the weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

from llmchecker.errors import UnusableModel
from llmchecker.models.sources.adapters import Adapter, read_adapters
from llmchecker.utils.optional_packages import check_packages

_MAX_NAMES = 3
"""Largest number of tensors in a message."""


def add_adapters(network: PreTrainedModel, directory: Path) -> PreTrainedModel:
    """Return the network with the adapters of its model directory, all of them active.

    Args:
        network: the network, which is changed.
        directory: path of the model directory.

    Raises:
        MissingTool: the directory has an adapter, and peft is not installed.
        UnusableModel: an adapter does not fit the network.
    """
    adapters = read_adapters(directory)
    if not adapters:
        return network
    check_packages("peft")
    from peft import LoraConfig, PeftModel, set_peft_model_state_dict
    from peft.tuners.lora import LoraLayer, LoraModel

    model: PeftModel | None = None
    for adapter in adapters:
        # all weights come from the file, so none is initialised
        config = LoraConfig(**adapter.settings, init_lora_weights=False, inference_mode=True)
        tensors = load_file(adapter.weights)
        try:
            if model is None:
                model = PeftModel(network, config, adapter.name)
            else:
                model.add_adapter(adapter.name, config)
        # peft raises this for modules that the network lacks
        except ValueError as error:
            raise UnusableModel(f"{adapter.name}: made for another model: {error}") from error
        _check_shapes(model, adapter, tensors)
        set_peft_model_state_dict(model, tensors, adapter.name)
        _check_values(model, adapter, tensors)
    assert model is not None
    cast(LoraModel, model.base_model).set_adapter(
        [adapter.name for adapter in adapters], inference_mode=True
    )
    for module in network.modules():
        if isinstance(module, LoraLayer):
            for adapter in adapters:
                if adapter.name in module.scaling:
                    module.scaling[adapter.name] *= adapter.scale
    return network


def _check_shapes(model: torch.nn.Module, adapter: Adapter, tensors: Mapping[str, Tensor]) -> None:
    """Check that the tensors of the file are exactly those of the adapter in the network.

    peft ignores tensors that the network lacks, and keeps random numbers for absent ones.
    """
    built = {name: tensor.shape for name, tensor in _collect_tensors(model, adapter).items()}
    given = {name: tensor.shape for name, tensor in tensors.items()}
    if unfit := sorted(n for n in built.keys() | given.keys() if built.get(n) != given.get(n)):
        raise UnusableModel(
            f"{adapter.name}: made for another model: {len(unfit)} of its tensors do not fit "
            f"({', '.join(unfit[:_MAX_NAMES])})"
        )


def _check_values(model: torch.nn.Module, adapter: Adapter, tensors: Mapping[str, Tensor]) -> None:
    """Check that the adapter in the network has the numbers of the file."""
    for name, tensor in _collect_tensors(model, adapter).items():
        if not torch.equal(tensor.cpu().double(), tensors[name].double()):
            raise UnusableModel(f"{adapter.name}: the network rounds {name}; use dtype float32")


def _collect_tensors(model: torch.nn.Module, adapter: Adapter) -> dict[str, Tensor]:
    from peft import get_peft_model_state_dict

    return dict(
        get_peft_model_state_dict(model, adapter_name=adapter.name, save_embedding_layers=False)
    )
