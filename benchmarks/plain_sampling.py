"""Plain sampling: whole texts that transformers' `generate` draws, and what they satisfy.

The baseline of answers. One pool of samples serves all queries and budgets.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest
from transformers import PreTrainedModel

import llmchecker as lc
from llmchecker.models.distribution import Distributions
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.quantifiers.interface import Quantifier


@dataclass(frozen=True)
class TextFormula:
    """A query about the scores of a text's beginnings, and its truth of one text.

    Attributes:
        query: the query of the package.
        decides: whether a score decides the formula, whatever follows.
        holds: whether a text satisfies it, from the scores of all its beginnings; None for a text
            that does not meet the condition of the query.
        quantifier: name of the quantifier.
    """

    query: str
    decides: Callable[[int], bool]
    holds: Callable[[Sequence[int]], bool | None]
    quantifier: str = "gender"


FORMULAS = {
    "player": TextFormula("P=? [ F gender > 0 ]", lambda score: score > 0, lambda s: max(s) > 0),
    "prefix": TextFormula("P=? [ G gender = 0 ]", lambda score: score != 0, lambda s: not any(s)),
    "rare": TextFormula("P=? [ F gender > 1 ]", lambda score: score > 1, lambda s: max(s) > 1),
    "ltl": TextFormula("P=? [ F G gender > 0 ]", lambda score: False, lambda s: s[-1] > 0),
}
"""The player's query; a query that a beginning violates, as the constraints of BEAVER are; a rare
event; and a formula that is LTL and not PCTL."""

MAX_SAMPLES = 8192
"""Number of samples at which a pool ends."""


@dataclass(frozen=True)
class Drawn:
    """Texts that `generate` drew.

    Attributes:
        tokens: (n, L) int64, the tokens of each text; the last token of a short text is repeated.
        seconds: seconds of `generate` alone.
    """

    tokens: np.ndarray
    seconds: float


@dataclass(frozen=True)
class Proportion:
    """Samples that satisfy a formula.

    Attributes:
        satisfying: number of samples that satisfy the formula.
        samples: number of samples.
        passes: number of texts that the model evaluated for them, where they are counted.
    """

    satisfying: int
    samples: int
    passes: int = 0

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval of Clopper and Pearson (1934)."""
        found = binomtest(self.satisfying, self.samples).proportion_ci(confidence, "exact")
        return float(found.low), float(found.high)


def draw(
    network: PreTrainedModel,
    prompt: Sequence[int],
    rows: int,
    length: int,
    *,
    all_tokens: bool = False,
    decoding: Mapping[str, float] = MappingProxyType({}),
) -> Drawn:
    """Draw a batch of texts by `generate`.

    Args:
        network: a network of transformers.
        prompt: the tokens of the prompt.
        rows: number of texts.
        length: the largest number of tokens of a text.
        all_tokens: whether no text ends early.
        decoding: settings of `generate`; by default temperature 1, from all tokens.
    """
    device = network.device
    ids = torch.tensor([prompt], device=device)
    ends = network.generation_config.eos_token_id
    pad = ends[0] if isinstance(ends, list) else ends
    began = time.perf_counter()
    texts = network.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        # 0 turns off the 50 most probable tokens to which transformers cuts by default
        **{"top_k": 0, "top_p": 1.0, "temperature": 1.0, **decoding},
        num_return_sequences=rows,
        min_new_tokens=length if all_tokens else None,
        max_new_tokens=length,
        pad_token_id=pad,
    )
    synchronize(device)
    seconds = time.perf_counter() - began
    tokens = texts[:, len(prompt) :].cpu().numpy()
    missing = length - tokens.shape[1]
    # `generate` stops once all texts have ended
    return Drawn(np.pad(tokens, ((0, 0), (0, missing)), mode="edge"), seconds)


