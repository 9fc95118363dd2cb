"""A suite that cannot run is refused before a model is loaded, with the line and the fix."""

import json
import re
from pathlib import Path

import pytest
from helpers.suites import load, write_suite

from llmchecker.errors import LLMCheckerError
from llmchecker.suites.load import load_suite

QUERY = "P>=0.5 [ F x = 1 ]"
X = {"x": {"type": "pattern", "pattern": " he"}}
ROWS = "start,answer\nonce, he\n"

CASE = {"start": "once", "require": [QUERY]}


def refused(folder: Path, cases: list, files: dict | None = None, **keys) -> str:
    with pytest.raises(LLMCheckerError) as error:
        load(folder, cases, files or {}, **({"properties": X} | keys))
    assert str(error.value).startswith(str(folder / "suite.yaml"))
    return str(error.value)


@pytest.mark.parametrize(
    ("cases", "line", "reason"),
    [
        ([{"strat": "once", "require": [QUERY]}], 10, "did you mean 'start'"),
        ([{"start": "once"}], 10, "no requirement"),
        ([{"start": "once", "require": ["P=? [ F x = 1 ]"]}], 12, "no threshold; write"),
        ([{"start": "once", "require": [QUERY, QUERY]}], 13, "rename one"),
        ([{"start": "once", "require": {"a": 3}}], 12, "is no requirement"),
        ([{"start": "once", "require": 3}], 11, "neither a list nor a mapping"),
        ([{"start": "once", "require": [{"contains": "x"}]}], 12, "at_least or at_most"),
        ([{"start": " ", "require": [QUERY]}], 10, "start: the text is empty"),
        ([{"require": [QUERY]}], 10, "no prompt"),
        ([{"start": "x" * 100_001, "require": [QUERY]}], 10, "100,001 characters"),
        ([{**CASE, "by": "topic"}], 13, "add `prompts`"),
        ([{**CASE, "average": {"a": "mean P=? [ F x = 1 ]"}}], 13, "add `prompts`"),
        ([{**CASE, "name": "a"}, {**CASE, "name": "a"}], 16, "is also the name of cases[0]"),
        ([{**CASE, "budget": {"tokens": 3}}], 14, "tokens: a limit of the whole run"),
    ],
)
def test_a_case_that_cannot_run_is_refused_with_its_line(tmp_path, cases, line, reason):
    """An unusable key of a case is refused with the line of the key."""
    message = refused(tmp_path, cases)
    assert reason in message
    assert f"suite.yaml, line {line}: " in message


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"model": "absent"}, "'absent' is no model and no directory in "),
        ({"model": ["m", "m"]}, "has a model twice"),
        ({"versus": {}}, "nothing differs"),
        ({"versus": {"model": "m", "require": {"b": "difference >= 0"}}}, "has this name"),
        ({"versus": {"model": "m", "require": {QUERY: "at least 0"}}}, "is no difference"),
        ({"system": "Be kind."}, "belongs to a chat"),
        ({"config": "no.yaml"}, "no.yaml"),
    ],
)
def test_a_suite_that_cannot_run_is_refused(tmp_path, keys, reason):
    """An unusable key of the suite is refused with the reason."""
    assert reason in refused(tmp_path, [CASE], **keys)


@pytest.mark.parametrize(
    ("require", "message"),
    [
        (
            {"type": "contains", "value": "X"},
            """require: type: 'contains': the name of an assertion is its key here; write """
            """{contains: "X", at_least: 0.95}""",
        ),
        (
            [{"type": "not-contains-any", "value": ["X"]}],
            'write {not_contains_any: ["X"], at_least',
        ),
        ({"type": "is-json", "at_least": 0.9}, "write {json: true, at_least: 0.95}"),
        ({"mine": {"type": "regex", "value": "a"}}, 'write {matches: "a", at_least: 0.95}'),
        ([{"type": "bleu"}], "type: 'bleu': the name of an assertion is its key here; known are"),
        ({"contains": "X"}, "require: {'contains': 'X'}: write a probability, at_least or at_most"),
        ({"json": {"type": "object"}}, "write a probability, at_least or at_most"),
        ({"contains": "X", "at_leat": 0.9}, "require: at_leat: there is no such assertion, did"),
    ],
)
def test_an_assertion_of_another_form_has_an_error_with_the_right_one(tmp_path, require, message):
    """An assertion as in promptfoo, or without a probability, is refused with what to write."""
    assert message in refused(tmp_path, [{"start": "once", "require": require}])


