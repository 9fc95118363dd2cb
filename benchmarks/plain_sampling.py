"""Plain sampling: whole texts from the start string, and the interval of Clopper and Pearson.

The baseline of anytime answers. Samples are drawn together, so that equal beginnings are computed
once. The number of samples is fixed beforehand, as the interval requires.
"""

import math
from dataclasses import dataclass

import numpy as np
from proportions import compute_proportion_interval

from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.scores import score_texts


@dataclass(frozen=True)
class PlainSamples:
    """The outcome of plain samples.

    Attributes:
        satisfying: number of samples that satisfy the formula.
        samples: number of samples.
        passes: number of texts that the model evaluated.
    """

    satisfying: int
    samples: int
    passes: int

    def interval(self, confidence: float) -> tuple[float, float]:
        """The interval of Clopper and Pearson (1934)."""
        return compute_proportion_interval(self.satisfying, self.samples, confidence)


def draw(
    model: LanguageModel, start: str, asked: CheckedQuery, samples: int, seed: int
) -> PlainSamples:
    """Draw whole texts, each until it decides the query's only path formula."""
    (monitor,) = asked.monitors
    prompt = model.encode(start)
    prefix = model.open_prefix(prompt)
    random = np.random.default_rng(seed)
    tokens = np.empty((samples, 0), dtype=np.int64)
    obligations = np.full(samples, monitor.initial_obligation)
    obligations, truth = _decide(model, prompt, asked, tokens, obligations)
    active, passes, satisfying = np.arange(samples), 0, 0
    for _ in range(asked.length):
        keep = truth < 0
        satisfying += int((truth == 1).sum())
        active, tokens, obligations = active[keep], tokens[keep], obligations[keep]
        if len(active) == 0:
            break
        texts, rows = np.unique(tokens, axis=0, return_inverse=True)
        passes += len(texts)
        drawn, done = np.empty(len(active), dtype=np.int64), 0
        for batch in prefix.map_next(lambda part: part, texts, True):
            for index in range(len(batch)):
                positions = np.flatnonzero(rows.ravel() == done + index)
                drawn[positions] = batch.sample_by_inversion(index, random.random(len(positions)))
            done += len(batch)
        tokens = np.column_stack([tokens, drawn])
        obligations, truth = _decide(model, prompt, asked, tokens, obligations)
    satisfying += int((truth == 1).sum())
    return PlainSamples(satisfying, samples, passes)


def draw_within(
    model: LanguageModel, start: str, asked: CheckedQuery, passes: int, seed: int
) -> PlainSamples:
    """Draw about as many texts as a number of passes allows.

    A pilot with other random numbers chooses their number.
    """
    count = max(1, passes // asked.length)
    for pilot_seed in (seed + 10**6, seed + 2 * 10**6):
        pilot = draw(model, start, asked, count, pilot_seed)
        count = max(1, math.floor(count * passes / pilot.passes))
    return draw(model, start, asked, count, seed)


def _decide(
    model: LanguageModel,
    prompt: tuple[int, ...],
    asked: CheckedQuery,
    tokens: np.ndarray,
    obligations: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the obligations after texts, and 1, 0 or -1 (undecided) for each."""
    (monitor,) = asked.monitors
    step, start = tokens.shape[1], model.decode([prompt])[0]
    texts = model.decode([[*prompt, *row] for row in tokens.tolist()])
    columns = {
        name: score_texts(quantifier, start, texts, name)
        for name, quantifier in asked.quantifiers.items()
    } | {STEP: np.full(len(texts), step)}
    ended = np.isin(tokens[:, -1], sorted(model.end_tokens)) if step else np.zeros(1, dtype=bool)
    has_ended = np.broadcast_to(ended, len(texts))
    letters = monitor.compute_letters(columns, has_ended)
    truth = np.full(len(texts), -1)
    next_obligations = obligations.copy()
    pairs = zip(obligations.tolist(), letters.tolist(), strict=True)
    for row, (obligation, letter) in enumerate(pairs):
        next_obligations[row] = monitor.progress(obligation, letter)
        if has_ended[row] or step == monitor.length:
            truth[row] = monitor.holds_under_stutter(obligation, letter)
        elif (decision := monitor.decide(int(next_obligations[row]), step + 1, letter)) is not None:
            truth[row] = decision
    return next_obligations, truth
