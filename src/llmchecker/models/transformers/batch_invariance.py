"""Batch invariance: trial passes that select how to evaluate a model.

Three properties depend on the architecture, the dtype, the device and the libraries: whether keys
and values can be stored, whether the rows of a batch can share those of the prompt, and whether a
text's result has the same bits in every batch. No list of names would stay correct, so this module
measures them.

On an accelerator, bits depend on the size of the batch. There the module measures whether equal
batches have equal bits, and beyond which size a batch is no faster.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from llmchecker.errors import InvalidDistribution, MachineLimit, UnusableModel
from llmchecker.models.device import is_processor
from llmchecker.models.distribution import Distributions
from llmchecker.models.interface import Prefix
from llmchecker.models.transformers.batch_size import measure_max_rows
from llmchecker.models.transformers.batching import MAX_ROWS, MIN_ROWS, BatchExecutor, join_prompt
from llmchecker.models.transformers.causal import CausalModel
from llmchecker.models.transformers.masked import MaskedModel
from llmchecker.models.transformers.prompt_attention import (
    MIN_SHARED_ACCELERATOR_TOKENS,
    MIN_SHARED_TOKENS,
    restore_attention,
    use_prompt_attention,
)
from llmchecker.utils.memory_errors import is_out_of_memory

_PROMPT_TOKENS = 6
"""Number of tokens of the prompt, larger than the usual convolution of a network."""

_CONTINUATION_TOKENS = 2
"""Number of tokens after the prompt; the second uses the stored first token."""

_COMPARED_ROWS = 8
"""Number of texts whose bits are compared between batches."""

_TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Largest difference of logits by rounding, relative to their range."""

_DEFAULT_TOLERANCE = 0.05
"""Largest relative difference for dtypes with fewer digits."""


def select_evaluator(model: CausalModel | MaskedModel) -> CausalModel | MaskedModel:
    """Select an evaluation of a model that is correct and batch-invariant.

    A causal model stores keys and values if this gives the logits of plain passes over whole texts.
    Otherwise it reads whole texts. On a processor, its batches have any size if the size changes no
    bit, else one fixed size. Otherwise each has a single row, for example with experts, whose
    shapes depend on other rows. On an accelerator they have any size, or a single row if larger
    batches do not have the logits of plain passes.

    Returns:
        The model, with `executor`, `probability_spread` and, if it is causal, `is_uncached` and
        `shared_from` set.

    Raises:
        UnusableModel: plain passes fail, or their results differ between repetitions.
        InvalidDistribution: plain passes give logits that are not finite.
    """
    trial = _Trial.for_model(model)
    expected_logits = _compute_plain_logits(model, trial)
    executor = model.executor
    # a single row first: the correctness test must not depend on the batch size
    model.executor = BatchExecutor(1, executor.device, rows=1)
    if isinstance(model, CausalModel):
        model.is_uncached = not _is_correct(model, trial, expected_logits)
    is_uncached = not isinstance(model, CausalModel) or model.is_uncached
    # the last alternative must reproduce the plain passes
    if is_uncached and not _is_correct(model, trial, expected_logits):
        raise _build_error(model, "returns other values for the same text in a second call")
    # a network whose keys and values cannot be stored may have a state of its own, which a second
    # thread would change
    is_stateless = isinstance(model, CausalModel) and is_uncached
    threads = 1 if is_stateless or model.position_limits.is_stateful else executor.threads
    model.executor = _select_executor(model, trial, expected_logits, executor.device, threads)
    _select_prompt_attention(model, trial, expected_logits)
    model.probability_spread = _measure_spread(model, trial)
    return model