def test_a_requirement_may_have_the_name_of_an_assertion(tmp_path):
    """A query or an assertion that is named like an assertion is a requirement."""
    require = {"contains": QUERY, "type": QUERY, "json": {"contains": "X", "at_least": 0.5}}
    suite = load(tmp_path, [{"start": "once", "require": require}], properties=X)
    assert [case.label for case in suite.cases] == ["contains", "type", "json"]


def test_a_configuration_of_promptfoo_is_not_read_as_a_suite(tmp_path):
    """A file or a case with promptfoo's keys is refused with the command or the key to use."""
    (tmp_path / "p.yaml").write_text("prompts: [a]\nproviders: [b]\ntests: [{vars: {a: b}}]\n")
    with pytest.raises(LLMCheckerError, match=r"convert it by llmchecker init --from p\.yaml"):
        load_suite(tmp_path / "p.yaml")
    case = {"start": "once", "assert": [{"type": "contains", "value": "X"}]}
    assert "cases[0].assert: a key of promptfoo; write require" in refused(tmp_path, [case])


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"user": ""}, "cases[0].user: the text is empty"),
        ({"user": ["a", ""]}, "cases[0].user[1]: the text is empty"),
        ({"start": " "}, "cases[0].start: the text is empty"),
        ({"turns": [{"user": ""}]}, "cases[0].turns[0].user: the text is empty"),
        ({"messages": [{"assistant": "a"}]}, "cases[0].messages: last message: not the user's"),
        (
            {"prompts": "rows.csv", "start": ""},
            "cases[0].start: rows.csv, row 1: the text is empty",
        ),
    ],
)
def test_a_message_about_a_prompt_has_its_key_once(tmp_path, case, message):
    """The key of an unusable prompt is written once, after the file and the line."""
    files = {"rows_csv": "a\nb\n"}
    assert f": {message}" in refused(tmp_path, [{**case, "require": [QUERY]}], files)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model: m\nmodle: m\ncases: []\n", "line 2: suite: unknown key 'modle', did you mean"),
        ("cases: [{user: a}]\n", "suite: the key 'model' is missing; add it, or give models"),
        (
            "model: m\ncases: [{prompt: a}]\n",
            "prompt: a case has no such key; write user",
        ),
        ("model: m\nconfig: []\ncases: [{user: a}]\n", "line 2: config: [] is not of type"),
        ("model: m\nconfig: c.yaml\n", "suite.yaml: suite: the key 'cases' is missing"),
    ],
)
def test_a_key_of_the_whole_suite_is_not_one_of_a_configuration(tmp_path, text, reason):
    """An unknown or absent key is one of the suite, which also has a key `config`."""
    (tmp_path / "suite.yaml").write_text(text)
    with pytest.raises(LLMCheckerError) as error:
        load_suite(tmp_path / "suite.yaml")
    assert reason in str(error.value)


TABLE = {"prompts": "rows.csv", "require": [QUERY]}


