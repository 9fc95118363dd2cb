"""A suite is a matrix: each model, with each system prompt, answers each form of a prompt."""

import re
from fractions import Fraction
from itertools import product
from xml.etree import ElementTree

import pytest
from helpers.suites import HE, WORDS, OpenTable, load, run

import llmchecker as lc
from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.suites.entries import build_entries, sort_entries
from llmchecker.suites.html_page import format_html
from llmchecker.suites.junit import format_junit
from llmchecker.suites.load import load_suite
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.multiple_testing import split_confidence
from llmchecker.suites.selection import select_by_name
from llmchecker.suites.session import SuiteRun
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import Status

X = {"x": {"type": "pattern", "pattern": " he"}}
QUERY = f"P>={HE / 2:.3f} [ F x = 1 ]"
MEAN = "mean P=? [ F x = 1 ] >= 0.2"
CASES = [
    {
        "name": "city",
        "user": {"short": "Madrid?", "long": "Is Madrid in Spain?"},
        "require": [QUERY],
    },
    {"name": "once", "user": ["once", "once he"], "require": {"says he": QUERY}},
]
MATRIX = {
    "model": ["m", {"source": "./m", "label": "n"}],
    "system": {"brief": "Be brief.", "kind": "Be kind."},
    "properties": X,
}
DEPLOYMENTS = ["m, brief", "m, kind", "n, brief", "n, kind"]
SUBJECTS = ["city, short", "city, long", "once, prompt 1", "once, prompt 2"]


class Chats(lc.TableModel):
    """A table that answers any messages."""

    def encode(self, start):
        return super().encode(start if isinstance(start, str) else "once")


def choose_model(name: str) -> Chats:
    """A model that says he often, and one that never does with the kind system prompt."""
    he = 0.0 if name == "n, kind" else 0.25
    return Chats(WORDS, lambda tokens: [0, he, 0.25, 0.75 - he])


def test_each_model_with_each_system_prompt_answers_each_form(tmp_path):
    """The cases are all combinations, named by their alternatives, with their prompts."""
    suite = load(tmp_path, CASES, **MATRIX)
    found = [(case.deployment.name, case.subject) for case in suite.cases]
    assert found == list(product(DEPLOYMENTS, SUBJECTS))
    prompts = {(c.deployment.name, c.subject): c.question.prompt.messages for c in suite.cases}
    assert prompts["n, kind", "city, long"] == (
        ("system", "Be kind."),
        ("user", "Is Madrid in Spain?"),
    )
    assert prompts["m, brief", "once, prompt 2"][1] == ("user", "once he")


def test_all_combinations_have_one_confidence(tmp_path):
    """The error probability is divided among all combinations."""
    suite = load(tmp_path, CASES, **MATRIX)
    assert suite.interval_count == 4 * 4
    shares = {Fraction(1 - case.question.budget.confidence) for case in suite.cases}
    assert shares == {Fraction(1 - split_confidence(suite.confidence, 16))}


def test_alternatives_combine_with_the_rows_of_a_table(tmp_path):
    """Each form of a template has all rows, and an average and groups of its own."""
    entry = {
        "name": "{topic}",
        "prompts": "rows.csv",
        "user": ["Is {city}?", "Say {{{city}}}."],
        "average": {"he": "mean P=? [ F x = 1 ] >= 0.2"},
        "by": "topic",
    }
    rows = {"rows_csv": "city,topic\nMadrid,south\nOslo,north\n"}
    suite = load(tmp_path, [entry], rows, system=[None, "From {topic}."], properties=X)
    names = [case.name for case in suite.cases if case.deployment.name == "m, system 2"]
    assert names == [
        "south, prompt 1, row 1: he",
        "north, prompt 1, row 2: he",
        "south, prompt 2, row 1: he",
        "north, prompt 2, row 2: he",
    ]
    assert [average.name for average in suite.averages] == [
        "case 1, prompt 1: he",
        "case 1, prompt 2: he",
    ]
    last = suite.cases[-1].question.prompt.messages
    assert last == (("system", "From north."), ("user", "Say {Oslo}."))
    assert {case.deployment.name for case in suite.cases} == {"m, no system", "m, system 2"}
    result = run(suite, choose_model)
    means = [each for each in result.aggregates if each.kind == "average"]
    assert len(means) == 4
    assert all(mean.status is Status.HOLDS for mean in means)


