"""How much probability the most probable next tokens hold (RQ1, Figure 3 of Gross et al., 2025)."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from llmchecker.errors import DamagedFile
from llmchecker.trees import fingerprints
from llmchecker.trees.parquet import read_parquet, write_parquet
from llmchecker.trees.store import dropped_if_damaged
from llmchecker.trees.text_tree import PROBABILITY_TOLERANCE

# torch takes seconds to import; stored masses need not wait for it
if TYPE_CHECKING:
    from llmchecker.models.distributions import Distributions
    from llmchecker.models.protocols import LanguageModel
    from llmchecker.trees.grower import Grower

_COLUMNS = ("prompt", "k", "mass")


def stored_masses(
    grower: "Grower", prompts: Sequence[str], maximum_k: int
) -> tuple[pd.DataFrame, float]:
    """The `masses` after prompts. The model is asked only if they are not stored.

    Args:
        grower: grows the model's trees. The masses are kept in its store, so that one job that has
            loaded the model may ask what another job needs.

    Returns:
        The masses, and the seconds for which the model was asked.

    Raises:
        UnusableModel: the model cannot be loaded.
    """
    fingerprint = fingerprints.of_masses(grower.model_fingerprint, prompts, maximum_k)
    path = grower.store.folder(fingerprint) / "masses.parquet"
    # the file may be missing, or vanish while it is read, since other jobs make room
    with contextlib.suppress(FileNotFoundError), dropped_if_damaged(path):
        table = read_masses(path)
        os.utime(path)
        return table, 0.0
    asked = grower.model
    began = time.monotonic()
    table = masses(asked, prompts, maximum_k, threads=grower.threads)
    seconds = time.monotonic() - began
    write_masses(table, path)
    grower.store.make_room()
    return table, seconds


def write_masses(table: pd.DataFrame, path: str | Path) -> None:
    """Write what `masses` returned, as a parquet file."""
    write_parquet(pa.Table.from_pandas(table, preserve_index=False), path)


def read_masses(path: str | Path) -> pd.DataFrame:
    """Read what `write_masses` wrote.

    Raises:
        DamagedFile: a bit of the file is not what was written, or it holds no masses: numbers from
            0 to 1 that do not fall with k.
    """
    table = read_parquet(path)[0].to_pandas(use_threads=False)
    if list(table.columns) != list(_COLUMNS):
        raise DamagedFile(f"{path} holds no masses")
    rising = (table["mass"].diff() >= 0) | (table["k"] == 1)
    if not (table["mass"].between(0, 1 + PROBABILITY_TOLERANCE) & rising).all():
        raise DamagedFile(f"{path} holds numbers that are no masses")
    return table


def masses(
    model: "LanguageModel",
    prompts: Sequence[str],
    maximum_k: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
    threads: int = 1,
) -> pd.DataFrame:
    """The next token's probability mass within the k most probable tokens, for every prompt.

    Args:
        threads: how many prompts are asked at once. A model that was loaded with fewer threads
            takes them one after the other.

    Returns:
        Columns prompt (its number, from 0), k (1 to `maximum_k`) and mass; a k beyond the
        vocabulary holds all mass.
    """

    def most_probable(after: "Distributions") -> np.ndarray:
        return after.most_probable(min(maximum_k, after.vocabulary_size))[0].cpu().numpy()

    nothing_after = np.empty((1, 0), dtype=np.int64)

    def mass(prompt: Sequence[int]) -> np.ndarray:
        (best,) = model.continuations(prompt).map(most_probable, nothing_after)
        within = best[0].cumsum()
        return np.pad(within, (0, maximum_k - len(within)), mode="edge")

    encoded = [model.encode(prompt) for prompt in prompts]
    rows = []
    with ThreadPoolExecutor(threads) as pool:
        for row in pool.map(mass, encoded):
            rows.append(row)
            progress(len(rows), len(prompts))
    return pd.DataFrame(
        {
            "prompt": np.repeat(np.arange(len(prompts)), maximum_k),
            "k": np.tile(np.arange(1, maximum_k + 1), len(prompts)),
            "mass": np.concatenate(rows) if rows else np.empty(0),
        }
    )
