"""How fast one network grows trees, answers queries and samples, here and in transformers.

Every function takes the same network twice: as transformers have it, and as the package uses it.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from plain_sampling import FORMULAS, PlainPool, draw, synchronize
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import llmchecker as lc
from llmchecker.models.interface import LanguageModel

CONFIDENCE = 0.99
PROMPT_TOKENS = 4
WARM_UP_PASSES = 20
DECODING = {"temperature": 0.7, "top_p": 0.9}
"""A truncating decoding, as of deployed chat models."""


@dataclass(frozen=True)
class Subject:
    """A network that is measured.

    Attributes:
        network: the network in transformers.
        tokenizer: its tokenizer.
        model: the same network in the package; both share their weights.
    """

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    model: LanguageModel

    @classmethod
    def of(cls, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> "Subject":
        """Wrap a loaded network."""
        return cls(network, tokenizer, lc.load(network, tokenizer))

    @classmethod
    def read(cls, directory: Path) -> "Subject":
        """Read a directory, with float32 weights on the processor."""
        network = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        return cls.of(network.eval(), AutoTokenizer.from_pretrained(directory))

    @property
    def linear_weights(self) -> list[torch.Tensor]:
        """The weights of all linear layers, with the head."""
        layers = [m for m in self.network.modules() if isinstance(m, torch.nn.Linear)]
        return [layer.weight.detach() for layer in layers]

    @property
    def operations(self) -> int:
        """Operations of the linear layers for one token."""
        return 2 * sum(weight.numel() for weight in self.linear_weights)


@dataclass(frozen=True)
class Widths:
    """Intervals of a check and of plain samples that took equal seconds.

    Attributes:
        check_width, plain_width: widths of the intervals.
        passes: texts that the check evaluated.
        check_seconds: seconds of the check.
        samples: number of plain samples that fit into the seconds of the check.
        plain_seconds: seconds of `generate`, which ends with a whole batch.
        overlap: whether the intervals overlap.
    """

    check_width: float
    plain_width: float
    passes: int
    check_seconds: float
    samples: int
    plain_seconds: float
    overlap: bool

    @property
    def width_ratio(self) -> float:
        """The width of the check's interval over that of the plain samples."""
        return self.check_width / self.plain_width

    def figures(self) -> dict[str, float]:
        """Return the ratio and the attributes by their names."""
        return {"width_ratio": self.width_ratio, **asdict(self)}


def measure_matrix_rate(subject: Subject, rows: Iterable[int], seconds: float) -> float:
    """Measure products with the weights of all linear layers, one after the other.

    Args:
        rows: numbers of rows of the other factor, of which the fastest counts.
        seconds: least time of the measurements.

    Returns:
        Operations a second.
    """
    weights = subject.linear_weights
    device, dtype = weights[0].device, weights[0].dtype
    rates = []
    for number in rows:
        inputs = {
            w.shape[1]: torch.ones(number, w.shape[1], dtype=dtype, device=device) for w in weights
        }

        def multiply(inputs: Mapping[int, torch.Tensor] = inputs) -> None:
            for weight in weights:
                torch.mm(inputs[weight.shape[1]], weight.T)

        rates.append(number * subject.operations / time_fastest(multiply, device, seconds))
    return max(rates)


def measure_network(subject: Subject, rows: Iterable[int], seconds: float) -> dict[int, float]:
    """Measure the network alone: the next token after four, keys and values kept.

    Args:
        rows: numbers of texts in a batch. A batch that exceeds the memory ends the measurements.
        seconds: least time of the measurement of one size.

    Returns:
        Texts a second by batch size.
    """
    network, rates = subject.network, {}
    vocabulary = subject.model.vocabulary_size
    for number in rows:
        ids = torch.randint(vocabulary, (number, PROMPT_TOKENS + 1), device=network.device)
        try:
            with torch.inference_mode():
                cache = network(ids[:, :-1], use_cache=True, logits_to_keep=1).past_key_values

                def step(ids: torch.Tensor = ids, cache: Any = cache) -> None:
                    network(ids[:, -1:], past_key_values=cache, use_cache=True)
                    cache.crop(-1)

                rates[number] = number / time_fastest(step, network.device, seconds)
        except torch.OutOfMemoryError:
            break
    return rates