@pytest.mark.parametrize(
    ("keys", "line", "reason"),
    [
        ({"system": []}, 9, "system: [] is too short; add at least 1 entry"),
        ({"system": {}}, 9, "system: {} is too short; add at least 1 entry"),
        ({"system": ["a", "a"]}, 9, "system: 'a' occurs twice; remove one"),
        ({"system": {"x": "a", "y": "a"}}, 9, "system: 'a' occurs twice; remove one"),
        ({"system": [None, None]}, 9, "system: null occurs twice; remove one"),
        ({"system": [["a"]]}, 9, "system: ['a'] is not of type string"),
        ({"system": {"": "a"}}, 9, "system: '': write a name of 1 to 100 characters"),
        ({"model": []}, 1, "model: [] is too short; add at least 1 entry"),
        ({"model": ["m", "m"]}, 1, "model: m, m has a model twice; remove one"),
        (
            {"system": ["a", "b"], "versus": {"decoding": "greedy"}},
            12,
            "versus: the suite has several system prompts; write one as `system`",
        ),
    ],
)
def test_a_matrix_that_cannot_run_is_refused(tmp_path, keys, line, reason):
    """Empty lists, repeated texts and ambiguous comparisons are refused with their line."""
    with pytest.raises(LLMCheckerError) as error:
        load(tmp_path, [{"user": "so?", "require": [QUERY]}], properties=X, **keys)
    assert str(error.value) == f"{tmp_path}/suite.yaml, line {line}: {reason}"


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"user": []}, "cases[0].user: [] is too short; add at least 1 entry"),
        ({"user": ["a", "a"]}, "cases[0].user: 'a' occurs twice; remove one"),
        ({"user": ["a", None]}, "cases[0].user: null is not of type string; write a text"),
        ({"user": ["a", "  "]}, "cases[0].user[1]: the text is empty; write a prompt"),
        ({"start": {"x": "a", "y": ""}}, "cases[0].start.y: the text is empty"),
        ({"user": {"city": None}}, 'cases[0].user: {city} is a mapping in YAML; write "{city}" in'),
        ({"user": ["a"], "start": ["b"]}, "cases[0]: there is user and start; give exactly one"),
        ({"user": "a", "model": "m"}, "cases[0].model: it belongs to the whole suite; "),
        ({"user": "a", "system": "b"}, "cases[0].system: it belongs to the whole suite; "),
    ],
)
def test_a_case_that_does_not_fit_a_matrix_is_refused(tmp_path, case, reason):
    """The message has the place of the alternative at fault."""
    with pytest.raises(LLMCheckerError, match=re.escape(reason)):
        load(tmp_path, [{**case, "require": [QUERY]}], properties=X)


def test_names_that_only_commas_divide_are_refused(tmp_path):
    """Two combinations never have one name."""
    models = ["m", {"source": "./m", "label": "m, a"}]
    keys = {"model": models, "system": {"b": "1", "a, b": "2"}}
    with pytest.raises(ConfigError, match=r"system: .* has a name twice; rename one"):
        load(tmp_path, CASES, properties=X, **keys)


