"""A run decides every case, continues after errors and kills, and rarely errs."""

import json
import random
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.byte_texts import TOKENIZERS, scripted_table
from helpers.random_tables import LETTERS, table_model, whole_tree
from helpers.suites import HE, WORDS, OpenTable, load, run, words_model

import llmchecker as lc
from llmchecker.checking import runs, witnesses
from llmchecker.checking.answer import Answer, Costs, Progress, Sampled
from llmchecker.checking.anytime.anytime_check import AnytimeCheck
from llmchecker.checking.anytime.confidence_sequence import ConfidenceSequence
from llmchecker.checking.measurement import Measurement, average_measurements
from llmchecker.errors import ConfigError, InvalidEstimate, LLMCheckerError
from llmchecker.properties.logic.parser import parse
from llmchecker.suites.html_page import format_html
from llmchecker.suites.json_lines import iter_lines, read_results
from llmchecker.suites.junit import format_junit
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.runner import SuiteProgress
from llmchecker.suites.session import SuiteRun, run_suite
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import Status
from llmchecker.trees.shards import Shard
from llmchecker.utils.interval import TRUTHS, Interval

HE_QUERY = "F he = 1"
PROPERTIES = {
    "he": {"type": "pattern", "pattern": " he"},
    "right": {"type": "pattern", "pattern": "{answer}"},
}
ROWS = "start,answer,topic\nonce, he,a\nonce, she,b\nonce, it,a\n"
TABLE = {
    "prompts": "rows.csv",
    "require": {"often": "P>=0.5 [ F right = 1 ]"},
    "average": {"accuracy": "mean P=? [ F right = 1 ] >= 0.5"},
    "by": "topic",
}


def statuses(result: SuiteResult) -> dict[str, Status]:
    return {case_result.case: case_result.status for case_result in result.results}


def decide(folder: Path, *require: str, passes: int = 100, **options) -> list:
    case = {"start": "once", "require": list(require), "budget": {"passes": passes}}
    suite = load(folder, [case], properties=PROPERTIES)
    return list(run(suite, **options).results)


def test_cases_hold_or_are_violated_certainly_with_enough_passes(tmp_path):
    """With every text evaluated the verdicts are certain."""
    holds, violated, equal = decide(
        tmp_path,
        f"P>={HE - 0.01:.6f} [ {HE_QUERY} ]",
        f"P<=0.5 [ {HE_QUERY} ]",
        "P>=1 [ F step = 3 ]",
        passes=1000,
    )
    assert (holds.status, violated.status) == (Status.HOLDS, Status.VIOLATED)
    assert equal.status is Status.HOLDS


def test_a_violated_case_shows_its_most_probable_violating_texts(tmp_path):
    """The texts of a violated case satisfy or violate its formula, most probable first."""
    never, often, final = decide(
        tmp_path,
        f"P<=0.1 [ {HE_QUERY} ]",
        f"P>=0.9 [ {HE_QUERY} ]",
        "P>=0.9 [ F (G he = 1) ]",
    )
    assert all(result.status is Status.VIOLATED for result in (never, often, final))
    assert never.witnesses[0].continuation == " he"
    assert never.witnesses[0].probability == pytest.approx(0.25)
    assert all(" he" in each.continuation for each in never.witnesses)
    for result in (often, final):
        assert result.witnesses[0].continuation == " it it it"
        assert result.witnesses[0].probability == pytest.approx(0.125)
        assert all(" he" not in each.continuation for each in result.witnesses)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize(
    ("content", "length", "expected"),
    [
        ("I 😀".encode(), 8, "HHH"),
        # half a smiley that may go on is no text yet; one at the end of the answer is
        ("I 😀".encode(), 5, "HHV"),
        ("I 😀".encode()[:4], 5, "VVV"),
        # bytes that are no character, and a character that the model writes itself
        (b"I \xff", 5, "VVV"),
        ("I \ufffd".encode(), 8, "VVV"),
    ],
)
def test_a_character_of_several_tokens_is_not_broken(name, content, length, expected, tmp_path):
    """Requirements about characters see no half of one unless the answer ends there, and every
    text that speaks against them has the bytes."""
    require = [
        {"not_contains": "\ufffd", "at_least": 0.9},
        {"not_matches": "\ufffd", "at_least": 0.9},
        {"equals": "I 😀", "at_least": 0.9},
    ]
    case = {"start": "s", "require": require, "length": length}
    result = run(load(tmp_path, [case]), scripted_table(TOKENIZERS[name](), content))
    assert "".join(each.status.name[0] for each in result.results) == expected
    assert all(each.is_certain for each in result.results)
    for each in result.results[:2]:
        assert all("\ufffd" in text.continuation for text in each.witnesses)


