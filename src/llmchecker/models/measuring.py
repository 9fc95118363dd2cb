"""What a model that was loaded is good for, measured on a few texts before it is asked anything.

Whether keys and values can be kept, and whether a text's answer has the same bits in any batch, is
a matter of the architecture, the dtype, the device and the libraries. No list of names is right
about it for long, so it is found out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llmchecker.errors import InvalidDistribution, UnusableModel
from llmchecker.models.batches import FEWEST_ROWS, MOST_ROWS, ROW_STEP, Batches
from llmchecker.models.causal import CausalModel
from llmchecker.models.masked import MaskedModel
from llmchecker.models.protocols import Continuations

PROMPT_TOKENS = 6
"""Tokens of the prompt on which a model is measured, more than the usual convolution reads."""

SUFFIX_TOKENS = 3
"""Tokens after it, each of which is read with what was kept of those before."""

DISTINCT_ROWS = 8
"""Texts whose bits are compared between batches."""

OPERATIONS = 2.5e10
"""Floating-point operations of the largest batch that is tried: about a quarter of a second."""

CLOSE = {torch.float64: 1e-6, torch.float32: 1e-4}
"""By how much of their range logits may differ when they are computed in another order."""

CLOSE_OTHERWISE = 0.05
"""The same for dtypes with fewer digits."""


def suited(model: CausalModel | MaskedModel) -> CausalModel | MaskedModel:
    """Choose how a model is asked, so that its answers are right and keep their bits.

    A causal model is asked with keys and values kept if that gives the logits of plain passes over
    whole texts, and else by whole texts. Its batches have any size if that changes no bit, else all
    one size, else a single row each, as with experts, whose shapes depend on the other rows.

    Returns:
        The model, whose `batches` and `reads_whole_texts` are set.

    Raises:
        UnusableModel: plain passes fail, or differ from one time to the next.
        InvalidDistribution: plain passes give logits that are not finite.
    """
    trial = _Trial.of(model)
    expected = _plain_logits(model, trial)
    usual = model.batches
    model.batches = Batches(1, usual.device, rows=1)
    if isinstance(model, CausalModel):
        model.reads_whole_texts = not _is_right(model, trial, expected)
    whole = not isinstance(model, CausalModel) or model.reads_whole_texts
    if whole and not _is_right(model, trial, expected):
        raise _unusable(model, "answers the same text in another way when it is asked again")
    # a network of which nothing can be kept may keep notes itself, which a second thread disturbs
    alone = isinstance(model, CausalModel) and whole
    threads = 1 if alone or model.positions.state else usual.threads
    for rows in _sizes(usual):
        model.batches = Batches(threads, usual.device, rows)
        if _keeps_bits(model, trial):
            return model
    raise _unusable(model, "gives other bits each time it is asked the same")


@dataclass(frozen=True)
class _Trial:
    """Texts on which a model is measured: a prompt, and suffixes that differ from each other.

    Attributes:
        prompt: (tokens,) int64.
        suffixes: (rows, tokens) int64.
    """

    prompt: np.ndarray
    suffixes: np.ndarray

    @classmethod
    def of(cls, model: CausalModel | MaskedModel) -> "_Trial":
        """Ordinary tokens of the model's, drawn at random, as many as a text may have."""
        known = set(model.tokenizer.get_vocab().values())
        ordinary = sorted(known - set(model.tokenizer.added_tokens_decoder)) or sorted(known)
        room = model.positions.most or PROMPT_TOKENS + SUFFIX_TOKENS + len(model.tail)
        prompt = min(PROMPT_TOKENS, room - len(model.tail) - SUFFIX_TOKENS)
        if prompt < 1 or len(ordinary) < 2:
            raise _unusable(model, f"reads {room} tokens of {len(ordinary)}: too few for a text")
        random = np.random.default_rng(0)
        suffixes = random.choice(ordinary, (MOST_ROWS, SUFFIX_TOKENS))
        return cls(random.choice(ordinary, prompt), suffixes)

    def texts(self, rows: int) -> np.ndarray:
        """The first whole texts, (rows, tokens)."""
        prompt = np.broadcast_to(self.prompt, (rows, len(self.prompt)))
        return np.concatenate([prompt, self.suffixes[:rows]], axis=1)


