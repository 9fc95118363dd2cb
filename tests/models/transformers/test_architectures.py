"""Every architecture is answered as by plain passes over whole texts, or refused by a message."""

import numpy as np
import pytest
import torch
from helpers.architectures import architectures, tiny_network
from helpers.random_models import word_piece

from llmchecker.errors import LLMCheckerError
from llmchecker.models.transformers.load import wrap_model

FEW = [("causal", name) for name in ("mamba", "gpt_oss", "openai-gpt", "opt", "recurrent_gemma")]
FEW += [("masked", name) for name in ("roberta", "deberta-v2")]
ALL = [(kind, name) for kind in ("causal", "masked") for name in architectures(kind)]
SUFFIXES = np.array([[7, 11], [9, 5], [7, 30]])


@pytest.mark.parametrize(("kind", "name"), FEW)
def test_a_few_architectures_are_right(kind, name):
    """With attention, experts or a state, a model gives the probabilities of plain passes."""
    assert differences(kind, name, tiny_network(kind, name, len(word_piece()))) < 1e-5


@pytest.mark.long
@pytest.mark.parametrize(("kind", "name"), ALL)
def test_every_architecture_is_right_or_refused(kind, name):
    """What transformers can build tiny is answered rightly or refused by an error of ours."""
    try:
        network = tiny_network(kind, name, len(word_piece()))
    except Exception as error:
        pytest.skip(f"transformers does not build it so small: {error}")
    try:
        difference = differences(kind, name, network)
        if difference >= 1e-5:
            # With 64 bits, rounding errors that some networks enlarge are gone, and faults stay.
            difference = differences(kind, name, network.double())
    except LLMCheckerError:
        return
    assert difference < 1e-5


def differences(kind: str, name: str, network: torch.nn.Module) -> float:
    """The largest difference of a probability from those of plain passes, one a text."""
    model = wrap_model(network, word_piece(), kind, name)
    prompt = list(model.encode("the player won because"))
    parts = model.open_prefix(prompt, 2).map_next(lambda _, part: part.probabilities(), SUFFIXES)
    largest = 0.0
    for suffix, row in zip(SUFFIXES.tolist(), torch.cat(list(parts)), strict=True):
        text = torch.tensor([[*prompt, *suffix, *model.tail]])
        with torch.inference_mode():
            logits = network(input_ids=text).logits[0, -max(len(model.tail), 1)]
        largest = max(largest, (row - logits.double().softmax(0)).abs().max().item())
    return largest
