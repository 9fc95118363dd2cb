"""Differences between machines: one tree, expanded with several instruction sets of a processor.

Sums of float32 are added in an order that the instruction set determines, so another processor
gives other last digits. Each set is asked for in a process of its own, as the libraries choose
their code when they are loaded. Prints how far probabilities, selected tokens and values are apart.

    python benchmarks/machines.py MODEL_DIRECTORY
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from llmchecker.checking.check import check_query
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.registry import create_quantifier
from llmchecker.properties.scores import score_tree
from llmchecker.trees.text_tree import TextTree

# of ATen, MKL and oneDNN, which all multiply matrices for torch
INSTRUCTION_SETS = {
    "AVX-512": ("avx512", "AVX512", "AVX512_CORE"),
    "AVX2": ("avx2", "AVX2", "AVX2"),
    "SSE4": ("default", "SSE4_2", "SSE41"),
}
VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
START = "The player won because"
TRUNCATION = (0.8, 15, 4)
QUERIES = ("P=? [ F gender > 0 ]", "P=? [ F gender < 0 ]", "P=? [ G polarity > -30 ]")


def main(model: str) -> None:
    """Grow the tree with every instruction set and compare each with the first."""
    with TemporaryDirectory() as scratch:
        paths = {name: Path(scratch, f"{name}.parquet") for name in INSTRUCTION_SETS}
        for name, values in INSTRUCTION_SETS.items():
            environment = os.environ | dict(zip(VARIABLES, values, strict=True))
            command = [sys.executable, __file__, model, str(paths[name])]
            subprocess.run(command, env=environment, check=True)
        trees = {name: TextTree.read(path) for name, path in paths.items()}
    (first, tree), *others = trees.items()
    print(f"{first}: {len(tree)} states, {tree.internal.sum()} internal")
    for name, other in others:
        print(f"{name} beside {first}:")
        compare(tree, other)


def grow_here(model: str, path: str) -> None:
    """Grow the tree with whatever instruction set the environment leaves."""
    import torch

    from llmchecker.models.transformers.load import load_model
    from llmchecker.trees.expansion import build_tree
    from llmchecker.trees.text_tree import Truncation

    print(f"torch {torch.__version__} computes with {torch.backends.cpu.get_cpu_capability()}")
    build_tree(load_model(model), START, Truncation(*TRUNCATION)).write(path)


def compare(tree: TextTree, other: TextTree) -> None:
    """Print how far two trees are apart."""
    here, there = by_text(tree), by_text(other)
    shared = here.keys() & there.keys()
    apart = [abs(here[path] - there[path]) for path in shared]
    print(f"  states in one tree alone: {len(here) + len(there) - 2 * len(shared)}")
    print(f"  probabilities that differ: {np.count_nonzero(apart)} of {len(shared)}")
    print(f"  largest difference of a probability: {max(apart):.1e}")
    for text, difference in zip(QUERIES, np.subtract(values(other), values(tree)), strict=True):
        print(f"  {text}: {abs(difference):.1e} apart")


def by_text(tree: TextTree) -> dict[tuple[int, ...], float]:
    """The probability of every state by the tokens that lead to it."""
    paths: list[tuple[int, ...]] = [()]
    for parent, token in zip(tree.parent[1:], tree.token[1:], strict=True):
        paths.append((*paths[parent], int(token)))
    return dict(zip(paths, tree.probability.tolist(), strict=True))


def values(tree: TextTree) -> list[float]:
    """The value of every query on a tree."""
    quantifiers = {name: create_quantifier(name, {}) for name in ("gender", "polarity")}
    scores = {name: score_tree(quantifier, tree) for name, quantifier in quantifiers.items()}
    ranges = {name: (q.minimum, q.maximum) for name, q in quantifiers.items()}
    answers = []
    for query in map(parse, QUERIES):
        asked = {name: scores[name] for name in scores if name in query.variables}
        answers.append(check_query(tree, asked, query, {n: ranges[n] for n in asked}).bounded)
    return answers


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 2 else grow_here(*sys.argv[1:])
