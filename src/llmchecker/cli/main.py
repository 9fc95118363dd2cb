"""The command line: one question to one model, without a run of the workflow.

    llmchecker check "P=? [ F gender > 0 ]" --model smollm2-135m --start "The player won because" \\
        --alpha 0.8 --k 15 --length 3
    llmchecker tree --query "P=? [ F gender > 0 ]" --model smollm2-135m \\
        --start "The player won because" --alpha 0.8 --k 5 --length 2 --output tree.svg
    llmchecker verify program.c --semantics int32

The answer alone goes to standard output; progress, logs and errors go to standard error. The exit
status is 0 with an answer, 2 where the question cannot be answered as asked, 130 when interrupted;
`verify` has 1 for programs that are not all verified (`invariants.command`).

Models, quantifiers and how trees are grown come from a config. Its paths, and those of models and
trees, are relative to the project: the nearest directory above the config that holds the workflow,
or else the config's own. A tree is grown once,
by the workflow or here: its record tells by what model, code and settings, so that a tree of
another model, dtype or end of sequence is never mistaken for the one that was asked for.
"""

import argparse
import contextlib
import ctypes
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llmchecker import logs
from llmchecker.chains import markov_chain
from llmchecker.checking import evidence
from llmchecker.cli.verify import add_verify
from llmchecker.config.checks import TreeSpec, quantifiers_in
from llmchecker.config.configuration import Config, ModelConfig
from llmchecker.errors import ConfigError, InvalidTree, LLMCheckerError, UnknownName, did_you_mean
from llmchecker.fetching.model_files import PROVENANCE
from llmchecker.fetching.models import fetch_model
from llmchecker.fetching.sources import pinned
from llmchecker.files import read_json, written_whole
from llmchecker.publication import drawing
from llmchecker.quantifiers import scores
from llmchecker.queries.parser import parse
from llmchecker.queries.query import Query
from llmchecker.trees.grower import Grower
from llmchecker.trees.store import DistributionStore
from llmchecker.trees.text_tree import TextTree, Truncation

# `checking` is imported where it is used: with Storm it takes a second, which neither --help nor a
# mistyped query should wait for.
if TYPE_CHECKING:
    from llmchecker.checking.verdicts import Verdict

CONFIG = "config.yaml"
WORKFLOW = "Snakefile"
LOCKS = Path("config/locks/models")
TREES = Path("results/trees")
DISTRIBUTIONS = Path("results/distributions")

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Task:
    """A question in which every name refers to something.

    Args:
        config: where models, quantifiers and the growth of trees are set.
        config_path: where it was read from.
        model: the model to ask.
        start: the text to go on from; data, of which no path is ever made.
        truncation: of the tree.
        query: what to ask, over known quantifiers; None where only the tree is asked for.
    """

    config: Config
    config_path: Path
    model: ModelConfig
    start: str
    truncation: Truncation
    query: Query | None

    @property
    def model_directory(self) -> Path:
        """Where the workflow keeps the model."""
        return Path("resources/models", self.model.name)

    def tree_path(self, folder: str) -> Path:
        """Where a tree of this model and this truncation is kept, in a folder named by its text."""
        return TREES / f"{TreeSpec(self.model.name, folder, self.truncation)}.parquet"


@dataclass(frozen=True)
class Grown:
    """A tree, the file that holds it, and the seconds it took to grow: 0 where it was there."""

    tree: TextTree
    path: Path
    seconds: float


