"""The page on the evaluation, built from the tables that `make evaluation` writes.

    .venv/bin/python docs/evaluation_page.py results/evaluation/whole

keeps the tables and figures of a run in resources/measured/evaluation and docs/images, and writes
the page. Every number of the page is one of the tables, or computed from them here.
"""

import csv
import json
import math
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "resources/measured/evaluation"
IMAGES = ROOT / "docs/images"
PAGE = ROOT / "docs/explanation/evaluation.md"
QUESTIONS = ("reach", "worth", "coverage", "growth", "closest")

INTRODUCTION = """\
# Evaluation

This page answers five questions with measurements: how far certain bounds and intervals reach, whether they are worth
their cost next to statistical model checking, whether the intervals hold, how cost grows, and how the certain bounds
compare with those of the closest verifier. `make evaluation` measures all of it in about four hours on two cores,
`make evaluation-quick` a smaller form in half an hour; `config/evaluation.yaml` has the sizes. Each part of a table is
a job whose result is kept in `results/evaluation/`.
"""
REACH = """\
## How far do they reach?

The width of the certain bounds, of the interval with confidence 0.99 and, in the last place, of the interval of Clopper
and Pearson on plain samples, all after {passes} passes. A *pass* is one text that the model evaluates; samples that
share a beginning share its passes, and a sample ends where its truth is known. The start string is "The player won
because". 1 is no information, 0 an exact answer.

![Width of certain bounds, intervals and plain samples by horizon](../images/evaluation_reach.png)

"""
WORTH = """\
## Is it worth it?

The same independent samples are bounded by the methods of statistical model checking: Clopper and Pearson's exact
interval and the bound of Okamoto, as in PRISM and Modest, hold for a number of samples that is fixed in advance. The
betting interval of Waudby-Smith and Ramdas holds at every stop, as that of LLMChecker does. In equal seconds, the
samples are drawn by `generate` of transformers in batches, and their judgement is free; [Speed](speed.md) has such
comparisons over 30 seconds. A ratio below 1 means that LLMChecker's interval is narrower than Clopper and Pearson's.

![Width of the interval over that of each method](../images/evaluation_worth.png)

"""
DECISIONS = """\
### Thresholds

Passes until a threshold at a distance from the estimate is decided with confidence 0.99. Wald's sequential test knows
this distance as its indifference region; the other methods do not.

"""
SAMPLING = """\
### Where sampling is as good or better

"""
COVERAGE = """\
## Do the intervals hold?

Random tables of texts, whose probabilities are enumerated in fractions. A run misses if its interval excludes the truth
after any round. Clopper and Pearson's interval holds at one stop; looked at after every sample it misses more often
than it claims. `chance` is the probability of at least so many misses if each run misses with 1 - confidence; a small
one shows that an interval does not hold. `certain misses` counts runs whose certain bounds exclude the truth.

The claims of `rows` are [those about the rows of a table](../how-to/claims.md), of which half are exact and half have a
few answers each, after every second row, round or day; averages have the truth as their threshold, where bets are largest.
Of `efforts`, rows that are neither 0 nor 1 get a part of 128 answers, and those of a list are read again.
Of `labels and judge`, 40 texts have a judge who is mostly right, guesses, is mostly wrong or gets worse from text to text,
and up to 24 labels, four between two stops. Certain bounds of `bits` and `rows` are not compared.

![Share of runs that miss the truth over the nominal share](../images/evaluation_coverage.png)

"""
GROWTH = """\
## How does cost grow?

Processor seconds of all threads: from the files of a generated tree to the answer, for 1,000 passes of a network that
costs nothing, and for `llmchecker test` on a suite of different prompts, start of the program included. The exponent is
that of the larger half of the sizes; 1 is linear.

![Processor seconds by states, vocabulary, cases and horizon](../images/evaluation_growth.png)

"""
CLOSEST = """\
## How does it compare with the closest verifier?

BEAVER ([arXiv:2512.05439](https://arxiv.org/abs/2512.05439)) bounds the probability that a text keeps a prefix-closed
constraint, by a best-first search in the trie of texts. It is written again literally, from the paper. Both get the same
passes of the same model at temperature 1 and {horizon} tokens. BEAVER visits one text at a time, the most probable one;
LLMChecker visits batches of texts of one length, which a model evaluates faster, and also answers queries that are not
prefix-closed. Of {rows} rows, LLMChecker's bounds are narrower by more than 1 % in {own}, those of BEAVER in {other}.

![Width of the certain bounds of LLMChecker and of BEAVER](../images/evaluation_closest.png)

"""
METHODS = ("LLMChecker", "Clopper-Pearson", "Okamoto", "betting")
DECIDERS = ("LLMChecker", "Wald", "betting")
LEAST_WIDTH = 1e-9
MAX_CHARACTERS = 120

Row = Mapping[str, str]


