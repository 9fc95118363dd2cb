"""Measure everything in one run on this machine: `make bench`.

Writes benchmarks.json, one flat object of figures; benchmarks.md, the same with what each figure
is; cost.svg and cost.png, the cost of checking against states for all routes; and width.svg,
width.png and width.csv, the width of intervals against forward passes in every way. `--only` and
`--model` measure a part: the host's cost alone with

    python benchmarks/bench.py --only host
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import chat
import checking
import drift
import host_cost
import narrowing
import overhead
import pandas as pd
import plots
import pyarrow.parquet as pq
import quantifying
import real_models
import rows
import structured
from matplotlib.figure import Figure

from llmchecker import Truncation
from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.plan import TreeSpec
from llmchecker.config.yaml_reader import read_yaml
from llmchecker.reporting import figures
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

    Attributes:
        models: what is measured of each model.
        host_passes: passes of each check of the host's cost.
        states: numbers of states of generated trees, rising.
        all_queries: states of the one on which every query is asked, with bounds.
        front_ends: states of the chains that Storm's front end builds, by language.
        efforts: what is spent on intervals.
        rows: rows of a table of which an average may need few.
        drift: runs, days and answers of a watched deployment.
    """

    models: real_models.Sizes
    host_passes: int
    states: tuple[int, ...]
    all_queries: int
    front_ends: Mapping[str, tuple[int, ...]]
    efforts: narrowing.Efforts
    rows: int
    drift: drift.Sizes


FULL = Sizes(
    models=real_models.Sizes(Truncation(0.8, 4, 3), Truncation(0.8, 9, 5)),
    host_passes=host_cost.PASSES,
    states=(10**4, 10**5, 10**6, 10**7),
    all_queries=10**6,
    front_ends={"prism": (1_000, 3_000, 10_000), "jani": (1_000, 3_000, 10_000, 100_000)},
    efforts=narrowing.Efforts(),
    rows=5_000,
    drift=drift.Sizes(),
)
QUICK = Sizes(
    models=real_models.Sizes(
        Truncation(0.8, 2, 2), Truncation(0.8, 2, 3), (16,), passes=50, seconds=0.2, rows=16
    ),
    host_passes=30,
    states=(200, 400, 800),
    all_queries=400,
    front_ends={"prism": (200, 400), "jani": (200, 400)},
    efforts=narrowing.Efforts(2, (20, 40), 1, ((0.5, 2), (0.8, 3))),
    rows=30,
    drift=drift.Sizes(runs=1, days=2, at_release=50),
)


@dataclass(frozen=True)
class Run:
    """A run of the benchmark.

    Attributes:
        config: configuration of the workflow's run, whose models and trees are measured.
        sizes: how much is measured.
        project: directory of the models, and of the results of the workflow where it ran.
        scratch: an empty directory, on a file system with room for some gigabytes.
        only_models: names of the models that are measured; empty for all.
        report: a function that receives the progress.
    """

    config: Path
    sizes: Sizes
    project: Path
    scratch: Path
    only_models: tuple[str, ...]
    report: Callable[[str], None]

    @property
    def models(self) -> dict[str, Path]:
        """The directories of the causal models by name."""
        models = _parse(self.config).models
        return {
            name: self.project / paths.model_directory(name)
            for name, model in models.items()
            if model.kind == "causal" and (not self.only_models or name in self.only_models)
        }


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        prog="bench.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks"))
    parser.add_argument(
        "--only",
        action="append",
        choices=PARTS,
        help="a part, which may be repeated; without `workflow` the models must be there",
    )
    parser.add_argument(
        "--model", action="append", default=[], help="a model of the configuration; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, which show nothing")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    parts = [part for part in PARTS if part in (options.only or PARTS)]
    report = Progress(time.monotonic())
    found: Figures = {}
    points: list[narrowing.Point] = []
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=options.output) as scratch:
        directory = Path(scratch).resolve()
        project = directory / "project" if "workflow" in parts else Path.cwd()
        run = Run(
            config=options.config.resolve(),
            sizes=QUICK if options.quick else FULL,
            project=project,
            scratch=directory,
            only_models=tuple(options.model),
            report=report,
        )
        for part in parts:
            figures_of_part, points_of_part = PARTS[part](run)
            found |= figures_of_part
            points += points_of_part
            # what a run that is stopped has measured is kept
            write_json(found, options.output / "benchmarks.json")
    drawn: dict[str, Figure] = {}
    if "checks" in parts:
        drawn["cost"] = plots.draw_cost(found)
    if points:
        width = pd.DataFrame([point.row() for point in points])
        with atomic_write(options.output / "width.csv") as unfinished:
            width.to_csv(unfinished, index=False)
        drawn["width"] = plots.draw_width(width, run.sizes.efforts.length)
    for name, figure in drawn.items():
        files = [options.output / f"{name}.{suffix}" for suffix in ("svg", "png")]
        figures.write_figure(figure, files)
    with atomic_write(options.output / "benchmarks.md") as unfinished:
        unfinished.write_text(markdown(found, drawn), encoding="utf-8")
    report(f"written to {options.output}")