@dataclass(frozen=True)
class Answer:
    """What was found, and what this run took.

    Args:
        task: the question.
        grown: the tree on which it was answered.
        verdict: its `encode_seconds` are those of this run: growing, scoring, building the chain.
        scoring_seconds: of all quantifiers of the query.
    """

    task: Task
    grown: Grown
    verdict: "Verdict"
    scoring_seconds: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Raises:
        SystemExit: from argparse, with 0 for --help and 2 for arguments that do not parse.
    """
    arguments = _parser().parse_args(argv)
    with logs.shell_log():
        try:
            return arguments.run(arguments)
        except LLMCheckerError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_ERROR
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llmchecker", description="Proofs about what a language model writes."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    check = commands.add_parser(
        "check",
        help="answer one query on what a model writes after a text",
        description="Answer one query on what a model writes after a text: the value on the "
        "bounded process, and bounds for the whole model.",
    )
    check.set_defaults(run=_check)
    check.add_argument("query", help='such as "P=? [ F gender > 0 ]"')
    _add_task(check)
    check.add_argument(
        "--json", action="store_true", help="print one JSON object, and nothing else"
    )
    tree = commands.add_parser(
        "tree",
        help="draw what a model writes after a text",
        description="Draw the tree of what a model writes after a text, as SVG or DOT; with a "
        "query, the scores that it is about and the states that decide it.",
    )
    tree.set_defaults(run=_tree)
    tree.add_argument("--query", help='mark the states that decide it: "P=? [ F gender > 0 ]"')
    _add_task(tree)
    tree.add_argument("--format", choices=drawing.WRITERS, help="default: that of --output, or svg")
    tree.add_argument("--output", type=Path, help="a file (default: standard output)")
    add_verify(commands)
    return parser


def _add_task(command: argparse.ArgumentParser) -> None:
    """Add what says which tree is meant."""
    command.add_argument("--model", required=True, help="its name in the config")
    command.add_argument(
        "--start", required=True, help="the text to go on from; one that begins with -: --start=-…"
    )
    command.add_argument(
        "--alpha", required=True, type=float, help="select tokens until they hold this probability"
    )
    command.add_argument("--k", required=True, type=int, help="select at most so many tokens")
    command.add_argument("--length", required=True, type=int, help="the horizon L in tokens")
    command.add_argument(
        "--config", default=CONFIG, type=Path, help="the configuration (default: %(default)s)"
    )


def _check(arguments: argparse.Namespace) -> int:
    with _standard_output_kept_clean():
        answer = _answer(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        # a model may write what the terminal's encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    print(json.dumps(as_json(answer), allow_nan=False) if arguments.json else as_text(answer))
    return 0


def _tree(arguments: argparse.Namespace) -> int:
    output = arguments.output
    by_suffix = "dot" if output and output.suffix in (".dot", ".gv") else "svg"
    with _standard_output_kept_clean(), _asked(arguments) as task:
        drawn = _drawn(task)
    text = drawing.WRITERS[arguments.format or by_suffix](drawn)
    if output is None:
        sys.stdout.buffer.write(text.encode())
        return 0
    try:
        with written_whole(output) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output: {output} cannot be written: {error}") from error
    return 0


@contextlib.contextmanager
def _standard_output_kept_clean() -> Iterator[None]:
    """Send what libraries print to standard error, be they written in Python or C++."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        # C holds back what it prints into a pipe, and would write it after the answer
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _answer(arguments: argparse.Namespace) -> Answer:
    with _asked(arguments) as task:
        return _solved(task)


@contextlib.contextmanager
def _asked(arguments: argparse.Namespace) -> Iterator[Task]:
    """What the arguments ask, while the project is the current directory."""
    truncation = Truncation(arguments.alpha, arguments.k, arguments.length)
    query = None if arguments.query is None else parse(arguments.query)
    config_path = arguments.config.absolute()
    # the paths in a config are relative to the project, as in a run of the workflow
    with contextlib.chdir(_project(config_path)):
        config = Config.read(config_path)
        if query is not None:
            query.require(config.quantifiers, truncation.length)
        model = config.models[_known_model(arguments.model, config)]
        yield Task(config, config_path, model, _text(arguments.start), truncation, query)


def _project(config: Path) -> Path:
    """The nearest directory above a config that holds the workflow, or else the config's own."""
    if not config.is_file():
        raise ConfigError(
            f"there is no file {config}; run llmchecker where {CONFIG} is, or name it by --config"
        )
    holding = (directory for directory in config.parents if (directory / WORKFLOW).is_file())
    return next(holding, config.parent)


def _known_model(name: str, config: Config) -> str:
    if name not in config.models:
        hint = did_you_mean(name, config.models) or ";"
        known = ", ".join(config.models)
        raise UnknownName(f"--model: no model {name!r} is defined{hint} known are {known}")
    return name


def _text(start: str) -> str:
    """The start string; bytes that are no text reach Python as lone surrogates."""
    try:
        start.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"--start: {start!r} is not valid UTF-8") from error
    return start


def _solved(task: Task) -> Answer:
    grown = _grown(task)
    tree = grown.tree
    began = time.monotonic()
    values = _scored(task, tree)
    scoring_seconds = time.monotonic() - began
    from llmchecker.checking.solve import solve

    quantifiers = {name: task.config.quantifiers[name] for name in values}
    ranges = {name: (each.minimum, each.maximum) for name, each in quantifiers.items()}
    verdict = solve(tree, values, task.query, ranges, grown.seconds + scoring_seconds)
    return Answer(task, grown, verdict, scoring_seconds)


def _drawn(task: Task) -> drawing.Drawing:
    tree = _grown(task).tree
    drawing.require_small(tree)
    if task.query is None:
        return drawing.Drawing(tree, {}, {})
    values = _scored(task, tree)
    if not evidence.has_evidence(task.query):
        logging.info("no single text decides a query of this form, so no state is marked")
    chain = markov_chain.build(tree, values)
    decisive = evidence.witnesses(tree, chain, task.query, most=None)
    return drawing.Drawing(tree, values, {witness.uid: witness.kind for witness in decisive})


def _scored(task: Task, tree: TextTree) -> dict[str, np.ndarray]:
    """The scores of all states, by every quantifier of the query."""
    values = {}
    for name in quantifiers_in(task.query):
        logging.info("scoring %d states: %s", len(tree), name)
        values[name] = scores.score(task.config.quantifiers[name], tree)
    return values


