"""Write the pages with measurements from the records of benchmarks:

    .venv/bin/python docs/measured_pages.py

The records are in resources/measured/: `benchmarks/verifying.py` writes programs.csv,
`benchmarks/ablation.py` writes ablation.csv, `benchmarks/fuzzing.py` writes fuzzing.csv,
`benchmarks/requirements.py` writes requirements.csv, benchmarks.json is a copy of the file that
`make bench` writes. `make claims` writes claims.csv, and `make evaluation` the folder evaluation. Without a record, its table is absent.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evaluation_page import PAGE as EVALUATION_PAGE
from evaluation_page import build_evaluation_page, format_table, read_records

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS_RECORD = ROOT / "resources/measured/programs.csv"
ABLATION_RECORD = ROOT / "resources/measured/ablation.csv"
FUZZING_RECORD = ROOT / "resources/measured/fuzzing.csv"
PUBLISHED = ROOT / "resources/published/invariants.csv"
SPEED_RECORD = ROOT / "resources/measured/benchmarks.json"
PROGRAMS_PAGE = ROOT / "docs/programs_measured.md"
SPEED_PAGE = ROOT / "docs/explanation/speed.md"
REQUIREMENTS_RECORD = ROOT / "resources/measured/requirements.csv"
REQUIREMENTS_PAGE = ROOT / "docs/reference/requirements.md"
CLAIMS_RECORD = ROOT / "resources/measured/claims.csv"
PAPER_PAGE = ROOT / "docs/explanation/paper.md"
VERDICTS = ("contradicts", "not run", "agrees")
"""Verdicts on claims; that of several rows is the first of theirs."""

PROGRAMS_INTRODUCTION = """\
# Results on C programs

    .venv/bin/python benchmarks/verifying.py "own programs" resources/programs --semantics int32
    .venv/bin/python docs/measured_pages.py

The first command verifies the C files of a directory without a language model and records the
counts, the second writes this page. `--seconds` is the time limit of a program.
"""
ABLATION_INTRODUCTION = """\
## What each part decides

    .venv/bin/python benchmarks/ablation.py "own programs" resources/programs \\
        resources/programs/more --semantics int32 --seconds 4 --reruns 8
    .venv/bin/python docs/measured_pages.py

`verdicts` is the number of programs in whose verdict the part took part, `lost` the number of those
that have no verdict if the part is switched off. An empty cell is not measured. Parts without a
verdict in these programs are absent.
"""
FUZZING_INTRODUCTION = """\
## Random programs

    .venv/bin/python benchmarks/fuzzing.py --programs 500
    .venv/bin/python docs/measured_pages.py

The search of all runs next to gcc with the address and undefined behaviour sanitizers. A program
asserts of a random computation that its result is among those of gcc's runs on all inputs; in every
second program one of them is left out. `undecided` are mostly expressions that depend on an
order that C leaves open. A verdict that differs from gcc's runs is a disagreement: gcc reports no
index that leaves a row of an array through a pointer, and no read of a value that nothing uses.
"""
PUBLISHED_INTRODUCTION = """\
## Published figures

Of the 133 programs of Code2Inv, by Pirzada and others (ASE 2024), with their own semantics and
machines. The same programs here:

    .venv/bin/snakemake --cores 1 resources/datasets/programs --configfile config/code2inv.yaml
    .venv/bin/python benchmarks/verifying.py Code2Inv resources/datasets/programs \\
        --semantics integers
"""
REQUIREMENTS_INTRODUCTION = """\
# Required packages

    .venv/bin/python benchmarks/requirements.py
    .venv/bin/python docs/measured_pages.py