def test_quoted_scalars_of_a_list_stay_texts(tmp_path):
    """A number in a list of prompts is the text of the file."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text("{}")
    path = tmp_path / "suite.yaml"
    path.write_text(
        "model: m\nsystem: [3.10, yes]\ncases:\n  - user: {a: 1.50, b: no}\n"
        "    require: [{contains: a, at_least: 0.5}]\n"
    )
    suite = load_suite(path)
    texts = [tuple(text for _, text in case.question.prompt.messages) for case in suite.cases]
    assert texts == [("3.10", "1.50"), ("3.10", "no"), ("yes", "1.50"), ("yes", "no")]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """The results of the matrix, in which one combination violates everything."""
    suite = load(tmp_path_factory.mktemp("suite"), CASES, **MATRIX)
    return run(suite, choose_model)


def test_the_verdicts_of_one_case_follow_each_other(result):
    """Outputs have the models of a requirement in a row, at the place of the worst verdict."""
    entries = sort_entries(build_entries(result))
    assert [(e.subject, e.deployment) for e in entries] == list(product(SUBJECTS, DEPLOYMENTS))
    assert [str(e.status) for e in entries[:4]] == ["HOLDS", "HOLDS", "HOLDS", "VIOLATED"]
    places = {}
    # the reasons after the table name some cases again
    table = format_markdown(result).partition("\n\n❌")[0]
    for name, text in (("table", format_table(result)), ("markdown", table)):
        rows = [line for line in text.splitlines() if re.search("city, short|city, long", line)]
        places[name] = ["short" in row for row in rows]
    assert places == dict.fromkeys(places, [True] * 4 + [False] * 4)
    page = format_html(result)
    rows = re.findall(r'<tr id="row\d+".*?</tr>', page, re.DOTALL)
    assert [re.search("<bdi>(city|once), ", row)[1] for row in rows] == ["city"] * 8 + ["once"] * 8


def test_each_combination_is_a_test_suite_of_junit(result):
    """JUnit has a suite for each model with its system prompt, with the same names of tests."""
    root = ElementTree.fromstring(format_junit(result))
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == [f"suite [{name}]" for name in DEPLOYMENTS]
    names = [[test.get("name") for test in suite.iter("testcase")] for suite in suites.values()]
    assert names == [names[0]] * 4
    assert [suite.get("failures") for suite in root] == ["0", "0", "0", "4"]


def test_outputs_count_the_verdicts_of_each_combination(result):
    """A line for each model with its system prompt has its counts, whose sums are those of all."""
    for text in (format_table(result), format_markdown(result), format_html(result)):
        assert "m, brief: 4 hold" in text
        assert "n, kind: 4 violated" in text
    assert result.counts.holds == 12
    assert result.counts.violated == 4


def test_a_filter_selects_a_combination_by_its_name(tmp_path, result):
    """The name of a case in a matrix begins with that of its model, as in outputs."""
    suite = result.suite
    selected = select_by_name(suite, "N, kind: city")
    assert {case.key for case in suite.select(selected).cases} == {
        ("n, kind", f"city, short: {QUERY}"),
        ("n, kind", f"city, long: {QUERY}"),
    }
    part = run(suite, choose_model, selected=selected)
    assert part.counts.violated == 2
    assert [each.name for each in part.suite.deployments] == ["n, kind"]


def test_rows_of_an_average_may_be_selected_for_one_model(tmp_path):
    """An average of the models all of whose rows are selected is reported; the others have none."""
    entry = {
        "name": "rows",
        "prompts": "rows.csv",
        "average": {"he": "mean P=? [ F x = 1 ] >= 0.2"},
    }
    rows = {"rows_csv": "user\nonce\nonce he\n"}
    suite = load(tmp_path, [entry], rows, **MATRIX)
    keys = {case.key for case in suite.cases if case.deployment.name == "n, kind"}
    keys.add(next(case.key for case in suite.cases))
    result = run(suite, choose_model, selected=keys)
    assert [(e.deployment, e.status) for e in result.aggregates] == [("n, kind", Status.VIOLATED)]


def test_the_other_side_of_a_comparison_is_selected_too(tmp_path):
    """A selected case of a comparison runs on both sides, whose difference is reported."""
    versus = {"system": "Be rude.", "require": {"says he": "difference >= -0.9"}}
    suite = load(tmp_path, CASES, versus=versus, **{**MATRIX, "model": "m"})
    result = run(suite, choose_model, selected=select_by_name(suite, "brief: once, prompt 1"))
    assert {case.key[0] for case in result.suite.cases} == {"m, brief", "m (versus)"}
    (difference,) = result.aggregates
    assert difference.deployment == "m, brief − system 2"
    # one difference needs no plot
    assert '<table class="forest">' not in format_html(result)
    whole = run(suite, choose_model)
    assert len(whole.aggregates) > 1
    assert format_html(whole).count('<th scope="row">') == len(whole.aggregates)


def test_the_system_prompts_of_a_model_share_its_weights(tmp_path, monkeypatch):
    """A model is opened once for all of its system prompts, and one model is open at a time."""
    opened = []

    def open_table(model, *_):
        opened.append(model.label)
        return OpenTable(choose_model("m"))

    monkeypatch.setattr("llmchecker.suites.session.open_model", open_table)
    suite = load(tmp_path, CASES, **MATRIX)
    result = SuiteRun(suite).finish()
    assert result.is_complete
    assert opened == ["m", "n"]
