"""The truth of graded answers is covered, of the measured judge alone, and says what it assumes."""

import json
import re
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.judging import ScriptedJudge
from helpers.suites import HE, WORDS, load, run, words_model
from scipy.stats import beta, binom

import llmchecker as lc
from llmchecker.checking.answer import Answer
from llmchecker.checking.measurement import Measurement
from llmchecker.errors import LLMCheckerError
from llmchecker.interfaces.cli.main import main
from llmchecker.properties.logic.parser import parse
from llmchecker.suites.averages import AverageEstimator
from llmchecker.suites.drift import _list_figures
from llmchecker.suites.html_page import format_html
from llmchecker.suites.judge_errors import ErrorRates, JudgeErrors
from llmchecker.suites.junit import format_junit
from llmchecker.suites.load import load_suite
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.statistic import Scope, Statistic
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import CaseResult, Status, parse_threshold
from llmchecker.utils.interval import DIFFERENCES, PROBABILITIES, Interval

ROOT = Path(__file__).resolve().parents[2]
CONFIDENCE = 0.8
JUDGES = {"good": (0.05, 0.1), "random": (0.5, 0.5), "inverted": (0.9, 0.85)}
QUESTION = "Is it about her?"
ASKED = "P=? [ F (G her = 1) ]"


def build_errors(passes: tuple[int, int], fails: tuple[int, int], **keys) -> JudgeErrors:
    return JudgeErrors("labels.json", "j", {}, 1, passes, fails, **keys)


def draw_errors(rng: np.random.Generator, rates: tuple[float, float], labels: int) -> JudgeErrors:
    """Label answers, of which those of a kind may be few or absent."""
    bad = int(rng.binomial(labels, rng.choice([0.02, 0.3, 0.6])))
    counts = [(int(rng.binomial(n, r)), n) for n, r in zip((bad, labels - bad), rates, strict=True)]
    return build_errors(*counts)


def is_plausible(misses: int, runs: int) -> bool:
    """Whether so many misses are no more than chance makes of the error probability."""
    return bool(binom.sf(misses - 1, runs, 1 - CONFIDENCE) > 1e-4)


def mix(good: float, rates: tuple[float, float]) -> float:
    """The share of answers that a judge with these errors passes."""
    return good * (1 - rates[1]) + (1 - good) * rates[0]


@pytest.mark.parametrize(("kind", "rates"), JUDGES.items())
def test_the_truth_is_covered_whatever_the_judge(kind, rates):
    """Of 1,000 judges of each kind and exact shares, few give an interval without the truth."""
    rng, misses, naive, widths = np.random.default_rng(4), 0, 0, []
    for _ in range(1000):
        good, errors = float(rng.random()), draw_errors(rng, rates, 150)
        passed = Interval(mix(good, rates), mix(good, rates))
        # two intervals of errors, and none of the share
        bounds = errors.bound(1 - (1 - CONFIDENCE) / 2)
        found = bounds.correct(passed)
        misses += not found.lower <= good <= found.upper
        naive += abs(passed.lower - good) > 0.02
        widths.append(found.width)
    assert is_plausible(misses, 1000)
    # the grades themselves miss the truth
    assert not is_plausible(naive, 1000)
    assert np.median(widths) < 0.3 if kind == "good" else np.mean(widths) > 0.98