The first command measures the packages that pip installs with LLMChecker and its [extras](../how-to/install.md#extras),
the second writes this page. A package without an extra is always installed. `used by` has the folders that import the
package, or the packages that do. `megabytes` are those of its own files, without those of what it requires. `seconds`
are those of the processor for `import`, with all that the package imports itself. An answer imports only what it needs.

"""
SPEED_INTRODUCTION = """\
# Speed

This page shows where the time of an answer goes, and what a pass of the model buys. A *pass* is one
text that the model evaluates. Most of the time of an answer should be that of passes, and an
interval should be narrower than that of as many plain samples.

![Width of intervals against forward passes](../images/width.png)

The figures below are ratios, which depend less on the machine than seconds do. A width ratio below
1 means a narrower interval with the same passes.

"""
SPEED_CLOSING = """
## Measure it yourself

```sh
make bench
```

measures growth, scoring, refinement, sampling, checking and the workflow. `results/benchmarks/` then
has `benchmarks.json` and `benchmarks.md` with every figure, `cost.{svg,png}` (seconds against
states), and `width.{svg,png,csv}`. `--only` and `--model` measure a part, with the models of
`resources/models/`:

```sh
.venv/bin/python benchmarks/bench.py --only host --only equal-seconds --model smollm2-135m
```

| part | what is measured |
| --- | --- |
| `workflow` | a whole run of the workflow, its forward passes and its quantifiers |
| `host` | checks on a network that costs nothing: the passes a second of the program itself |
| `growth` | trees next to a literal Algorithm 1 and the rate of matrix products; checks next to trees and `generate` |
| `equal-seconds` | widths of intervals next to plain samples that `generate` draws in equal seconds |
| `equal-passes` | the same for equal forward passes, and certain bounds |
| `rows` | rows of 5,000 that an average needs, next to all of them and to one answer a row |
| `checks` | chains of up to 10^7 states |

A machine with a GPU, or without any model, is measured by:

```sh
python benchmarks/device.py --shape 8B --dtype bfloat16 --device cuda
```

It builds a random network of the shape of Llama 3 8B (or `135M`, `tiny`, `host`) and prints a table of the network
alone, growth, checks at 5 and 40 tokens, a long prompt, `generate`, widths in equal seconds, and a suite of 100
cases; `device.json` has the same with the name of the device. `--help` defines each figure. The tokenizer is that
of `resources/models/smollm2-135m`, or one that is made on the spot.

These commands write this page from the results:

```sh
cp results/benchmarks/benchmarks.json resources/measured/
cp results/benchmarks/width.png docs/images/
.venv/bin/python docs/measured_pages.py
```
"""
SPEED_FIGURES = {
    "expansion.{model}.speedup_over_reference": "nodes a second over the literal Algorithm 1",
    "expansion.{model}.share_of_peak": "share of the machine's rate of matrix products",
    "refine.player.{model}.width_ratio_to_paper": "width of certain bounds over that of the "
    "paper's tree, equal passes",
    "estimate.player.{model}.width_ratio_to_sampling": "interval width over plain sampling, "
    "`P=? [ F gender > 0 ]`",
    "estimate.prefix.{model}.width_ratio_to_sampling": "the same, `P=? [ G gender = 0 ]`",
    "estimate.rare.{model}.width_ratio_to_sampling": "the same, `P=? [ F gender > 1 ]`",
    "estimate.ltl.{model}.width_ratio_to_sampling": "the same, `P=? [ F G gender > 0 ]`",
    "seconds.{model}.L5.width_ratio": "interval width over plain samples in equal seconds, "
    "`P=? [ F gender > 0 ]`, 5 tokens",
    "seconds.{model}.L40.width_ratio": "the same, 40 tokens",
    "estimate.{model}.passes_share_of_growing": "passes a second over growing a whole tree",
    "estimate.{model}.passes_share_of_generate": "the same over `generate`, 60 tokens",
    "host.words.L5.passes_per_second": "passes a second without the network, 5 tokens",
    "host.words.L40.passes_per_second": "the same, 40 tokens",
    "rows.needed.rows": "rows of 5,000 read until an average of 0.70 is decided to be at least 0.65",
    "rows.needed.passes": "passes for them, where each row is exact after one",
    "rows.long.passes": "passes for 200 rows with texts of 12 tokens, a budget of 500 passes each, until "
    "their average is decided to be at least 0.5",
    "check.exponent": "exponent of the time to check a chain, in its states",
    "bounds.cost_ratio": "time of the bounds over building and checking the chain",
    "workflow.overhead_share": "share of `make results` outside of jobs' work",
}
"""Meaning of each figure of the page, by its name in benchmarks.json."""

Row = Mapping[str, str]


def build_programs_page(
    measured: Sequence[Row],
    ablation: Sequence[Row],
    fuzzing: Sequence[Row],
    published: Iterable[Row],
) -> str:
    """Build the page on programs: recorded sets, what parts decide, fuzzing, published figures."""
    columns = ("set", "semantics", "seconds", "programs")
    columns += ("verified", "false", "unsupported", "unknown", "commit")
    rows = [[row[column] for column in columns] for row in measured]
    # The CSV file calls the authors' own method "this method".
    known = [[row["tool"].replace("this", "the authors'"), row["solved"]] for row in published]
    return (
        "\n".join(
            [
                PROGRAMS_INTRODUCTION,
                format_table(columns, rows),
                *_build_ablation(ablation),
                *_build_fuzzing(fuzzing),
                PUBLISHED_INTRODUCTION,
                format_table(("tool", "verified"), known),
            ]
        ).rstrip("\n")
        + "\n"
    )


def _build_ablation(rows: Sequence[Row]) -> list[str]:
    """Build the section on what each part decides; empty without a record."""
    columns = ("set", "semantics", "kind", "part", "verdicts", "lost", "names", "commit")
    cells = [[row[column] for column in columns] for row in rows if row["verdicts"] != "0"]
    return [ABLATION_INTRODUCTION, format_table(columns, cells)] if cells else []


def _build_fuzzing(rows: Sequence[Row]) -> list[str]:
    """Build the section on random programs; empty without a record."""
    columns = ("kind", "programs", "verified", "violated", "undecided", "disagreements", "commit")
    cells = [[row[column] for column in columns] for row in rows]
    return [FUZZING_INTRODUCTION, format_table(columns, cells)] if cells else []


def build_requirements_page(rows: Sequence[Row]) -> str:
    """Build the page on required packages, one row for each."""
    columns = ("package", "extra", "used by", "megabytes", "seconds")
    return REQUIREMENTS_INTRODUCTION + format_table(
        columns, [[row[column] for column in columns] for row in rows]
    )


def build_speed_page(figures: Mapping[str, float]) -> str:
    """Build the page on speed: the value of each figure for each model.

    Args:
        figures: the content of benchmarks.json; empty without a record.
    """
    names = (re.fullmatch(r"expansion\.(.+)\.share_of_peak", name) for name in figures)
    models = [name[1] for name in names if name]
    if not figures:
        return f"{SPEED_INTRODUCTION}The repository has no record.\n{SPEED_CLOSING}"
    # a record of some parts has no figures of the others
    rows = [
        [meaning, *values]
        for name, meaning in SPEED_FIGURES.items()
        if any(values := _format_values(name, models, figures))
    ]
    return SPEED_INTRODUCTION + format_table(("figure", *models), rows) + SPEED_CLOSING


def _format_values(name: str, models: Sequence[str], figures: Mapping[str, float]) -> list[str]:
    if "{model}" in name:
        values = [figures.get(name.format(model=model)) for model in models]
        return ["" if value is None else f"{value:.3g}" for value in values]
    # A figure that is not of a model has one value, in the first column.
    return [f"{figures[name]:.3g}", *[""] * (len(models) - 1)] if name in figures else []


def build_paper_page(page: str, claims: Sequence[Row]) -> str:
    """Build the page on the paper: its table of claims and their verdicts are those of a run."""
    start, end = "<!-- claims -->\n", "<!-- /claims -->"
    before, rest = page.split(start)
    for claim in dict.fromkeys(row["claim"] for row in claims):
        found = {row["verdict"] for row in claims if row["claim"] == claim}
        # one row that contradicts is enough
        verdict = next(each for each in VERDICTS if each in found)
        cell = rf"(?m)^(\| {claim} \|[^|]*\|[^|]*\| )(?:{'|'.join(VERDICTS)})"
        before = re.sub(cell, rf"\g<1>{verdict}", before)
    columns = ("claim", "statement", "model", "published", "here", "verdict")
    rows = [[row[column] for column in columns] for row in claims]
    return before + start + format_table(columns, rows) + end + rest.split(end)[1]


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a CSV file; an absent file has none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def read_figures(path: Path) -> Mapping[str, float]:
    """Read a copy of benchmarks.json; an absent file has no figures."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def build_pages() -> dict[Path, str]:
    """Build the pages from the records of this repository."""
    programs = build_programs_page(
        *map(read_rows, (PROGRAMS_RECORD, ABLATION_RECORD, FUZZING_RECORD, PUBLISHED))
    )
    return {
        PROGRAMS_PAGE: programs,
        REQUIREMENTS_PAGE: build_requirements_page(read_rows(REQUIREMENTS_RECORD)),
        SPEED_PAGE: build_speed_page(read_figures(SPEED_RECORD)),
        PAPER_PAGE: build_paper_page(
            PAPER_PAGE.read_text(encoding="utf-8"), read_rows(CLAIMS_RECORD)
        ),
        EVALUATION_PAGE: build_evaluation_page(*read_records()),
    }


if __name__ == "__main__":
    for page, text in build_pages().items():
        page.write_text(text, encoding="utf-8")