@pytest.mark.parametrize(
    ("rows", "case", "reason"),
    [
        ("start,answer\n", TABLE, "rows.csv: the file has no rows"),
        ("", TABLE, "has no rows"),
        (",\nonce,\n", TABLE, "no column has a name"),
        ("start, start\na,b\n", TABLE, "two columns have the name 'start'"),
        ("start,answer\nonce\n", TABLE, "row 1: 1 values for the 2 columns start, answer"),
        ('start\n"a\nb"\n"on', TABLE, "rows.csv, line 4: not CSV: a quote is not closed"),
        ('start\n"on" ce\n', TABLE, "rows.csv, line 2: not CSV: a text follows a closing quote"),
        ('start,b\nonce, "a, b"\n', TABLE, "rows.csv, row 1: a space precedes a quote"),
        ('start,b\nonce, "a"\n', TABLE, "rows.csv, row 1: a space precedes a quote"),
        ('start;answer\n"a; b";c\n', TABLE, "line 1: semicolons separate the columns"),
        ('start\tb\n"a, b"\tc\n', TABLE, "line 1: tabs separate the columns"),
        ("text\nonce\n", TABLE, "rows.csv, row 1: there is no prompt of columns text; give"),
        ("start;answer\nonce;a, b\n", TABLE, "semicolons separate the columns 'start;answer'"),
        ("start\tanswer\nonce\tb\n", TABLE, "tabs separate the columns"),
        ("start\nonce\n \n", TABLE, "row 2, column start: the text is empty"),
        ("start\n" + "x" * 100_001 + "\n", TABLE, "100,001 characters"),
        (ROWS, TABLE | {"by": "topic"}, "no column 'topic'"),
        (ROWS, TABLE | {"start": "{anser}"}, "did you mean 'answer'"),
        (
            ROWS,
            TABLE | {"require": [{"contains": "{b}", "at_least": 1}]},
            "{b}: the prompts have no such column",
        ),
        (ROWS, TABLE | {"require": ["P>=0.5 [ F z = 1 ]"]}, "{z}: the prompts have no such column"),
        (ROWS, TABLE | {"average": {"a": "mean of x"}}, "is no mean"),
        (ROWS, TABLE | {"average": {"a": "mean P=? [ F x = 1 ] over 3"}}, "no threshold"),
        (ROWS, TABLE | {"average": {QUERY: "mean P=? [ F x = 1 ]"}}, "rename one"),
        (ROWS, TABLE | {"prompts": "no.csv"}, "absent"),
        (ROWS, TABLE | {"prompts": "suite.yaml"}, "unknown format"),
        (
            ROWS,
            TABLE | {"prompts": {"source": "path:rows.csv", "rows": 2}},
            "the number of rows is 1, not 2",
        ),
        (ROWS, TABLE | {"prompts": {"source": "path:rows.csv", "sha256": "0" * 64}}, "sha256"),
        (ROWS, TABLE | {"prompts": "hf:owner/name"}, "name a commit"),
        (ROWS, TABLE | {"prompts": "pypi:name==1.0"}, "path: or hf:"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, rows, case, reason):
    """An unusable table is refused with its row or column."""
    z = {"z": {"type": "words", "words": ["{z}"]}}
    assert reason in refused(tmp_path, [case], {"rows_csv": rows}, properties=X | z)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"start": NaN}', "row 1, column start: the value is nan"),
        ('{"start": null}', "the value is missing"),
        ('{"start": ["a"]}', "the value is a list"),
        ('{"start": {}}', "the value is an object"),
        ('{"start": "a"}\n{"text": "b"}', "row 2, column start: the value is missing"),
        ('{"start": "a", "start ": "b"}', "line 1: two columns have the name 'start'"),
        ("[1]", "line 1: write a JSON object"),
        ("{}", "line 1: write a JSON object with columns"),
        ('{"start": "a', "line 1: no JSON"),
    ],
)
def test_json_lines_that_cannot_be_used_are_refused(tmp_path, line, reason):
    """An unusable JSON line is refused with its row or line."""
    case = {"prompts": "rows.jsonl", "require": [QUERY]}
    assert reason in refused(tmp_path, [case], {"rows_jsonl": line + "\n"})


def test_rows_of_every_format_are_the_same(tmp_path):
    """CSV, JSON lines and parquet with the same rows give the same cases."""
    import pandas as pd

    rows = [{"start": "once", "answer": " he"}, {"start": "once he", "answer": 'a "b", c'}]
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    pd.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for suffix in ("csv", "parquet", "jsonl"):
        case = {"prompts": f"rows.{suffix}", "require": [{"contains": "{answer}", "at_least": 1}]}
        suite = load(tmp_path, [case])
        found.append([(c.name, c.question.prompt, list_quantifiers(c)) for c in suite.cases])
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2


def test_equal_rows_are_rows_of_their_own(tmp_path):
    """A row that occurs twice counts twice, as its data set has it."""
    cases = load_rows(tmp_path, "start\nonce\nonce\n", case={})
    assert [case.name.partition(":")[0] for case in cases] == ["case 1, row 1", "case 1, row 2"]


def test_columns_are_inserted_as_literals(tmp_path):
    """The cell `.*` in a pattern matches itself only, and text of a prompt stays text."""
    suite = load(
        tmp_path,
        [
            {
                "prompts": "rows.csv",
                "start": "once {answer}",
                "require": ["P>=0.5 [ F x = 1 ]", {"contains": "{answer}", "at_least": 0.5}],
            }
        ],
        {"rows_csv": 'answer\n".*{b}"\n'},
        properties={"x": {"type": "pattern", "pattern": r"\p{L}{answer}"}},
    )
    by_pattern, by_assertion = suite.cases
    assert by_pattern.question.prompt == "once .*{b}"
    for case, text in ((by_pattern, "a.*{b}"), (by_assertion, ".*{b}")):
        ((_, quantifier),) = list_quantifiers(case).items()
        assert quantifier("", text) == 1
        assert quantifier("", "abcdef") == 0


def list_quantifiers(case) -> dict:
    """The quantifiers of a case by name."""
    return dict(case.question.asked.quantifiers)


