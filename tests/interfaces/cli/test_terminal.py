"""Answers on a terminal: widths, colours, drawn intervals, and texts that stay inert."""

import io
import re
import sys

import pytest
import yaml

from llmchecker.checking.answer import Answer, Costs, Sampled
from llmchecker.checking.figures import Bar, Figure
from llmchecker.checking.formatting import build_figures, build_rows
from llmchecker.checking.witnesses import Witness
from llmchecker.interfaces.cli.display import show_rows
from llmchecker.interfaces.cli.main import main
from llmchecker.interfaces.cli.terminal import draw_bar, print_outcome
from llmchecker.properties.logic.parser import parse
from llmchecker.utils.atomic_files import atomic_write_with_checksum
from llmchecker.utils.interval import NUMBERS, PROBABILITIES, TRUTHS, Interval
from loop_invariants.cli import verify_command
from loop_invariants.ir.expressions import Semantics
from loop_invariants.verification.result import Outcome, VerificationResult

QUERY = "P=? [ F gender > 0 ]"
HOSTILE = "[red]he[/red] \x1b[31m\x9b31m \u202eeh"
WITNESSES = (Witness(1, f"Then{HOSTILE}", 0.5, "witness", rest=False, kept=4),)
CERTAIN = Interval(0.05, 0.9)
SAMPLED = Sampled(Interval(0.1, 0.5), 0.25, 0.99, 30)
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


class Terminal(io.StringIO):
    """A standard output that a person reads."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A function that gives standard output a width, and returns it."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def open_terminal(columns: int) -> Terminal:
        monkeypatch.setenv("COLUMNS", str(columns))
        output = Terminal()
        monkeypatch.setattr(sys, "stdout", output)
        return output

    return open_terminal


def answer(query: str = QUERY, certain: Interval = CERTAIN) -> Answer:
    return Answer(
        query=parse(query),
        horizon=1,
        certain=certain,
        sampled=SAMPLED,
        bounded=0.25,
        witnesses=WITNESSES,
        costs=Costs(states=1000, transitions=2000),
    )


def print_shown(shown: Answer) -> None:
    show_rows(build_rows(shown, build_figures(shown)))


def plain(text: str) -> str:
    """The text without the terminal's sequences of styles."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_an_answer_fits_the_width(terminal, columns):
    """No line is wider than the terminal; figures, their bars and the texts are complete."""
    output = terminal(columns)
    print_shown(answer())
    lines = plain(output.getvalue()).splitlines()
    assert max(map(len, lines)) <= columns
    assert sum("━" in line and line.rstrip().endswith(" 1") for line in lines) == 2
    words = " ".join(" ".join(lines).split())
    names = [words.index(name) for name in ("certain", "estimate", "probability (bounded)")]
    assert names == sorted(names)
    assert "with confidence 0.99, point estimate 0.25, from 30 samples" in words