def measure_generate(
    subject: Subject, start: str, rows: Iterable[int], length: int
) -> dict[int, float]:
    """Measure `generate` of transformers, which ends no text early.

    Args:
        start: the start string.
        rows: numbers of texts in a batch. A batch that exceeds the memory ends the measurements.
        length: number of tokens of each text.

    Returns:
        Tokens a second by batch size.
    """
    prompt, rates = subject.model.encode(start), {}
    for number in rows:
        try:
            # the first batch of a size allocates
            batches = [
                draw(subject.network, prompt, number, length, all_tokens=True) for _ in range(2)
            ]
        except torch.OutOfMemoryError:
            break
        rates[number] = number * length / min(batch.seconds for batch in batches)
    return rates


def measure_growing(
    subject: Subject, start: str, alpha: float, k: int, length: int
) -> tuple[float, int]:
    """Measure the growth of a tree, level by level.

    Returns:
        Texts a second that the network evaluated, and their number.
    """
    began = time.perf_counter()
    tree = lc.grow(subject.model, start, alpha=alpha, k=k, length=length)
    texts = int(tree.internal.sum())
    return texts / (time.perf_counter() - began), texts


def measure_check(
    model: LanguageModel, query: str, start: str, **options: Any
) -> tuple[float, lc.Answer]:
    """Measure a check of a model, from the call to its answer.

    Returns:
        Passes a second, and the answer.
    """
    began = time.perf_counter()
    answer = lc.check(query, model, start, **options)
    return count_passes(answer) / (time.perf_counter() - began), answer


def warm_up(model: LanguageModel, query: str, start: str, length: int, **quantifiers: Any) -> float:
    """Answer a query with few passes; return the seconds.

    A first check imports Storm, allocates, and computes what depends on the vocabulary alone.
    """
    began = time.perf_counter()
    lc.check(query, model, start, length=length, passes=WARM_UP_PASSES, **quantifiers)
    return time.perf_counter() - began


def compare_equal_seconds(
    subject: Subject, start: str, length: int, seconds: float, rows: int
) -> Widths:
    """Compare the interval of a check with that of plain samples drawn in equal seconds.

    The time of a check is that of the whole call, the time of plain samples that of `generate`
    alone: what their texts satisfy is computed for nothing.

    Args:
        start: the start string.
        length: the horizon in tokens.
        seconds: time limit of the check.
        rows: number of texts in a batch of `generate`.
    """
    formula = FORMULAS["player"]
    began = time.perf_counter()
    answer = lc.check(
        formula.query, subject.model, start, length=length, seconds=seconds, confidence=CONFIDENCE
    )
    taken = time.perf_counter() - began
    # the first batch of a size allocates
    draw(subject.network, subject.model.encode(start), rows, 1)
    pool = PlainPool(subject.network, subject.model, start, length, rows)
    while pool.seconds < taken:
        pool.draw_batch()
    plain = pool.count_share(formula, taken)
    low, high = plain.interval(CONFIDENCE)
    lower, upper = get_interval(answer)
    return Widths(
        check_width=upper - lower,
        plain_width=high - low,
        passes=count_passes(answer),
        check_seconds=taken,
        samples=plain.samples,
        plain_seconds=pool.seconds,
        overlap=lower <= high and low <= upper,
    )


def time_fastest(work: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Return the seconds of the fastest of several calls, after one that allocates.

    The fastest counts, because other work on the machine only slows down.
    """
    work()
    synchronize(device)
    times: list[float] = []
    while sum(times) < seconds or len(times) < 2:
        began = time.perf_counter()
        work()
        synchronize(device)
        times.append(time.perf_counter() - began)
    return min(times)


def get_interval(answer: lc.Answer) -> tuple[float, float]:
    """Return the interval of the samples, or the certain bounds if there are none."""
    if answer.sampled is None:
        return float(answer.lower), float(answer.upper)
    return answer.sampled.interval.lower, answer.sampled.interval.upper


def count_passes(answer: lc.Answer) -> int:
    """Return the passes of an answer on a model."""
    return answer.passes or 0


def get_width(answer: lc.Answer) -> float:
    """Return the width of that interval."""
    low, high = get_interval(answer)
    return high - low


def find_fastest(rates: Mapping[int, float]) -> int:
    """Return the batch size with the highest rate."""
    return max(rates, key=lambda rows: rates[rows])


def join_texts(words: Sequence[str], model: LanguageModel, tokens: int) -> str:
    """Return a text of at least a number of tokens, in which words repeat."""
    text = " ".join(words)
    while len(model.encode(text)) < tokens:
        text = f"{text} {' '.join(words)}"
    return text
