"""Measure everything in one run on this machine: `make bench`.

Writes benchmarks.json, one flat object of figures; benchmarks.md, the same with what each figure
is; cost.svg and cost.png, the cost of checking against states for all routes; and width.svg,
width.png and width.csv, the width of intervals against forward passes in every way.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import checking
import cost_plot
import expansion
import narrowing
import overhead
import pandas as pd
import pyarrow.parquet as pq
import quantifying
import width_plot

from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.plan import TreeSpec
from llmchecker.config.yaml_reader import read_yaml
from llmchecker.reporting import figures
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.atomic_files import atomic_write, read_json_with_digest, write_json

Figures = dict[str, float]
T = TypeVar("T")

CACHE_DEFINITIONS = {
    "{model}.forward_passes_saved_share": "over all trees of the configuration: internal nodes for "
    "which the model was not asked, since another tree of the run had asked, as a share of all",
    "forward_passes_saved_share": "the same over all models",
}


@dataclass(frozen=True)
class Progress:
    """Prints what is being done, after the minutes and seconds since it began; in any process."""

    began: float

    def __call__(self, what: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        print(f"[{minutes:2}:{seconds:02}] {what}", flush=True)


@dataclass(frozen=True)
class Sizes:
    """How large the things are that are measured.

    Args:
        trees: of each model.
        states: of generated trees, rising.
        all_queries: states of the one on which every query is asked, with bounds.
        front_ends: states of the chains that Storm's front end builds, by language.
        efforts: what is spent on intervals.
    """

    trees: expansion.Trees
    states: tuple[int, ...]
    all_queries: int
    front_ends: Mapping[str, tuple[int, ...]]
    efforts: narrowing.Efforts


FULL = Sizes(
    trees=expansion.Trees(Truncation(0.8, 4, 3), Truncation(0.8, 12, 4), Truncation(0.8, 9, 5)),
    states=(10**4, 10**5, 10**6, 10**7),
    all_queries=10**6,
    front_ends={"prism": (1_000, 3_000, 10_000), "jani": (1_000, 3_000, 10_000, 100_000)},
    efforts=narrowing.Efforts(),
)
QUICK = Sizes(
    trees=expansion.Trees(
        Truncation(0.8, 2, 2), Truncation(0.8, 2, 2), Truncation(0.8, 2, 3), rows=(16,)
    ),
    states=(200, 400, 800),
    all_queries=400,
    front_ends={"prism": (200, 400), "jani": (200, 400)},
    efforts=narrowing.Efforts(2, (20, 40), 1, 100, 100, ((0.5, 2), (0.8, 3))),
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--quick", action="store_true", help="tiny sizes, which show nothing")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    sizes = QUICK if options.quick else FULL
    report = Progress(time.monotonic())
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=options.output) as scratch:
        found, points = measured(options.config.resolve(), sizes, Path(scratch).resolve(), report)
    write_json(found, options.output / "benchmarks.json")
    with atomic_write(options.output / "benchmarks.md") as unfinished:
        unfinished.write_text(markdown(found), encoding="utf-8")
    width = pd.DataFrame([point.row() for point in points])
    with atomic_write(options.output / "width.csv") as unfinished:
        width.to_csv(unfinished, index=False)
    drawn = {
        "cost": cost_plot.cost(found),
        "width": width_plot.width(width, sizes.efforts.length),
    }
    for name, figure in drawn.items():
        files = [options.output / f"{name}.{suffix}" for suffix in ("svg", "png")]
        figures.write_figure(figure, files)
    report(f"written to {options.output}")


def measured(
    config: Path, sizes: Sizes, scratch: Path, report: Callable[[str], None]
) -> tuple[Figures, list[narrowing.Point]]:
    """Measure everything: the figures, and the widths of intervals.

    Args:
        config: of the workflow's run, of whose models and trees the other figures are.
        scratch: an empty directory, on a file system with room for some gigabytes.
        report: told how it goes.
    """
    project, generated = scratch / "project", scratch / "generated"
    project.mkdir()
    generated.mkdir()
    found = (
        _workflow(project, config, report)
        | _forward_passes(project, config)
        | _quantifiers(project, config, report)
        | _expansion(project, config, sizes.trees, report)
    )
    narrowed, points = _narrowing(project, config, sizes.efforts, found, report)
    checked = _checks(generated, sizes, report) | _front_ends(generated, sizes.front_ends, report)
    return found | narrowed | checked, points


def named(prefix: str, values: Mapping[str, float]) -> Figures:
    """The values under names that begin with the prefix and a dot."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def power(states: int) -> str:
    """A number of states as it stands in the name of a figure: 1e6."""
    mantissa, exponent = f"{states:.9e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def markdown(found: Figures) -> str:
    """The figures by topic, and what each is."""
    lines = ["# Benchmarks", "", "All measured in one run on one machine.", ""]
    lines += ["![Seconds against states, for every route](cost.svg)", ""]
    lines += ["![Width of intervals against forward passes](width.svg)", ""]
    for topic, (title, definitions) in TOPICS.items():
        lines += [f"## {title}", ""]
        lines += [f"- `{name}`: {sentence}." for name, sentence in definitions.items()]
        lines += ["", "| figure | value |", "| --- | ---: |"]
        lines += [
            f"| `{name}` | {_rounded(value)} |"
            for name, value in found.items()
            if name.partition(".")[0] in topic
        ]
        lines += [""]
    return "\n".join(lines)