def test_colours_are_for_terminals_only(terminal, monkeypatch, capsys):
    """A terminal gets colours, a terminal with NO_COLOR none, and a pipe no sequence at all."""
    print_shown(answer())
    assert "\x1b" not in capsys.readouterr().out
    output = terminal(80)
    print_shown(answer())
    assert COLOUR.search(output.getvalue())
    monkeypatch.setenv("NO_COLOR", "1")
    output = terminal(80)
    print_shown(answer())
    assert not COLOUR.search(output.getvalue())


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_text_of_a_model_stays_inert(terminal, capsys, is_terminal):
    """Markup of rich is printed as written, and control characters are escaped."""
    output = terminal(100) if is_terminal else None
    print_shown(answer())
    shown = plain(output.getvalue() if is_terminal else capsys.readouterr().out)
    assert "[red]he[/red]" in shown
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_names_of_cases_and_programs_stay_inert(terminal):
    """Names, figures and reasons of an outcome are printed as written, without control."""
    output = terminal(60)
    row = (Figure(HOSTILE, bar=Bar(PROBABILITIES)),)
    print_outcome(("HOLDS", "bold green"), HOSTILE, row=row, lines=[HOSTILE])
    shown = plain(output.getvalue())
    assert shown.count("[red]he[/red]") == 3
    assert all(c.isprintable() or c == "\n" for c in shown)


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("width", [1, 7, 40])
@pytest.mark.parametrize(
    ("low", "high", "least"),
    [(0, 1, 0), (0.05, 0.9, 0), (0.5, 0.5, 0), (1, 1, 0), (0, 0, 0), (-0.31, 0.13, -1)],
)
def test_a_bar_covers_its_interval(low, high, least, width, ascii_only):
    """A character is drawn heavy exactly if its cell has inner points of the interval."""
    drawn = draw_bar(Bar(Interval(low, high), Interval(least, 1)), width, ascii_only).plain
    assert drawn.isascii() == ascii_only
    cells = drawn.removeprefix(f"{least:g} ").removesuffix(" 1")
    assert len(cells) == width
    size = (1 - least) / width
    heavy = [cell in "=━" for cell in cells]
    inside = [least + i * size < high and least + (i + 1) * size > low for i in range(width)]
    # an interval without inner points has one character
    assert heavy == inside if low < high else sum(heavy) == 1


def name_bars(shown: Answer) -> list[str]:
    """The names of the rows with a bar."""
    rows = build_figures(shown)
    return [name for name, row in rows.items() if any(figure.bar for figure in row)]


def test_truths_and_scores_have_no_bar_of_bounds():
    """Bounds of a threshold are truths, and a score has no axis."""
    threshold = answer("P>=0.5 [ F gender > 0 ]", TRUTHS)
    assert name_bars(threshold) == ["estimate"]
    assert name_bars(answer('R{"gender"}=? [ I=3 ]', NUMBERS)) == []


def test_a_program_has_its_outcome(terminal, tmp_path):
    """The outcome, the name and the message of a program are on the terminal."""
    output = terminal(60)
    result = VerificationResult(Outcome.NOT_PROVEN, seconds=1.25, message="no invariant; none")
    verify_command._print_program(tmp_path / "loop.c", result, Semantics.INT32)
    expected = "not proven loop 1.2 s int32 no invariant; none"
    assert plain(output.getvalue()).split() == expected.split()


def test_a_list_has_titles_on_a_terminal(terminal, tmp_path, monkeypatch):
    """Models have the titles of their columns on a terminal; `--names` prints names only."""
    config = {"models": {"small": {"label": "Small-1", "source": "pypi:small==1"}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path)
    output = terminal(60)
    assert main(["models"]) == 0
    lines = [re.split(" {2,}", line.strip()) for line in plain(output.getvalue()).splitlines()]
    assert lines == [["model", "label", "state"], ["small", "Small-1", "not fetched"]]
    output = terminal(60)
    assert main(["models", "--names"]) == 0
    assert output.getvalue() == "small\n"


def test_a_summary_draws_its_intervals(terminal, tmp_path):
    """Each probability of the summary has its bounds and its estimate as bars."""
    with atomic_write_with_checksum(tmp_path / "results/tables/table2.csv") as partial:
        partial.write_text(
            "label,model,query,verdict,lower,upper,low,high,confidence\n"
            f"Player,Small-1,{QUERY},,0.05,0.9,0.1,0.2,0.99\n"
            "Player,Small-1,P>=0.5 [ F gender > 0 ],UNKNOWN,False,True,,,\n"
        )
    output = terminal(60)
    assert main(["summary", str(tmp_path)]) == 0
    lines = [line.rstrip() for line in plain(output.getvalue()).splitlines()]
    drawn = [line.split()[0] for line in lines if re.search(r"\]  +0 [─━]+ 1$", line)]
    assert drawn == ["certain", "estimate"]
    assert any(line.split() == ["verdict", "UNKNOWN"] for line in lines)
