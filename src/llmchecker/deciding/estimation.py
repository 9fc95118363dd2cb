"""Estimating what the model does in `rest`, from samples of the model itself.

The probability of a path formula is D + U p (see `decided`), and p is estimated. A sample begins at
a `rest` of the undecided mass, drawn in proportion to its probability. Its next token is drawn from
those that the tree does not follow there, and all further tokens up to the horizon from the model.
Each sampled text decides the formula, so that the number of satisfying samples is binomial. The
interval of Clopper and Pearson (1934, "The Use of Confidence or Fiducial Limits Illustrated in the
Case of the Binomial", Biometrika 26) therefore covers p with at least the stated confidence, for
every number of samples. This takes a number that is fixed before the first sample is drawn. The
interval of the probability is D plus U times the interval of p.

The seed and the number of a sample determine it. Its random numbers come from a counter-based
generator (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3") that is keyed by both.
So a run with more samples begins with the samples of a run with fewer, whatever the batches,
threads and memory.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from scipy.stats import beta

from llmchecker.deciding.decided import UNDECIDED, Decided, distinct
from llmchecker.deciding.drawing import NextTokens
from llmchecker.deciding.estimates import Estimate
from llmchecker.deployed.chat import Start
from llmchecker.errors import InvalidEstimate
from llmchecker.models.protocols import LanguageModel
from llmchecker.quantifiers.quantifier import Quantifier
from llmchecker.queries.formulas import STEP
from llmchecker.queries.reading import OpenReading, Reading
from llmchecker.scoring.scores import score_texts
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.store import StoredDistributions
from llmchecker.trees.text_tree import TextTree

AT_ONCE = 1024
"""The number of samples that are drawn side by side. Equal beginnings are then computed once."""

_OUTWARD = 4 * np.finfo(np.float64).eps
"""More than the rounding error of the few sums and products behind an end of an interval."""


def clopper_pearson(satisfying: int, samples: int, confidence: float) -> tuple[float, float]:
    """The interval of Clopper and Pearson for a binomial proportion; [0, 1] without samples.

    Args:
        satisfying: the number of successes.
        samples: the number of trials.
        confidence: with which the interval covers the proportion, at least.

    Raises:
        InvalidEstimate: a confidence that is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InvalidEstimate(f"confidence is {confidence!r}; it must lie between 0 and 1")
    tail = (1 - confidence) / 2
    low = 0.0 if satisfying == 0 else float(beta.ppf(tail, satisfying, samples - satisfying + 1))
    high = 1.0
    if satisfying < samples:
        high = float(beta.isf(tail, satisfying + 1, samples - satisfying))
    return low, high


