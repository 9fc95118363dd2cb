"""Measuring on a few texts how a model must be asked, before it is asked anything.

Whether keys and values can be kept, and whether the answer for a text has the same bits in every
batch, depends on the architecture, the dtype, the device and the libraries. No list of names would
be right for long, so this module measures it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from llmchecker.errors import InvalidDistribution, UnusableModel
from llmchecker.models.batches import FEWEST_ROWS, MOST_ROWS, Batches
from llmchecker.models.causal import CausalModel
from llmchecker.models.masked import MaskedModel
from llmchecker.models.protocols import Continuations

PROMPT_TOKENS = 6
"""The number of tokens of the prompt. It is larger than the usual convolution of a network."""

SUFFIX_TOKENS = 2
"""The number of tokens after the prompt. The second is read with what was kept of the first."""

DISTINCT_ROWS = 8
"""The number of texts whose bits are compared between batches."""

CLOSE = {torch.float64: 1e-6, torch.float32: 1e-4}
"""How far logits may differ, relative to their range, when they are computed in another order."""

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
    # a network whose keys and values cannot be kept may keep a state itself, which a second thread
    # would disturb
    alone = isinstance(model, CausalModel) and whole
    threads = 1 if alone or model.positions.state else usual.threads
    for rows in _sizes(usual):
        # a single thread has the largest batches
        model.batches = Batches(1, usual.device, rows)
        if _keeps_bits(model, trial):
            model.batches = Batches(threads, usual.device, rows)
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
    """Whether texts have the same bits in a small batch and at other places of the largest one.

    Layers of one kind compute alike, so the bits are compared after one of each. Where a network
    does not work with fewer layers, they are compared after all.
    """
    try:
        with _shortened(model.network):
            return _answers_alike(model, trial)
    except Exception:  # networks that count their layers in several places fail in several ways
        pass
    try:
        return _answers_alike(model, trial)
    except InvalidDistribution:
        raise
    except Exception:  # some networks can read a single text at a time, and no batch
        return False


def _answers_alike(model: CausalModel | MaskedModel, trial: _Trial) -> bool:
    """Whether a few texts have the same bits alone and anywhere among as many as a batch holds."""
    # texts that differ in their last token alone take a single pass a batch
    beginning, last = trial.texts(1)[0, :-1], trial.suffixes[:, -1:]
    if isinstance(model, MaskedModel) or model.reads_whole_texts:
        beginning = beginning[-1:]  # read anew with each text
    continuations = model.continuations(beginning)
    order = np.random.default_rng(1).permutation(max(model.batches.most, DISTINCT_ROWS))
    few = _logits(continuations, last[:DISTINCT_ROWS])
    many = _logits(continuations, last[order])
    return torch.equal(few, many[np.argsort(order)[:DISTINCT_ROWS]])


@contextmanager
def _shortened(network: nn.Module) -> Iterator[None]:
    """Have a network compute, for the time of the block, its first layers of every kind alone."""
    stacks = list(_stacks(network))
    try:
        for owner, name, layers in stacks:
            setattr(owner, name, layers[: _of_every_kind(layers)])
        yield
    finally:
        for owner, name, layers in stacks:
            setattr(owner, name, layers)


def _stacks(module: nn.Module) -> Iterator[tuple[nn.Module, str, nn.ModuleList]]:
    """The lists of modules in a network that are in no other list: who has them, by which name."""
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            yield module, name, child
        else:
            yield from _stacks(child)


def _of_every_kind(layers: Sequence[nn.Module]) -> int:
    """How many of the first layers have the same modules and sizes as all of them."""
    kinds = [(str(layer), *(tensor.shape for tensor in layer.parameters())) for layer in layers]
    return len(kinds) and 1 + max(map(kinds.index, kinds))


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