def named(prefix: str, values: Mapping[str, T]) -> dict[str, T]:
    """The values under names that begin with the prefix and a dot."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def power(states: int) -> str:
    """A number of states as it stands in the name of a figure: 1e6."""
    mantissa, exponent = f"{states:.9e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def markdown(found: Figures, images: Iterable[str] = ()) -> str:
    """Format the figures by topic, with the meaning of each.

    Args:
        found: the figures.
        images: names of the plots in the same directory.
    """
    lines = ["# Benchmarks", "", "All measured in one run on one machine.", ""]
    for image in images:
        lines += [f"![{IMAGES[image]}]({image}.svg)", ""]
    for topic, (title, definitions) in TOPICS.items():
        of_topic = {n: value for n, value in found.items() if n.partition(".")[0] in topic}
        # a run of some parts has no figures of the others
        if not of_topic:
            continue
        lines += [f"## {title}", ""]
        lines += [f"- `{name}`: {sentence}." for name, sentence in definitions.items()]
        lines += ["", "| figure | value |", "| --- | ---: |"]
        lines += [f"| `{name}` | {_rounded(value)} |" for name, value in of_topic.items()]
        lines += [""]
    return "\n".join(lines)


IMAGES = {
    "cost": "Seconds against states, for every route",
    "width": "Width of intervals against forward passes",
}
"""What each plot shows."""
TOPICS: dict[tuple[str, ...], tuple[str, dict[str, str]]] = {
    ("expansion",): ("Growing trees", named("expansion.{model}", real_models.GROWING_DEFINITIONS)),
    ("cache",): ("Forward passes saved", named("cache", CACHE_DEFINITIONS)),
    ("quantify",): ("Quantifying", named("quantify", quantifying.DEFINITIONS)),
    ("host",): ("The host's cost", named("host", host_cost.DEFINITIONS)),
    ("structured",): (
        "Structured output",
        named("structured.{model}", structured.DEFINITIONS),
    ),
    ("seconds",): ("Equal seconds", named("seconds.{model}", real_models.SECONDS_DEFINITIONS)),
    ("chat",): ("Free-form answers", named("chat.{model}", chat.DEFINITIONS)),
    ("refine",): ("Refining", named("refine", narrowing.REFINE_DEFINITIONS)),
    ("estimate",): (
        "Estimating",
        named("estimate.{model}", real_models.PASSES_DEFINITIONS)
        | named("estimate", narrowing.ESTIMATE_DEFINITIONS),
    ),
    ("check", "bounds", "prism", "jani"): ("Building and checking", checking.DEFINITIONS),
    ("rows",): ("Rows that an average needs", named("rows", rows.DEFINITIONS)),
    ("drift",): ("Days until a change of weights is found", named("drift", drift.DEFINITIONS)),
    ("workflow",): ("The workflow", named("workflow", overhead.DEFINITIONS)),
}
"""Title and definitions by the first words of the figures' names."""


