"""How much probability the most probable next tokens hold (RQ1, Figure 3 of Gross et al., 2025)."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from llmchecker.distributions import Distributions
from llmchecker.errors import UnknownName
from llmchecker.language_models import LanguageModel


def read_prompts(path: str | Path, column: str) -> list[str]:
    """The prompts of a CSV file.

    Raises:
        UnknownName: the file has no such column.
    """
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if column not in (rows.fieldnames or ()):
            has = ", ".join(rows.fieldnames or ())
            raise UnknownName(f"{path} has no column {column!r}; it has {has}")
        return [row[column] for row in rows]


def masses(
    model: LanguageModel,
    prompts: Sequence[str],
    maximum_k: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> pd.DataFrame:
    """The next token's probability mass within the k most probable tokens, for every prompt.

    Returns:
        Columns prompt (its number, from 0), k (1 to `maximum_k`) and mass; a k beyond the
        vocabulary holds all mass.
    """

    def most_probable(after: Distributions) -> np.ndarray:
        return after.most_probable(min(maximum_k, after.vocabulary_size))[0].cpu().numpy()

    nothing_after = np.empty((1, 0), dtype=np.int64)
    rows = []
    for number, prompt in enumerate(prompts):
        continuations = model.continuations(model.encode(prompt))
        (best,) = continuations.map(most_probable, nothing_after)
        mass = best[0].cumsum()
        rows.append(np.pad(mass, (0, maximum_k - len(mass)), mode="edge"))
        progress(number + 1, len(prompts))
    return pd.DataFrame(
        {
            "prompt": np.repeat(np.arange(len(prompts)), maximum_k),
            "k": np.tile(np.arange(1, maximum_k + 1), len(prompts)),
            "mass": np.concatenate(rows) if rows else np.empty(0),
        }
    )