TOPICS: dict[tuple[str, ...], tuple[str, dict[str, str]]] = {
    ("expansion",): (
        "Growing trees",
        named("expansion.{model}", expansion.DEFINITIONS),
    ),
    ("cache",): ("Forward passes saved", named("cache", CACHE_DEFINITIONS)),
    ("quantify",): ("Quantifying", named("quantify", quantifying.DEFINITIONS)),
    ("refine",): ("Refining", named("refine", narrowing.REFINE_DEFINITIONS)),
    ("estimate",): ("Estimating", named("estimate", narrowing.ESTIMATE_DEFINITIONS)),
    ("check", "bounds", "prism", "jani"): ("Building and checking", checking.DEFINITIONS),
    ("workflow",): ("The workflow", named("workflow", overhead.DEFINITIONS)),
}
"""Title and definitions by the first words of the figures' names."""


def in_own_process(function: Callable[..., T], *arguments: object, directory: Path) -> T:
    """Call a function in a new process that runs in a directory."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, os.chdir, (directory,)) as pool:
        return pool.submit(function, *arguments).result()


def _workflow(project: Path, config: Path, report: Callable[[str], None]) -> Figures:
    report("snakemake --cores all, in a new directory")
    overhead.prepare(project, config)
    run = overhead.run(project, report)
    return named("workflow", overhead.measure(project, run, _cores()))


def _forward_passes(project: Path, config: Path) -> Figures:
    """Compute the shares of forward passes that caches saved, from the records of all trees."""
    nodes, computed = {}, {}
    for model, trees in _trees(config).items():
        records = [read_json_with_digest(project / paths.tree_record(tree)) for tree in trees]
        nodes[model] = sum(record["nodes"] for record in records)
        computed[model] = sum(record["computed"] for record in records)
    saved = {f"cache.{m}.forward_passes_saved_share": 1 - computed[m] / nodes[m] for m in nodes}
    share = 1 - sum(computed.values()) / sum(nodes.values())
    return saved | {"cache.forward_passes_saved_share": share}


def _quantifiers(project: Path, config: Path, report: Callable[[str], None]) -> Figures:
    quantifiers = read_yaml(config).content["quantifiers"]
    found = {}
    for model, trees in _trees(config).items():
        files = [project / paths.tree_file(tree) for tree in trees]
        largest = max(files, key=lambda file: pq.read_metadata(file).num_rows)
        report(f"quantifiers on a tree of {model}")
        rates = in_own_process(
            quantifying.texts_per_second, quantifiers, largest, directory=project
        )
        of_vocabulary = in_own_process(
            quantifying.of_vocabulary_per_second,
            quantifiers,
            project / paths.model_directory(model),
            directory=project,
        )
        for kind, of_kind in (("", rates), ("vocabulary_", of_vocabulary)):
            for name, rate in of_kind.items():
                found[f"quantify.{name}.{model}.{kind}texts_per_second"] = rate
                smallest = f"quantify.{name}.{kind}texts_per_second"
                found[smallest] = min(rate, found.get(smallest, rate))
    return found


def _expansion(
    project: Path, config: Path, trees: expansion.Trees, report: Callable[[str], None]
) -> Figures:
    parsed = _parsed(config)
    found = {}
    for name, model in parsed.models.items():
        if model.kind != "causal":
            continue
        report(f"expansion with {name}")
        figures_of_model = in_own_process(
            partial(expansion.measure, report=report),
            project / paths.model_directory(name),
            _cores(),
            parsed.expansion.memory_bytes,
            trees,
            directory=project,
        )
        found |= named(f"expansion.{name}", figures_of_model)
    return found


def _narrowing(
    project: Path,
    config: Path,
    efforts: narrowing.Efforts,
    found: Figures,
    report: Callable[[str], None],
) -> tuple[Figures, list[narrowing.Point]]:
    """The figures of refining and estimating, and the widths of intervals.

    Args:
        found: how many nodes a second are grown with each model.
    """
    parsed = _parsed(config)
    figures, points = {}, []
    for name, model in parsed.models.items():
        if model.kind != "causal":
            continue
        more, of_model = in_own_process(
            partial(narrowing.measure, report=report),
            name,
            project / paths.model_directory(name),
            _cores(),
            parsed.expansion.memory_bytes,
            efforts,
            found[f"expansion.{name}.cached_nodes_per_second"],
            directory=project,
        )
        figures |= more
        points += of_model
    return figures | narrowing.largest_of_models(figures, parsed.models), points


def _checks(directory: Path, sizes: Sizes, report: Callable[[str], None]) -> Figures:
    first_checks, ratios, slowest = {}, {}, {}
    for states in sizes.states:
        report(f"checking {power(states)} states")
        place = directory / power(states)
        in_own_process(checking.write_tree, place, states, directory=directory)
        asked = checking.QUERIES if states == sizes.all_queries else checking.QUERIES[:1]
        checks = {
            query: checking.measured_check(place, query, bounds=len(asked) > 1) for query in asked
        }
        first_checks[states] = checks[checking.QUERIES[0]]
        if len(asked) > 1:
            ratios = {query: check["bounds_ratio"] for query, check in checks.items()}
            slowest[states] = max(check["seconds"] for check in checks.values())
    larger = sizes.states[1:]
    seconds = {states: check["seconds"] for states, check in first_checks.items()}
    by_kind = {
        f"check.{kind}.{power(states)}": check[kind]
        for kind in ("seconds", "read_seconds", "processor_seconds", "peak_gb")
        for states, check in first_checks.items()
    }
    return (
        by_kind
        | {"check.seconds_ratio": seconds[larger[-1]] / seconds[larger[-2]]}
        | {"check.exponent": checking.fitted_exponent(larger, [seconds[n] for n in larger])}
        | named("check.slowest_seconds", _by_power(slowest))
        | named("bounds.cost_ratio", ratios)
        | {"bounds.cost_ratio": max(ratios.values())}
    )


def _front_ends(
    directory: Path, sizes: Mapping[str, tuple[int, ...]], report: Callable[[str], None]
) -> Figures:
    found = {}
    for language, states in sizes.items():
        report(f"Storm's front end on {language} files")
        seconds = {
            n: checking.measured_front_end(directory, n, language)["seconds"] for n in states
        }
        exponent = checking.fitted_exponent(states, list(seconds.values()))
        found |= named(f"{language}.seconds", _by_power(seconds))
        found[f"{language}.exponent"] = exponent
    return found


def _by_power(values: Mapping[int, float]) -> Figures:
    return {power(states): value for states, value in values.items()}


def _trees(config: Path) -> dict[str, tuple[TreeSpec, ...]]:
    """The trees of each model that has some."""
    parsed = _parsed(config)
    trees = {model: parsed.trees(model) for model in parsed.models}
    return {model: specs for model, specs in trees.items() if specs}


def _parsed(config: Path) -> Config:
    return Config.read(config)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _cores() -> int:
    """The cores that snakemake takes for all."""
    return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    main()
