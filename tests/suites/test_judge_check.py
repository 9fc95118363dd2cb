"""A judge is measured by hand-counted shares with exact intervals, and bad labels are named."""

import csv
import io
import json
from fractions import Fraction
from math import comb

import numpy as np
import pytest
import yaml
from helpers.judging import ScriptedJudge
from helpers.marks import examples
from hypothesis import given
from hypothesis import strategies as st

import llmchecker as lc
from llmchecker.errors import ConfigError, UnusableDataset
from llmchecker.interfaces.cli import judge_check_command
from llmchecker.interfaces.cli.main import main
from llmchecker.suites.judge_check import LabelledText, measure_judge, read_labelled_texts
from llmchecker.suites.true_rate import bound_rate, draw_order
from llmchecker.utils.interval import Interval

POLITE = "Is the text polite?"
TABLE = {
    "thanks": {"Yes": 0.9},
    "please": {" yes": 0.6, "No": 0.4},
    "shut up": {"No": 0.8},
    "go away": {"YES": 0.7},
    "hm": {"nothing": 0.9},
}
LABELS = 'text,label\nthanks,1\nplease,no\n"shut up",0\ngo away,No\nhm,yes\n'


def test_ctrl_c_has_its_status(tmp_path, monkeypatch, capsys):
    """An interrupt while texts are graded has the status 130 and no shares of some of them."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").write_text(LABELS)
    (tmp_path / "m").mkdir()
    monkeypatch.setattr(judge_check_command, "_find_judge", lambda *_: judge())
    monkeypatch.setattr(judge_check_command, "measure_judge", interrupt)
    assert main(["judge-check", "labels.csv", "--model", "./m", "--question", POLITE]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def judge(**options) -> lc.Judge:
    return lc.Judge(ScriptedJudge(TABLE), question=POLITE, **options)


def tail(hits: int, total: int, p: Fraction) -> Fraction:
    """The probability of at least so many hits."""
    return sum(comb(total, k) * p**k * (1 - p) ** (total - k) for k in range(hits, total + 1))


@examples(30)
@given(st.lists(st.tuples(st.sampled_from(sorted(TABLE)), st.booleans()), min_size=1, max_size=40))
def test_intervals_are_those_of_clopper_and_pearson(pairs):
    """At each end, the tail of the binomial distribution is half of the error probability."""
    grades = {"thanks": 1, "please": 1, "shut up": 0, "go away": 1, "hm": None}
    texts = [LabelledText("p", "", text, int(label)) for text, label in pairs]
    found = measure_judge(judge(), texts, 1, 0.95)
    both = sum(grades[text] == 1 and label for text, label in pairs)
    expected = {
        "agreement": (sum(grades[text] == int(label) for text, label in pairs), len(pairs)),
        "precision": (both, sum(grades[text] == 1 for text, _ in pairs)),
        "recall": (both, sum(label for _, label in pairs)),
        "false_pass": (
            sum(grades[text] == 1 and not label for text, label in pairs),
            sum(not label for _, label in pairs),
        ),
        "false_fail": (
            sum(grades[text] != 1 and label for text, label in pairs),
            sum(label for _, label in pairs),
        ),
    }
    assert found.ungraded == sum(grades[text] is None for text, _ in pairs)
    for name, (hits, total) in expected.items():
        share = getattr(found, name)
        assert (share.hits, share.total) == (hits, total)
        low, high = Fraction(share.interval.lower), Fraction(share.interval.upper)
        half = 0.025
        assert float(tail(hits, total, low)) == pytest.approx(half) if hits else low == 0
        assert (
            float(1 - tail(hits + 1, total, high)) == pytest.approx(half)
            if hits < total
            else high == 1
        )


def test_labels_are_read_from_every_format(tmp_path):
    """CSV and JSON lines give the same texts; a column of prompts is optional."""
    (tmp_path / "a.csv").write_text(LABELS)
    rows = [line.split(",") for line in LABELS.replace('"', "").splitlines()[1:]]
    lines = [json.dumps({"text": text, "label": label, "prompt": "p"}) for text, label in rows]
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    first = read_labelled_texts(tmp_path / "a.csv", judge())
    second = read_labelled_texts(tmp_path / "b.jsonl", judge())
    assert [each.label for each in first] == [each.label for each in second] == [1, 0, 0, 0, 1]
    assert {each.prompt for each in first} == {""}
    assert {each.prompt for each in second} == {"p"}


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("text,label\na,1\nb,maybe\n", ConfigError, "row 2, column label: 'maybe' is no grade"),
        ("text,label\na,2\n", ConfigError, "row 1, column label: '2' is no grade; write one of"),
        ("text,grade\na,1\n", UnusableDataset, "the column 'label' is missing; it has text, grade"),
        ("answer,label\na,1\n", UnusableDataset, "the column 'text' is missing"),
        ("text,label\n", UnusableDataset, "no rows"),
    ],
    ids=str,
)
def test_bad_labels_are_named_with_their_place(tmp_path, text, kind, problem):
    """Nothing is graded before the whole file is read."""
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(kind, match=r"labels\.csv") as error:
        read_labelled_texts(path, judge())
    assert problem in str(error.value)


def test_a_list_that_is_labelled_whole_has_its_own_share():
    """Whatever the judge says, the interval is one point once all labels are known."""
    truths, grades = [True, False, True, True], [False, True, True, False]
    found = bound_rate(truths, grades, 0.5, 4, 0.2)
    assert (found.lower, found.upper) == (0.75, 0.75)
    assert bound_rate([], [], 0.5, 4, 0.2) == Interval(0, 1)


@pytest.mark.parametrize(
    ("accuracy", "least", "most"),
    [(1.0, 0.0, 0.5), (0.97, 0.4, 0.7), (0.5, 1.0, 1.15), (0.0, 1.0, 1.15)],
)
def test_a_good_judge_narrows_and_a_bad_one_costs_little(accuracy, least, most):
    """The width beside that of a judge who says the same of all texts, so that labels decide."""
    rng = np.random.default_rng(3)
    truths = rng.random(400) < 0.7
    order = rng.permutation(400)[:120]
    widths = []
    for grades in (truths == (rng.random(400) < accuracy), np.ones(400, bool)):
        found = bound_rate(
            truths[order].tolist(), grades[order].tolist(), float(grades.mean()), 400, 0.05
        )
        assert found.lower <= truths.mean() <= found.upper
        widths.append(found.upper - found.lower)
    assert least <= widths[0] / widths[1] <= most


def test_labels_are_asked_for_in_random_order_and_kept_at_once(project, capfd, monkeypatch):
    """A wrong label is asked for again, nothing ends, and other columns and texts stay."""
    (project / "texts.csv").write_text('id,text\n7,thanks\n8,"shut\nup, now"\n9,please\n')
    judge_options = ["--judge", "polite", "--label"]
    order = draw_order(3)
    monkeypatch.setattr("sys.stdin", io.StringIO("perhaps\nyes\n\n"))
    assert main(["judge-check", "texts.csv", *judge_options]) == 0
    printed = capfd.readouterr()
    assert "'perhaps' is no grade; write one of" in printed.err
    assert "(2 texts left)" in printed.err
    assert "of these 3 texts by 1 label" in printed.out
    table = list(csv.DictReader((project / "texts.csv").open(newline="")))
    assert [each["label"] for each in table] == ["1" if n == order[0] else "" for n in range(3)]
    assert [each["text"] for each in table] == ["thanks", "shut\nup, now", "please"]
    monkeypatch.setattr("sys.stdin", io.StringIO("no\n0\n"))
    assert main(["judge-check", "texts.csv", *judge_options, "--json"]) == 0
    content = json.loads(capfd.readouterr().out)
    assert content["agreement"]["total"] == content["total"] == 3
    assert content["good"] == {"low": 1 / 3, "high": 1 / 3}


@pytest.mark.parametrize(
    ("name", "text", "options", "problem"),
    [
        ("a.csv", "text,label\na,\nb, \n", [], "column label: all labels are empty"),
        ("a.jsonl", '{"text": "a"}\n', ["--label"], "a.jsonl is no CSV file"),
        ("a.csv", "text,label\na,x\n", ["--label"], "row 1, column label: 'x' is no grade"),
        ("a.csv", "text\na\n", ["--label"], "no label was given; label a text of a.csv"),
    ],
    ids=str,
)
def test_what_cannot_be_labelled_is_named(
    project, capfd, monkeypatch, name, text, options, problem
):
    """Each is an error before a judge is opened, and the file is as it was."""
    # a person who gives no answer
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    (project / name).write_text(text)
    assert main(["judge-check", name, "--judge", "polite", *options]) == 3
    assert problem in capfd.readouterr().err
    assert (project / name).read_text() == text


@pytest.fixture
def project(tmp_path, monkeypatch, open_judge):
    """A project with a model that judges, a judge and labels."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text("{}")
    config = {
        "models": {"m": {"label": "M", "source": "path:m"}},
        "quantifiers": {"polite": {"type": "judge", "model": "m", "question": POLITE}},
        "experiments": [],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "labels.csv").write_text(LABELS)
    open_judge(ScriptedJudge(TABLE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "options", [["--judge", "polite"], ["--model", "m", "--question", POLITE]], ids=str
)
def test_the_command_prints_all_shares(project, capfd, options):
    """Two of five texts have their label; one has no grade, and is counted as an error."""
    assert main(["judge-check", "labels.csv", *options, "--confidence", "0.9"]) == 0
    printed = capfd.readouterr().out
    assert "agreement     0.4 in [0.07" in printed
    assert "precision     0.333 in [0.01" in printed
    assert "recall        0.5 in [0.02" in printed
    assert "false passes  0.667 in [0.1" in printed
    assert "false fails   0.5 in [0.02" in printed
    assert "with confidence 0.9, 2 of 5 texts" in printed
    assert "1 text without a grade" in printed
    assert '1 → none    "hm"' in printed
    assert main(["judge-check", "labels.csv", *options, "--json"]) == 0
    content = json.loads(capfd.readouterr().out)
    assert content["agreement"]["hits"] == 2
    assert content["confidence"] == 0.99
    assert [each["place"] for each in content["differences"]] == [
        f"labels.csv, row {n}" for n in (2, 4, 5)
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "--model: it is missing"),
        (["--judge", "polit"], "did you mean 'polite'"),
        (["--judge", "polite", "--question", "q"], "--question: --judge names a judge"),
        (["--model", "absent", "--question", "q"], "'absent' is no model and no directory"),
        (["--model", "m", "--question", "q", "--rubric", "r"], "both of them"),
        (["--model", "m", "--rubric", "r", "--scale", "5 to 1"], "it has 0 grades"),
        (["--judge", "polite", "--grade", "7"], "--grade: 7 is not on the scale"),
        (["--judge", "polite", "--confidence", "1"], "--confidence: 1 is too large"),
    ],
    ids=str,
)
def test_wrong_options_are_named(project, capfd, options, problem):
    """Each is an error with exit status 3, before a judge is opened."""
    assert main(["judge-check", "labels.csv", *options]) == 3
    assert problem in capfd.readouterr().err