def build_evaluation_page(tables: Mapping[str, Sequence[Row]], run: Mapping[str, str]) -> str:
    """Build the page.

    Args:
        tables: the rows of each table by the name of its question; an absent one has no section.
        run: size, commit, processor, cores and date of the run; another size than `quick` or `whole`
            is a description.
    """
    if not tables:
        return f"{INTRODUCTION}\nThe repository has no record.\n"
    parts = [INTRODUCTION, _describe_run(run)]
    parts += [
        BUILDERS[question](tables[question]) for question in QUESTIONS if tables.get(question)
    ]
    return "\n".join(parts)


def _describe_run(run: Mapping[str, str]) -> str:
    size = {"quick": "the quick form", "whole": "the whole form"}.get(run["size"], run["size"])
    return _wrap(
        f"Measured: {size}, {run['date'][:10]}, at commit {run['commit'][:12]}, on {run['cores']} "
        f"cores of {run['processor']}."
    )


def _build_reach(rows: Sequence[Row]) -> str:
    passes = max(int(row["passes"]) for row in rows)
    last = [row for row in rows if int(row["passes"]) == passes]
    lengths = sorted({int(row["horizon"]) for row in last})
    cells: dict[tuple[str, str, str], dict[int, str]] = {}
    for row in last:
        key = row["model"], row["decoding"], row["query"]
        widths = (_format(row[name]) for name in ("certain", "interval", "plain"))
        cells.setdefault(key, {})[int(row["horizon"])] = " / ".join(widths)
    table = format_table(
        ("model", "decoding", "query", *(f"L = {length}" for length in lengths)),
        [[*key, *(each.get(length, "") for length in lengths)] for key, each in cells.items()],
    )
    exact = sum(float(row["certain"]) <= LEAST_WIDTH for row in last)
    as_good = [row for row in last if float(row["plain"]) <= float(row["interval"])]
    sentences = (
        f"Of {len(last)} questions, {exact} have an exact answer for certain. Plain samples are as "
        f"narrow as the interval, or narrower, in {len(as_good)}"
    )
    text = _wrap(sentences + _list_rows(as_good))
    return f"{REACH.format(passes=f'{passes:,}')}{table}\n{text}"


def _list_rows(rows: Sequence[Row]) -> str:
    names = [f"{row['decoding']}, {row['query']}, {row['horizon']} tokens" for row in rows]
    return f": {'; '.join(names)}." if names else "."


def _wrap(text: str) -> str:
    return textwrap.fill(text, MAX_CHARACTERS, break_on_hyphens=False) + "\n"


def _build_worth(rows: Sequence[Row]) -> str:
    keys = ("model", "decoding", "query", "horizon", "budget")
    intervals: dict[tuple[str, ...], dict[str, Row]] = {}
    decisions: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        if row["budget"] == "decision":
            key = (*(row[name] for name in keys[:4]), row["amount"])
            decisions.setdefault(key, {})[row["method"]] = row
        else:
            intervals.setdefault(tuple(row[name] for name in keys), {})[row["method"]] = row
    lines, as_good = [], []
    for key, methods in intervals.items():
        widths = [float(methods[name]["width"]) for name in METHODS]
        ratio = widths[0] / widths[1] if widths[1] else math.nan
        if ratio >= 1:
            as_good.append(f"{key[1]}, {key[2]}, {key[3]} tokens, equal {key[4]}: {ratio:.2f}")
        samples = f"{float(methods['Clopper-Pearson']['samples']):,.0f}"
        lines.append([*key[1:], samples, *map(_format, widths), f"{ratio:.2f}"])
    columns = ("decoding", "query", "tokens", "equal", "samples", *METHODS, "ratio")
    text = WORTH + format_table(columns, lines) + "\n"
    if decisions:
        faster = sum(
            float(methods["Wald"]["passes"]) < float(methods["LLMChecker"]["passes"])
            for methods in decisions.values()
        )
        text += DECISIONS + _format_decisions(decisions)
        text += f"\nWald's test needs fewer passes in {faster} of {len(decisions)} rows.\n\n"
    if not any(row["budget"] == "seconds" for row in rows):
        text += "This run has no comparison in equal seconds.\n\n"
    found = "\n".join(f"- {line}" for line in as_good)
    none = "In no row of this run is Clopper and Pearson's interval narrower."
    first = "Clopper and Pearson's interval is as narrow or narrower, by the ratio of widths:\n\n"
    return text + SAMPLING + (first + found if as_good else none) + "\n"


def _format_decisions(decisions: Mapping[tuple[str, ...], Mapping[str, Row]]) -> str:
    lines = [
        [
            *key[1:],
            *(
                f"{methods[name]['verdict']} after {float(methods[name]['passes']):,.0f}"
                for name in DECIDERS
            ),
        ]
        for key, methods in decisions.items()
    ]
    return format_table(("decoding", "query", "tokens", "threshold", *DECIDERS), lines)


