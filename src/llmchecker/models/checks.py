"""Whether a network is what its files say: every number from them, every token within it.

transformers fills weights that a checkpoint lacks with random numbers and says so in a log alone.
An answer of such a network is chance, and nothing shows it. Here it is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import (
    AutoModel,
    AutoModelForPreTraining,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from llmchecker.errors import UnusableModel

_NAMES = 5
"""Names of tensors that a message lists."""


def require_whole(network: PreTrainedModel, loading: Mapping[str, Any]) -> None:
    """Check that the network took all its weights from the files, and the files hold no others.

    Weights that are tied to others need not be there. transformers declares for some architectures
    what a checkpoint may lack or hold besides (tables that are computed anew, such as rotary
    frequencies); that has been left out of `loading` already. Heads that the same architecture is
    trained with, such as the pooler of BERT, may be in the files too: no masked or causal model
    computes with them.

    Args:
        loading: what `from_pretrained` tells with `output_loading_info`.

    Raises:
        UnusableModel: weights are missing, not expected or of another shape; with the first names.
    """
    missing = sorted(loading["missing_keys"])
    mismatched = sorted(loading["mismatched_keys"])
    unexpected = set(loading["unexpected_keys"])
    if unexpected:
        unexpected -= _weights_of_other_heads(network)
    problems = []
    if missing:
        problems.append(f"lack {len(missing)} of its tensors ({_first(missing)})")
    if unexpected:
        names = _first(sorted(unexpected))
        problems.append(f"hold {len(unexpected)} tensors that it does not have ({names})")
    if mismatched:
        shapes = [f"{name} is {tuple(file)}, not {tuple(own)}" for name, file, own in mismatched]
        problems.append(f"hold {len(mismatched)} of another shape ({_first(shapes)})")
    if problems:
        raise UnusableModel(
            f"the weights are not those of the {type(network).__name__} that config.json "
            f"describes: they {', and they '.join(problems)}"
        )


def require_vocabulary(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the network has every token that the tokenizer can make of a text.

    More tokens than the tokenizer has are common, as tables are padded to round sizes. Special
    tokens that no text contains, such as one for padding, need not be there.

    Raises:
        UnusableModel: the tokenizer makes a token that the network does not have.
    """
    tokens = _tokens_of(network)
    special = set(tokenizer.all_special_ids)
    made = {token for token in tokenizer.get_vocab().values() if token not in special}
    made.update(tokenizer("", verbose=False)["input_ids"])
    if made and max(made) >= tokens:
        beyond = sum(token >= tokens for token in made)
        text = tokenizer.convert_ids_to_tokens(max(made))
        raise UnusableModel(
            f"the tokenizer is not that of the network: the network has {tokens} tokens, and "
            f"{beyond} of the tokenizer's lie beyond, up to {text!r} with the id {max(made)}"
        )


def require_causal(network: PreTrainedModel) -> None:
    """Check that what the network answers after a token does not depend on later tokens.

    Raises:
        UnusableModel: it does, so that the network was made to fill in masks.
    """
    # experts of a mixture compute the tokens of a text together, which may round otherwise
    rounding = max(1e-4, 4 * torch.finfo(network.dtype).eps)
    if _influence_of_later_tokens(network) > rounding:
        raise UnusableModel(
            f"{type(network).__name__}, as it is configured, reads later tokens too, so it does "
            "not predict the next one; if it fills in masks, its kind is masked"
        )


def require_masked(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the network can fill in a mask, and that the tokenizer has one to offer.

    Raises:
        UnusableModel: there is no mask token or none that closes a text, or the network does not
            read what follows a token, as one does that was made to predict the next.
    """
    for name, purpose in (("mask_token", "to be filled in"), ("sep_token", "to close a text")):
        token = getattr(tokenizer, f"{name}_id")
        if token is None:
            raise UnusableModel(
                f"the tokenizer has no {name} {purpose}, which a masked model needs; if the model "
                "predicts the next token, its kind is causal"
            )
        if token >= _tokens_of(network):
            raise UnusableModel(f"the network does not have the {name} of the tokenizer, {token}")
    if _influence_of_later_tokens(network) == 0:
        raise UnusableModel(
            f"{type(network).__name__}, as it is configured, does not read later tokens, so it "
            "fills in no mask; if it predicts the next token, its kind is causal"
        )


def _influence_of_later_tokens(network: PreTrainedModel) -> float:
    """How much the logits at a first token differ with the second, over how large they are.

    This is measured, since neither the class nor the configuration tells of every architecture.
    NaN where the logits are no numbers, which is refused where distributions are made of them.

    Raises:
        UnusableModel: the network cannot read two tokens.
    """
    tokens = _tokens_of(network)
    first, *seconds = (tokens * part // 8 for part in (1, 3, 5, 7))
    try:
        # texts of one shape, each alone, are added up in the same order
        with torch.inference_mode():
            one, *others = (
                network(input_ids=torch.tensor([[first, second]], device=network.device))
                .logits[0, 0]
                .float()
                for second in seconds
            )
    except Exception as error:  # whatever an architecture raises for what it cannot read
        raise UnusableModel(f"{type(network).__name__} does not read texts: {error}") from error
    return max(float((other - one).norm() / one.norm()) for other in others)


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES]) + (", …" if len(names) > _NAMES else "")


def _weights_of_other_heads(network: PreTrainedModel) -> set[str]:
    """The names of all weights that this architecture is trained with, or has by default.

    Networks of these classes are built without memory, and only for a checkpoint that holds more
    than the network it is for.
    """
    names = set()
    for auto_class, has_prefix in ((AutoModelForPreTraining, False), (AutoModel, True)):
        try:
            with torch.device("meta"):
                other = auto_class.from_config(network.config)
        except Exception:
            continue
        prefix = f"{other.base_model_prefix}." if has_prefix else ""
        names.update(prefix + name for name in other.state_dict())
    return names


def _tokens_of(network: PreTrainedModel) -> int:
    """The number of tokens that a network has."""
    table = getattr(network.get_input_embeddings(), "weight", None)
    # a few networks, such as Perceiver, name something else than their tokens there
    return network.config.vocab_size if table is None else table.shape[0]
