"""Estimation of a query's answer from samples of a tree's undecided mass.

This module chooses the sampled path formulas and the number of samples, and combines their
estimates. The number of samples is fixed before the first sample that counts is drawn.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from llmchecker.checking.anytime.budget import SamplingPlan
from llmchecker.checking.anytime.decided_mass import split_mass
from llmchecker.checking.anytime.estimate import Estimate, EstimateRecord
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.anytime.path_sampler import PathSampler, estimate_probability
from llmchecker.checking.anytime.reward_sampler import RewardSampler, estimate_reward
from llmchecker.errors import InvalidEstimate
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.interface import LanguageModel
from llmchecker.properties.logic.ast import Expectation
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import PromptDistributions
from llmchecker.trees.expansion import EndOfSequence
from llmchecker.trees.text_tree import TextTree

_MAX_PILOT_SAMPLES = 64
"""The number of pilot samples, which measure seconds and passes.

They are discarded, since the cost of a sample depends on its result. A number of samples that
depends on counted samples would not be fixed beforehand.
"""
_MIN_PILOT_SAMPLES = 8
"""The least number of pilot samples.

More are drawn only if they need little of the time left.
"""
_PILOT_TIME_SHARE = 1 / 8
"""The largest share of the remaining time for a pilot."""
_PASSES_EXPONENT = 0.95
"""The exponent of the number of samples in their passes, as measured."""
_MAX_SAMPLES = 10**6


def build_samplers(
    model: LanguageModel,
    prompt: Sequence[int],
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    asked: CheckedQuery,
    end_of_sequence: EndOfSequence,
    distributions: PromptDistributions | None = None,
) -> list[PathSampler]:
    """Build a sampler for each path formula of a query, or for its expected score.

    Args:
        model, prompt, end_of_sequence: inputs of the tree's construction, for any alpha and k.
        tree: the tree whose undecided mass is sampled.
        scores: (n,) integers for each quantifier that the query names.
        asked: the query, its quantifiers and the tree's horizon.
        distributions: as in `TokenSampler`.
    """
    quantifiers = asked.quantifiers
    # an expected score has no path formula
    if isinstance(root := asked.query.root, Expectation):
        name = root.quantifier
        arguments = (model, prompt, tree, scores[name], root, quantifiers[name])
        return [RewardSampler(*arguments, end_of_sequence, distributions)]
    # single texts do not decide the query
    if not asked.paths:
        return []
    splits = [(split_mass(tree, scores, monitor), monitor) for monitor in asked.monitors]
    return [
        PathSampler(model, prompt, tree, *split, quantifiers, end_of_sequence, distributions)
        for split in splits
    ]


def _estimate_query(
    samplers: list[PathSampler],
    plan: SamplingPlan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Estimate:
    """Estimate the answer to a query from the samplers of its path formulas.

    The estimate's number of passes includes all passes of the samplers.

    Args:
        samplers: the samplers of `build_samplers`.
        plan: the limits on the samples, shared by the path formulas.
        progress: as in `estimate_probability`, for each path formula.

    Raises:
        InvalidEstimate: the list of samplers is empty, because the query cannot be estimated.
    """
    if not samplers:
        raise InvalidEstimate("no single text decides the query, so it cannot be estimated")
    sampler_count = len(samplers)
    confidence = split_confidence(plan.confidence, sampler_count)
    estimates = []
    for sampler in samplers:
        samples = choose_sample_count(
            sampler,
            confidence,
            plan.seed,
            max_samples=_MAX_SAMPLES if plan.samples is None else plan.samples // sampler_count,
            width=plan.width,
            passes=None if plan.passes is None else plan.passes / sampler_count,
        )
        estimates.append(estimate_with_sampler(sampler, samples, confidence, plan.seed, progress))
    passes = sum(sampler.passes for sampler in samplers)
    return replace(combine_estimates(estimates, plan.confidence), passes=passes)


def estimate_with_sampler(
    sampler: PathSampler,
    samples: int,
    confidence: float,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Estimate | None:
    """Estimate the value of a sampler, as `estimate_probability` does."""
    estimator = estimate_reward if isinstance(sampler, RewardSampler) else estimate_probability
    return estimator(sampler, samples, confidence, seed, progress, is_cancelled)


def estimate_check(
    name: str,
    builder: TreeBuilder,
    start: Start,
    tree: TextTree,
    scores: Mapping[str, np.ndarray],
    query: Query,
    quantifiers: Mapping[str, Quantifier],
    plan: SamplingPlan,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EstimateRecord:
    """Estimate a query's answer from samples of a tree's undecided mass.

    The model is loaded only if samples can estimate the answer.

    Args:
        name: name of the check.
        builder: the tree builder of the tree's model.
        start: the start string.
        tree: a tree of any alpha and k, or a refined tree.
        scores: (n,) integers for each quantifier that the query names.
        query: the parsed query.
        quantifiers: the quantifiers that the query names, by name.
        plan: the limits on the samples.
        progress: called with the number of samples drawn so far, and of all samples.
    """
    checked_query = CheckedQuery(query, quantifiers, tree.truncation.length)
    # decided first, since `builder.model` loads the model
    if (obstacle := checked_query.estimation_obstacle) is not None:
        return EstimateRecord(name, query.text, None, f"{obstacle}.", tree.digest, 0.0, None)
    model = builder.model
    start_time = time.monotonic()
    distributions = builder.open_distributions(start)
    shared_arguments = (checked_query, builder.end_of_sequence, distributions)
    samplers = build_samplers(model, distributions.prompt, tree, scores, *shared_arguments)
    estimate = _estimate_query(samplers, plan, progress)
    seconds = time.monotonic() - start_time
    metadata = builder.current_metadata()
    return EstimateRecord(name, query.text, estimate, None, tree.digest, seconds, metadata)


def split_confidence(confidence: float, parts: int) -> float:
    """Return the confidence of each of several intervals that must hold together.

    The error probability is divided among the intervals (Bonferroni).
    """
    # a query without samplers keeps its confidence
    return 1 - (1 - confidence) / max(1, parts)


def choose_sample_count(
    sampler: PathSampler,
    confidence: float,
    seed: int,
    max_samples: int = _MAX_SAMPLES,
    width: float = 0.0,
    passes: float | None = None,
    seconds: float | None = None,
) -> int:
    """Choose the number of samples, at least 1, before the first sample is drawn.

    Args:
        sampler: the sampler.
        confidence: confidence of the interval.
        seed: seed of the pilot samples, which measure the passes and seconds of a sample.
        max_samples: the largest number of samples.
        width: the largest width of the interval, for any outcome; 0 for the narrowest.
        passes: approximate number of texts that the model may evaluate; None for no limit.
        seconds: approximate seconds of the sampling; None for no limit.
    """
    if sampler.decided_mass.undecided_mass == 0:
        return 1
    if width > 0:
        max_samples = sampler.compute_required_samples(width, confidence, max_samples)
    # without a limit on costs no pilot has to measure them
    if passes is None and seconds is None:
        return max(1, max_samples)
    pilot = (
        _MAX_PILOT_SAMPLES
        if passes is None
        else min(_MAX_PILOT_SAMPLES, int(passes / (20 * sampler.max_length)))
    )
    if pilot < _MIN_PILOT_SAMPLES:  # too few passes for samples that are discarded
        return max(1, min(max_samples, int(passes / sampler.max_length)))
    return max(
        1, min(max_samples, _extrapolate_sample_count(sampler, seed, pilot, passes, seconds))
    )


def _extrapolate_sample_count(
    sampler: PathSampler, seed: int, pilot_samples: int, passes: float | None, seconds: float | None
) -> int:
    """Extrapolate from a pilot the number of samples within the limits.

    Samples share beginnings, so that with more samples each needs fewer passes. The pilot has
    `pilot_samples` samples, or fewer if time is short. The limits include its own costs.
    """
    start_time, passes_before = time.monotonic(), sampler.passes
    # the last numbers of samples, which no estimate uses
    sampler.decide_samples(seed, 2**64 - _MIN_PILOT_SAMPLES, 2**64)
    elapsed, sample_count = time.monotonic() - start_time, _MIN_PILOT_SAMPLES
    # more pilot samples measure better, but only if the time allows
    is_affordable = (
        seconds is None or elapsed / sample_count * pilot_samples <= _PILOT_TIME_SHARE * seconds
    )
    if is_affordable and pilot_samples > sample_count:
        sampler.decide_samples(seed, 2**64 - pilot_samples, 2**64 - sample_count)
        elapsed, sample_count = time.monotonic() - start_time, pilot_samples
    used_passes = sampler.passes - passes_before
    remaining_passes = math.inf if passes is None else passes - used_passes
    if seconds is not None:
        remaining_passes = min(remaining_passes, used_passes / elapsed * (seconds - elapsed))
    # the inverse of passes ~ samples ** _PASSES_EXPONENT
    return int(sample_count * (max(remaining_passes, 0) / used_passes) ** (1 / _PASSES_EXPONENT))


def combine_estimates(estimates: list[Estimate], confidence: float) -> Estimate:
    """Combine the estimates of a query's path formulas to its own estimate.

    A conditional has two estimates, a for φ & ψ and b for !φ & ψ. The answer is a / (a + b). It
    rises with a and falls with b, so that its ends come from opposite ends of the two intervals.
    The estimate is None where neither the tree nor a sample satisfies the condition.

    Args:
        estimates: the estimates, in the order of `CheckedQuery.paths`.
        confidence: the confidence with which the intervals hold together.
    """
    if len(estimates) == 1:
        return estimates[0]
    satisfying, violating = estimates

    def compute_share(a: float, b: float, otherwise: float) -> float:
        return a / (a + b) if a + b > 0 else otherwise

    has_condition = satisfying.estimate + violating.estimate > 0
    return Estimate(
        estimate=compute_share(satisfying.estimate, violating.estimate, 0.0)
        if has_condition
        else None,
        # rounded outwards, since the quotient itself is rounded
        low=max(0.0, math.nextafter(compute_share(satisfying.low, violating.high, 0.0), 0)),
        high=min(1.0, math.nextafter(compute_share(satisfying.high, violating.low, 1.0), 2)),
        confidence=confidence,
        samples=satisfying.samples + violating.samples,
        satisfying=satisfying.satisfying + violating.satisfying,
        passes=satisfying.passes + violating.passes,
        seed=satisfying.seed,
    )