def in_own_process(function: Callable[..., T], *arguments: object, directory: Path) -> T:
    """Call a function in a new process that runs in a directory."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, os.chdir, (directory,)) as pool:
        return pool.submit(function, *arguments).result()


Found = tuple[Figures, list[narrowing.Point]]
"""The figures of a part, and its widths of intervals."""


def _measure_workflow(run: Run) -> Found:
    """Run the workflow in a new directory, and measure what depends on its trees."""
    run.report("snakemake --cores all, in a new directory")
    run.project.mkdir()
    overhead.prepare(run.project, run.config)
    finished = overhead.run(run.project, run.report)
    found = named("workflow", overhead.measure(run.project, finished, _cores()))
    found |= _count_forward_passes(run.project, run.config)
    return found | _measure_quantifiers(run.project, run.config, run.report), []


def _measure_host(run: Run) -> Found:
    """Measure checks on a network that costs nothing, with the tokenizer of the first model."""
    directory = next(iter(run.models.values()))
    measure = partial(host_cost.measure, report=run.report)
    found = in_own_process(measure, directory, run.sizes.host_passes, directory=run.project)
    return named("host", found), []


def _measure_structured(run: Run) -> Found:
    """Measure answers that satisfy a schema."""
    return _measure_models(run, "structured", structured.measure, run.sizes.host_passes)


def _measure_growth(run: Run) -> Found:
    found: Figures = {}
    for name, directory in run.models.items():
        run.report(f"speed of {name}")
        measure = partial(real_models.measure_speed, report=run.report)
        growing, passes = in_own_process(
            measure, directory, run.sizes.models, directory=run.project
        )
        found |= named(f"expansion.{name}", growing) | named(f"estimate.{name}", passes)
    return found, []


def _measure_equal_seconds(run: Run) -> Found:
    return _measure_models(run, "seconds", real_models.measure_equal_seconds, run.sizes.models)


def _measure_chat(run: Run) -> Found:
    """Measure free-form answers of the models that have a chat template."""
    return _measure_models(run, "chat", chat.measure, run.sizes.models.seconds)


def _measure_models(run: Run, topic: str, measure: Callable[..., Figures], size: object) -> Found:
    """Measure each model in a process of its own; a figure begins with the topic and the model."""
    found: Figures = {}
    for name, directory in run.models.items():
        run.report(f"{topic}: {name}")
        reporting = partial(measure, report=run.report)
        of_model = in_own_process(reporting, directory, size, directory=run.project)
        found |= named(f"{topic}.{name}", of_model)
    return found, []


def _measure_equal_passes(run: Run) -> Found:
    """Measure the figures of refining and estimating, and the widths of intervals."""
    found: Figures = {}
    points: list[narrowing.Point] = []
    for name, directory in run.models.items():
        run.report(f"equal passes with {name}")
        measure = partial(narrowing.measure, report=run.report)
        more, of_model = in_own_process(
            measure, name, directory, run.sizes.efforts, directory=run.project
        )
        found |= more
        points += of_model
    return found | narrowing.find_largest(found, run.models), points


def _measure_rows(run: Run) -> Found:
    return named("rows", rows.measure(run.sizes.rows, run.report)), []


def _measure_drift(run: Run) -> Found:
    """Measure the days until a change of the weights of the first model is found."""
    directory = next(iter(run.models.values()))
    measure = partial(drift.measure, report=run.report)
    found = in_own_process(measure, directory, run.sizes.drift, directory=run.project)
    return named("drift", found), []


def _measure_checks(run: Run) -> Found:
    directory = run.scratch / "generated"
    directory.mkdir()
    checked = _checks(directory, run.sizes, run.report)
    return checked | _front_ends(directory, run.sizes.front_ends, run.report), []


PARTS: dict[str, Callable[[Run], Found]] = {
    "workflow": _measure_workflow,
    "host": _measure_host,
    "structured": _measure_structured,
    "growth": _measure_growth,
    "equal-seconds": _measure_equal_seconds,
    "chat": _measure_chat,
    "equal-passes": _measure_equal_passes,
    "rows": _measure_rows,
    "drift": _measure_drift,
    "checks": _measure_checks,
}
"""The parts of a run, in their order."""


def _count_forward_passes(project: Path, config: Path) -> Figures:
    """Compute the shares of forward passes that caches saved, from the records of all trees."""
    nodes, computed = {}, {}
    for model, trees in _trees(config).items():
        records = [read_json_with_digest(project / paths.tree_record(tree)) for tree in trees]
        nodes[model] = sum(record["nodes"] for record in records)
        computed[model] = sum(record["computed"] for record in records)
    saved = {f"cache.{m}.forward_passes_saved_share": 1 - computed[m] / nodes[m] for m in nodes}
    share = 1 - sum(computed.values()) / sum(nodes.values())
    return saved | {"cache.forward_passes_saved_share": share}


def _measure_quantifiers(project: Path, config: Path, report: Callable[[str], None]) -> Figures:
    quantifiers = read_yaml(config).content["quantifiers"]
    found: Figures = {}
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
    found: Figures = {}
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
    parsed = _parse(config)
    trees = {model: parsed.trees(model) for model in parsed.models}
    return {model: specs for model, specs in trees.items() if specs}


def _parse(config: Path) -> Config:
    return Config.read(config)


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _cores() -> int:
    """The cores that snakemake takes for all."""
    return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    main()