@pytest.mark.parametrize("scope", [Scope.ROWS, Scope.POPULATION])
def test_averages_of_grades_cover_the_truth(scope):
    """The errors, the rows and the reading of a part of them leave out the truth rarely."""
    rng, misses, runs, decided = np.random.default_rng(9), 0, 40, 0
    for seed in range(runs):
        rates = [*JUDGES.values(), (0.0, 0.0)][seed % 4]
        mean = (0.3, 0.8)[seed % 2]
        goods = rng.beta(4 * mean, 4 - 4 * mean, 30)
        truth = float(goods.mean()) if scope is Scope.ROWS else mean
        limit = parse_threshold(f">= {truth:.6f}")
        statistic = Statistic(scope, truth=draw_errors(rng, rates, 200))
        # of four intervals: two of errors, one of the average and one of the rows
        estimator = AverageEstimator(statistic, limit, 0.2 / 4, PROBABILITIES, seed)
        rows = [
            CaseResult(f"{n:02}", "m", Status.MEASURED, answer=answer(mix(float(g), rates)))
            for n, g in enumerate(goods)
        ]
        order = [row for (row,) in estimator.order_rows([row.case for row in rows])]
        for stop in (5, 15, 30):
            read = set(order[:stop])
            part = [
                row if n in read else CaseResult(row.case, "m", Status.UNREAD)
                for n, row in enumerate(rows)
            ]
            found = estimator.measure(part)
            decided += estimator.is_decided(part)
            assert found.certain == PROBABILITIES
            if not found.sampled.lower - 1e-6 <= truth <= found.sampled.upper + 1e-6:
                misses += 1
                break
    assert is_plausible(misses, runs)
    # the threshold is the truth, so that a decision is a miss
    assert decided <= 2 * misses + 5


def answer(probability: float) -> Answer:
    return Answer(parse("P=? [ F x = 1 ]"), 3, Interval(probability, probability))