def _select_executor(
    model: CausalModel | MaskedModel, trial: "_Trial", expected: Tensor, device: str, threads: int
) -> BatchExecutor:
    """Return an executor of the fastest batches that keep their bits.

    Raises:
        UnusableModel: not even single texts keep their bits.
    """
    # texts that differ only in their last token need a single pass for each batch
    prompt, suffixes = trial.texts(1)[0, :-1].tolist(), trial.continuations[:, -1:]
    if not isinstance(model, CausalModel) or model.is_uncached:
        prompt = prompt[-1:]  # shorter, because each text is read from its first token
    # the fastest first; only a processor keeps its bits in one shape at no cost
    for rows in (None, MIN_ROWS, 1) if is_processor(device) else (None, 1):
        # a single thread gets the largest batches
        model.executor = BatchExecutor(1, device, rows)
        if model.executor.is_processor:
            if _is_batch_invariant(model, prompt, suffixes):
                return BatchExecutor(threads, device, rows)
        elif _is_repeatable(model, trial, expected):
            if rows is not None:
                return model.executor
            max_rows = measure_max_rows(model, trial.prompt.tolist(), trial.continuations[:, :1])
            return BatchExecutor(threads, device, max_rows=max_rows)
    raise _build_error(model, "returns other bits for the same text in each call")


def _select_prompt_attention(
    model: CausalModel | MaskedModel, trial: "_Trial", expected: Tensor
) -> None:
    """Let the rows of a batch share a long prompt if this is correct and batch-invariant."""
    if not isinstance(model, CausalModel) or model.is_uncached:
        return
    executor, network = model.executor, model.network
    min_tokens = MIN_SHARED_TOKENS if executor.is_processor else MIN_SHARED_ACCELERATOR_TOKENS
    # the trial for bits needs a prompt of this length
    long_trial = _Trial.for_model(model, min_tokens)
    if len(long_trial.prompt) < min_tokens or not use_prompt_attention(network):
        return
    model.shared_from = 1
    model.executor = BatchExecutor(1, executor.device, rows=1)
    is_correct = torch.equal(_compute_plain_logits(model, trial), expected) and _is_correct(
        model, trial, expected
    )
    model.executor = executor
    prompt, texts = long_trial.prompt.tolist(), long_trial.continuations
    if is_correct and (not executor.is_processor or _is_batch_invariant(model, prompt, texts)):
        model.shared_from = min_tokens
    else:
        model.shared_from = None
        restore_attention(network)


@dataclass(frozen=True)
class _Trial:
    """Texts for the measurement: a prompt and distinct continuations.

    Attributes:
        prompt: (tokens,) int64, token ids.
        continuations: (rows, tokens) int64, token ids.
    """

    prompt: np.ndarray
    continuations: np.ndarray

    @classmethod
    def for_model(
        cls, model: CausalModel | MaskedModel, prompt_tokens: int = _PROMPT_TOKENS
    ) -> "_Trial":
        """Draw random ordinary tokens of the model, within its length limit."""
        token_ids = set(model.tokenizer.get_vocab().values())
        ordinary_tokens = sorted(token_ids - set(model.tokenizer.added_tokens_decoder)) or sorted(
            token_ids
        )
        max_tokens = model.position_limits.max_tokens or prompt_tokens + _CONTINUATION_TOKENS + len(
            model.tail
        )
        prompt = min(prompt_tokens, max_tokens - len(model.tail) - _CONTINUATION_TOKENS)
        if prompt < 1 or len(ordinary_tokens) < 2:
            raise _build_error(
                model, f"reads {max_tokens} tokens of {len(ordinary_tokens)}: too few for a text"
            )
        # a fixed seed, so that the choice of an evaluator is reproducible
        random = np.random.default_rng(0)
        continuations = random.choice(ordinary_tokens, (MAX_ROWS, _CONTINUATION_TOKENS))
        return cls(random.choice(ordinary_tokens, prompt), continuations)

    def texts(self, rows: int) -> np.ndarray:
        """Return the first whole texts, (rows, tokens)."""
        return join_prompt(self.prompt.tolist(), self.continuations[:rows])


