"""Estimation of a path formula's probability, from samples of `rest`.

The probability of a path formula is D + U p (see `decided_mass`), and p is estimated. A sample
begins at a `rest` of the undecided mass, drawn in proportion to its probability. Its next token is
drawn from the tokens that the tree does not follow there. The model draws all further tokens up to
the horizon. Each sampled text decides the formula, so that the number of satisfying samples is
binomial. The interval is therefore that of Clopper and Pearson (1934, "The Use of Confidence or
Fiducial Limits Illustrated in the Case of the Binomial", Biometrika 26). It covers p with at least
the stated confidence, for every number of samples. This requires a number that is fixed before the
first sample is drawn. The interval of the probability is D plus U times the interval of p.

The seed and the number of a sample determine it. Its random numbers come from a counter-based
generator (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3") that is keyed by both.
So a run with more samples begins with the samples of a shorter run, for all batches, threads and
sizes of memory.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from llmchecker.checking.anytime.confidence_intervals import compute_proportion_interval
from llmchecker.checking.anytime.decided_mass import UNDECIDED, DecidedMass, group_rows
from llmchecker.checking.anytime.estimate import Estimate
from llmchecker.checking.anytime.token_sampler import TokenSampler
from llmchecker.checking.markov.sparse_matrix import compute_relative_error
from llmchecker.errors import InvalidEstimate
from llmchecker.models.interface import LanguageModel
from llmchecker.models.transformers.batching import join_prompt
from llmchecker.properties.logic.ast import STEP
from llmchecker.properties.logic.monitor import HorizonMonitor, Monitor
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.scores import score_texts
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.text_tree import TextTree

SAMPLE_BATCH_SIZE = 1024
"""The number of samples in a batch, which computes equal beginnings once."""

_ROUNDING_MARGIN = 4 * float(np.finfo(np.float64).eps)
"""A limit above the rounding error of an interval's end."""


