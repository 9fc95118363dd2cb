"""Plain sampling: whole texts from the start string, and the interval of Clopper and Pearson.

The baseline of anytime answers. One pool of samples serves all queries and budgets. Each distinct
text counts as one forward pass, although several samples begin with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from proportions import compute_proportion_interval

from llmchecker.checking.anytime.confidence_sequence import (
    ConfidenceSequence,
    Values,
    predict_variances,
)
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.scores import score_texts

_BLOCK = 512
"""The number of samples that are drawn together."""
_TEST_BLOCK = 32
"""The number of samples between two looks of a sequential test."""
_NONE = -1
"""The token after the end of a text."""
_NOTHING_DECIDED = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool), np.empty(0)
"""The decisions of no sample."""


@dataclass(frozen=True)
class PlainSamples:
    """The first samples of a pool.

    Attributes:
        satisfying: number of samples that satisfy the formula.
        samples: number of samples.
        passes: number of texts that the model evaluated for them.
    """

    satisfying: int
    samples: int
    passes: int

    def interval(self, confidence: float) -> tuple[float, float]:
        """The interval of Clopper and Pearson (1934)."""
        return compute_proportion_interval(self.satisfying, self.samples, confidence)


class PlainPool:
    """Samples of one model after one start string, drawn when they are needed.

    Args:
        model: the language model.
        start: the start string.
        length: the horizon of all samples.
        seed: of the random numbers.
        max_samples: the largest number of samples.
    """

    def __init__(
        self, model: LanguageModel, start: str, length: int, seed: int, max_samples: int = 8192
    ) -> None:
        self._model, self._prompt = model, model.encode(start)
        self._prefix = model.open_prefix(self._prompt)
        self._random = np.random.default_rng(seed)
        self._max_samples, self._length = max_samples, length
        self._tokens = np.empty((0, length), dtype=np.int64)
        # by query: (n,) the number of tokens that decide each sample, (n,) its truth, and (n,) the
        # passes of the samples up to it
        self._decided: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def select(self, asked: CheckedQuery, passes: int) -> PlainSamples:
        """Return as many samples as a number of passes allows.

        A sample ends where it decides the query's only path formula.
        """
        truths, total_passes = self._decide(asked)
        while total_passes[-1] <= passes and len(truths) < self._max_samples:
            self._draw()
            truths, total_passes = self._decide(asked)
        count = max(1, int(np.searchsorted(total_passes, passes, side="right")))
        return PlainSamples(int(truths[:count].sum()), count, int(total_passes[count - 1]))

    def test(self, asked: CheckedQuery, threshold: float, confidence: float) -> int:
        """Return the passes of samples until a confidence sequence excludes a threshold.

        Without a decision they are the passes of the largest number of samples.
        """
        sequence = ConfidenceSequence(confidence, threshold)
        while (done := len(sequence)) < self._max_samples:
            truths, total_passes = self._decide(asked)
            if done + _TEST_BLOCK > len(truths):
                self._draw()
                continue
            part = truths[done : done + _TEST_BLOCK].astype(float)
            variances = predict_variances(truths[:done].astype(float), part)
            # a test without a plan expects as many samples again
            planned = float(max(done, _TEST_BLOCK))
            sequence.narrow_interval(Values(part, np.ones(len(part)), 0, 1, 1, variances, planned))
            low, high = sequence.interval
            if not low <= threshold <= high:
                return int(total_passes[done + _TEST_BLOCK - 1])
        return int(total_passes[-1])

    def _draw(self) -> None:
        """Draw a block of whole texts; equal beginnings are computed once."""
        tokens = np.full((_BLOCK, self._length), _NONE, dtype=np.int64)
        active = np.arange(_BLOCK)
        for step in range(self._length):
            texts, rows = np.unique(tokens[active, :step], axis=0, return_inverse=True)
            drawn, done = np.empty(len(active), dtype=np.int64), 0
            for batch in self._prefix.map_next(lambda _, part: part, texts, True):
                for index in range(len(batch)):
                    positions = np.flatnonzero(rows.ravel() == done + index)
                    uniforms = self._random.random(len(positions))
                    drawn[positions] = batch.sample_by_inversion(index, uniforms)
                done += len(batch)
            tokens[active, step] = drawn
            active = active[~np.isin(drawn, sorted(self._model.end_tokens))]
        self._tokens = np.concatenate([self._tokens, tokens])

    def _decide(self, asked: CheckedQuery) -> tuple[np.ndarray, np.ndarray]:
        """Return (n,) truths of all samples, and (n,) passes of the samples up to each."""
        if len(self._tokens) == 0:
            self._draw()
        steps, truths, total_passes = self._decided.get(asked.query.text, _NOTHING_DECIDED)
        if len(truths) < len(self._tokens):
            new = _decide_samples(self._model, self._prompt, asked, self._tokens[len(truths) :])
            steps, truths = np.append(steps, new[0]), np.append(truths, new[1])
            total_passes = _count_texts(self._tokens, steps)
            self._decided[asked.query.text] = steps, truths, total_passes
        return truths, total_passes


def _decide_samples(
    model: LanguageModel, prompt: Sequence[int], asked: CheckedQuery, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (n,) the number of tokens that decide each sample, and (n,) whether it satisfies."""
    (monitor,) = asked.monitors
    start = model.decode([prompt])[0]
    steps, truths = np.zeros(len(tokens), dtype=np.int64), np.zeros(len(tokens), dtype=bool)
    obligations = np.full(len(tokens), monitor.initial_obligation)
    active = np.arange(len(tokens))
    for step in range(asked.length + 1):
        texts = model.decode([[*prompt, *row] for row in tokens[active, :step].tolist()])
        columns = {
            name: score_texts(quantifier, start, texts, name)
            for name, quantifier in asked.quantifiers.items()
        } | {STEP: np.full(len(texts), step)}
        ends = sorted(model.end_tokens)
        has_ended = np.isin(tokens[active, step - 1], ends) if step else np.zeros(len(active), bool)
        letters = monitor.compute_letters(columns, has_ended)
        is_open = np.zeros(len(active), dtype=bool)
        for row, (index, letter) in enumerate(zip(active.tolist(), letters.tolist(), strict=True)):
            before = int(obligations[index])
            obligations[index] = monitor.progress(before, letter)
            if has_ended[row] or step == monitor.length:
                truth = monitor.holds_under_stutter(before, letter)
            else:
                truth = monitor.decide(int(obligations[index]), step + 1, letter)
            is_open[row] = truth is None
            truths[index], steps[index] = bool(truth), step
        active = active[is_open]
    return steps, truths


def _count_texts(tokens: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return (n,) the number of distinct texts that precede the ends of the samples up to each."""
    seen: set[tuple[int, ...]] = set()
    counts = []
    for row, step in zip(map(tuple, tokens.tolist()), steps.tolist(), strict=True):
        seen.update(row[:length] for length in range(step))
        counts.append(len(seen))
    return np.array(counts)
