"""Mass of the most probable next tokens (RQ1, Figure 3 of Gross et al., 2025)."""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from llmchecker.errors import DamagedFile
from llmchecker.models import fingerprint
from llmchecker.trees.distribution_cache import DistributionCache, delete_if_damaged
from llmchecker.trees.sealed_parquet import read_parquet, write_parquet
from llmchecker.trees.text_tree import PROBABILITY_TOLERANCE

# torch takes seconds to import, and stored masses do not need it
if TYPE_CHECKING:
    from llmchecker.models.distribution import Distributions
    from llmchecker.models.interface import LanguageModel
    from llmchecker.models.lazy_model import LazyModel

_COLUMNS = ("prompt", "k", "mass")
_FILES_KEY = "files"
"""Key of the metadata with the checksums of the model's files."""


def load_or_compute_masses(
    lazy_model: "LazyModel", cache: DistributionCache, prompts: Sequence[str], max_k: int
) -> tuple[pd.DataFrame, float]:
    """Load the masses after prompts, or compute and store them.

    Args:
        lazy_model: the model.
        cache: where the masses are stored, so that a job that has loaded the model can compute
            the masses that another job needs.
        prompts: the prompts.
        max_k: maximum number of tokens.

    Returns:
        The masses of `compute_masses`, and the computation time in seconds.

    Raises:
        UnusableModel: the model cannot be loaded.
    """
    # the model's fingerprint contains the model's modules already
    digest = fingerprint.hash_inputs(
        [lazy_model.model_fingerprint, list(prompts), max_k], modules=[("trees/top_k_mass.py",)]
    )
    path = cache.locate_folder(digest) / "masses.parquet"
    # the file may be missing, or be deleted while it is read, since other jobs evict files
    with contextlib.suppress(FileNotFoundError), delete_if_damaged(path):
        table = read_masses(path)
        # marks the file as recently used, for the cache's `evict`
        os.utime(path)
        return table, 0.0
    model = lazy_model.model
    start_time = time.monotonic()
    table = compute_masses(model, prompts, max_k, threads=lazy_model.threads)
    seconds = time.monotonic() - start_time
    write_masses(table, path)
    cache.evict()
    return table, seconds


def write_masses(
    table: pd.DataFrame, path: str | Path, files: Mapping[str, str] | None = None
) -> None:
    """Write the result of `compute_masses` as a parquet file.

    Args:
        table: the masses.
        path: path of the file.
        files: sha256 of the model's files by name, for `read_model_files`; None for none.
    """
    metadata = {} if files is None else {_FILES_KEY: dict(files)}
    write_parquet(pa.Table.from_pandas(table, preserve_index=False), path, metadata)


def read_model_files(path: str | Path) -> dict[str, str]:
    """Read the sha256 of the files of the model whose masses a file has, by name.

    Raises:
        DamagedFile: the contents differ from those written, or are from another version.
    """
    _, metadata = read_parquet(path)
    if _FILES_KEY not in metadata:
        raise DamagedFile(f"{path}: no checksums of its model", path)
    files: dict[str, str] = metadata[_FILES_KEY]
    return files


def read_masses(path: str | Path) -> pd.DataFrame:
    """Read a file that `write_masses` wrote.

    Raises:
        DamagedFile: the contents differ from those written, or are not masses: numbers from 0 to 1
            that do not decrease with k.
    """
    table: pd.DataFrame = read_parquet(path)[0].to_pandas(use_threads=False)
    if list(table.columns) != list(_COLUMNS):
        raise DamagedFile(f"{path}: no masses", path)
    # the first row of a prompt follows the last row of another prompt
    is_rising = (table["mass"].diff() >= 0) | (table["k"] == 1)
    if not (table["mass"].between(0, 1 + PROBABILITY_TOLERANCE) & is_rising).all():
        raise DamagedFile(f"{path}: its numbers are not masses", path)
    return table


def compute_masses(
    model: "LanguageModel",
    prompts: Sequence[str],
    max_k: int,
    threads: int = 1,
) -> pd.DataFrame:
    """Return the mass of the k most probable next tokens of every prompt.

    Args:
        model: the language model.
        prompts: the prompts.
        max_k: maximum number of tokens.
        threads: number of prompts computed at once. A model loaded with fewer threads computes them
            in sequence.

    Returns:
        Columns prompt (its number, from 0), k (1 to `max_k`) and mass. A k above the vocabulary's
        size has all mass.
    """

    def select_most_probable(_: np.ndarray, distributions: "Distributions") -> np.ndarray:
        return distributions.top_k(min(max_k, distributions.vocabulary_size))[0].cpu().numpy()

    empty_continuation = np.empty((1, 0), dtype=np.int64)

    def compute_mass(prompt: Sequence[int]) -> np.ndarray:
        (top_probabilities,) = model.open_prefix(prompt).map_next(
            select_most_probable, empty_continuation
        )
        masses = top_probabilities[0].cumsum()
        # a k above the vocabulary's size has the mass of all tokens
        return np.pad(masses, (0, max_k - len(masses)), mode="edge")

    token_sequences = [model.encode(prompt) for prompt in prompts]
    with ThreadPoolExecutor(threads) as pool:
        # `map` keeps the order of the prompts
        rows = list(pool.map(compute_mass, token_sequences))
    return pd.DataFrame(
        {
            "prompt": np.repeat(np.arange(len(prompts)), max_k),
            "k": np.tile(np.arange(1, max_k + 1), len(prompts)),
            "mass": np.concatenate(rows) if rows else np.empty(0),
        }
    )
