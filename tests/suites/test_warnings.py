"""A suite warns of thresholds without content and of braces that no column replaces."""

import html

import pytest
from helpers.suites import load, run, words_model

import llmchecker as lc
from llmchecker.interfaces.cli.suite_command import _format_progress
from llmchecker.suites.html_page import format_html
from llmchecker.suites.junit import format_junit
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.notes import select_notes
from llmchecker.suites.runner import SuiteProgress
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.warnings import list_warnings

HE = {"he": {"type": "pattern", "pattern": " he"}}
VACUOUS = "possible value meets it, whatever the model writes"


@pytest.mark.parametrize(
    ("requirement", "meets"),
    [
        ({"contains": "he", "at_least": 0}, "every"),
        ({"contains": "he", "at_most": 1}, "every"),
        ({"contains": "he", "at_least": 0.0}, "every"),
        ({"contains": "he", "at_most": 1.0}, "every"),
        ("P>=0 [ F he = 1 ]", "every"),
        ("P<=1 [ F he = 1 ]", "every"),
        ("P>1 [ F he = 1 ]", "no"),
        ("P<0 [ F he = 1 ]", "no"),
        ("P>=0.5 [ F (P>=0 [ F he = 1 ]) ]", "every"),
        ({"contains": "he", "at_least": 1}, None),
        ({"contains": "he", "at_most": 0}, None),
        ("P>0 [ F he = 1 ]", None),
        ("P<1 [ F he = 1 ]", None),
    ],
)
def test_a_threshold_that_every_probability_meets_is_warned_of(requirement, meets, tmp_path):
    """A threshold from 0 to 1 has content unless all numbers of [0, 1] are on one side of it."""
    suite = load(tmp_path, [{"start": "once", "require": [requirement]}], properties=HE)
    found = [warning for warning in list_warnings(suite) if VACUOUS in warning]
    assert len(found) == (meets is not None)
    assert all(f"{meets} {VACUOUS}" in warning for warning in found)


@pytest.mark.parametrize(
    ("mean", "is_vacuous"),
    [
        ("mean P=? [ F he = 1 ] >= 0", True),
        ("mean P=? [ F he = 1 ] <= 1", True),
        ("mean P=? [ F he = 1 ] >= 0.1", False),
        # a pattern scores 0 or 1
        ("mean he <= 1", True),
        ("mean he >= 0.5", False),
    ],
)
def test_a_mean_that_every_score_meets_is_warned_of(mean, is_vacuous, tmp_path):
    """The threshold of an average is compared with the range of what is averaged."""
    cases = [{"prompts": "rows.csv", "average": {"often": mean}}]
    suite = load(tmp_path, cases, {"rows_csv": "start\nonce\n"}, properties=HE)
    assert any(VACUOUS in warning for warning in list_warnings(suite)) == is_vacuous


@pytest.mark.parametrize(
    ("query", "is_vacuous"),
    [
        ("P>=0 [ F he = 1 ]", True),
        ("P<=1 [ F he = 1 ]", True),
        ("P>=0.2 [ F he = 1 ]", False),
        ("P=? [ F he = 1 ]", False),
    ],
)
def test_an_answer_notes_a_threshold_without_content(query, is_vacuous):
    """`check` and Python have the note, on a model and on a tree."""

    def he(start: str, text: str) -> int:
        return int(" he" in text)

    answers = [
        lc.ask(query, words_model(), "once", length=2, passes=20, he=he),
        lc.check(query, lc.grow(words_model(), "once", alpha=1, k=4, length=2), he=he),
    ]
    for answer in answers:
        assert (VACUOUS in str(answer)) == is_vacuous
        assert any(VACUOUS in note for note in answer.as_json()["notes"]) == is_vacuous