def load_rows(folder: Path, table: str, *, case: dict, name: str = "rows_csv", **keys) -> list:
    """The cases of one entry with a table."""
    case = {"prompts": name.replace("_", "."), "require": [QUERY], **case}
    return list(load(folder, [case], {name: table}, **({"properties": X} | keys)).cases)


@pytest.mark.parametrize(
    "column",
    ["expected answer", "ok-col", "Größe", "a.b", "2", "ключ", "a:b", "Gro\u0308\u00dfe", "q/1?"],
)
def test_a_column_of_any_name_is_inserted(tmp_path, column):
    """Spaces, signs, digits and letters of any script are parts of a name."""
    (case,) = load_rows(
        tmp_path,
        f"\ufeff {column} ,start\nhe,once\n",
        case={
            "start": f"{{{column}}} {{ {column} }}",
            "require": [{"contains": f"{{{column}}}", "at_least": 0.5}],
        },
    )
    assert case.question.prompt == "he he"
    assert list_quantifiers(case)["contains"].pattern == "he"
    assert case.name == 'case 1, row 1: contains "he", at least 0.5'


def test_names_are_equal_in_any_normal_form(tmp_path):
    """A letter with a combining mark is the composed letter, in the table and in the suite."""
    for column, text in (
        ("Gro\u0308\u00dfe", "Gr\u00f6\u00dfe"),
        ("Gr\u00f6\u00dfe", "Gro\u0308\u00dfe"),
    ):
        (case,) = load_rows(tmp_path, f"{column}\n7\n", case={"start": f"{{{text}}}"})
        assert case.question.prompt == "7"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\frac{{{a}}}{{{b}}}", r"\frac{1}{{x}}"),
        ("def f(): return {{'{a}': {{}}}}", "def f(): return {'1': {}}"),
        ("{{a}}", "{a}"),
        ("{b}{a}", "{x}1"),
        ("}}{{", "}{"),
    ],
)
def test_doubled_braces_are_braces(tmp_path, text, expected):
    """`{{` and `}}` are literal, and braces in a cell are not expanded again."""
    (case,) = load_rows(tmp_path, "a,b\n1,{x}\n", case={"start": text})
    assert case.question.prompt == expected


@pytest.mark.few(16)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{Answer}", "{Answer}: the prompts have no such column, did you mean 'answer'? they have"),
        ("{answer!r}", "they have answer, min; write {{answer!r}} for braces"),
        ("{}", "{}: the prompts have no such column"),
        (r"\frac{a}{b}", "{a}: the prompts have no such column"),
        ("{answer", "{ has no counterpart; write {{ for {"),
        ("answer}", "} has no counterpart; write }} for }"),
        ("{x {answer}}", "{ has no counterpart"),
        ("{answer}}", "} has no counterpart"),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        "start",
        "name",
        "assertion",
        "list",
        "query",
        "label",
        "schema",
        "properties",
        "system",
        "versus",
        "messages",
        "average",
    ],
)
def test_no_template_remains_in_any_text(tmp_path, place, text, reason):
    """In a case with a table, what is no column is refused with its line, wherever it is."""
    case: dict = {"prompts": "rows.csv", "start": "once", "require": [QUERY]}
    keys: dict = {}
    match place:
        case "start" | "name":
            case[place] = text
        case "assertion":
            case["require"] = [{"contains": text, "at_least": 0.5}]
        case "list":
            case["require"] = [{"contains_any": ["x", text], "at_least": 0.5}]
        case "query":
            case["require"] = [f"P>=0.5 [ F x = {text} ]"]
        case "label":
            case["require"] = {text: QUERY}
        case "schema":
            case["require"] = [{"json": {"required": [text]}, "at_least": 0.5}]
        case "properties":
            keys["properties"] = {"x": {"type": "pattern", "pattern": text}}
        case "system":
            case["user"] = case.pop("start")
            keys["system"] = text
        case "versus":
            case["user"] = case.pop("start")
            keys["versus"] = {"system": text}
        case "messages":
            del case["start"]
            case["messages"] = [{"user": text}]
        case "average":
            case["average"] = {"a": f"mean P=? [ F x = {text} ]"}
    message = refused(tmp_path, [case], {"rows_csv": "answer,min\nx,1\n"}, **keys)
    # braces of a regular expression are refused as such
    assert reason in message or place == "properties"
    assert ", line " in message


