"""A suite that cannot run is refused before a model is loaded, with the line and the fix."""

import json
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
        ([{"start": "once", "require": ["P>=0.5 [ F y = 1 ]"]}], 12, "y is neither step nor"),
        ([{"start": "once", "require": ["P>=0.5 [ F x = ]"]}], 12, "query"),
        ([{"start": "once", "require": [QUERY, QUERY]}], 13, "rename one"),
        ([{"start": "once", "require": {"a": 3}}], 12, "is no requirement"),
        ([{"start": "once", "require": 3}], 11, "neither a list nor a mapping"),
        ([{"start": "once", "require": [{"contains": "x"}]}], 12, "at_least or at_most"),
        ([{"start": "once", "require": [{"contans": "x", "at_least": 1}]}], 12, "'contains'"),
        ([{"start": "once", "require": [{"contains": "", "at_least": 1}]}], 12, "not empty"),
        ([{"start": "once", "require": [{"contains": "x", "at_least": 2}]}], 12, "from 0 to 1"),
        (
            [{"start": "once", "require": [{"json": {"pattern": r"\Z"}, "at_least": 1}]}],
            12,
            r"quantifier 'json': schema['pattern']: '\\Z': not an ECMA 262 pattern",
        ),
        ([{"start": " ", "require": [QUERY]}], 10, "start: the text is empty"),
        ([{"start": "once", "user": "so?", "require": [QUERY]}], 10, "exactly one of"),
        ([{"require": [QUERY]}], 10, "no prompt"),
        ([{"start": "x" * 100_001, "require": [QUERY]}], 10, "100,001 characters"),
        ([{**CASE, "by": "topic"}], 13, "add `prompts`"),
        ([{**CASE, "average": {"a": "mean P=? [ F x = 1 ]"}}], 13, "add `prompts`"),
        ([{**CASE, "name": "a"}, {**CASE, "name": "a"}], 16, "is also the name of cases[0]"),
        ([{**CASE, "budget": {}}], 13, "no limit"),
        ([{**CASE, "length": 0}], 13, "at least 1"),
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
        ({"model": "absent"}, "'absent' is no directory and no model"),
        ({"model": ["m", "m"]}, "has a model twice"),
        ({"properties": {"x": {"type": "patern"}}}, "type: 'patern' is unknown"),
        ({"properties": {"step": {"type": "pattern", "pattern": "a"}}}, "step"),
        ({"confidence": 1}, "at most 0.999999999"),
        ({"versus": {}}, "nothing differs"),
        ({"versus": {"model": "m", "require": {"b": "difference >= 0"}}}, "has this name"),
        ({"versus": {"model": "m", "require": {QUERY: "at least 0"}}}, "is no difference"),
        ({"system": "Be kind."}, "belongs to a chat"),
        ({"decoding": {"top_q": 1}}, "top_q"),
        ({"config": "no.yaml"}, "no.yaml"),
    ],
)
def test_a_suite_that_cannot_run_is_refused(tmp_path, keys, reason):
    """An unusable key of the suite is refused with the reason."""
    assert reason in refused(tmp_path, [CASE], **keys)


TABLE = {"prompts": "rows.csv", "require": [QUERY]}


@pytest.mark.parametrize(
    ("rows", "case", "reason"),
    [
        ("start,answer\n", TABLE, "rows.csv: the file has no rows"),
        ("", TABLE, "has no rows"),
        ("start,start\na,b\n", TABLE, "name each column once"),
        ("start,answer\nonce\n", TABLE, "row 1: 1 values for 2 columns"),
        ('start\n"on', TABLE, "is not CSV"),
        ("text\nonce\n", TABLE, "no prompt"),
        ("start\nonce\n \n", TABLE, "row 2: start: the text is empty"),
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
        ('{"start": "a"}\n{"text": "b"}', "row 2: the columns are text"),
        ("[1]", "line 1: write a JSON object"),
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
        found.append([(c.name, c.start, c.settings) for c in suite.cases])
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2


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
    assert by_pattern.start == "once .*{b}"
    for case, text in ((by_pattern, "a.*{b}"), (by_assertion, ".*{b}")):
        ((_, quantifier),) = suite.build_query(case).quantifiers.items()
        assert quantifier("", text) == 1
        assert quantifier("", "abcdef") == 0


def test_braces_without_a_table_are_text(tmp_path):
    """A prompt and an assertion without prompts keep their braces."""
    case = {"start": "{name}", "require": [{"contains": "{name}", "at_least": 0.5}]}
    (case,) = load(tmp_path, [case]).cases
    assert case.start == "{name}"
    assert case.settings["contains"]["pattern"] == r"\{name\}"


def test_a_system_prompt_precedes_the_messages(tmp_path):
    """The system prompt is the first message of each chat."""
    cases = [
        {"user": "So?", "require": [QUERY]},
        {"messages": [{"user": "a"}, {"assistant": "b"}, {"user": "c"}], "require": [QUERY]},
    ]
    suite = load(tmp_path, cases, properties=X, system="Be kind.")
    assert [case.start.messages[0] for case in suite.cases] == [("system", "Be kind.")] * 2
    assert [len(case.start.messages) for case in suite.cases] == [2, 4]
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


def test_standard_properties_need_no_settings(tmp_path):
    """Refusals, JSON, length, polarity and the end of a text are known without configuration."""
    require = ["P<=0.1 [ F refuses = 1 ]", "P>=0.1 [ F json = 2 ]", "P>=0.1 [ F length > 2 ]"]
    require += ["P<=0.1 [ F polarity < 0 ]", 'P>=0.1 [ F "end" ]']
    suite = load(tmp_path, [{"start": "once", "require": require}])
    names = {name for case in suite.cases for name in suite.build_query(case).quantifiers}
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
