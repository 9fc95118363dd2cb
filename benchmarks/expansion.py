"""Cost of expanding a tree, compared with a literal Algorithm 1 and with the arithmetic alone."""

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import harmonic_mean
from threading import Barrier
from typing import Literal

import torch

from llmchecker.models.transformers.causal import CausalModel
from llmchecker.models.transformers.load import load_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from helpers.reference import Node, expand

START = "The player won because"
BATCH_ROWS = 256
SOFTMAX_ROWS = 16
ROUNDS = 2

DEFINITIONS = {
    "parameters": "distinct parameters of the network, tied ones once",
    "nodes": "internal nodes of the tree on which cached expansion is measured",
    "reference_nodes_per_second": "internal nodes a second of `tests/helpers/reference.py`, "
    "the paper's Algorithm 1 written literally: one forward pass over the whole text a node, on a "
    "smaller tree",
    "batched_nodes_per_second": "the same in batches, but with every text computed from its first "
    "token, on a tree one step shorter than the largest",
    "cached_nodes_per_second": "the same with keys and values kept, which is how the package does "
    "it; texts are decoded, nothing is stored between trees",
    "matrix_gflops": "10^9 float32 operations a second in products of 128, 256 or 512 rows with "
    "all linear layers of the model, LM head included: one product a core or all cores in one "
    "product, whichever number of rows and way is fastest, in the mean of several measurements "
    "right before and right after the growth",
    "share_of_peak": "2 * parameters * nodes operations at the rate of the matrix products, as a "
    "share of the time that growing took",
    "speedup_over_reference": "cached over reference nodes a second",
    "speedup_over_batched": "cached over batched nodes a second",
}
"""What each figure `expansion.{model}.…` is."""


@dataclass(frozen=True)
class Trees:
    """The truncations of the trees on which the ways of expansion are measured."""

    reference: Truncation
    batched: Truncation
    cached: Truncation
    rows: tuple[int, ...] = (128, 256, 512)
    """Rows of the matrix products."""


def measure(
    directory: Path,
    threads: int,
    memory_bytes: int,
    trees: Trees,
    report: Callable[[str], None] = print,
) -> dict[str, float]:
    """Measure all ways of expansion with one causal model, in float32 on the CPU.

    Args:
        directory, threads, memory_bytes: as in `load_model`.
        report: told how it goes.

    Returns:
        The figures of `DEFINITIONS`.
    """
    torch.set_num_threads(threads)  # of the reference
    model = load_model(directory, threads=threads, memory_bytes=memory_bytes)
    parameters = sum(parameter.numel() for parameter in model.network.parameters())
    reference = _reference_rate(model, trees.reference)
    report(f"reference: {reference:.1f} nodes/s")
    batched, _ = _rate(WholeTextModel.of(model), trees.batched)
    report(f"batched: {batched:.1f} nodes/s")
    before = matrix_rates(model.network, threads, trees.rows)
    cached, nodes = _rate(model, trees.cached)
    after = matrix_rates(model.network, threads, trees.rows)
    peak = max((before[way] + after[way]) / 2 for way in before)
    report(f"cached: {cached:.1f} nodes/s; matrix products: {peak / 1e9:.1f} GFLOP/s")
    return {
        "parameters": parameters,
        "nodes": nodes,
        "reference_nodes_per_second": reference,
        "batched_nodes_per_second": batched,
        "cached_nodes_per_second": cached,
        "matrix_gflops": peak / 1e9,
        "share_of_peak": 2 * parameters * cached / peak,
        "speedup_over_reference": cached / reference,
        "speedup_over_batched": cached / batched,
    }


class WholeTextModel(CausalModel):
    """A causal model that keeps no keys and values: it reads each text from its first token."""

    reads_whole_texts = True

    @classmethod
    def of(cls, model: CausalModel) -> "WholeTextModel":
        """The same model, with the network that it has loaded."""
        return cls(model.name, model.network, model.tokenizer, model.executor, model.memory_bytes)


def matrix_rates(
    network: torch.nn.Module, threads: int, rows: Sequence[int]
) -> dict[tuple[Literal["each", "all"], int], float]:
    """Measure products with the weights of all linear layers of a network, one after the other.

    The weights come from memory, as in the model; inputs and outputs are allocated beforehand.

    Returns:
        Operations a second on all threads together, by way and rows: `each` thread computes
        its own products, as `BatchExecutor` does, or torch computes one product on `all` of them.
    """
    layers = [module for module in network.modules() if isinstance(module, torch.nn.Linear)]
    weights = [layer.weight.detach() for layer in layers]
    rates = {}
    # taking turns, so that a slow second of the machine is not one way's alone
    for _ in range(ROUNDS):
        for n in rows:
            each = _matrix_rate(weights, n, workers=threads, threads=1)
            at_once = _matrix_rate(weights, n, workers=1, threads=threads)
            rates.setdefault(("each", n), []).append(each)
            rates.setdefault(("all", n), []).append(at_once)
    return {way: harmonic_mean(of_rounds) for way, of_rounds in rates.items()}


def _matrix_rate(weights: list[torch.Tensor], rows: int, workers: int, threads: int) -> float:
    """All operations over the wall time of workers that compute at once, on so many threads each.

    There are as many products with each weight as workers, and a worker that is done takes the next
    one; the largest come first, so that all are done at about the same time.
    """
    products = sorted(weights * workers, key=torch.numel, reverse=True)
    waiting = iter(products)
    together = Barrier(workers)

    def worker(_: int) -> tuple[float, float]:
        torch.set_num_threads(threads)
        inputs = {w.shape[1]: torch.ones(rows, w.shape[1], dtype=w.dtype) for w in weights}
        outputs = {w.shape[0]: torch.ones(rows, w.shape[0], dtype=w.dtype) for w in weights}
        together.wait()
        began = time.perf_counter()
        for weight in waiting:
            torch.mm(inputs[weight.shape[1]], weight.T, out=outputs[weight.shape[0]])
        return began, time.perf_counter()

    with ThreadPoolExecutor(workers) as pool:
        began, ended = zip(*pool.map(worker, range(workers)), strict=True)
    return 2 * rows * sum(map(torch.numel, products)) / (max(ended) - min(began))


def _reference_rate(model: CausalModel, truncation: Truncation) -> float:
    prompt = model.encode(START)
    began = time.perf_counter()
    root = expand(
        model.network, prompt, truncation.alpha, truncation.k, truncation.length, model.end_tokens
    )
    return _internal(root) / (time.perf_counter() - began)


def _internal(node: Node) -> int:
    """The nodes with children at and below a node."""
    return bool(node.children) + sum(map(_internal, node.children))


def _rate(model: CausalModel, truncation: Truncation) -> tuple[float, int]:
    """Internal nodes a second, and how many there are, of a tree from its start string."""
    began = time.perf_counter()
    tree = build_tree(model, START, truncation)
    nodes = int(tree.internal.sum())
    return nodes / (time.perf_counter() - began), nodes