def test_the_ends_are_those_of_the_whole_box():
    """No share, error and truth of a fine grid lies outside of the interval of its box."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        lows, sizes = rng.random(3) * [0.9, 0.4, 0.4], rng.random(3) * 0.1
        ends = [
            Interval(float(low), float(low + size)) for low, size in zip(lows, sizes, strict=True)
        ]
        rates = ErrorRates(*ends[1:])
        found = rates.correct(ends[0])
        grids = [np.linspace(each.lower, each.upper, 5) for each in ends]
        for p, f, g in product(*grids):
            exact = (Fraction(p) - Fraction(f)) / (1 - Fraction(f) - Fraction(g))
            if 0 <= exact <= 1:
                assert Fraction(found.lower) <= exact <= Fraction(found.upper)


def test_errors_that_may_hide_everything_leave_everything_open():
    """Without labels of a kind, or with errors that add up to 1, each share is possible."""
    passed = Interval(0.7, 0.7)
    for errors in (
        build_errors((0, 0), (1, 50)),
        build_errors((1, 50), (0, 0)),
        build_errors((45, 50), (45, 50)),
        build_errors((1, 2), (1, 2)),
    ):
        assert errors.bound(0.9).correct(passed) == PROBABILITIES
        assert errors.bound(0.9).correct_difference(Interval(0.5, 0.6)) == DIFFERENCES
        assert "its grades show nothing" in errors.list_reasons(passed, 0.9)[1]


def test_grades_that_the_errors_exclude_are_no_truth():
    """A judge that passes 80 of 100 bad texts cannot pass 1 % here, so its errors are others."""
    errors = build_errors((40, 100), (0, 100))
    for passed in (Interval(0.01, 0.02), Interval(0.01, 0.9)):
        found = errors.bound(0.99).correct(passed)
        assert (found == PROBABILITIES) == (passed.upper < 0.1)
    (_, reason) = errors.list_reasons(Interval(0.01, 0.02), 0.99)
    assert "none of a judge with these errors" in reason


def test_the_intervals_of_errors_are_those_of_clopper_and_pearson():
    """The bounds of each kind of errors are quantiles of the beta distribution, or wider."""
    rates = build_errors((3, 40), (0, 60)).bound(0.9)
    expected = [beta.ppf(0.05, 3, 38), beta.ppf(0.95, 4, 37), 0.0, beta.ppf(0.95, 1, 60)]
    found = [
        end for each in (rates.false_pass, rates.false_fail) for end in (each.lower, each.upper)
    ]
    assert found == pytest.approx(expected, abs=1e-8)
    assert [found[0] < expected[0], found[1] > expected[1], found[3] > expected[3]] == [True] * 3


def test_answers_without_an_end_count_as_they_should():
    """Where half of the answers have no end and count as bad, their share is covered too."""
    errors = build_errors((2000, 10_000), (0, 10_000))
    # of the ended half all are good, so that the judge passes half of all answers
    passed = Interval(0.5, 0.5)
    assert (
        not errors.bound(0.9).correct(passed).lower
        <= 0.5
        <= errors.bound(0.9).correct(passed).upper
    )
    found = errors.count_whole().bound(0.9).correct(passed)
    assert found.lower <= 0.5 <= found.upper


def test_a_difference_has_the_errors_of_both_sides():
    """A difference is scaled exactly, and is narrower than that of two corrected means."""
    statistic = Statistic(truth=build_errors((20, 100), (10, 100)))
    estimator = AverageEstimator(statistic, None, 0.05, PROBABILITIES, 1)
    sides = [
        [CaseResult("a", "m", Status.MEASURED, answer=answer(mix(good, (0.2, 0.1))))]
        for good in (0.8, 0.3)
    ]
    found = estimator.measure_difference(*sides).sampled
    apart = (estimator.measure(sides[0]) - estimator.measure(sides[1])).sampled
    assert apart.lower <= found.lower <= 0.5 <= found.upper <= apart.upper
    assert found.width < 0.7 * apart.width
    rates = statistic.truth.bound(0.95)
    for f, g in product(
        *(np.linspace(r.lower, r.upper, 4) for r in (rates.false_pass, rates.false_fail))
    ):
        assert found.lower - 1e-9 <= 0.5 * 0.7 / (1 - f - g) <= found.upper + 1e-9


def test_an_estimate_is_that_of_the_labelled_shares():
    """The estimate solves the equation with the shares of errors of the labelled texts."""
    errors = build_errors((20, 100), (10, 100))
    found = errors.correct(Measurement(PROBABILITIES, Interval(0.5, 0.6), 0.55), 0.9)
    assert found.estimate == pytest.approx((0.55 - 0.2) / 0.7)
    assert errors.find_passed(0.5) == pytest.approx(0.55)


LABELS = [("once he", 0), ("once she", 1), *[("it she", 1)] * 60, *[("it he", 0)] * 60]
"""Texts whose labels are those of the judge but for one in 40."""


@pytest.fixture
def measured(tmp_path, monkeypatch, open_judge):
    """A folder with a judge, and a function that measures it on labels into judged.json."""
    (tmp_path / "j").mkdir()
    (tmp_path / "j/config.json").write_text("{}")
    her = {"type": "judge", "model": "j", "question": QUESTION}
    quantifiers = {"her": her, "alone": {**her, "of": "continuation"}}
    models = {name: {"label": name, "source": f"path:{name}"} for name in ("m", "j")}
    config = {"models": models, "quantifiers": quantifiers, "experiments": []}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    open_judge(ScriptedJudge(lambda text: {"Yes" if " she" in text else "No": 0.9}))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("start\nonce\nonce it\n")

    def measure(*options: str, prompt: bool = True, labels=LABELS) -> None:
        rows = [
            {"text": text, "label": label} | ({"prompt": "once"} if prompt else {})
            for text, label in labels
        ]
        (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, rows)))
        with (tmp_path / "judged.json").open("w") as file, monkeypatch.context() as patch:
            patch.setattr("sys.stdout", file)
            assert (
                main(["judge-check", "labels.jsonl", "--json", *(options or ("--judge", "her"))])
                == 0
            )

    return measure


def average(**keys) -> list[dict]:
    return [
        {"prompts": "rows.csv", "average": {"truth": {"of": ASKED, "truth": "judged.json"} | keys}}
    ]


def test_a_suite_requires_what_people_would_say(tmp_path, measured, capsys):
    """The interval is that of the grades, corrected, with the suite's confidence and assumption."""
    measured()
    capsys.readouterr()
    cases = average()
    cases[0]["average"]["limit"] = cases[0]["average"]["truth"] | {"at_least": 0.2}
    suite = load(tmp_path, cases, {}, confidence=0.9, budget={"passes": 400})
    assert suite.interval_count == 4 + 2 + 2
    assert suite.mean_confidence == pytest.approx(1 - 0.05 / 4)
    result = run(suite)
    reported, required = result.aggregates
    rates = suite.averages[0].statistic.truth.bound(suite.mean_confidence)
    expected, found = rates.correct(Interval(HE, HE)), reported.measurement
    assert (found.sampled.lower, found.sampled.upper) == pytest.approx(
        (expected.lower, expected.upper), abs=1e-9
    )
    assert found.certain == PROBABILITIES
    assert (required.status, required.is_certain) == ("HOLDS", False)
    table = format_table(result)
    assert "corrected for errors of the judge j: F (G her = 1), at least 0.2" in table
    pages = [format_markdown(result), format_html(result), format_junit(result).decode()]
    for output in (table, *pages):
        assert (
            "true if the judge j errs on these answers as on the labelled texts of judged.json: it "
            "passes 0 of 61 bad texts, and fails 0 of 61 good ones"
        ) in output.replace("\\", "")
    assert "with confidence 0.9" in table
    # its own error is in the confidence
    assert "whose own error" not in table