def test_regular_expressions_keep_their_own_braces(tmp_path):
    r"""Counts and `\p{L}` need no doubled braces; a cell is literal."""
    pattern = r"\p{L}{2,3}[{{}}]{answer}{1}b{,2}"
    (case,) = load_rows(
        tmp_path,
        "answer\na.c\n",
        case={"start": "x", "require": [{"matches": pattern, "at_least": 0.5}]},
    )
    assert list_quantifiers(case)["matches"].pattern == r"\p{L}{2,3}[{}]a\.c{1}b{,2}"
    message = refused(
        tmp_path,
        [{"prompts": "rows.csv", "start": "x", "require": [{"matches": "a{2}", "at_least": 0.5}]}],
        {"rows_csv": "2\nb\n"},
    )
    assert "write {{2}} for the count" in message


def test_texts_of_the_suite_are_templates(tmp_path):
    """`system`, decoding, names, messages and thresholds differ between rows."""
    cases = load_rows(
        tmp_path,
        "topic,persona,t,k,min,words\ngeo,pirate,0.5,2,0.950,3\nart,poet,1,3,1e-1,4\n",
        case={
            "name": "{topic} questions",
            "messages": [{"user": "{topic}?"}, {"assistant": "{{}}"}, {"user": "Why, {persona}?"}],
            "require": {
                "{topic} right": "P>={min} [ F x = 1 ]",
                "short": {"max_words": "{words}", "at_least": "{min}"},
            },
        },
        system="You are a {persona}.",
        decoding={"temperature": "{t}", "top_k": "{k}"},
    )
    assert [case.name for case in cases] == [
        "geo questions, row 1: geo right",
        "geo questions, row 1: short",
        "art questions, row 2: art right",
        "art questions, row 2: short",
    ]
    assert [case.question.prompt.messages for case in cases[::2]] == [
        (
            ("system", "You are a pirate."),
            ("user", "geo?"),
            ("assistant", "{}"),
            ("user", "Why, pirate?"),
        ),
        (
            ("system", "You are a poet."),
            ("user", "art?"),
            ("assistant", "{}"),
            ("user", "Why, poet?"),
        ),
    ]
    assert [case.question.query.text for case in cases] == [
        "P>=0.950 [ F x = 1 ]",
        "P>=0.950 [ G words <= 3 ]",
        "P>=1e-1 [ F x = 1 ]",
        "P>=0.1 [ G words <= 4 ]",
    ]
    decodings = [case.deployment.model.decoding.settings for case in cases[::2]]
    assert decodings == [{"temperature": 0.5, "top_k": 2}, {"top_k": 3}]
    assert {case.deployment.name for case in cases} == {"m"}


NUMBERS = [
    ({"require": [{"contains": "a", "at_least": "{v}"}]}, {}, "at_least: "),
    ({"require": [{"max_words": "{v}", "at_least": 0.5}]}, {}, "max_words: "),
    ({}, {"decoding": {"temperature": "{v}"}}, "temperature: "),
    ({}, {"decoding": {"top_k": "{v}"}}, "top_k: "),
]


@pytest.mark.few(12)
@pytest.mark.parametrize(("case", "keys", "reason"), NUMBERS)
@pytest.mark.parametrize(
    "value", ["half", "0,5", "", "1_0", "0x1", "-1", "NaN", "1e9999", "\u0661"]
)
def test_a_cell_that_is_no_number_is_refused_with_its_place(tmp_path, case, keys, reason, value):
    """A number of a column is read strictly; the message names table, row, column and value."""
    case = {"prompts": "rows.csv", "start": "once", "require": [QUERY], **case}
    table = f'v\n1\n"{value}"\n'
    message = refused(tmp_path, [case], {"rows_csv": table}, **keys)
    assert "rows.csv, row 2, column v: " in message
    assert reason in message
    assert value in message or value == "1e9999"


def test_a_decoding_with_columns_is_checked_before_its_rows(tmp_path):
    """Unknown names and values without columns are refused with their line."""
    for decoding, reason in (
        ({"temperatur": "{v}"}, "decoding: unknown key 'temperatur', did you mean 'temperature'"),
        ({"temperature": "{v}", "top_p": 2}, "decoding.top_p: 2 is too large"),
        ("{v}", "decoding: rows.csv, row 1, column v: 1 is not greedy"),
    ):
        message = refused(
            tmp_path,
            [{"prompts": "rows.csv", "start": "once", "require": [QUERY]}],
            {"rows_csv": "v\n1\n"},
            decoding=decoding,
        )
        assert reason in message
        assert "suite.yaml, line " in message