def _compute_required_samples(
    width: float, undecided_mass: float, confidence: float, max_samples: int = 10**7
) -> int:
    """Compute the number of samples that guarantees an interval width.

    An interval is widest where half of the samples satisfy the formula.

    Args:
        width: width of the interval of the probability.
        undecided_mass: U, by which the interval of p is multiplied.
        confidence: confidence of the interval.
        max_samples: the largest number to return, even if it is too small.
    """
    low, high = 0, max_samples
    # binary search: the interval narrows as the number of samples grows
    while low < high:
        middle = (low + high) // 2
        widest_interval = compute_proportion_interval(middle // 2, middle, confidence)
        if undecided_mass * (widest_interval[1] - widest_interval[0]) <= width:
            high = middle
        else:
            low = middle + 1
    return low


def estimate_probability(
    sampler: "PathSampler",
    samples: int,
    confidence: float = 0.99,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Estimate | None:
    """Estimate a path formula's probability from a tree and samples of `rest`.

    Args:
        sampler: the sampler of the path formula.
        samples: number of samples; none are drawn if everything is decided.
        confidence: confidence of the interval.
        seed: seed of the samples.
        progress: called with the number of samples drawn so far and the number of all samples. It
            never receives their results, so that nobody can stop at a result that they like, which
            would make the confidence wrong.
        is_cancelled: called between batches; when it returns true, there is no estimate.

    Returns:
        The estimate, or None after a cancellation.

    Raises:
        InvalidEstimate: there are no samples although some mass is undecided, or the confidence is
            out of range.
    """
    decided_mass, undecided_mass = sampler.decided_mass, sampler.decided_mass.undecided_mass
    if undecided_mass == 0:
        compute_proportion_interval(0, 0, confidence)  # checks the confidence, as with samples
        value, low, high = _round_outwards(decided_mass, sampler.relative_error)
        return Estimate(value, low, high, confidence, 0, 0, 0, seed)
    if samples < 1:
        raise InvalidEstimate(f"samples is {samples!r}; at least 1 is needed to estimate")
    satisfying, passes_before = 0, sampler.passes
    for first in range(0, samples, SAMPLE_BATCH_SIZE):
        if is_cancelled():
            return None
        stop = min(samples, first + SAMPLE_BATCH_SIZE)
        report_share = partial(report_progress, progress, first, stop, samples)
        # batches share one binomial count, since the seed and number determine a sample
        satisfying += int(sampler.decide_samples(seed, first, stop, report_share).sum())
    low_share, high_share = compute_proportion_interval(satisfying, samples, confidence)
    # moved outwards, so that rounding cannot make the interval miss the probability
    low = (decided_mass.satisfied_mass + undecided_mass * low_share) * (
        1 - sampler.relative_error
    ) - _ROUNDING_MARGIN
    high = (decided_mass.satisfied_mass + undecided_mass * high_share) * (
        1 + sampler.relative_error
    ) + _ROUNDING_MARGIN
    low, high = max(0.0, float(low)), min(1.0, float(high))
    estimate = decided_mass.satisfied_mass + undecided_mass * satisfying / samples
    return Estimate(
        # rounding must not move the estimate out of its interval
        estimate=min(max(low, estimate), high),
        low=low,
        high=high,
        confidence=confidence,
        samples=samples,
        satisfying=satisfying,
        passes=sampler.passes - passes_before,
        seed=seed,
    )


def _round_outwards(decided_mass: DecidedMass, relative_error: float) -> tuple[float, float, float]:
    """Return the fully decided probability, and its ends rounded outwards."""
    low = max(0.0, decided_mass.satisfied_mass * (1 - relative_error) - _ROUNDING_MARGIN)
    high = min(1.0, decided_mass.satisfied_mass * (1 + relative_error) + _ROUNDING_MARGIN)
    return min(decided_mass.satisfied_mass, high), low, high


def report_progress(
    progress: Callable[[int, int], None], first: int, stop: int, samples: int, share: float
) -> None:
    """Report the number of samples drawn, from the progress of a batch."""
    progress(first + int(share * (stop - first)), samples)


class PathSampler:
    """A sampler of texts from a tree's undecided mass, which decides each text.

    `max_length` is the largest number of tokens of a sample. `relative_error` is the largest
    relative rounding error of a probability that is computed from the tree.

    Args:
        model: the language model.
        prompt: the tokens of the start string.
        tree: a tree of this model after this start string, with this `end_of_sequence`.
        decided_mass: the tree's decided and undecided mass of the formula.
        monitor: the monitor of the formula.
        quantifiers: the quantifiers that the formula names, by name.
        end_of_sequence: as in `expansion.build_tree`.
        distributions: as in `TokenSampler`.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        tree: TextTree,
        decided_mass: DecidedMass,
        monitor: Monitor | HorizonMonitor,
        quantifiers: Mapping[str, Quantifier],
        end_of_sequence: EndOfSequence,
        distributions: PromptDistributions | None = None,
    ) -> None:
        self._model = model
        self._tree = tree
        self.decided_mass = decided_mass
        self._monitor = monitor
        self._quantifiers = quantifiers
        # an ordinary end-of-sequence token does not end a text
        self._end_tokens = sorted(model.end_tokens) if end_of_sequence == "terminal" else []
        self._prompt = prompt
        self._token_sampler = TokenSampler(model, self._prompt, tree, distributions)
        self.max_length = (
            0
            if not len(decided_mass.rest_states)
            else int(monitor.length - tree.step[tree.parent[decided_mass.rest_states]].min())
        )
        self._cumulative_masses = np.cumsum(decided_mass.rest_masses)
        depth = int(tree.step.max())
        self.relative_error = float(
            compute_relative_error(tree.parent[1:], tree.probability[1:], depth)
        )

    @property
    def passes(self) -> int:
        """The number of texts that the model evaluated so far."""
        return self._token_sampler.passes

    def compute_required_samples(self, width: float, confidence: float, max_samples: int) -> int:
        """Compute the number of samples that guarantees an interval width."""
        return _compute_required_samples(
            width, self.decided_mass.undecided_mass, confidence, max_samples
        )

    def decide_samples(
        self,
        seed: int,
        first: int,
        stop: int,
        report_share: Callable[[float], None] = lambda share: None,
    ) -> np.ndarray:
        """Return (stop - first,) bool: whether each sample satisfies the formula.

        The samples have the numbers `first` to `stop - 1`.

        Args:
            report_share: called after every token with the processed share of all steps.
        """
        return self._draw_samples(seed, first, stop, report_share)[0] > 0

    def draw_texts(
        self,
        seed: int,
        first: int,
        stop: int,
        report_share: Callable[[float], None] = lambda share: None,
    ) -> list[str]:
        """Return the texts of samples, up to the token that decided the formula."""
        _, tokens, lengths = self._draw_samples(seed, first, stop, report_share)
        samples = zip(tokens.tolist(), lengths.tolist(), strict=True)
        return self._model.decode([[*self._prompt, *sample[:length]] for sample, length in samples])

    def _draw_samples(
        self, seed: int, first: int, stop: int, report_share: Callable[[float], None]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the samples' decisions, their tokens and numbers of tokens."""
        length = self._monitor.length
        uniforms = _draw_uniform(seed, first, stop, 1 + length)
        indices = np.searchsorted(
            self._cumulative_masses, uniforms[:, 0] * self._cumulative_masses[-1], side="right"
        )
        # a product that is rounded up to the whole sum would select an entry after the last
        indices = np.minimum(indices, len(self._cumulative_masses) - 1)
        parents = self._tree.parent[self.decided_mass.rest_states[indices]]
        first_steps = self._tree.step[parents]
        tokens = self._collect_prefix_tokens(parents, length)
        obligations = self.decided_mass.obligations[indices]
        truth, lengths = np.full(len(indices), UNDECIDED), np.zeros(len(indices), dtype=np.int64)
        # one step for all samples at once, although they begin at different steps
        for step in range(int(first_steps.min()), length):
            active_samples = np.flatnonzero((truth == UNDECIDED) & (first_steps <= step))
            # all samples so far are decided; others may begin at a later step
            if len(active_samples) == 0:
                continue
            # only the first token must differ from the children of the tree
            tree_states = np.where(first_steps[active_samples] == step, parents[active_samples], -1)
            tokens[active_samples, step] = self._token_sampler.sample(
                tokens[active_samples, :step],
                tree_states,
                uniforms[active_samples, 1 + step],
                step + 1 < length,
            )
            obligations[active_samples], truth[active_samples] = self._decide_texts(
                tokens[active_samples, : step + 1], obligations[active_samples]
            )
            lengths[active_samples] = step + 1
            report_share((step + 1) / (length + 1))
        # samples may all be decided before the last step
        report_share(1.0)
        return truth, tokens, lengths

    def _collect_prefix_tokens(self, parent: np.ndarray, length: int) -> np.ndarray:
        """Return (n, length) int64: the tokens of the tree's texts, and zeros."""
        tokens = np.zeros((len(parent), length), dtype=np.int64)
        uids = parent.copy()
        while np.any(has_token := self._tree.step[uids] > 0):
            rows = np.flatnonzero(has_token)
            # upwards from the parents, a token at a time, until all texts reach the root
            tokens[rows, self._tree.step[uids[rows]] - 1] = self._tree.token[uids[rows]]
            uids[rows] = self._tree.parent[uids[rows]]
        return tokens

    def _decide_texts(
        self, tokens: np.ndarray, obligations: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the obligations after the texts, and the decisions of the texts.

        Args:
            tokens: (n, d) int64, the tokens of the texts after the prompt.
            obligations: (n,) the obligations at the texts' own step.
        """
        n, step = tokens.shape
        texts = self._model.decode(join_prompt(self._prompt, tokens).tolist())
        columns = {
            name: score_texts(quantifier, self._tree.start, texts, name)
            for name, quantifier in self._quantifiers.items()
        } | {STEP: np.full(n, step)}
        has_ended = np.isin(tokens[:, -1], self._end_tokens)
        monitor = self._monitor
        letters = monitor.compute_letters(columns, has_ended)
        next_obligations, truth = obligations.copy(), np.full(n, UNDECIDED)
        is_final = has_ended | (step == monitor.length)
        # few situations differ, so the monitor reads each only once
        for positions, (obligation, letter, is_last) in group_rows(obligations, letters, is_final):
            next_obligations[positions] = monitor.progress(obligation, letter)
            decision = (
                monitor.holds_under_stutter(obligation, letter)
                # a final text repeats its last letter for ever
                if is_last
                else monitor.decide(int(next_obligations[positions[0]]), step + 1, letter)
            )
            truth[positions] = UNDECIDED if decision is None else decision
        return next_obligations, truth


def _draw_uniform(seed: int, first: int, stop: int, count: int) -> np.ndarray:
    """Draw (stop - first, count) float64 in [0, 1) by seed and sample number."""
    # a stream for each sample: its numbers do not depend on the batch
    streams = (np.random.Philox(key=(seed << 64) | sample) for sample in range(first, stop))
    return np.stack([np.random.Generator(stream).random(count) for stream in streams])
