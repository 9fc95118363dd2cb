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

import llmchecker as lc

# of ATen, MKL and oneDNN, which all multiply matrices for torch
INSTRUCTION_SETS = {
    "AVX-512": ("avx512", "AVX512", "AVX512_CORE"),
    "AVX2": ("avx2", "AVX2", "AVX2"),
    "SSE4": ("default", "SSE4_2", "SSE41"),
}
VARIABLES = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
START = "The player won because"
TRUNCATION = {"alpha": 0.8, "k": 15, "length": 4}
QUERIES = ("P=? [ F gender > 0 ]", "P=? [ F gender < 0 ]", "P=? [ G polarity > -30 ]")


def main(model: str) -> None:
    """Grow the tree with every instruction set and compare each with the first."""
    with TemporaryDirectory() as scratch:
        paths = {name: Path(scratch, f"{name}.parquet") for name in INSTRUCTION_SETS}
        for name, values in INSTRUCTION_SETS.items():
            environment = os.environ | dict(zip(VARIABLES, values, strict=True))
            command = [sys.executable, __file__, model, str(paths[name])]
            subprocess.run(command, env=environment, check=True)
        trees = {name: lc.Tree.read(path) for name, path in paths.items()}
    (first, tree), *others = trees.items()
    print(f"{first}: {len(tree)} states, {tree.internal.sum()} internal")
    for name, other in others:
        print(f"{name} and {first}:")
        compare(tree, other)


def grow_here(model: str, path: str) -> None:
    """Grow the tree with whatever instruction set the environment leaves."""
    import torch

    print(f"torch {torch.__version__} computes with {torch.backends.cpu.get_cpu_capability()}")
    lc.grow(lc.load(model, threads=1), START, **TRUNCATION).write(path)


def compare(tree: lc.Tree, other: lc.Tree) -> None:
    """Print how far two trees are apart."""
    here, there = by_text(tree), by_text(other)
    shared = here.keys() & there.keys()
    apart = [abs(here[path] - there[path]) for path in shared]
    print(f"  states in one tree alone: {len(here) + len(there) - 2 * len(shared)}")
    print(f"  probabilities that differ: {np.count_nonzero(apart)} of {len(shared)}")
    print(f"  largest difference of a probability: {max(apart):.1e}")
    for text, difference in zip(QUERIES, np.subtract(values(other), values(tree)), strict=True):
        print(f"  {text}: {abs(difference):.1e} apart")


def by_text(tree: lc.Tree) -> dict[tuple[int, ...], float]:
    """Return the probability of every state by the tokens that lead to it."""
    paths: list[tuple[int, ...]] = [()]
    for parent, token in zip(tree.parent[1:], tree.token[1:], strict=True):
        paths.append((*paths[parent], int(token)))
    return dict(zip(paths, tree.probability.tolist(), strict=True))


def values(tree: lc.Tree) -> list[float]:
    """Return the bounded figure of every query on a tree."""
    return [lc.check(query, tree).bounded for query in QUERIES]


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) == 2 else grow_here(*sys.argv[1:])