def test_a_cell_in_a_query_is_a_number_or_a_name(tmp_path):
    """A cell cannot change the structure of a query."""
    case = {"prompts": "rows.csv", "start": "once", "require": ["P>={v} [ F x = 1 ]"]}
    for value in ("0.5 [ F x = 1 ] | P>=0", "", "0.5]"):
        message = refused(tmp_path, [case], {"rows_csv": f'v\n"{value}"\n'})
        assert "rows.csv, row 1, column v: " in message
        assert "is no number and no name" in message


def test_a_suite_with_a_table_has_templates_in_the_texts_of_the_suite_alone(tmp_path):
    """An entry without a table is literal, but a column in `system` is refused there."""
    cases = [
        {"prompts": "rows.csv", "require": [QUERY]},
        {"user": "{a}", "name": "{{", "require": [{"contains": "{{b}}", "at_least": 0.5}]},
    ]
    files = {"rows_csv": "user,persona\nhe,cook\n"}
    suite = load(tmp_path, cases, files, properties=X, system="{{}}")
    assert [case.question.prompt.messages for case in suite.cases] == [
        (("system", "{}"), ("user", "he")),
        (("system", "{}"), ("user", "{a}")),
    ]
    assert suite.cases[1].name == '{{: contains "{{b}}", at least 0.5'
    message = refused(tmp_path, cases, files, system="A {persona}.")
    assert "line 9: system: cases[1]: {persona}: the case has no prompts" in message
    (alone,) = load(tmp_path, cases[1:], system="A {persona} {{}}.").cases
    assert alone.question.prompt.messages[0] == ("system", "A {persona} {{}}.")


def test_equal_requirements_of_a_row_have_numbers(tmp_path):
    """Two assertions with different columns may be the same in a row; their names differ."""
    cases = load_rows(
        tmp_path,
        "start,a,b\nonce,he,he\n",
        case={"require": [{"contains": "{a}", "at_least": 0}, {"contains": "{b}", "at_least": 0}]},
    )
    name = 'case 1, row 1: contains "he", at least 0'
    assert [case.name for case in cases] == [name, f"{name} (2)"]


def test_an_average_has_one_name(tmp_path):
    """A name of an average cannot differ between rows."""
    case = {"prompts": "rows.csv", "average": {"{answer}": "mean P=? [ F x = 1 ]"}}
    assert "one name for all rows" in refused(tmp_path, [case], {"rows_csv": ROWS})


def test_columns_that_no_text_names_may_have_any_value(tmp_path):
    """Lists, missing cells, later columns and columns without a name are no reason to refuse."""
    rows = [
        '{"start": "once", "tags": ["a"], "n": null, "x": NaN, "": 3}',
        '{"start": "he", "late": {"a": 1}}',
    ]
    cases = load_rows(tmp_path, "\n".join(rows), case={}, name="rows_jsonl")
    assert [case.question.prompt for case in cases] == ["once", "he"]
    cases = load_rows(tmp_path, ",start,,\n0,once,a,b\n", case={})
    assert [case.question.prompt for case in cases] == ["once"]
    for column, reason in (
        ("tags", "row 1, column tags: the value is a list"),
        ("late", "row 1, column late: the value is missing"),
    ):
        message = refused(
            tmp_path,
            [{"prompts": "rows.jsonl", "start": f"{{{column}}}", "require": [QUERY]}],
            {"rows_jsonl": "\n".join(rows)},
        )
        assert f"cases[0].start: rows.jsonl, {reason}" in message


def test_numbers_of_a_table_are_as_written(tmp_path):
    """A number in JSON lines or CSV is its text in the file."""
    table = '{"v": 1.50, "n": 12345678901234567890.5, "b": true, "e": 1E3}\n'
    (case,) = load_rows(tmp_path, table, case={"start": "{v} {n} {b} {e}"}, name="rows_jsonl")
    assert case.question.prompt == "1.50 12345678901234567890.5 true 1E3"
    (case,) = load_rows(tmp_path, "v,w\n1.50,007\n", case={"start": "{v} {w}"})
    assert case.question.prompt == "1.50 007"


