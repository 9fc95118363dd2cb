"""Measure a part of the evaluation, or make the table, figure or record of measured parts.

PYTHONPATH=benchmarks python -m evaluation.job measure quick reach smollm2-135m.published FILE
PYTHONPATH=benchmarks python -m evaluation.job table TABLE PART...
PYTHONPATH=benchmarks python -m evaluation.job draw reach TABLE FIGURE...
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from evaluation import closest, coverage, growth, reach, worth
from evaluation.subjects import Row, Subject
from llmchecker.config import paths
from llmchecker.config.yaml_reader import read_yaml
from llmchecker.models.run_metadata import describe_machine, find_code_version, utc_now
from llmchecker.utils.atomic_files import atomic_write, write_json
from llmchecker.utils.processes import count_cores

CONFIG = Path(__file__).parents[2] / "config/evaluation.yaml"
PUBLISHED = "published"
WORTH_DECODINGS = ("temperature-1", PUBLISHED)
Settings = Mapping[str, Any]


def main(arguments: list[str] | None = None) -> None:
    """Run one job."""
    parser = argparse.ArgumentParser(prog="evaluation.job", description=__doc__)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    for name in ("size", "question", "part"):
        measuring.add_argument(name)
    measuring.add_argument("output", type=Path)
    measuring.set_defaults(run=_measure)
    joining = commands.add_parser("table")
    joining.add_argument("output", type=Path)
    joining.add_argument("parts", type=Path, nargs="+")
    joining.set_defaults(run=_join)
    recording = commands.add_parser("record")
    recording.add_argument("size")
    recording.add_argument("output", type=Path)
    recording.set_defaults(run=_record)
    drawing = commands.add_parser("draw")
    drawing.add_argument("question")
    drawing.add_argument("table", type=Path)
    drawing.add_argument("figures", type=Path, nargs="+")
    drawing.set_defaults(run=_draw)
    options = parser.parse_args(arguments)
    options.run(options)


def list_parts(config: Settings, size: str) -> dict[str, list[str]]:
    """List the parts of each question, each of which is a job.

    Args:
        config: the content of config/evaluation.yaml.
        size: `quick` or `whole`.
    """
    models = config[size]["models"]
    decodings = [*config["decodings"], PUBLISHED]
    return {
        "reach": [f"{model}.{decoding}" for model in models for decoding in decodings],
        "worth": [f"{model}.{decoding}" for model in models for decoding in WORTH_DECODINGS],
        "coverage": [*coverage.ACCESSES, coverage.BITS, coverage.ROWS],
        "growth": list(growth.AXES),
        "closest": list(models),
    }


def read_config() -> Settings:
    """Read config/evaluation.yaml."""
    content: Settings = read_yaml(CONFIG).content
    return content


def measure_part(
    config: Settings, size: str, question: str, part: str, report: Callable[[str], None] = print
) -> Iterator[Row]:
    """Yield the rows of a part.

    Args:
        config: the content of config/evaluation.yaml.
        size: `quick` or `whole`.
        question: name of a table.
        part: one of `list_parts`.
        report: a function that receives the progress.
    """
    settings = config[size][question]
    if question == "coverage":
        yield from coverage.measure(part, coverage.Sizes(**settings), report)
    elif question == "growth":
        yield from growth.AXES[part](settings[part], report)
    elif question == "closest":
        subject = _read_subject(config, part, "temperature-1")
        yield from closest.measure(part, subject.model, closest.Sizes(**settings), report)
    else:
        model, _, decoding = part.partition(".")
        subject = _read_subject(config, model, decoding)
        module = {"reach": reach, "worth": worth}[question]
        yield from module.measure(subject, decoding, module.Sizes(**settings), report)


def _read_subject(config: Settings, model: str, decoding: str) -> Subject:
    is_published = decoding == PUBLISHED
    settings = config[PUBLISHED][model] if is_published else config["decodings"][decoding]
    return Subject.read(Path(paths.model_directory(model)), config["start"], settings)


def _measure(options: argparse.Namespace) -> None:
    found = measure_part(read_config(), options.size, options.question, options.part)
    write_table(pd.DataFrame(list(found)), options.output)


def _join(options: argparse.Namespace) -> None:
    write_table(pd.concat([pd.read_csv(part) for part in options.parts]), options.output)


def _record(options: argparse.Namespace) -> None:
    """Write when, where and with which code the parts were measured."""
    record = {
        "size": options.size,
        "commit": find_code_version().commit or "unknown",
        "processor": describe_machine().processor,
        "cores": str(count_cores()),
        "date": utc_now(),
    }
    write_json(record, options.output)


def _draw(options: argparse.Namespace) -> None:
    # imported here: a measurement needs no matplotlib
    from evaluation.figures import FIGURES
    from llmchecker.reporting.figures import write_figure

    write_figure(FIGURES[options.question](pd.read_csv(options.table)), options.figures)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV."""
    with atomic_write(path) as unfinished:
        table.to_csv(unfinished, index=False)


if __name__ == "__main__":
    main()