def samples_for(width: float, undecided: float, confidence: float, most: int = 10**7) -> int:
    """The number of samples that give an interval of at most some width, however they come out.

    An interval is widest where half of the samples satisfy the formula.

    Args:
        width: of the interval of the probability.
        undecided: U, by which the interval of p is multiplied.
        confidence: with which the interval holds.
        most: the largest number to return, even if it is too small.
    """
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        at_half = clopper_pearson(middle // 2, middle, confidence)
        if undecided * (at_half[1] - at_half[0]) <= width:
            high = middle
        else:
            low = middle + 1
    return low


def estimate(
    sampler: "Sampler",
    samples: int,
    confidence: float = 0.99,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Estimate | None:
    """Estimate the probability of a path formula from a tree and samples of its `rest`.

    Args:
        sampler: draws the samples.
        samples: how many to draw; none are drawn where everything is decided.
        confidence: with which the interval must hold.
        seed: of the samples.
        progress: called with the number of samples drawn so far and the number of all samples. It
            never learns what they decide, so that nobody can stop when they like the result, which
            would make the confidence wrong.
        stopped: called between batches; when it returns true, there is no estimate.

    Returns:
        The estimate, or None if it was stopped.

    Raises:
        InvalidEstimate: no samples where something is undecided, or a confidence out of range.
    """
    decided, undecided = sampler.decided, sampler.decided.undecided
    if undecided == 0:
        clopper_pearson(0, 0, confidence)  # a wrong confidence is refused all the same
        value = decided.satisfied
        return Estimate(value, value, value, confidence, 0, 0, 0, seed)
    if samples < 1:
        raise InvalidEstimate(f"samples is {samples!r}; at least 1 is needed to estimate")
    satisfying, asked_before = 0, sampler.passes
    for first in range(0, samples, AT_ONCE):
        if stopped():
            return None
        behind = min(samples, first + AT_ONCE)
        told = partial(tell, progress, first, behind, samples)
        satisfying += int(sampler.truths(seed, first, behind, told).sum())
    low, high = clopper_pearson(satisfying, samples, confidence)
    return Estimate(
        estimate=min(1.0, decided.satisfied + undecided * satisfying / samples),
        low=float(max(decided.satisfied, decided.satisfied + undecided * low - _OUTWARD)),
        high=float(min(1 - decided.violated, decided.satisfied + undecided * high + _OUTWARD)),
        confidence=confidence,
        samples=samples,
        satisfying=satisfying,
        passes=sampler.passes - asked_before,
        seed=seed,
    )


def tell(
    progress: Callable[[int, int], None], first: int, behind: int, samples: int, share: float
) -> None:
    """Tell how many samples are drawn when a share of the tokens of some of them is."""
    progress(first + int(share * (behind - first)), samples)


class Sampler:
    """Draws texts from the undecided mass of a tree and decides each of them.

    `longest` is the number of tokens that a sample needs at most.

    Args:
        model: the language model.
        start: the start string.
        tree: grown from this model after this start string, with this `end_of_sequence`.
        decided: what the tree decides of the formula.
        reading: of the formula.
        quantifiers: the quantifiers that the formula names, by name.
        end_of_sequence: as in `expansion.grow_tree`.
        stored: as in `NextTokens`.
    """

    def __init__(
        self,
        model: LanguageModel,
        start: Start,
        tree: TextTree,
        decided: Decided,
        reading: Reading | OpenReading,
        quantifiers: Mapping[str, Quantifier],
        end_of_sequence: EndOfSequence,
        stored: StoredDistributions | None = None,
    ) -> None:
        self._model = model
        self._tree = tree
        self.decided = decided
        self._reading = reading
        self._quantifiers = quantifiers
        self._ends = sorted(model.end_tokens) if end_of_sequence == "terminal" else []
        self._prompt = model.encode(start)
        self._next_tokens = NextTokens(model, self._prompt, tree, stored)
        self.longest = (
            0
            if not len(decided.places)
            else int(reading.length - tree.step[tree.parent[decided.places]].min())
        )
        self._sums = np.cumsum(decided.masses)

    @property
    def passes(self) -> int:
        """How many texts the model was asked about so far."""
        return self._next_tokens.passes

    def samples_for(self, width: float, confidence: float, most: int) -> int:
        """The number of samples that give an interval of at most some width."""
        return samples_for(width, self.decided.undecided, confidence, most)

    def truths(
        self,
        seed: int,
        first: int,
        behind: int,
        told: Callable[[float], None] = lambda share: None,
    ) -> np.ndarray:
        """(behind - first,) bool: whether each sample satisfies the formula.

        The samples are those with the numbers `first` to `behind - 1`.

        Args:
            told: called after every token with the share of all steps that are done.
        """
        return self._drawn(seed, first, behind, told)[0] > 0

    def texts(
        self,
        seed: int,
        first: int,
        behind: int,
        told: Callable[[float], None] = lambda share: None,
    ) -> list[str]:
        """The texts of samples, as far as they were drawn until they decided the formula."""
        _, tokens, lengths = self._drawn(seed, first, behind, told)
        drawn = zip(tokens.tolist(), lengths.tolist(), strict=True)
        return self._model.decode([[*self._prompt, *text[:length]] for text, length in drawn])

    def _drawn(
        self, seed: int, first: int, behind: int, told: Callable[[float], None]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What samples decide, (n, length) their tokens, and how many of these were needed."""
        length = self._reading.length
        drawn = _uniform(seed, first, behind, 1 + length)
        place = np.searchsorted(self._sums, drawn[:, 0] * self._sums[-1], side="right")
        # a product that is rounded up to the whole sum would lead past the last place
        place = np.minimum(place, len(self._sums) - 1)
        parent = self._tree.parent[self.decided.places[place]]
        begins = self._tree.step[parent]
        tokens = self._beginnings(parent, length)
        pending = self.decided.pending[place]
        truth, lengths = np.full(len(place), UNDECIDED), np.zeros(len(place), dtype=np.int64)
        for step in range(int(begins.min()), length):
            active = np.flatnonzero((truth == UNDECIDED) & (begins <= step))
            if len(active) == 0:
                continue
            taken = np.where(begins[active] == step, parent[active], -1)
            tokens[active, step] = self._next_tokens.after(
                tokens[active, :step], taken, drawn[active, 1 + step], step + 1 < length
            )
            pending[active], truth[active] = self._decide(
                tokens[active, : step + 1], pending[active]
            )
            lengths[active] = step + 1
            told((step + 1) / (length + 1))
        told(1.0)
        return truth, tokens, lengths

    def _beginnings(self, parent: np.ndarray, length: int) -> np.ndarray:
        """(n, length) int64: the tokens of texts of the tree, then zeros to be replaced."""
        tokens = np.zeros((len(parent), length), dtype=np.int64)
        uids = parent.copy()
        while np.any(inside := self._tree.step[uids] > 0):
            rows = np.flatnonzero(inside)
            tokens[rows, self._tree.step[uids[rows]] - 1] = self._tree.token[uids[rows]]
            uids[rows] = self._tree.parent[uids[rows]]
        return tokens

    def _decide(self, tokens: np.ndarray, pending: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is pending after some texts, and what the texts decide.

        Args:
            tokens: (n, d) int64, the tokens of the texts after the prompt.
            pending: (n,) what is pending at the texts' own step.
        """
        n, step = tokens.shape
        before = np.broadcast_to(self._prompt, (n, len(self._prompt)))
        texts = self._model.decode(np.column_stack([before, tokens]).tolist())
        columns = {
            name: score_texts(quantifier, self._tree.start, texts, name)
            for name, quantifier in self._quantifiers.items()
        } | {STEP: np.full(n, step)}
        ended = np.isin(tokens[:, -1], self._ends)
        reading = self._reading
        words = reading.words(columns, ended)
        after, truth = pending.copy(), np.full(n, UNDECIDED)
        terminal = ended | (step == reading.length)
        for places, (waiting, word, ends) in distinct(pending, words, terminal):
            after[places] = reading.after(waiting, word)
            found = (
                reading.forever(waiting, word)
                if ends
                else reading.truth(int(after[places[0]]), step + 1, word)
            )
            truth[places] = UNDECIDED if found is None else found
        return after, truth


def _uniform(seed: int, first: int, behind: int, numbers: int) -> np.ndarray:
    """(behind - first, numbers) float64 in [0, 1); row i depends on the seed and on `first + i`."""
    streams = (np.random.Philox(key=(seed << 64) | sample) for sample in range(first, behind))
    return np.stack([np.random.Generator(stream).random(numbers) for stream in streams])
