"""Measure the package on this machine's GPU or processor, without a model to download.

    python benchmarks/device.py --shape 8B --dtype bfloat16 --device cuda

A random network of a Llama shape grows a tree, answers queries and runs a suite, next to the
network alone and `generate` of transformers. Prints a table, and writes it to a JSON file.

The tokenizer is that of a directory, by default SmolLM2's of resources/models. Where it is absent,
one is made on the spot, from the gender words and made-up words.
"""

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
import transformers
import yaml
from plain_sampling import FORMULAS
from random_llama import SHAPES, START, build_network, make_tokenizer
from speed import (
    CONFIDENCE,
    DECODING,
    Subject,
    compare_equal_seconds,
    count_passes,
    find_fastest,
    get_width,
    join_texts,
    measure_check,
    measure_generate,
    measure_growing,
    measure_matrix_rate,
    measure_network,
    warm_up,
)
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

import llmchecker as lc
from llmchecker.suites.verdicts import Status

TOKENIZER = "resources/models/smollm2-135m"
MADE = "made"
"""The name of a tokenizer that is made on the spot."""
QUERY = FORMULAS["player"].query
REQUIREMENT = "P<=0.5 [ F gender > 0 ]"
DECIDED = [str(Status.HOLDS), str(Status.VIOLATED)]
GIB = 1024**3