def synchronize(device: torch.device) -> None:
    """Wait until a device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@dataclass(frozen=True)
class _CountedPasses:
    """What a formula has counted of the samples so far.

    Attributes:
        texts: the tokens of the distinct texts.
        counts: the number of distinct texts up to each sample.
    """

    texts: set[tuple[int, ...]] = field(default_factory=set)
    counts: list[int] = field(default_factory=list)


class PlainPool:
    """Samples of one network after one start string.

    Args:
        network: a network of transformers.
        model: the same network in the package, which encodes and decodes.
        start: the start string.
        length: the horizon in tokens.
        rows: number of texts in a batch of `generate`.
        seed: seed of the samples.
        quantifiers: the quantifiers of the formulas, by name; by default `gender`.
        decoding: settings of `generate`; by default temperature 1, from all tokens.
    """

    def __init__(
        self,
        network: PreTrainedModel | None,
        model: LanguageModel,
        start: str,
        length: int,
        rows: int = 64,
        seed: int = 0,
        quantifiers: Mapping[str, Quantifier] | None = None,
        decoding: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._network, self._model, self._decoding = network, model, decoding
        self._prompt, self._length, self._rows = model.encode(start), length, rows
        self._quantifiers = quantifiers or {"gender": lc.Gender()}
        self.seconds = 0.0
        self._tokens = np.empty((0, length), dtype=np.int64)
        self._scores: dict[str, np.ndarray] = {}
        self._counted: dict[TextFormula, _CountedPasses] = {}
        self._seed, self._batches = seed, 0

    def draw_batch(self) -> None:
        """Draw one more batch."""
        # pools may take turns, so that each batch has a seed of its own
        drawn = self._draw(2**32 * self._seed + self._batches)
        self._batches += 1
        self.seconds += drawn.seconds
        self._tokens = np.concatenate([self._tokens, drawn.tokens])

    def _draw(self, seed: int) -> Drawn:
        torch.manual_seed(seed)
        return draw(self._network, self._prompt, self._rows, self._length, decoding=self._decoding)

    def count_share(self, formula: TextFormula, seconds: float) -> Proportion:
        """Count the samples that fit into a time, as a share of all; passes are not counted.

        Samples arrive in whole batches, so that a slow machine draws more than fit.
        """
        number = round(len(self._tokens) * min(1.0, seconds / self.seconds))
        truths = self.find_truths(formula, max(1, number))
        return Proportion(sum(truths), len(truths))

    def count_within(self, formula: TextFormula, passes: int) -> Proportion:
        """Count as many samples as a number of passes allows; see `find_number`."""
        number, made = self.find_number(formula, passes)
        truths = self.find_truths(formula, number)
        return Proportion(sum(truths), len(truths), made)

    def find_number(self, formula: TextFormula, passes: int) -> tuple[int, int]:
        """Return how many samples a number of passes allows, and the passes that they need.

        Each distinct text is one pass, although several samples begin with it, and a sample ends
        where it decides the formula.
        """
        counts = self.count_passes(formula)
        # a model that writes few texts never needs so many passes
        while len(counts) < MAX_SAMPLES and (not counts or counts[-1] <= passes):
            self.draw_batch()
            counts = self.count_passes(formula)
        number = max(1, int(np.searchsorted(counts, passes, side="right")))
        return number, counts[number - 1]

    def find_truths(self, formula: TextFormula, number: int) -> list[bool]:
        """Return the truths of the first samples, without those that the condition excludes."""
        scores = self._score(formula.quantifier)[:number].tolist()
        return [truth for each in scores if (truth := formula.holds(each)) is not None]

    def count_passes(self, formula: TextFormula) -> list[int]:
        """Return the number of distinct texts that precede the ends of the samples up to each."""
        counted = self._counted.setdefault(formula, _CountedPasses())
        ends, done = self._model.end_tokens, len(counted.counts)
        scores = self._score(formula.quantifier)[done:].tolist()
        for tokens, of_sample in zip(self._tokens[done:].tolist(), scores, strict=True):
            for step in range(self._length):
                if formula.decides(of_sample[step]) or (step and tokens[step - 1] in ends):
                    break
                counted.texts.add(tuple(tokens[:step]))
            counted.counts.append(len(counted.texts))
        return counted.counts

    def _score(self, name: str) -> np.ndarray:
        """Return (n, L + 1) the score of each beginning of each sample."""
        known = self._scores.get(name, np.empty((0, self._length + 1), dtype=np.int64))
        new = self._tokens[len(known) :]
        start = self._model.decode([self._prompt])[0]
        columns = np.empty((len(new), self._length + 1), dtype=np.int64)
        for step in range(self._length + 1):
            texts, rows = np.unique(new[:, :step], axis=0, return_inverse=True)
            decoded = self._model.decode([[*self._prompt, *text] for text in texts.tolist()])
            quantifier = self._quantifiers[name]
            scores = [quantifier(start, text[len(start) :]) for text in decoded]
            columns[:, step] = np.array(scores)[rows.ravel()] if len(new) else 0
        self._scores[name] = np.concatenate([known, columns])
        return self._scores[name]


class ModelPool(PlainPool):
    """Samples of any model of the package, token by token, with its decoding and grammar.

    Args:
        model: the model.
        start: the start string.
        length: the horizon in tokens.
        options: the other arguments of `PlainPool`.
    """

    def __init__(self, model: LanguageModel, start: str, length: int, **options: Any) -> None:
        super().__init__(None, model, start, length, **options)

    def _draw(self, seed: int) -> Drawn:
        chance, model = np.random.default_rng(seed), self._model
        began = time.perf_counter()
        prefix = model.open_prefix(self._prompt, self._length, batch_invariant=False)
        tokens = np.zeros((self._rows, 0), dtype=np.int64)
        ends = sorted(model.end_tokens)
        for _ in range(self._length):
            texts, text_of = np.unique(tokens, axis=0, return_inverse=True)
            numbers = [chance.random(count) for count in np.bincount(text_of.ravel())]
            drawn = np.full((self._rows, 1), ends[0] if ends else 0, dtype=np.int64)
            is_open = ~np.isin(texts[:, -1:], ends).any(axis=1)
            open_texts = np.flatnonzero(is_open)

            def sample(
                rows: np.ndarray,
                found: Distributions,
                numbers: list[np.ndarray] = numbers,
                open_texts: np.ndarray = open_texts,
            ) -> list[tuple[int, np.ndarray]]:
                places = open_texts[rows].tolist()
                return [
                    (place, found.sample_by_inversion(row, numbers[place]))
                    for row, place in enumerate(places)
                ]

            if len(open_texts):
                for samples in prefix.map_next(sample, texts[open_texts], will_extend=True):
                    for place, chosen in samples:
                        drawn[text_of.ravel() == place, 0] = chosen
            tokens = np.concatenate([tokens, drawn], axis=1)
        return Drawn(tokens, time.perf_counter() - began)
