"""Print the hours and gigabytes that each of the paper's models will need, before a run of them.

    python workflow/forecast_paper.py config/paper.yaml

The number of passes is that of the published trees, the limit of Figure 4's trees, and the prompts.
The seconds of a pass are measured on the model's device: a product of matrices as large as a
network's, which reads the weights for one text at a time. Batches make a run faster; trees larger
than the published ones, scores and the checks of Storm make it slower.
"""

import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from llmchecker.config.config import Config
from llmchecker.config.models import ModelConfig
from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.reporting.paper.published_table import read_published_rows

_PUBLISHED = Path(__file__).parents[1] / "resources/published"
_TEXT_TOKENS = 16
"""Tokens of a pass: a start string and its continuation."""
_PROMPT_PASSES = 16
"""Passes of `_TEXT_TOKENS` that are as long as a prompt of 256 tokens."""
_COLUMNS = ["model", "download", "weights", "passes", "hours"]


def main(file: str) -> int:
    """Print the forecast of a configuration, and return the exit status."""
    try:
        rows = list(_forecast(Config.read(file)))
    except LLMCheckerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    cells = [
        [name, f"{download:.1f} GB", f"{memory:.1f} GB", f"{passes:,}", f"{hours:.1f}"]
        for name, download, memory, passes, hours in rows
    ]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *cells, strict=True)]
    for row in (_COLUMNS, *cells):
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    hours = sum(row[-1] for row in rows)
    print(f"about {hours:.1f} hours of passes, and {sum(row[1] for row in rows):.1f} GB to fetch")
    print("an interrupted run goes on with `make paper`", flush=True)
    return 0


def _forecast(config: Config) -> Iterator[tuple[str, float, float, int, float]]:
    """Yield the name, the GB to fetch, the GB of weights, the passes and the hours of each model.

    Raises:
        ConfigError: a model has no published size, or its device is absent.
    """
    with (_PUBLISHED / "models.csv").open(encoding="utf-8", newline="") as opened:
        sizes = {row["model"]: row for row in csv.DictReader(opened)}
    for name, model in config.used_models.items():
        if model.label not in sizes:
            raise ConfigError(
                f"models.{name}.label: {model.label!r} has no published size; expected one of "
                f"{', '.join(sizes)}"
            )
        if torch.device(model.device).type == "cuda" and not torch.cuda.is_available():
            raise ConfigError(
                f"models.{name}.device: torch finds no GPU here; run this where one is, or write "
                "`device: cpu`"
            )
        parameters = int(sizes[model.label]["parameters"])
        passes = _count_passes(config, name, model)
        seconds = passes * parameters * _measure_seconds_per_parameter(model)
        download = parameters * int(sizes[model.label]["bytes_per_parameter"])
        memory = parameters * _find_dtype(model).itemsize
        yield name, download / 1e9, memory / 1e9, passes, seconds / 3600


def _count_passes(config: Config, name: str, model: ModelConfig) -> int:
    """Count the texts whose next-token distribution is needed, as published."""
    trees: dict[tuple[object, ...], int] = {}
    for row in read_published_rows(_PUBLISHED / "table2.csv"):
        if row.model == model.label:
            # Storm explored a part of the tree for each query
            key = (row.label, row.truncation)
            trees[key] = max(trees.get(key, 0), row.internal_states)
    passes = sum(trees.values())
    for tree in {check.tree for check in config.figure4 if check.tree.model == name}:
        passes += sum(tree.truncation.k**step for step in range(tree.truncation.length))
    if config.prompts is not None:
        passes += (config.prompts.dataset.rows or 0) * _PROMPT_PASSES
    return passes


def _find_dtype(model: ModelConfig) -> torch.dtype:
    return getattr(torch, model.dtype)


def _measure_seconds_per_parameter(model: ModelConfig) -> float:
    """Measure a product of 16 rows and a matrix that no cache holds."""
    side, repeats = 8192, 5
    options = {"dtype": _find_dtype(model), "device": model.device}
    weights = torch.ones(side, side, **options)
    texts = torch.ones(_TEXT_TOKENS, side, **options)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        # the sum waits for the device
        (texts @ weights.T).sum().item()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[repeats // 2] / side**2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