DEFINITIONS = {
    "parameters": "parameters of the network",
    "tokens": "tokens of its vocabulary",
    "weights_gb": "memory of its weights",
    "matrix.tflops": "10^12 operations a second in products with the weights of all linear layers, "
    "in the dtype of the network, with the fastest number of rows",
    "network.{rows}.texts_per_second": "texts for which the network alone computes the next token, "
    "one token after four, in batches of so many rows",
    "network.texts_per_second": "the same in the fastest batches",
    "network.share_of_matrix_rate": "operations of the linear layers for these texts, as a "
    "share of the rate of the products",
    "generate.{rows}.tokens_per_second": "tokens that `generate` samples, 40 to a text, in batches "
    "of so many rows",
    "generate.tokens_per_second": "the same in the fastest batches",
    "grow.texts": "texts that a tree with alpha 1 and k 9 has before its horizon",
    "grow.texts_per_second": "texts a second while the tree grows",
    "grow.share_of_network": "the same over the network alone in its fastest batches",
    "grow.share_of_matrix_rate": "as for the network alone",
    "check.first_seconds": "seconds of a first check with few passes; it includes imports, and "
    "what depends on the vocabulary alone",
    "check.{kind}.passes": f"passes of a check of `{QUERY}` within a limit of seconds; `L5` and "
    "`L40` are the horizon, `cut` has a decoding with temperature 0.7 and top-p 0.9",
    "check.{kind}.passes_per_second": "the same a second, over the whole call",
    "check.{kind}.share_of_generate": "passes a second over tokens a second of `generate` in its "
    "fastest batches",
    "check.{kind}.share_of_network": "passes a second over texts a second of the network alone",
    "check.{kind}.width": "width of the interval",
    "prompt.tokens": "tokens of a long start string",
    "prompt.passes_per_second": "passes a second of a check with 40 tokens after it",
    "prompt.share_of_short": "the same over that after the short start string",
    "widths.{kind}.width_ratio": "width of the interval of a check over that of Clopper and "
    "Pearson on plain samples of `generate` in its fastest batches, equal seconds, confidence 0.99",
    "widths.{kind}.check_width": "width of the interval of the check",
    "widths.{kind}.plain_width": "width of the interval of the plain samples",
    "widths.{kind}.passes": "passes of the check",
    "widths.{kind}.samples": "number of plain samples that fit into the seconds of the check",
    "widths.{kind}.check_seconds": "seconds of the check",
    "widths.{kind}.plain_seconds": "seconds of `generate`, which ends with a whole batch",
    "widths.{kind}.overlap": "1 if both intervals overlap, 0 if not",
    "load.seconds": "seconds in which the package loads the network from a directory",
    "load.share_of_transformers": "the same over those of transformers alone",
    "suite.cases": f"cases of a suite, each with `{REQUIREMENT}` within 40 tokens, temperature 0.7 "
    "and top-p 0.9",
    "suite.decided": "cases that hold or are violated within their limit of seconds",
    "suite.seconds": "seconds of the whole suite, loading included",
    "suite.passes_per_second": "passes of all cases over these seconds",
    "{part}.peak_gb": "largest memory of the part: of the device's tensors on a GPU, of the "
    "process on a processor",
}
"""What each figure is."""


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        seconds: seconds of each comparison in equal seconds. A check whose passes are counted takes
            a third, a case of the suite at most a thirtieth.
        rows: batch sizes of the network alone and of `generate`.
        matrix_rows: numbers of rows of the products of matrices.
        grown_length: horizon of the tree.
        lengths: horizons of checks, rising.
        prompt_tokens: number of tokens of the long start string.
        cases: number of cases of the suite.
    """

    seconds: float
    rows: tuple[int, ...]
    matrix_rows: tuple[int, ...]
    grown_length: int = 5
    lengths: tuple[int, ...] = (5, 40)
    prompt_tokens: int = 1000
    cases: int = 100


GPU = Effort(30, (16, 64, 256, 1024, 2048), (1024, 4096))
PROCESSOR = Effort(6, (16, 64, 256), (128, 512))
QUICK = Effort(0.3, (1, 16), (16,), 2, (2, 3), 30, 3)


@dataclass
class Measurement:
    """The figures of one network on one device, printed as they are found."""

    subject: Subject
    dtype: str
    device: str
    effort: Effort
    figures: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """Add a figure, and print its row of the table."""
        self.figures[name] = float(value)
        print(f"{name:<40} {format_figure(value):>12}", flush=True)

    def add_share(self, name: str, value: float, whole: str, factor: float = 1) -> None:
        """Add a value as a share of a figure, if that was measured."""
        if whole in self.figures:
            self.add(name, value / (self.figures[whole] * factor))

    @cached_property
    def fastest_rows(self) -> int:
        """The batch size with which `generate` is fastest."""
        rates = measure_generate(self.subject, START, self.effort.rows, self.effort.lengths[-1])
        rows = find_fastest(rates)
        for number, rate in rates.items():
            self.add(f"generate.{number}.tokens_per_second", rate)
        self.add("generate.tokens_per_second", rates[rows])
        return rows


def measure_network_alone(found: Measurement) -> None:
    """Measure products of matrices, and the network without the package."""
    subject, effort = found.subject, found.effort
    seconds = effort.seconds / 30
    matrix_rate = measure_matrix_rate(subject, effort.matrix_rows, seconds)
    found.add("matrix.tflops", matrix_rate / 1e12)
    rates = measure_network(subject, effort.rows, seconds)
    for rows, rate in rates.items():
        found.add(f"network.{rows}.texts_per_second", rate)
    best = max(rates.values())
    found.add("network.texts_per_second", best)
    found.add("network.share_of_matrix_rate", best * subject.operations / matrix_rate)


def measure_samples(found: Measurement) -> None:
    """Measure `generate` of transformers."""
    _ = found.fastest_rows


def measure_tree(found: Measurement) -> None:
    """Measure the growth of a tree."""
    # a first tree allocates
    measure_growing(found.subject, START, 1, 9, 2)
    rate, texts = measure_growing(found.subject, START, 1, 9, found.effort.grown_length)
    found.add("grow.texts", texts)
    found.add("grow.texts_per_second", rate)
    found.add_share("grow.share_of_network", rate, "network.texts_per_second")
    operations = rate * found.subject.operations
    found.add_share("grow.share_of_matrix_rate", operations, "matrix.tflops", 1e12)


def measure_checks(found: Measurement) -> None:
    """Measure checks at each horizon, with and without a truncating decoding."""
    _ = found.fastest_rows
    subject, effort = found.subject, found.effort
    deployed = lc.load(subject.network, subject.tokenizer, decoding=DECODING)
    found.add("check.first_seconds", warm_up(subject.model, QUERY, START, effort.lengths[0]))
    for suffix, model in (("", subject.model), (".cut", deployed)):
        for length in effort.lengths:
            rate, answer = measure_check(
                model, QUERY, START, length=length, seconds=effort.seconds / 3
            )
            name = f"check.L{length}{suffix}"
            found.add(f"{name}.passes", count_passes(answer))
            found.add(f"{name}.passes_per_second", rate)
            found.add_share(f"{name}.share_of_generate", rate, "generate.tokens_per_second")
            found.add_share(f"{name}.share_of_network", rate, "network.texts_per_second")
            found.add(f"{name}.width", get_width(answer))


def measure_long_prompt(found: Measurement) -> None:
    """Measure a check after a long start string."""
    model, effort = found.subject.model, found.effort
    start = join_texts(START.split(), model, effort.prompt_tokens)
    length = effort.lengths[-1]
    warm_up(model, QUERY, start, length)
    rate, _ = measure_check(model, QUERY, start, length=length, seconds=effort.seconds / 3)
    found.add("prompt.tokens", len(model.encode(start)))
    found.add("prompt.passes_per_second", rate)
    found.add_share("prompt.share_of_short", rate, f"check.L{length}.passes_per_second")


def measure_widths(found: Measurement) -> None:
    """Compare intervals of checks and of plain samples in equal seconds."""
    rows = found.fastest_rows
    for length in found.effort.lengths:
        warm_up(found.subject.model, QUERY, START, length)
        widths = compare_equal_seconds(found.subject, START, length, found.effort.seconds, rows)
        for name, value in widths.figures().items():
            found.add(f"widths.L{length}.{name}", value)


def measure_suite(found: Measurement) -> None:
    """Save the network, load it, and run a suite on it, as from the shell."""
    subject, effort = found.subject, found.effort
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        directory = folder / "model"
        subject.network.save_pretrained(directory)
        subject.tokenizer.save_pretrained(directory)
        began = time.perf_counter()
        dtype = getattr(torch, found.dtype)
        AutoModelForCausalLM.from_pretrained(directory, dtype=dtype).to(found.device)
        alone = time.perf_counter() - began
        began = time.perf_counter()
        lc.load(directory, dtype=found.dtype, device=found.device)
        seconds = time.perf_counter() - began
        found.add("load.seconds", seconds)
        found.add("load.share_of_transformers", seconds / alone)
        suite = lc.suite(write_suite(folder, found.dtype, found.device, effort))
        began = time.perf_counter()
        report = suite.run()
        seconds = time.perf_counter() - began
    cases = report.frame()
    found.add("suite.cases", len(cases))
    found.add("suite.decided", cases["status"].isin(DECIDED).sum())
    found.add("suite.seconds", seconds)
    found.add("suite.passes_per_second", cases["passes"].sum() / seconds)


def write_suite(folder: Path, dtype: str, device: str, effort: Effort) -> Path:
    """Write a suite about the model in a folder, and its configuration."""
    model = {"label": "Random", "source": "path:model", "dtype": dtype, "device": device}
    (folder / "config.yaml").write_text(
        yaml.safe_dump({"models": {"random": model}}), encoding="utf-8"
    )
    cases = [
        {"name": f"case {number}", "start": f"{START} {number}", "require": [REQUIREMENT]}
        for number in range(effort.cases)
    ]
    suite = {
        "model": "random",
        "config": "config.yaml",
        "decoding": DECODING,
        "length": effort.lengths[-1],
        "confidence": CONFIDENCE,
        "budget": {"seconds": effort.seconds / 30},
        "properties": {"gender": {"type": "gender"}},
        "cases": cases,
    }
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(suite, sort_keys=False), encoding="utf-8")
    return path


PARTS: dict[str, Callable[[Measurement], None]] = {
    "network": measure_network_alone,
    "generate": measure_samples,
    "grow": measure_tree,
    "check": measure_checks,
    "prompt": measure_long_prompt,
    "widths": measure_widths,
    "suite": measure_suite,
}
"""The parts of a run, in their order."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table and write the file."""
    options = parse_arguments(arguments)
    transformers.utils.logging.disable_progress_bar()
    effort = QUICK if options.quick else GPU if options.device.startswith("cuda") else PROCESSOR
    if options.seconds is not None:
        effort = replace(effort, seconds=options.seconds)
    shape = SHAPES[options.shape]
    tokenizer = open_tokenizer(options.tokenizer, shape.vocabulary)
    network = build_network(shape, tokenizer, options.dtype, options.device)
    found = Measurement(Subject.of(network, tokenizer), options.dtype, options.device, effort)
    machine = {
        "device": name_device(options.device),
        "cores": len(os.sched_getaffinity(0)),
        "shape": options.shape,
        "dtype": options.dtype,
        "seconds": effort.seconds,
        "tokenizer": options.tokenizer,
        "llmchecker": lc.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    for key, value in machine.items():
        print(f"{key:<40} {value}")
    found.add("parameters", network.num_parameters())
    found.add("tokens", len(tokenizer))
    found.add("weights_gb", network.get_memory_footprint() / GIB)
    for part in options.only or PARTS:
        reset_peak(options.device)
        PARTS[part](found)
        found.add(f"{part}.peak_gb", read_peak(options.device) / GIB)
        # what a run that is cut off has found is kept
        content = json.dumps({**machine, "figures": found.figures}, indent=2)
        options.output.write_text(content + "\n", encoding="utf-8")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    definitions = "\n".join(f"  {name}: {sentence}" for name, sentence in DEFINITIONS.items())
    parser = argparse.ArgumentParser(
        prog="device.py",
        description=__doc__,
        epilog=f"figures:\n{definitions}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    has_gpu = torch.cuda.is_available()
    parser.add_argument("--shape", choices=SHAPES, default="8B" if has_gpu else "tiny")
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        default="bfloat16" if has_gpu else "float32",
    )
    parser.add_argument("--device", default="cuda" if has_gpu else "cpu", help="a torch device")
    parser.add_argument(
        "--seconds", type=float, help="of a comparison: 30 on a GPU, 6 on a processor"
    )
    parser.add_argument(
        "--tokenizer",
        default=TOKENIZER if Path(TOKENIZER).is_dir() else MADE,
        help=f"a directory, or `{MADE}`",
    )
    parser.add_argument("--output", type=Path, default=Path("device.json"))
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be repeated")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, which show nothing")
    return parser.parse_args(arguments)


def open_tokenizer(name: str, vocabulary: int) -> PreTrainedTokenizerBase:
    """Read the tokenizer of a directory, or make one with a number of tokens."""
    return make_tokenizer(vocabulary) if name == MADE else AutoTokenizer.from_pretrained(name)


def name_device(device: str) -> str:
    """Return the name of a GPU or of the processor."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    with suppress(OSError):
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        if found:
            return found[1]
    return platform.processor() or platform.machine()


def reset_peak(device: str) -> None:
    """Forget the largest memory so far."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
    else:
        # Linux then counts anew; elsewhere the peak remains that of the whole run
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def read_peak(device: str) -> int:
    """Return the largest memory in bytes since `reset_peak`."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        if found := re.search(r"VmHWM:\s+(\d+) kB", status):
            return int(found[1]) * 1024
    return 0


def format_figure(value: float) -> str:
    """Format a figure with four digits, a large one without a fraction."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


if __name__ == "__main__":
    main(sys.argv[1:])