def _compute_plain_logits(model: CausalModel | MaskedModel, trial: _Trial) -> Tensor:
    """Return the logits after two texts, (2, vocabulary), by a plain pass over each.

    Raises:
        UnusableModel: a pass fails or returns logits of another shape.
        InvalidDistribution: the logits are not finite.
    """
    position, texts = -max(len(model.tail), 1), trial.texts(2)
    try:
        outputs = [_run_forward(model, [*text, *model.tail]) for text in texts.tolist()]
    except Exception as error:  # unsuitable networks raise errors of any class
        if isinstance(error, MachineLimit) or is_out_of_memory(error):
            raise
        raise _build_error(model, f"fails on a text: {type(error).__name__}: {error}") from error
    shape, tokens = tuple(outputs[0].shape), texts.shape[1] + len(model.tail)
    if shape != (1, tokens, model.vocabulary_size):
        expected_shape = (1, tokens, model.vocabulary_size)
        raise _build_error(model, f"returns logits of shape {shape}, not {expected_shape}")
    # compared on the processor: some accelerators have no float64
    logits = torch.cat([output[:, position] for output in outputs]).cpu()
    # raises InvalidDistribution for logits that are not finite
    model.map_distributions(lambda _, part: len(part), logits, (), texts, np.arange(len(texts)))
    return logits


def _run_forward(model: CausalModel | MaskedModel, text: list[int]) -> Tensor:
    """Return the logits of one plain pass over a text, (1, tokens, vocabulary)."""
    # the shape check needs the logits of all tokens
    settings = {k: v for k, v in model.forward_settings.items() if k != "logits_to_keep"}
    input_ids = torch.tensor([text], device=model.network.device)

    def compute() -> Tensor:
        with torch.inference_mode():
            logits: Tensor = model.network(input_ids=input_ids, **settings).logits
            return logits

    return model.executor.run(compute)


def _is_correct(model: CausalModel | MaskedModel, trial: _Trial, expected: Tensor) -> bool:
    """Return whether the model's continuations have the logits of plain passes."""
    with _suppress_failures():
        logits = _collect_logits(model.open_prefix(trial.prompt.tolist()), trial.continuations[:2])
        return logits.shape == expected.shape and _are_close(logits, expected)
    return False


def _is_repeatable(model: CausalModel | MaskedModel, trial: _Trial, expected: Tensor) -> bool:
    """Return whether equal batches have equal bits, and the logits of plain passes."""
    with _suppress_failures():
        prefix = model.open_prefix(trial.prompt.tolist())
        logits, repeated_logits = (_collect_logits(prefix, trial.continuations) for _ in range(2))
        is_equal = torch.equal(logits, repeated_logits)
        return is_equal and _are_close(logits[: len(expected)], expected)
    return False


def _is_batch_invariant(
    model: CausalModel | MaskedModel, prompt: Sequence[int], suffixes: np.ndarray
) -> bool:
    """Return whether a text has the same bits in a small and in the largest batch.

    Layers of one kind compute in the same way, so the bits are compared after one layer of each
    kind. If a network does not work with fewer layers, they are compared after all layers.
    """
    # a part of a network may give logits that are not finite
    with suppress(InvalidDistribution), _suppress_failures(), _shorten_network(model.network):
        return _has_equal_bits(model, prompt, suffixes)
    with _suppress_failures():
        return _has_equal_bits(model, prompt, suffixes)
    return False


@contextmanager
def _suppress_failures() -> Iterator[None]:
    """End the block at errors of networks that lack a cache, batches or fewer layers.

    Such networks raise errors of any class.

    Raises:
        InvalidDistribution: logits are not finite.
        MachineLimit: memory ran out, as other errors may report too.
    """
    try:
        yield
    except (InvalidDistribution, MachineLimit):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise


def _measure_spread(model: CausalModel | MaskedModel, trial: _Trial) -> float | None:
    """Return the largest difference of a probability between batches; None in float32 or float64.

    A few texts are read alone, in a small batch and in a full one.
    """
    if torch.finfo(model.network.dtype).eps <= torch.finfo(torch.float32).eps:
        return None
    executor, texts = model.executor, trial.continuations[:_COMPARED_ROWS]
    # larger batches of a processor have the bits of this one
    full_rows = executor.min_rows if executor.is_processor else executor.max_rows
    full_batch = np.resize(trial.continuations, (full_rows, _CONTINUATION_TOKENS))
    ways = [(1, texts), (_COMPARED_ROWS, texts), (full_rows, full_batch)]
    probabilities = []
    for rows, batch in ways:
        model.executor = BatchExecutor(1, executor.device, rows)
        prefix = model.open_prefix(trial.prompt.tolist())
        parts = prefix.map_next(lambda _, part: part.probabilities().clone().cpu(), batch)
        probabilities.append(torch.cat(list(parts))[:_COMPARED_ROWS])
    model.executor = executor
    found = torch.stack(probabilities)
    return (found.amax(dim=0) - found.amin(dim=0)).max().item()


def _has_equal_bits(
    model: CausalModel | MaskedModel, prompt: Sequence[int], suffixes: np.ndarray
) -> bool:
    """Return whether a few texts have the same bits alone and within a full batch."""
    prefix = model.open_prefix(prompt)
    # a permutation, so that the texts have other positions in the large batch
    order = np.random.default_rng(1).permutation(max(model.executor.max_rows, _COMPARED_ROWS))
    reference_logits = _collect_logits(prefix, suffixes[:_COMPARED_ROWS])
    batch_logits = _collect_logits(prefix, suffixes[order])
    return torch.equal(reference_logits, batch_logits[np.argsort(order)[:_COMPARED_ROWS]])


@contextmanager
def _shorten_network(network: nn.Module) -> Iterator[None]:
    """Limit a network to its first layers of every kind within the block."""
    stacks = list(_iter_layer_lists(network))
    try:
        for owner, name, layers in stacks:
            setattr(owner, name, layers[: _count_representative_layers(layers)])
        yield
    finally:
        for owner, name, layers in stacks:
            setattr(owner, name, layers)


def _iter_layer_lists(module: nn.Module) -> Iterator[tuple[nn.Module, str, nn.ModuleList]]:
    """Yield the outermost module lists of a network: owner, attribute name, list."""
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            yield module, name, child
        else:
            yield from _iter_layer_lists(child)


def _count_representative_layers(layers: nn.ModuleList) -> int:
    """Return the number of first layers that include every kind of layer."""
    kinds = [(str(layer), *(tensor.shape for tensor in layer.parameters())) for layer in layers]
    return len(kinds) and 1 + max(map(kinds.index, kinds))


def _collect_logits(prefix: Prefix, continuations: np.ndarray) -> Tensor:
    """Return the logits after continuations; on an accelerator up to a constant of each row."""
    return torch.cat(list(prefix.map_next(_copy_logits, continuations)))


def _copy_logits(_: np.ndarray, part: Distributions) -> Tensor:
    # an accelerator keeps probabilities only
    return (part.values.log() if part.row_maxima is None else part.values.clone()).cpu()


def _are_close(logits: Tensor, others: Tensor) -> bool:
    """Return whether logits give equal probabilities except for rounding.

    Args:
        logits, others: (rows, vocabulary); the dtype of `others` determines the tolerance.
    """
    logits, compared = (rows.double() - rows.amax(dim=1, keepdim=True) for rows in (logits, others))
    # -inf equals only -inf
    is_finite = logits.isfinite()
    if not torch.equal(is_finite, compared.isfinite()):
        return False
    values, other_values = logits[is_finite], compared[is_finite]
    spread = (values.max() - values.min()).item()
    return (values - other_values).abs().max().item() <= _TOLERANCES.get(
        others.dtype, _DEFAULT_TOLERANCE
    ) * spread


def _build_error(model: CausalModel | MaskedModel, reason: str) -> UnusableModel:
    network, device = type(model.network).__name__, model.network.device
    return UnusableModel(f"{model.name} ({network}, {model.dtype} on {device}): it {reason}")