def _build_coverage(rows: Sequence[Row]) -> str:
    sums: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        key = row["access"], row["method"], row["confidence"]
        total = sums.setdefault(key, [0, 0, 0])
        for index, name in enumerate(("runs", "misses", "certain_misses")):
            total[index] += int(row[name])
    lines = [
        [
            *key,
            f"{runs:,}",
            f"{misses:,}",
            f"{misses / runs:.4f}",
            f"{find_tail(misses, runs, 1 - float(key[2])):.2g}",
            str(certain),
        ]
        for key, (runs, misses, certain) in sums.items()
    ]
    columns = (
        "access",
        "interval",
        "confidence",
        "runs",
        "misses",
        "share",
        "chance",
        "certain misses",
    )
    return COVERAGE + format_table(columns, lines)


def find_tail(misses: int, runs: int, share: float) -> float:
    """Return the probability of at least so many misses, if each run has this share."""

    def weigh(count: int) -> float:
        ways = math.lgamma(runs + 1) - math.lgamma(count + 1) - math.lgamma(runs - count + 1)
        return math.exp(ways + count * math.log(share) + (runs - count) * math.log1p(-share))

    return min(1.0, math.fsum(weigh(count) for count in range(misses, runs + 1)))


def _build_growth(rows: Sequence[Row]) -> str:
    axes: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        axes.setdefault(row["axis"], []).append((float(row["size"]), float(row["seconds"])))
    lines = [
        [
            axis,
            "; ".join(f"{size:,.0f}: {_format(seconds)}" for size, seconds in points),
            f"{find_slope(points):z.2f}",
        ]
        for axis, points in axes.items()
    ]
    return GROWTH + format_table(("what grows", "size: seconds", "exponent"), lines)


def find_slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the exponent of the larger half of the sizes, by least squares of logarithms."""
    half = [(math.log(size), math.log(seconds)) for size, seconds in points[len(points) // 2 :]]
    mean_x, mean_y = (sum(values) / len(half) for values in zip(*half, strict=True))
    above = sum((x - mean_x) * (y - mean_y) for x, y in half)
    return above / sum((x - mean_x) ** 2 for x, _ in half)


def _build_closest(rows: Sequence[Row]) -> str:
    def format_bounds(row: Row, prefix: str) -> str:
        # outwards, so that the printed bounds are certain too
        low = math.floor(float(row[f"{prefix}lower"]) * 10**4) / 10**4
        high = math.ceil(float(row[f"{prefix}upper"]) * 10**4) / 10**4
        return f"{low:.4f} to {high:.4f}"

    lines = [
        [
            *(row[name] for name in ("model", "constraint", "passes")),
            format_bounds(row, ""),
            format_bounds(row, "beaver_"),
            f"{float(row['width']) / float(row['beaver_width']):.3f}"
            if float(row["beaver_width"])
            else "",
        ]
        for row in rows
    ]
    columns = ("model", "constraint", "passes", "LLMChecker", "BEAVER", "ratio of widths")
    pairs = [(float(row["width"]), float(row["beaver_width"])) for row in rows]
    counts = {
        "rows": len(rows),
        "own": sum(own < 0.99 * other for own, other in pairs),
        "other": sum(other < 0.99 * own for own, other in pairs),
    }
    return CLOSEST.format(horizon=rows[0]["horizon"], **counts) + format_table(columns, lines)


BUILDERS: dict[str, Callable[[Sequence[Row]], str]] = {
    "reach": _build_reach,
    "worth": _build_worth,
    "coverage": _build_coverage,
    "growth": _build_growth,
    "closest": _build_closest,
}
"""The section of each question."""


def _format(number: str | float) -> str:
    value = float(number)
    return "0" if abs(value) <= LEAST_WIDTH else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table, with a line break at its end."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def read_records(folder: Path = RECORDS) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """Read the kept tables, and the record of their run; none without a record."""
    run = folder / "run.json"
    if not run.exists():
        return {}, {}
    tables = {}
    for question in QUESTIONS:
        file = folder / f"{question}.csv"
        if file.exists():
            with file.open(encoding="utf-8", newline="") as lines:
                tables[question] = list(csv.DictReader(lines))
    return tables, json.loads(run.read_text(encoding="utf-8"))


def keep_records(results: Path) -> None:
    """Keep the tables, the figures and the record of a run."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    shutil.copy(results / "run.json", RECORDS)
    for question in QUESTIONS:
        if (results / f"{question}.csv").exists():
            shutil.copy(results / f"{question}.csv", RECORDS)
            shutil.copy(results / f"{question}.png", IMAGES / f"evaluation_{question}.png")


if __name__ == "__main__":
    keep_records(Path(sys.argv[1]))
    PAGE.write_text(build_evaluation_page(*read_records()), encoding="utf-8")