def test_spaces_after_commas_are_no_part_of_cells(tmp_path):
    """Spaces before the name of a column are not in its cells, quoted or not; others stay."""
    (case,) = load_rows(
        tmp_path, "q, answer,word\nIs it?, Yes, he\n", case={"start": "[{q}][{answer}][{word}]"}
    )
    assert case.question.prompt == "[Is it?][Yes][ he]"
    (case,) = load_rows(
        tmp_path,
        'q, "the answer"\n"Is ""it""?",  "Yes, it is"\n',
        case={"start": "[{q}][{the answer}]"},
    )
    assert case.question.prompt == '[Is "it"?][Yes, it is]'
    (case,) = load_rows(tmp_path, 'q,a\n" ""x"""," y"\n', case={"start": "[{q}][{a}]"})
    assert case.question.prompt == '[ "x"][ y]'


WRITTEN = [
    "3.10",
    "1.50",
    "012",
    "1e3",
    "0x10",
    "1_000",
    "2024-01-01",
    "True",
    ".inf",
    "60:30",
    "yes",
    "12345678901234567890.5",
    "-0.0",
    "1.0",
    "+1",
]


@pytest.mark.parametrize("written", WRITTEN)
def test_a_scalar_is_the_text_that_the_file_contains(tmp_path, written):
    """Where a text is expected, a number, a date or a word of YAML is taken as written."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text("{}")
    path = tmp_path / "suite.yaml"
    path.write_text(
        f"model: m\nsystem: {written}\nproperties: {{x: {{type: words, words: [he]}}}}\ncases:\n"
        f"- user: {written}\n  name: {written}\n  require:\n"
        f"  - {{equals: {written}, at_least: 0.50}}\n"
        f"  - contains_all: [{written}, a]\n    at_most: 1e-2\n"
        f"- messages:\n  - user: {written}\n  require: {{{written}: 'P>=0.5 [ F x > 0 ]',\n"
        f"    b: {{not_starts_with: {written}, at_least: 0.30000000000000000001}}}}\n"
    )
    cases = load_suite(path).cases
    quoted = re.escape(written)
    assert [case.name for case in cases] == [
        f'{written}: equals "{written}", at least 0.50',
        f'{written}: contains all ["{written}", "a"], at most 1e-2',
        f"case 2: {written}",
        "case 2: b",
    ]
    assert {case.question.prompt.messages for case in cases} == {
        (("system", written), ("user", written))
    }
    assert list_quantifiers(cases[0])["equals"].pattern == quoted
    assert f"(?=.*{quoted})" in list_quantifiers(cases[1])["contains"].pattern
    assert list_quantifiers(cases[3])["starts"].pattern == rf"\A{quoted}"
    thresholds = [f"{case.threshold.number:f}" for case in cases if case.threshold is not None]
    assert thresholds == ["0.50", "0.01", "0.5", "0.30000000000000000001"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("user: {question}", 'cases[0].user: {question} is a mapping in YAML; write "{question}"'),
        ("user: ", "cases[0].user: null is not of type string"),
        ("user: ~", "cases[0].user: null is not of type string"),
        *(
            (
                f"user: a\n  require: [{{{entry}}}]\n- user: b",
                f"line 4: cases[0].require[0]: {key}: {{a b}} is a mapping in YAML; write "
                '"{a b}" in quotes',
            )
            for entry, key in (
                ("contains: {a b}, at_least: 1", "contains"),
                ("at_most: {a b}, equals: a", "at_most"),
                ("not_contains_any: [x, {a b}], at_least: 1", "not_contains_any"),
                ("max_words: {a b}, at_least: 1", "max_words"),
            )
        ),
    ],
)
def test_values_of_another_type_are_refused(tmp_path, entry, reason):
    """A word is no number, a mapping no text, and a missing value no empty text."""
    path = tmp_path / "suite.yaml"
    path.write_text(f"model: m\ncases:\n- {entry}\n  require: ['P>=0.5 [ F length > 1 ]']\n")
    with pytest.raises(LLMCheckerError) as error:
        load_suite(path)
    assert reason in str(error.value)


def test_braces_without_a_table_are_text(tmp_path):
    """A prompt and an assertion without prompts keep their braces."""
    case = {"start": "{name}", "require": [{"contains": "{name}", "at_least": 0.5}]}
    (case,) = load(tmp_path, [case]).cases
    assert case.question.prompt == "{name}"
    assert list_quantifiers(case)["contains"].pattern == r"\{name\}"


def test_a_system_prompt_precedes_the_messages(tmp_path):
    """The system prompt is the first message of each chat."""
    cases = [
        {"user": "So?", "require": [QUERY]},
        {"messages": [{"user": "a"}, {"assistant": "b"}, {"user": "c"}], "require": [QUERY]},
    ]
    suite = load(tmp_path, cases, properties=X, system="Be kind.")
    assert [case.question.prompt.messages[0] for case in suite.cases] == [
        ("system", "Be kind.")
    ] * 2
    assert [len(case.question.prompt.messages) for case in suite.cases] == [2, 4]
    assert "system prompt" in refused(
        tmp_path,
        [{"messages": [{"system": "a"}, {"user": "b"}], "require": [QUERY]}],
        system="Be kind.",
    )


def test_models_and_quantifiers_of_the_configuration_are_known(tmp_path):
    """A name of the configuration is a model, and its quantifiers need no properties."""
    (tmp_path / "config.yaml").write_text(
        "models: { small: { label: Small, source: 'path:m' } }\n"
        "quantifiers: { he: { type: words, words: [he] } }\n"
    )
    case = {"start": "once", "require": ["P>=0.5 [ F he > 0 ]"]}
    suite = load(tmp_path, [case], model=["small", "m"])
    assert [case.deployment.name for case in suite.cases] == ["small", "m"]
    assert suite.project == tmp_path
    assert load_suite(tmp_path / "suite.yaml", models=["m"]).deployments[0].name == "m"
    with pytest.raises(LLMCheckerError) as error:
        load_suite(tmp_path / "suite.yaml", models=["x"])
    place = "models: 'x' is no model and no directory in "
    assert str(error.value).startswith(place + str(tmp_path))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('not_contains: a "b"', '{not_contains: "a \\"b\\"", at_least: 0.95}'),
        ("refuses", "{refuses: true, at_least: 0.95}"),
    ],
)
def test_an_assertion_in_quotes_is_shown_without_them(tmp_path, text, form):
    """A text that begins with the name of an assertion is no query, but names the form to use."""
    message = refused(tmp_path, [{"start": "once", "require": text}])
    assert f"cases[0].require[0]: an assertion is no text; write {form}" in message


def test_a_suite_without_a_model_is_one_of_any_model(tmp_path):
    """The key `model` may be left out where a model is given in its place."""
    (tmp_path / "m").mkdir()
    path = tmp_path / "suite.yaml"
    path.write_text("cases: [{start: once, require: 'P>=0.5 [ F refuses = 1 ]'}]\n")
    (deployment,) = load_suite(path, models=[str(tmp_path / "m")]).deployments
    assert deployment.name == str(tmp_path / "m")


def test_standard_properties_need_no_settings(tmp_path):
    """Refusals, JSON, length, polarity and the end of a text are known without configuration."""
    require = ["P<=0.1 [ F refuses = 1 ]", "P>=0.1 [ F json = 2 ]", "P>=0.1 [ F length > 2 ]"]
    require += ["P<=0.1 [ F polarity < 0 ]", 'P>=0.1 [ F "end" ]']
    suite = load(tmp_path, [{"start": "once", "require": require}])
    names = {name for case in suite.cases for name in list_quantifiers(case)}
    assert names == {"refuses", "json", "length", "polarity"}


def test_every_input_changes_the_digest(tmp_path):
    """Results of another suite, row, seed or model are not continued."""
    case = {"prompts": "rows.csv", "require": [QUERY]}
    files = {"rows_csv": ROWS}
    digests = [
        load(tmp_path, [case], files, properties=X).digest,
        load(tmp_path, [case], files, properties=X, seed=1).digest,
        load(tmp_path, [case], files, properties=X, length=2).digest,
        load(tmp_path, [case], files, properties=X, confidence=0.9).digest,
        load(tmp_path, [case], files, properties={"x": {"type": "pattern", "pattern": "y"}}).digest,
        load(tmp_path, [case], {"rows_csv": "start\nonce he\n"}, properties=X).digest,
        load(tmp_path, [case], files, properties=X, decoding={"top_k": 2}).digest,
    ]
    assert len(set(digests)) == len(digests)
    assert load(tmp_path, [case], files, properties=X).digest == digests[0]


def test_a_file_that_is_no_suite_is_refused(tmp_path):
    """An unreadable or empty file is refused with its name."""
    for content, reason in (("", "is empty"), ("a: [", "not YAML"), ("x: 1", "unknown key 'x'")):
        (tmp_path / "s.yaml").write_text(content)
        with pytest.raises(LLMCheckerError, match=reason):
            load_suite(tmp_path / "s.yaml")
    with pytest.raises(LLMCheckerError, match="cannot be read"):
        load_suite(tmp_path / "absent.yaml")
    assert write_suite(tmp_path, {"cases": []}).is_file()
    with pytest.raises(LLMCheckerError, match="line 5: cases"):
        load_suite(tmp_path / "suite.yaml")