def test_an_unknown_case_says_how_many_passes_would_decide(tmp_path):
    """Two passes decide nothing, and the interval still contains the probability."""
    (result,) = decide(tmp_path, f"P>={HE + 0.02:.6f} [ {HE_QUERY} ]", passes=2)
    assert result.status is Status.UNKNOWN
    assert result.measurement.sampled.lower <= HE <= result.measurement.sampled.upper
    assert result.passes <= 4


def test_a_case_that_fails_is_an_error_of_that_case(tmp_path):
    """The other cases continue after an error, and the exit status is 3."""
    cases = [
        {"start": "twice", "require": [f"P>=0.1 [ {HE_QUERY} ]"]},
        {"start": "once", "require": [f"P>=0.1 [ {HE_QUERY} ]"]},
    ]
    result = run(load(tmp_path, cases, properties=PROPERTIES))
    failed, holds = result.results
    assert failed.status is Status.ERROR
    assert "the table has no token that begins 'twice'" in failed.error
    assert holds.status is Status.HOLDS
    assert result.counts.exit_status() == 3


def test_an_unexpected_exception_of_a_case_is_its_error(tmp_path, monkeypatch):
    """The error has the type, the text and the line; other cases keep their bits, every output has
    the error, and the next run evaluates that case alone."""
    cases = [{"start": start, "require": [f"P>=0.1 [ {HE_QUERY} ]"]} for start in WORDS[:1] * 3]
    suite = load(tmp_path, cases, properties=PROPERTIES)
    whole = run(suite)
    compute, broken = AnytimeCheck.compute_progress, []

    def fail(check: AnytimeCheck) -> Progress:
        broken.append(check)
        if check is broken[0] and len(broken) > 3:
            raise OverflowError("math range error")
        return compute(check)

    log = tmp_path / "log.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr(AnytimeCheck, "compute_progress", fail)
        result = run(suite, log=log)
    (failed,) = result.errors
    pattern = r"OverflowError: math range error \(test_suite_runner.py, line [0-9]+\)"
    assert re.fullmatch(pattern, failed.error)
    assert result.counts.exit_status() == 3
    number = result.results.index(failed)
    for found, expected in zip(result.results, whole.results, strict=True):
        assert found is failed or replace(found, seconds=0.0) == replace(expected, seconds=0.0)
    outputs = [format_table, format_html, format_markdown, format_junit]
    for text in (json.dumps(list(iter_lines(result))), *(str(each(result)) for each in outputs)):
        assert "math range error" in text
    evaluated, evaluate = [], runs.answer_side_by_side

    def record(opened, questions, *users, **options):
        evaluated.extend(questions)
        return evaluate(opened, questions, *users, **options)

    monkeypatch.setattr(runs, "answer_side_by_side", record)
    assert run(suite, log=log).counts.holds == 3
    assert evaluated == [suite.cases[number].question]


def test_an_exception_of_formatting_a_result_is_the_case_s_error(tmp_path, monkeypatch):
    """A case whose violating texts cannot be found is an error, and the others continue."""

    def fail(*_) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(witnesses, "find_path_texts", fail)
    # two probabilities together have no texts
    both = f"P>=0.1 [ {HE_QUERY} ] & P>=0.1 [ {HE_QUERY} ]"
    violated, holds = decide(tmp_path, f"P<=0.1 [ {HE_QUERY} ]", both)
    assert violated.status is Status.ERROR
    assert "RecursionError: maximum recursion depth exceeded" in violated.error
    assert holds.status is Status.HOLDS


def test_no_figure_of_a_result_is_nan():
    """A figure with NaN is an error, since no answer can be computed from it."""
    nan = float("nan")
    for ends in ((nan, 1.0), (0.0, nan)):
        with pytest.raises(InvalidEstimate, match="contains NaN"):
            Interval(*ends)
    with pytest.raises(InvalidEstimate, match="contains NaN"):
        Measurement(estimate=nan)


