"""Checks that a network is what its files say, and that it fits its tokenizer and its kind.

If a checkpoint lacks weights, transformers fills them with random numbers and says so only in a
log. The answers of such a network are random, and nothing shows it. These checks refuse such a
network.
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
"""The largest number of tensors that a message names."""


def require_whole(network: PreTrainedModel, loading: Mapping[str, Any]) -> None:
    """Check that all weights of the network are in the files, and that the files hold no others.

    Weights that are tied to others need not be in the files. For some architectures transformers
    declares what a checkpoint may lack or hold besides, such as rotary frequencies, which are
    computed anew; `loading` does not mention these. Other heads with which the architecture is
    trained, such as the pooler of BERT, may be in the files too. No masked or causal model computes
    with them.

    Args:
        network: the network that was loaded.
        loading: what `from_pretrained` returns with `output_loading_info`.

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

    Networks often have more tokens than the tokenizer, since their tables are padded to round
    sizes. Special tokens that no text contains, such as one for padding, need not be in the
    network.

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
    # a mixture of experts computes the tokens of a text together, which may change how it rounds
    rounding = max(1e-4, 4 * torch.finfo(network.dtype).eps)
    if _influence_of_later_tokens(network) > rounding:
        raise UnusableModel(
            f"{type(network).__name__}, as it is configured, reads later tokens too, so it does "
            "not predict the next one; if it fills in masks, its kind is masked"
        )


def require_masked(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that the network can fill in a mask, and that the tokenizer has one to offer.

    Raises:
        UnusableModel: there is no token for masks or none that closes a text, or the network does
            not read what follows a token and so was made to predict the next one.
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
    """By how much the logits at a first token change with the second, relative to their size.

    This is measured, since neither class nor configuration tell it for every architecture. It is
    NaN if the logits are; that is refused later, when distributions are made of them.

    Raises:
        UnusableModel: the network cannot read two tokens.
    """
    tokens = _tokens_of(network)
    first, *seconds = (tokens * part // 8 for part in (1, 3, 5, 7))
    try:
        # one text at a time, all of one shape, so that rounding is the same for all
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

    The networks of these classes are built without memory for their weights, and only if a
    checkpoint holds more than its network.
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