def test_a_difference_of_deployments_is_one_of_the_truth(tmp_path, measured):
    """Both sides are corrected by the same errors, and the difference is that of people's words."""
    measured()
    (tmp_path / "v").mkdir()
    (tmp_path / "v/config.json").write_text("{}")
    versus = {"model": "./v", "require": {"truth": "difference >= 0.1"}}
    suite = load(tmp_path, average(), {}, versus=versus, budget={"passes": 400})
    other = lc.TableModel(WORDS, lambda tokens: [0, 0.5, 0.1, 0.4])
    result = run(suite, lambda name: other if "versus" in name else words_model())
    found = next(each for each in result.aggregates if each.kind == "difference")
    truth = HE - (1 - 0.9**3)
    assert found.measurement.sampled.lower <= truth + 1e-9
    assert 0.1 < truth < found.measurement.sampled.upper < truth + 0.1
    assert found.status == "HOLDS"


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"truth": "absent.json"}, (), "absent.json: absent; write it by llmchecker judge-check"),
        ({"truth": "rows.csv"}, (), "rows.csv: no result of judge-check: "),
        ({"truth": "old.json"}, (), "old.json: no result of judge-check: settings: it is missing"),
        ({"truth": "bad.json"}, (), "false_pass: 3 of 2 is no share"),
        ({"of": "P=? [ F her = 1 ]"}, (), "is not about the grade of the answer; write P"),
        (
            {"of": "P=? [ F (G her = 0) ]"},
            (),
            "judged.json: 'her = 0' is not about the grades from 1 on",
        ),
        (
            {"of": "P=? [ F (G gender = 1) ]"},
            (),
            "judged.json: gender is no judge; use the measured one",
        ),
        ({"of": "her"}, (), "it corrects the probability of a grade of one answer; write of: P=?"),
        ({"all_of": 2}, (), "all_of and truth exclude each other; keep one"),
        (
            {},
            ("--model", "./j", "--question", "Is it polite?"),
            "of a judge with question 'Is it polite?', and not 'Is it about her?'; measure this",
        ),
        (
            {},
            ("--model", "./m", "--question", QUESTION),
            "of m with another model, and not of j as it is now; measure this judge by",
        ),
        ({}, ("--judge", "alone"), "of a judge with of 'continuation', and not 'text'"),
        (
            {},
            ("--model", "./j", "--question", QUESTION, "--share", "0.6"),
            "of a judge with share 0.6, and not 0.5",
        ),
    ],
    ids=str,
)
def test_errors_of_something_else_are_refused(
    tmp_path, measured, monkeypatch, change, options, message
):
    """Each refusal names the key, the file, what was measured and what to do."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text('{"another": 1}')
    measured(*options)
    (tmp_path / "old.json").write_text('{"judge": "j", "good_grade": 1}')
    share = {"hits": 3, "total": 2}
    bad = {"judge": "j", "good_grade": 1, "settings": {}, "false_pass": share, "false_fail": share}
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    with pytest.raises(LLMCheckerError) as error:
        load(tmp_path, average(**change), {})
    assert "cases[0].average.truth" in str(error.value)
    assert message in str(error.value)


def test_a_judge_that_reads_prompts_is_measured_with_prompts(tmp_path, measured):
    """Labels without prompts give other messages to the judge, and other errors."""
    measured(prompt=False)
    with pytest.raises(LLMCheckerError, match=r"judged\.json: measured without prompts, which j"):
        load(tmp_path, average(), {})
    measured("--judge", "alone", prompt=False)
    of = "P=? [ F (G alone >= 1) ]"
    assert load(tmp_path, average(of=of), {}).averages[0].statistic.truth is not None


def test_another_file_of_the_judge_is_another_judge(tmp_path, measured):
    """A judge whose weights changed after the labels were judged is refused."""
    measured()
    load(tmp_path, average(), {})
    (tmp_path / "j/config.json").write_text('{"other": 1}')
    with pytest.raises(LLMCheckerError, match="of j with another model, and not of j as it is now"):
        load(tmp_path, average(), {})


def test_each_row_is_about_the_measured_judge(tmp_path, measured):
    """A later row whose judge has another question is refused, though an earlier one was right."""
    measured()
    her = {"type": "judge", "model": "j", "question": "{question}"}
    cases = [{**average()[0], "prompts": "questions.csv"}]

    def load_questions(*questions: str) -> list[object]:
        rows = "".join(f"once,{question}\n" for question in questions)
        (tmp_path / "questions.csv").write_text(f"start,question\n{rows}")
        suite = load(tmp_path, cases, {}, properties={"her": her})
        return [case.question for case in suite.cases]

    assert len(load_questions(QUESTION, QUESTION)) == 2
    with pytest.raises(LLMCheckerError, match=r"and not 'Is it polite\?'; measure this judge"):
        load_questions(QUESTION, "Is it polite?", QUESTION)


def test_a_conversation_and_whole_answers(tmp_path, measured):
    """Turns are refused, and errors on answers without an end may be fewer."""
    measured()
    case = {"turns": [{"user": "a"}], "prompts": "rows.csv", "average": average()[0]["average"]}
    with pytest.raises(LLMCheckerError, match="truth: it corrects the probability of a grade"):
        load(tmp_path, [case], {})
    suite = load(tmp_path, average(at_least=0.2), {}, length="end:3")
    assert suite.averages[0].statistic.truth.is_whole


def test_the_truth_is_not_watched(tmp_path, measured):
    """The requirement of a corrected mean is none of the grades, which alone are watched."""
    measured()
    other = {"start": "x", "require": ["P>=0.1 [ F her = 1 ]"]}
    suite = load(tmp_path, [*average(at_least=0.2), other], {})
    figures, unwatched = _list_figures(suite)
    assert [each.name for each in figures] == ["case 2: P>=0.1 [ F her = 1 ]"]
    assert [name for name, _ in unwatched] == ["case 1: truth"]


def test_other_labels_make_other_results(tmp_path, measured):
    """The digest of a suite has the errors of its judge."""
    measured()
    first = load(tmp_path, average(), {}).digest
    assert load(tmp_path, average(), {}).digest == first
    measured(labels=LABELS[:60])
    assert load(tmp_path, average(), {}).digest != first


def read_page() -> tuple[dict[str, str], str]:
    """The files of the section of the how-to, and the output on it."""
    section = (ROOT / "docs/how-to/judge.md").read_text().split("## Require the truth\n")[1]
    files = dict(re.findall(r"```yaml\n# (\w+\.yaml)\n(.*?)```", section, re.DOTALL))
    (output,) = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    return files, output


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, open_judge, capsys):
    """The files of the page give its output, with a judge that errs on 7 of 200 labelled texts."""
    files, output = read_page()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    for name in ("grader", "assistant"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    (tmp_path / "questions.csv").write_text("start\n" + "once\n" * 50)
    kinds = [(" she", 1, 96), (" he", 1, 4), (" he", 0, 97), (" she", 0, 3)]
    labels = [f"once{text} {n},{label}" for text, label, count in kinds for n in range(count)]
    (tmp_path / "labels.csv").write_text("text,label\n" + "\n".join(labels))
    open_judge(ScriptedJudge(lambda text: {"Yes" if " she" in text else "No": 0.9}))
    monkeypatch.chdir(tmp_path)
    assert main(["judge-check", "labels.csv", "--judge", "polite", "--json"]) == 0
    (tmp_path / "polite.json").write_text(capsys.readouterr().out)
    model = lc.TableModel(WORDS, lambda tokens: [0, 0.1, 0.9, 0])
    assert format_table(run(load_suite("suite.yaml"), model)) + "\n" == output