def _grown(task: Task) -> Grown:
    """The tree of a task: the workflow's, one that was grown here before, or a new one."""
    _demand_model(task)
    grower = _grower(task)
    # no start string of a config has a name with _ in it
    own = task.tree_path(f"text_{grower.fingerprint(task.start, task.truncation)[:16]}")
    names = [name for name, text in task.config.start_strings.items() if text == task.start]
    for path in (*map(task.tree_path, names), own):
        if grower.has_grown(path, task.start, task.truncation):
            try:
                tree = TextTree.read(path)
            except InvalidTree as error:
                logging.info("not using %s: %s", path, error)
                continue
            logging.info("read the tree from %s", path)
            return Grown(tree, path, 0.0)
    logging.info("growing the tree of %s: %s", task.model.name, task.truncation)
    with logs.shell_progress(task.model.name, task.truncation.length) as progress:
        tree, growth = grower.grow(own, task.start, task.truncation, progress)
    return Grown(tree, own, growth.seconds)


def _grower(task: Task) -> Grower:
    settings = task.config.expansion
    return Grower(
        directory=task.model_directory,
        kind=task.model.kind,
        dtype=task.model.dtype,
        device=task.model.device,
        threads=settings.threads or len(os.sched_getaffinity(0)),
        memory_bytes=settings.memory_bytes,
        end_of_sequence=settings.end_of_sequence,
        store=DistributionStore(DISTRIBUTIONS, settings.store_bytes),
    )


def _demand_model(task: Task) -> None:
    """Fetch the model unless it is there.

    Raises:
        SourceError: it cannot be had.
        ConfigError: what is there was fetched from elsewhere.
    """
    directory, source = task.model_directory, task.model.source
    lock = LOCKS / f"{task.model.name}.json"
    if not directory.exists():
        fetch_model(source, directory, lock=lock)
        return
    configured = {
        "source": str(pinned(source.source, lock)),
        "file": source.file,
        "parts": [{"source": str(part), "file": file} for part, file in source.parts],
        "sha256": source.sha256,
    }
    try:
        recorded = read_json(directory / PROVENANCE)
    except (OSError, ValueError):
        recorded = {}
    if any(recorded.get(key) != value for key, value in configured.items()):
        raise ConfigError(
            f"{directory} holds a model from {recorded.get('source', 'an unknown source')}, with "
            f"other settings than models.{task.model.name} names ({source.source}); delete the "
            "directory to fetch the model again"
        )


def as_json(answer: Answer) -> dict[str, Any]:
    """The fields of the verdict, and what it is about; null is a bound that there is not."""
    task, grown = answer.task, answer.grown
    about = {
        "model": task.model.name,
        "start": task.start,
        "alpha": task.truncation.alpha,
        "k": task.truncation.k,
        "L": task.truncation.length,
        "tree": str(grown.path),
        "growing_seconds": grown.seconds,
        "scoring_seconds": answer.scoring_seconds,
    }
    return asdict(answer.verdict) | about


def as_text(answer: Answer) -> str:
    """The answer for a person, a line for each figure."""
    task, verdict, grown = answer.task, answer.verdict, answer.grown
    growing = f"growing {grown.seconds:.1f}" if grown.seconds else "tree kept from before"
    rows = {
        "query": " ".join(verdict.query.split()),
        "model": f"{task.model.label}, {task.truncation}",
        "text": json.dumps(task.start, ensure_ascii=False),
        "value": _figure(verdict.value),
        "whole model": _interval(verdict),
        "states": f"{verdict.states:,}",
        "transitions": f"{verdict.transitions:,}",
        "seconds": f"{growing}, scoring {answer.scoring_seconds:.1f}, "
        f"checking {verdict.check_seconds:.1f}",
        "tree": str(grown.path),
    }
    lines = [f"{name:<13}{value}" for name, value in rows.items()]
    return "\n".join(lines + _evidence(verdict.witnesses))


def _evidence(witnesses: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines with the texts that decide the query; all of them are of one kind."""
    if not witnesses:
        return []
    what = {
        evidence.WITNESS: "Texts that satisfy it, most probable first:",
        evidence.COUNTEREXAMPLE: "Texts that violate it, most probable first:",
    }
    lines = ["", what[witnesses[0]["kind"]]]
    for witness in witnesses:
        text = json.dumps(witness["text"], ensure_ascii=False)
        goes_on = " and a token that was not selected" if witness["rest"] else ""
        lines.append(f"  {witness['probability']:<12.6g}{text}{goes_on}")
    return lines


def _figure(value: float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}"


def _interval(verdict: "Verdict") -> str:
    """Bounds for the whole model; of P>=p, whether it holds there."""
    lower, upper = verdict.lower, verdict.upper
    if isinstance(lower, bool):
        return _figure(lower) if lower == upper else "unknown"
    low, high = (
        unbounded if bound is None else _figure(bound)
        for bound, unbounded in ((lower, "-infinity"), (upper, "infinity"))
    )
    return f"[{low}, {high}]"