def test_a_log_has_the_answer_of_each_case(tmp_path):
    """A case that is read from a log equals the case that was written, with bounds and texts."""
    queries = [
        f"P<=0.1 [ {HE_QUERY} ]",
        f"P>={HE + 0.02:.6f} [ {HE_QUERY} ]",
        "P>=1 [ F step = 0 ]",
    ]
    case = {"start": "once", "require": queries, "budget": {"passes": 2}}
    suite = load(tmp_path, [case], properties=PROPERTIES)
    result = run(suite, log=tmp_path / "log.jsonl")
    stored = read_results(tmp_path / "log.jsonl")
    assert stored == list(result.results)
    assert {each.status for each in stored} == {Status.HOLDS, Status.VIOLATED, Status.UNKNOWN}
    assert stored[0].witnesses != ()


def test_an_interrupted_run_keeps_its_results(tmp_path):
    """Ctrl-C leaves the finished cases and trivial intervals of the others, and averages over both
    contain the truth; the next run continues."""
    case = {**TABLE, "require": {"trivial": "P>=1 [ F step = 0 ]"}}
    suite = load(tmp_path, [case], {"rows_csv": ROWS}, properties=PROPERTIES)

    def interrupt(progress: SuiteProgress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    log = tmp_path / "log.jsonl"
    folder = Path.cwd()
    interrupted = SuiteRun(suite, log=log, open_model=lambda _: OpenTable(words_model()))
    with pytest.raises(KeyboardInterrupt):
        interrupted.finish(report=interrupt)
    assert Path.cwd() == folder
    result = interrupted.result
    assert (result.finished_count, result.is_complete) == (2, False)
    assert [r.status for r in result.results].count(Status.UNFINISHED) == 4
    truth = (2 * HE + 1 - 0.5**3) / 3
    average = next(a for a in result.aggregates if a.kind == "average")
    assert average.measurement.certain.lower <= truth <= average.measurement.certain.upper
    assert average.status is Status.UNKNOWN
    header, *lines = map(json.loads, log.read_text().splitlines())
    assert (header["complete"], header["cases"], len(lines)) == (False, 6, 2)
    assert run(suite, log=log).is_complete
    assert json.loads(log.read_text().splitlines()[0])["complete"]


def test_an_error_of_the_model_ends_the_run(tmp_path):
    """A model that cannot be loaded is no error of single cases."""

    def fail(name: str) -> lc.TableModel:
        raise ConfigError(f"{name} is broken")

    suite = load(tmp_path, [{"start": "once", "require": ["P>=0.1 [ F step = 3 ]"]}])
    with pytest.raises(ConfigError, match="m is broken"):
        run(suite, fail)


def test_each_row_runs_with_the_decoding_of_its_columns(tmp_path):
    """A decoding with columns opens the model once for each decoding, and averages span all."""
    case = {
        "prompts": "rows.csv",
        "name": "{t}",
        "require": {"he": "P>=0.5 [ F he = 1 ]"},
        "average": {"mean": "mean P=? [ F he = 1 ]"},
    }
    suite = load(
        tmp_path,
        [case],
        {"rows_csv": "start,t\nonce,0.5\nonce,2\nonce,0.5\n"},
        properties=PROPERTIES,
        decoding={"temperature": "{t}"},
        budget={"passes": 1000},
    )
    opened = []

    def open_model(deployment):
        temperature = deployment.model.decoding.settings["temperature"]
        opened.append(temperature)
        # he is likely at a low temperature, and never written at a high one
        return OpenTable(words_model(0.75 if temperature < 1 else 0))

    result = run_suite(suite, open_model=open_model)
    assert opened == [0.5, 2.0]
    low, high = Status.HOLDS, Status.VIOLATED
    named = statuses(result)
    assert [named[f"{t}, row {i}: he"] for i, t in ((1, "0.5"), (2, "2"), (3, "0.5"))] == [
        low,
        high,
        low,
    ]
    (average,) = result.aggregates
    assert average.measurement.certain.lower == pytest.approx(2 / 3 * (1 - 0.25**3), abs=1e-6)
    shards = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for number, log in enumerate(shards):
        run_suite(suite, log=log, shard=Shard(number, 3), open_model=open_model)
    joined = run_suite(suite, log=tmp_path / "all.jsonl", shards=shards, open_model=open_model)
    assert statuses(joined) == named


def test_averages_are_means_over_rows_with_groups(tmp_path):
    """The mean of the exact probabilities is in all intervals, for all rows and each group."""
    result = run(load(tmp_path, [TABLE], {"rows_csv": ROWS}, properties=PROPERTIES))
    it = 1 - 0.5**3
    truths = {"": (2 * HE + it) / 3, ", a": (HE + it) / 2, ", b": HE}
    averages = {a.name: a for a in result.aggregates}
    assert len(averages) == 3
    for suffix, truth in truths.items():
        interval = averages[f"case 1: accuracy{suffix}"].measurement
        ends = list(interval.as_json().values())
        assert ends[0] <= ends[2] <= truth <= ends[3] <= ends[1]
    assert averages["case 1: accuracy"].status is Status.HOLDS
    assert averages["case 1: accuracy, a"].status is Status.MEASURED
    # the rows of an average are measurements without verdicts
    assert [case.label for case, _ in result.verdicts] == ["often"] * 3


def many_rows(folder: Path, seed: int = 0, count: int = 40) -> tuple[SuiteResult, float]:
    """A suite of rows that few passes leave undecided, and the truth of its average."""
    answers = [" he", " she", " it", " she"] * (count // 4)
    rows = "start,answer,topic\n" + "".join(f"once,{answer},a\n" for answer in answers)
    keys = {"properties": PROPERTIES, "length": 6, "budget": {"passes": 40}, "seed": seed}
    result = run(load(folder, [TABLE], {"rows_csv": rows}, confidence=0.9, **keys))
    chances = {" he": 0.25, " she": 0.25, " it": 0.5}
    return result, sum(1 - (1 - chances[answer]) ** 6 for answer in answers) / len(answers)


@pytest.mark.long
def test_the_samples_of_all_rows_narrow_an_average(tmp_path):
    """The interval of an average of many rows is narrower than the mean of their intervals."""
    result, truth = many_rows(tmp_path)
    members = [r for r in result.results if r.status is Status.MEASURED]
    mean = average_measurements([member.measurement for member in members])
    average, group = (a for a in result.aggregates if a.kind in ("average", "group"))
    assert average.measurement == group.measurement
    found = average.measurement
    assert found.certain == mean.certain
    assert mean.certain.lower < found.sampled.lower <= truth
    assert truth <= found.sampled.upper < mean.certain.upper
    assert found.sampled.width < 0.6 * mean.sampled.width
    assert found.sampled.lower <= found.estimate <= found.sampled.upper
    # without that the rows would not be independent
    assert len({member.measurement.estimate for member in members[::4]}) > 1


@pytest.mark.long
def test_a_continued_run_has_the_same_average(tmp_path):
    """An average from results that were stored has the bits of an average without a log."""
    expected, _ = many_rows(tmp_path)
    log = tmp_path / "log.jsonl"
    for _ in range(2):
        found = run(expected.suite, log=log)
        assert found.aggregates == expected.aggregates
        log.write_text("".join(log.read_text().splitlines(keepends=True)[:50]))


@pytest.mark.long
def test_averages_rarely_miss_the_truth(tmp_path):
    """The averages of 12 suites miss the truth in at most a tenth of them."""
    misses = 0
    for seed in range(12):
        result, truth = many_rows(tmp_path, seed, count=16)
        average = next(a for a in result.aggregates if a.kind == "average")
        misses += (
            not average.measurement.sampled.lower <= truth <= average.measurement.sampled.upper
        )
    assert misses <= 1


def test_an_average_without_a_row_is_wider_but_right(tmp_path):
    """A row that fails to run widens the interval of the mean, which stays sound."""
    rows = ROWS + "twice, he,a\n"
    result = run(load(tmp_path, [TABLE], {"rows_csv": rows}, properties=PROPERTIES))
    (average,) = [a for a in result.aggregates if a.kind == "average"]
    assert average.measurement.certain.upper - average.measurement.certain.lower >= 0.25
    assert result.counts.errors == 2


def test_differences_compare_two_deployments(tmp_path):
    """A difference of probabilities lies in its interval, with a verdict where one is required."""
    versus = {"model": "other", "require": {"accuracy": "difference >= 0.1"}}
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config.json").write_text("{}")
    suite = load(tmp_path, [TABLE], {"rows_csv": ROWS}, properties=PROPERTIES, versus=versus)
    models = {"m": words_model(0.5), "other (versus)": words_model(0.0)}
    result = run(suite, models.__getitem__)
    differences = {a.name: a for a in result.aggregates if a.kind == "difference"}
    assert len(differences) == 1 + 3
    first = differences["case 1, row 1: often"]
    assert first.measurement.sampled.lower <= 1 - 0.5**3 <= first.measurement.sampled.upper
    assert first.status is Status.MEASURED
    accuracy = differences["case 1: accuracy"]
    # row 2 is the same in both, row 1 gains 7/8, and row 3 loses 1 - 1/64 - 37/64
    truth = (7 / 8 + (1 - 0.75**3) - (1 - 0.25**3)) / 3
    assert accuracy.measurement.certain.lower <= truth <= accuracy.measurement.certain.upper
    assert accuracy.status is Status.HOLDS
    # the deployment to compare with has no verdicts of its own
    assert {case.deployment.name for case, _ in result.verdicts} == {"m"}


def test_differences_from_stored_results(tmp_path):
    """Stored results take the place of a deployment, and their error probability adds up."""
    log = tmp_path / "old.jsonl"
    suite = load(tmp_path, [TABLE], {"rows_csv": ROWS}, properties=PROPERTIES)
    run(suite, words_model(0.0), log=log)
    result = run(suite, words_model(0.5), baseline=log)
    differences = {a.name: a for a in result.aggregates if a.kind == "difference"}
    first = differences["case 1, row 1: often"].measurement
    assert 0.25 < first.sampled.lower <= 7 / 8 <= first.sampled.upper
    assert result.difference_confidence == pytest.approx(0.98)
    with pytest.raises(ConfigError, match="is absent"):
        run(suite, baseline=tmp_path / "no.jsonl")
    for content in ('{"a": 1}\n', "act,prompt\na,b\n", "[]\n"):
        (tmp_path / "other.jsonl").write_text(content)
        with pytest.raises(LLMCheckerError, match="; name another file"):
            run(suite, baseline=tmp_path / "other.jsonl")


def read_without_times(path: Path) -> list[dict[str, Any]]:
    """The lines of a log without their times."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_the_same_seed_gives_the_same_lines(tmp_path):
    """Two runs write the same lines but for times; a third continues and evaluates nothing."""
    lines = []
    for name in ("a.jsonl", "b.jsonl"):
        suite = load(tmp_path, [TABLE], {"rows_csv": ROWS}, properties=PROPERTIES)
        run(suite, log=tmp_path / name)
        lines.append(read_without_times(tmp_path / name))
    assert lines[0] == lines[1]
    before = (tmp_path / "a.jsonl").read_bytes()
    run(suite, lambda name: None, log=tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == before


class Killed(Exception):
    """The end of a run."""


@pytest.mark.few(2)
@pytest.mark.parametrize("finished", [1, 3, 5])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_killed_run_continues_without_loss_or_repetition(tmp_path, monkeypatch, finished, is_cut):
    """After a kill, also within a line, each case is evaluated once, and the results are equal."""
    suite = load(tmp_path, [TABLE], {"rows_csv": ROWS}, properties=PROPERTIES)
    whole = run(suite, log=tmp_path / "whole.jsonl")
    log = tmp_path / "log.jsonl"

    def kill(progress: SuiteProgress) -> None:
        if progress.done == finished:
            raise Killed

    with pytest.raises(Killed):
        run(suite, log=log, report=kill)
    text = log.read_text()
    assert len(text.splitlines()) == 1 + finished
    if is_cut:
        log.write_text(text[:-10])
    reports: list[SuiteProgress] = []
    evaluated = []
    evaluate = runs.answer_side_by_side

    def count(opened, questions, *users, **options):
        for index, answer in evaluate(opened, questions, *users, **options):
            evaluated.append(questions[index])
            yield index, answer

    monkeypatch.setattr(runs, "answer_side_by_side", count)
    result = run(suite, log=log, report=reports.append)
    assert len(evaluated) == len(set(map(id, evaluated))) == 6 - finished + is_cut
    assert [report.done for report in reports] == list(range(1, 7))

    def without_times(several: SuiteResult) -> list:
        return [replace(found, seconds=0.0) for found in several.results]

    assert without_times(result) == without_times(whole)


@pytest.mark.long
def test_a_network_gives_the_same_bits_after_a_kill_and_in_shards(tmp_path, random_model):
    """The remaining cases and each shard keep their bits, although their prompts have more in
    common than those of all cases."""
    cases = [
        {"start": start, "require": ["P>=0.5 [ F right = 1 ]"]}
        for start in (
            "The exam",
            "The exam went",
            "The player won because he",
            "The player won she",
        )
    ]
    model = str(random_model("llama"))
    properties = {"right": {"type": "pattern", "pattern": "e"}}
    suite = load(tmp_path, cases, properties=properties, model=model, budget={"passes": 20})
    run_suite(suite, log=tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(lines[:3]))
    run_suite(suite, log=log)
    assert read_without_times(log) == read_without_times(tmp_path / "whole.jsonl")
    shards = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for number, shard in enumerate(shards):
        run_suite(suite, log=shard, shard=Shard(number, 2))
    run_suite(suite, log=tmp_path / "joined.jsonl", shards=shards)
    assert read_without_times(tmp_path / "joined.jsonl") == read_without_times(log)


def test_results_of_another_suite_are_not_continued(tmp_path):
    """A log of another suite, and a file that is no log, are refused."""
    suite = load(tmp_path, [TABLE], {"rows_csv": ROWS}, properties=PROPERTIES)
    run(suite, log=tmp_path / "log.jsonl")
    other = load(tmp_path, [TABLE], {"rows_csv": ROWS}, properties=PROPERTIES, seed=1)
    with pytest.raises(ConfigError, match="results of another suite"):
        run(other, log=tmp_path / "log.jsonl")
    for content in ('{"text": "mine"}\n', "a text of mine\n", "without a line end"):
        (tmp_path / "text.jsonl").write_text(content)
        with pytest.raises(LLMCheckerError, match="; name another file"):
            run(suite, log=tmp_path / "text.jsonl")
        assert (tmp_path / "text.jsonl").read_text() == content


def build_answer() -> Answer:
    """An answer to a threshold query that its samples decide."""
    return Answer(
        query=parse("P>=0.1 [ F step = 1 ]"),
        horizon=1,
        certain=TRUTHS,
        sampled=Sampled(Interval(0.4, 0.6), 0.5, 0.99, 10),
        costs=Costs(states=1, transitions=1, passes=10, seconds=0.0),
    )


@pytest.mark.parametrize("is_met", [True, False])
def test_a_decided_case_ends_before_its_budget(tmp_path, is_met):
    """A threshold far from the probability needs few passes, and its interval is on one side."""
    threshold = 0.5 if is_met else 0.99
    query = f"P>={threshold} [ F he = 1 ]"
    case = {"start": "once", "require": [query], "budget": {"passes": 4000}}
    (result,) = run(load(tmp_path, [case], properties=PROPERTIES, length=12)).results
    assert result.status is (Status.HOLDS if is_met else Status.VIOLATED)
    assert result.passes < 2000


def test_progress_counts_every_case(tmp_path):
    """Progress rises by a case each time and ends with all of them."""
    suite = load(tmp_path, [TABLE], {"rows_csv": ROWS}, properties=PROPERTIES)
    reports: list[SuiteProgress] = []
    run(suite, report=reports.append)
    assert [report.done for report in reports[:6]] == list(range(1, 7))
    assert {report.total for report in reports} == {6}
    assert reports[-1].passes == run(suite).passes


def random_suite(folder: Path, seed: int, sample_seed: int = 0):
    """A suite of random thresholds on a random model, and the truth of each by enumeration."""
    chance = random.Random(seed)
    model = table_model(seed)
    length = chance.choice((2, 3))
    tree = whole_tree(model, length)
    truths = {}
    for _ in range(8):
        letter = chance.choice(LETTERS)
        probability = sum(
            float(tree.path_probability[uid])
            for uid in range(len(tree))
            if not tree.internal[uid] and letter in tree.text[uid][1:]
        )
        distance = chance.choice((-1, 1)) * chance.random() ** 3
        threshold = round(min(1.0, max(0.0, probability + distance)), 3)
        comparison = chance.choice((">=", "<="))
        # probabilities are 64ths to a power, so equal numbers are exactly equal
        is_met = probability >= threshold if comparison == ">=" else probability <= threshold
        truths[f"P{comparison}{threshold:.3f} [ F {letter}{letter} > 0 ]"] = is_met
    suite = load(
        folder,
        [{"start": "a", "require": list(truths)}],
        properties={letter * 2: {"type": "pattern", "pattern": letter} for letter in LETTERS},
        length=length,
        confidence=0.9,
        seed=sample_seed,
        budget={"passes": 12},
    )
    return suite, model, list(truths.values())


def count_wrong(result: SuiteResult, truths: list[bool]) -> int:
    return sum(
        found.status is (Status.VIOLATED if truth else Status.HOLDS)
        for found, truth in zip(result.results, truths, strict=True)
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(5))
def test_two_seeds_never_contradict_each_other(tmp_path, seed):
    """No case holds with one seed and is violated with another."""
    found = []
    for other_seed in (1, 2):
        suite, model, truths = random_suite(tmp_path, seed, other_seed)
        result = run(suite, model)
        assert count_wrong(result, truths) == 0
        found.append(statuses(result))
    for case, status in found[0].items():
        assert {status, found[1][case]} != {Status.HOLDS, Status.VIOLATED}


def count_wrong_suites(folder: Path, count: int) -> tuple[int, int]:
    """The numbers of random suites with a wrong verdict, and of their decided cases."""
    wrong, decided = 0, 0
    for seed in range(count):
        suite, model, truths = random_suite(folder, seed, seed)
        result = run(suite, model)
        wrong += count_wrong(result, truths) > 0
        decided += sum(r.status is not Status.UNKNOWN for r in result.results)
    return wrong, decided


@pytest.mark.long
def test_few_of_many_random_suites_have_a_wrong_verdict(tmp_path):
    """The share of 200 random suites with any wrong verdict is at most 1 minus the confidence."""
    wrong, decided = count_wrong_suites(tmp_path, 200)
    assert decided > 400
    assert wrong <= 200 * 0.1


@pytest.mark.long
def test_narrowed_intervals_have_more_wrong_verdicts_than_allowed(tmp_path, monkeypatch):
    """The check of wrong verdicts fails for intervals that are narrowed to an eighth."""
    interval = ConfidenceSequence.interval.fget

    def narrow(sequence: ConfidenceSequence) -> tuple[float, float]:
        return tuple(
            sequence.estimate + (end - sequence.estimate) / 8 for end in interval(sequence)
        )

    monkeypatch.setattr(ConfidenceSequence, "interval", property(narrow))
    wrong, _ = count_wrong_suites(tmp_path, 60)
    assert wrong > 60 * 0.1


@pytest.mark.long
def test_thousands_of_cases_run_in_bounded_memory(tmp_path, monkeypatch):
    """Memory grows by the results alone, progress is steady, and a killed run continues."""
    rows = "start,answer\n" + "once, he\n" * 3_000
    case = {"prompts": "rows.csv", "require": ["P>=0.1 [ F right = 1 ]"]}
    suite = load(tmp_path, [case], {"rows_csv": rows}, properties=PROPERTIES, length=1)
    evaluated = []

    def answer(opened, questions, *users, **options):
        for index, question in enumerate(questions):
            evaluated.append(question.prompt)
            yield index, build_answer()

    monkeypatch.setattr(runs, "answer_side_by_side", answer)
    peaks, reports = {}, []

    def measure(progress: SuiteProgress, last: int) -> None:
        reports.append(progress.done)
        if progress.done in (1_500, 2_700):
            peaks[progress.done] = tracemalloc.get_traced_memory()[0]
        if progress.done == last:
            raise Killed

    log = tmp_path / "log.jsonl"
    with pytest.raises(Killed):
        run(suite, log=log, report=lambda progress: measure(progress, 1_200))
    tracemalloc.start()
    try:
        result = run(suite, log=log, report=lambda progress: measure(progress, 0))
    finally:
        tracemalloc.stop()
    assert len(evaluated) == 3_000
    assert reports == [*range(1, 1_201), *range(1, 3_001)]
    assert result.counts.holds == 3_000
    assert len(log.read_text().splitlines()) == 3_001
    # a result has less than 2 KB
    assert peaks[2_700] - peaks[1_500] < 1_200 * 2_000