BRACES = "stays as it is, since the case has no prompts with columns"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Is {city} in {country}?", ["{city}", "{country}"]),
        ("Is {{city}} in {{ country }}?", ["{{city}}", "{{ country }}"]),
        ('Return {"a": 1}, {"a": {"b": {}}} or {}.', []),
        ("What is \\frac{a}{b} + x_{n} + x^{n}?", []),
        ("Run ${name} and function f() { return x }", []),
        ("Use {2} or {2,5}", []),
    ],
)
def test_braces_that_no_column_replaces_are_warned_of(text, names, tmp_path):
    """Names in braces are literal without `prompts`; JSON, formulas and code have none."""
    cases = [
        {"user": text, "require": [{"contains": "he", "at_least": 0.1}]},
        {"user": "so?", "require": [{"contains": f"a {text}", "at_least": 0.1}]},
        {
            "messages": [{"system": text}, {"user": "so?"}],
            "require": [{"contains": "he", "at_least": 0.1}],
        },
    ]
    for case in cases:
        found = [each for each in list_warnings(load(tmp_path, [case])) if BRACES in each]
        assert [each.split(f" {BRACES}")[0] for each in found] == [f"case 1: {n}" for n in names]


def test_columns_of_a_table_are_no_literal_braces(tmp_path):
    """With `prompts` a name in braces is a column, and doubled braces are meant."""
    cases = [
        {
            "prompts": "rows.csv",
            "user": "Is {city} {{here}}?",
            "require": [{"contains": "he", "at_least": 0.1}],
        }
    ]
    suite = load(tmp_path, cases, {"rows_csv": "city\nRome\n"}, system="{{name}}")
    assert list_warnings(suite) == []


def test_every_output_has_each_warning_once(tmp_path):
    """Terminal, JUnit, Markdown and the page contain the warnings, not for each of two models."""
    models = ["m", {"source": "./m", "label": "n"}]
    cases = [{"start": "Is {city}?", "require": [{"contains": "he", "at_least": 0}]}]
    suite = load(tmp_path, cases, model=models)
    result = run(suite, lambda name: lc.TableModel(["Is {city}?", " he"], lambda tokens: [0, 1]))
    assert len(list_warnings(suite)) == 2
    junit = html.unescape(format_junit(result).decode())
    outputs = format_table(result), format_markdown(result), html.unescape(format_html(result))
    for warning in list_warnings(suite):
        assert [output.count(warning) for output in outputs] == [1, 1, 1]
        # each model is a test suite of its own
        assert junit.count(warning) == 2


def test_progress_counts_prompts_and_forecasts_no_end_that_is_near(tmp_path):
    """Two requirements of one prompt are one case, and no time is left at the end."""
    cases = [{"start": "once", "require": ["P>=0.1 [ F he = 1 ]", "P<=0.9 [ F he = 1 ]"]}]
    reports: list[SuiteProgress] = []
    suite = load(tmp_path, cases, properties=HE)
    run(suite, report=reports.append)
    lines = [_format_progress(report) for report in reports]
    assert [line.split(", ")[0] for line in lines] == ["0 of 1 case", "1 of 1 case"]
    assert [line.split(", ")[1] for line in lines] == [
        "1 requirement decided",
        "2 requirements decided",
    ]
    assert not any("left" in line for line in lines)
    assert suite.prompt_count == 1


def test_a_forecast_of_the_end_falls_to_none(tmp_path):
    """A run of many cases has a forecast at first, and none while its last cases are under way."""
    rows = "start\n" + "once\n" * 100
    cases = [{"prompts": "rows.csv", "require": ["P>=0.1 [ F he = 1 ]"]}]
    reports: list[SuiteProgress] = []
    run(load(tmp_path, cases, {"rows_csv": rows}, properties=HE), report=reports.append)
    has_forecast = [report.seconds_left is not None for report in reports]
    # the first result comes after the loading of a model
    assert has_forecast == [False, *[True] * 34, *[False] * 65]
    assert [report.cases_done for report in reports] == list(range(1, 101))


@pytest.mark.parametrize("count", range(6))
def test_hidden_notes_are_counted(count):
    """Of more notes than a maximum the first are shown, and the number of the others."""
    notes = [f"note {number}" for number in range(count)]
    shown = select_notes(notes, 3)
    assert shown[:3] == notes[:3]
    assert shown[3:] == ([f"… and {count - 3} more notes"] if count > 3 else [])
