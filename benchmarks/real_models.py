"""How fast a real model grows trees and answers queries, and how narrow in equal seconds."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from plain_sampling import FORMULAS
from random_llama import START
from speed import (
    Subject,
    compare_equal_seconds,
    measure_check,
    measure_generate,
    measure_growing,
    measure_matrix_rate,
    warm_up,
)
from transformers import PreTrainedModel

import llmchecker as lc

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from helpers.reference import Node, expand

QUERY = FORMULAS["player"].query
TOKENS = 60
LENGTHS = (5, 40)
ROUNDS = 2
"""Measurements of a rate; the fastest counts, since other work only slows down."""

GROWING_DEFINITIONS = {
    "parameters": "parameters of the network",
    "nodes": "internal nodes of the tree whose growth is measured",
    "reference_nodes_per_second": "internal nodes a second of `tests/helpers/reference.py`, the "
    "paper's Algorithm 1 written literally: one forward pass over the whole text for each node, on "
    "a smaller tree",
    "nodes_per_second": "internal nodes a second of `lc.grow`",
    "matrix_gflops": "10^9 float32 operations a second in products with the weights of all linear "
    "layers, with the fastest number of rows, right before or right after the growth",
    "share_of_peak": "operations of the linear layers for these nodes, as a share of that rate",
    "speedup_over_reference": "nodes a second of `lc.grow` over those of the reference",
}
PASSES_DEFINITIONS = {
    "passes_share_of_growing": "passes a second of a check with texts of 5 tokens over internal "
    "nodes a second of growing a tree",
    "passes_share_of_generate": f"passes a second of a check with texts of {TOKENS} tokens over "
    "tokens a second of `generate` in batches of 16",
}
SECONDS_DEFINITIONS = {
    "L{length}.width_ratio": f"width of the interval of a check of `{QUERY}` over that of Clopper "
    "and Pearson on samples that `generate` draws in equal seconds, in batches of 64, confidence "
    "0.99",
    "L{length}.check_width": "width of the interval of the check",
    "L{length}.plain_width": "width of the interval of the samples",
    "L{length}.passes": "passes of the check",
    "L{length}.samples": "number of samples that fit into the seconds of the check",
    "L{length}.check_seconds": "seconds of the check",
    "L{length}.plain_seconds": "seconds of `generate`, which ends with a whole batch",
    "L{length}.overlap": "1 if the intervals overlap, 0 if not",
}
"""What each figure `expansion.{model}.…`, `estimate.{model}.…` and `seconds.{model}.…` is."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured of each model.

    Attributes:
        reference: truncation of the tree of the reference.
        grown: truncation of the tree of `lc.grow`.
        matrix_rows: numbers of rows of the products of matrices.
        passes: budget of the checks whose passes a second are measured.
        seconds: seconds of a comparison in equal seconds.
        rows: number of texts in a batch of `generate` in equal seconds.
    """

    reference: lc.Truncation
    grown: lc.Truncation
    matrix_rows: tuple[int, ...] = (128, 256, 512)
    passes: int = 2_000
    seconds: float = 30
    rows: int = 64


def measure_speed(
    directory: Path, sizes: Sizes, report: Callable[[str], None] = print
) -> tuple[dict[str, float], dict[str, float]]:
    """Measure growth and passes.

    Args:
        directory: directory of the model.
        sizes: how much is measured.
        report: a function that receives the progress.

    Returns:
        The figures of `GROWING_DEFINITIONS`, and those of `PASSES_DEFINITIONS`.
    """
    subject = Subject.read(directory)
    reference = _measure_reference(subject, sizes.reference)
    report(f"reference: {reference:.1f} nodes/s")
    grown, rates = sizes.grown, []
    peaks = [measure_matrix_rate(subject, sizes.matrix_rows, 1)]
    growing, nodes = measure_growing(subject, START, grown.alpha, grown.k, grown.length)
    peaks.append(measure_matrix_rate(subject, sizes.matrix_rows, 1))
    report(f"grow: {growing:.1f} nodes/s; matrix products: {max(peaks) / 1e9:.1f} GFLOP/s")
    warm_up(subject.model, QUERY, START, LENGTHS[0])
    # hardly any text decides the second query early, so that texts have their full length
    for query, length in ((QUERY, LENGTHS[0]), ("P=? [ F gender > 20 ]", TOKENS)):
        options = {"length": length, "passes": sizes.passes}
        rounds = [measure_check(subject.model, query, START, **options) for _ in range(ROUNDS)]
        rates.append(max(rate for rate, _ in rounds))
        report(f"check: {rates[-1]:.1f} passes/s with texts of {length} tokens")
    generated = measure_generate(subject, START, (16,), TOKENS)[16]
    report(f"generate: {generated:.1f} tokens/s")
    return {
        "parameters": subject.network.num_parameters(),
        "nodes": nodes,
        "reference_nodes_per_second": reference,
        "nodes_per_second": growing,
        "matrix_gflops": max(peaks) / 1e9,
        "share_of_peak": growing * subject.operations / max(peaks),
        "speedup_over_reference": growing / reference,
    }, {
        "passes_share_of_growing": rates[0] / growing,
        "passes_share_of_generate": rates[1] / generated,
    }


def measure_equal_seconds(
    directory: Path, sizes: Sizes, report: Callable[[str], None] = print
) -> dict[str, float]:
    """Compare intervals of checks and of plain samples; return `SECONDS_DEFINITIONS`."""
    subject = Subject.read(directory)
    figures: dict[str, float] = {}
    for length in LENGTHS:
        warm_up(subject.model, QUERY, START, length)
        widths = compare_equal_seconds(subject, START, length, sizes.seconds, sizes.rows)
        figures |= {f"L{length}.{name}": value for name, value in widths.figures().items()}
        report(
            f"equal seconds, {length} tokens: {widths.width_ratio:.3f} of the width; check "
            f"{widths.check_width:.4f} ({widths.passes:,} passes, {widths.check_seconds:.0f} s), "
            f"samples {widths.plain_width:.4f} ({widths.samples:,}, {widths.plain_seconds:.0f} s)"
        )
    return figures


def _measure_reference(subject: Subject, truncation: lc.Truncation) -> float:
    """Measure a literal Algorithm 1, in internal nodes a second."""
    network: PreTrainedModel = subject.network
    prompt, ends = subject.model.encode(START), subject.model.end_tokens
    began = time.perf_counter()
    root = expand(network, prompt, truncation.alpha, truncation.k, truncation.length, ends)
    return _count_internal(root) / (time.perf_counter() - began)


def _count_internal(node: Node) -> int:
    """Count the nodes with children at and below a node."""
    return bool(node.children) + sum(map(_count_internal, node.children))