def _sizes(usual: Batches) -> Iterator[int | None]:
    """Sizes of batches, the fastest first; None leaves them free."""
    yield from (None, FEWEST_ROWS, 1) if usual.fewest < usual.most else (usual.most, 1)


def _plain_logits(model: CausalModel | MaskedModel, trial: _Trial) -> Tensor:
    """The logits after two texts, (2, vocabulary), by a plain pass over each of them.

    Raises:
        UnusableModel: they fail.
        InvalidDistribution: they are not finite.
    """
    place, texts = -max(len(model.tail), 1), trial.texts(2)
    try:
        passes = [_pass(model, [*text, *model.tail]) for text in texts.tolist()]
    except Exception as error:  # a network that was not made for this fails in its own way
        raise _unusable(model, f"fails on a text: {type(error).__name__}: {error}") from error
    shape, tokens = tuple(passes[0].shape), texts.shape[1] + len(model.tail)
    if shape != (1, tokens, model.vocabulary_size):
        wanted = (1, tokens, model.vocabulary_size)
        raise _unusable(model, f"gives logits of shape {shape} where {wanted} is right")
    logits = torch.cat([one[:, place] for one in passes])
    model.answers(len, logits, (), texts)
    return logits


def _pass(model: CausalModel | MaskedModel, text: list[int]) -> Tensor:
    """The logits of one plain pass over a text, (1, tokens, vocabulary)."""
    settings = {k: v for k, v in model.plain_settings.items() if k != "logits_to_keep"}
    input_ids = torch.tensor([text], device=model.network.device)

    def read() -> Tensor:
        with torch.inference_mode():
            return model.network(input_ids=input_ids, **settings).logits

    return model.batches.run(read)


def _is_right(model: CausalModel | MaskedModel, trial: _Trial, expected: Tensor) -> bool:
    """Whether the model's continuations have the logits of plain passes."""
    try:
        found = _logits(model.continuations(trial.prompt), trial.suffixes[:2])
    except InvalidDistribution:
        raise
    except Exception:  # a network that keeps something else than keys and values fails somehow
        return False
    return found.shape == expected.shape and _are_close(found, expected)


def _keeps_bits(model: CausalModel | MaskedModel, trial: _Trial) -> bool:
    """Whether texts have the same bits in a small batch and at other places of a large one.

    The large batch has as many rows as a quarter of a second allows, and at least the size after
    that of the small one, where sizes differ.
    """
    batches = model.batches
    weights = sum(parameter.numel() for parameter in model.network.parameters())
    affordable = int(OPERATIONS / (2 * weights)) // ROW_STEP * ROW_STEP
    rows = min(max(affordable, batches.fewest + ROW_STEP), batches.most)
    # texts that differ in their last token alone take a single pass a batch
    continuations = model.continuations(trial.texts(1)[0, :-1])
    last = trial.suffixes[: max(rows, DISTINCT_ROWS), -1:]
    try:
        small = _logits(continuations, last[:DISTINCT_ROWS])
        large = _logits(continuations, last[::-1].copy())[-DISTINCT_ROWS:].flip(0)
    except InvalidDistribution:
        raise
    except Exception:  # some networks can read a single text at a time, and no batch
        return False
    return torch.equal(small, large)


def _logits(continuations: Continuations, suffixes: np.ndarray) -> Tensor:
    return torch.cat(list(continuations.map(lambda part: part.values.clone(), suffixes)))


def _are_close(logits: Tensor, others: Tensor) -> bool:
    """Whether logits are the same but for rounding; -inf is only itself."""
    finite = logits.isfinite()
    if not torch.equal(logits.where(~finite, 0), others.where(~finite, 0)):
        return False
    one, other = logits[finite].double(), others[finite].double()
    spread = (one.max() - one.min()).item()
    return (one - other).abs().max().item() <= CLOSE.get(logits.dtype, CLOSE_OTHERWISE) * spread


def _unusable(model: CausalModel | MaskedModel, reason: str) -> UnusableModel:
    network, device = type(model.network).__name__, model.network.device
    return UnusableModel(f"{model.name} ({network}, {model.dtype} on {device}) {reason}")
