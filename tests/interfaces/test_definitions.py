"""Every output of an answer names what its query asks for: quantifiers, or an assertion."""

import html
import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml
from helpers.suites import WORDS, OpenTable, write_suite

import llmchecker as lc
from llmchecker.checking.answer import Answer
from llmchecker.errors import DamagedFile
from llmchecker.interfaces.cli.main import main
from llmchecker.properties.definitions import describe_quantifiers, format_definitions
from llmchecker.properties.registry import create_quantifier
from llmchecker.suites import session
from llmchecker.suites.demands import format_label
from llmchecker.suites.requirement_wording import describe_requirement

SCHEMA = {
    "type": "object",
    "properties": {f"key{number}": {"type": "string"} for number in range(40)},
}
SETTINGS = {
    "pattern": {"type": "pattern", "pattern": "^Yes\\b", "match": "whole"},
    "length": {"type": "length", "unit": "characters"},
    "words": {"type": "words", "words": ["a", "b"]},
    "json": {"type": "json", "schema": SCHEMA},
    "refuses": {"type": "refuses", "of": "text"},
    "gender": {"type": "gender"},
}


@pytest.fixture
def model() -> lc.TableModel:
    return lc.TableModel(WORDS, lambda tokens: [0, 0.25, 0.25, 0.5])


@pytest.fixture
def ask(tmp_path, random_model, monkeypatch, capfd):
    """A function that runs a command on a small model, and returns what it prints."""
    monkeypatch.chdir(tmp_path)

    def ask(command: str, *arguments: str) -> str:
        capfd.readouterr()
        named = ["--model", str(random_model("gpt2")), "--start", "a", "--length", "2"]
        assert main([command, *named, "--passes", "20", *arguments]) < 3
        return capfd.readouterr().out

    return ask


@pytest.mark.parametrize("name", SETTINGS)
def test_a_quantifier_is_described_by_its_settings(name):
    """The settings of a quantifier create an equal one, and are those that were given."""
    quantifier = create_quantifier("it", SETTINGS[name])
    described = describe_quantifiers({"it": quantifier})["it"]
    assert described == SETTINGS[name]
    assert create_quantifier("it", json.loads(json.dumps(described))) == quantifier


def test_what_people_read_is_short():
    """A long setting is shortened in words, and a type without settings needs none."""
    words = format_definitions({"json": SETTINGS["json"], "gender": SETTINGS["gender"]}, None)
    assert list(words) == ["quantifiers"]
    assert words["quantifiers"].startswith('json = json(schema={"type": "object"')
    assert words["quantifiers"].endswith("…)")
    assert len(words["quantifiers"]) < 150
    assert format_definitions({"gender": {"type": "gender"}}, None) == {}
    words = format_definitions({}, {"contains_any": ["Yes", "yes"], "at_least": "0.90"})
    assert words == {"assertion": 'contains any ["Yes", "yes"], at least 0.90'}
    words = format_definitions({}, {"at_most": "0.1", "refuses": True})
    assert words == {"assertion": "refuses, at most 0.1"}


@pytest.mark.long
def test_two_assertions_of_one_form_differ_in_every_output(ask, tmp_path):
    """Text, JSON, page and the command `compare` name the assertion, which the query does not."""
    for text in ("Yes", "No"):
        given = ["--contains", text, "--at-least", "0.9"]
        words = f'contains "{text}", at least 0.9'
        page = tmp_path / f"{text}.html"
        shown = ask("check", *given, "--html", str(page))
        assert re.search(f"^assertion +{re.escape(words)}$", shown, re.MULTILINE)
        assert words in html.unescape(page.read_text())
        answer = json.loads(ask("check", *given, "--json"))
        assert answer["query"] == "P>=0.9 [ F contains = 1 ]"
        assert answer["assertion"] == {"contains": text, "at_least": "0.9"}
        assert answer["quantifiers"] == {"contains": {"type": "pattern", "pattern": text}}
        compared = ["--versus-start", "b", "--contains", text]
        assert re.search(f'^assertion +contains "{text}"$', ask("compare", *compared), re.MULTILINE)
        assert json.loads(ask("compare", *compared, "--json"))["assertion"] == {"contains": text}


def test_a_tree_and_a_quantifier_of_the_shell_are_named(tmp_path, random_model, monkeypatch, capfd):
    """With alpha and k, and for --quantifier, the settings are those of the command line."""
    monkeypatch.chdir(tmp_path)
    options = ["--quantifier", "yes={type: pattern, pattern: '^Yes'}", "--length", "2"]
    options += ["--model", str(random_model("gpt2")), "--start", "a", "--alpha", "0.9", "--k", "3"]
    assert main(["check", "P=? [ F yes = 1 ]", *options]) == 0
    words = re.escape('yes = pattern(pattern="^Yes")')
    assert re.search(f"^quantifiers +{words}$", capfd.readouterr().out, re.MULTILINE)
    assert main(["check", "P=? [ F yes = 1 ]", *options, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["quantifiers"] == {"yes": {"type": "pattern", "pattern": "^Yes"}}
    assert found["assertion"] is None


def test_a_stored_answer_has_all_settings(model, tmp_path):
    """An answer is written and read without a loss, and one of another format is refused."""
    json_text = lc.JsonText(schema=SCHEMA)
    found = lc.ask("P=? [ F yes = 2 ]", model, "once", length=2, passes=9, yes=json_text)
    assert found.quantifiers == {"yes": SETTINGS["json"]}
    for name, text in (("repr", repr(found)), ("str", str(found)), ("html", found._repr_html_())):
        assert 'yes = json(schema={"type": "object"' in html.unescape(text), name
    file = tmp_path / "answer.json"
    stored = replace(found, assertion={"contains": ["a", "b"]}, evidence=None, history=())
    stored.write(file)
    read = Answer.read(file)
    for field in fields(Answer):
        assert getattr(read, field.name) == getattr(stored, field.name), field.name
    content = stored.as_json()
    with pytest.raises(DamagedFile):
        Answer.from_json(content | {"format": "llmchecker answer 4"}, file)
    with pytest.raises(DamagedFile):
        Answer.from_json(content | {"quantifiers": ["a"]}, file)


def test_a_function_and_a_class_have_their_names(model):
    """What has no settings is named by its function or class."""
    found = lc.ask("P=? [ F long > 1 ]", model, "once", length=2, passes=9, long=count_letters)
    assert found.quantifiers == {
        "long": {"type": "function", "function": f"{__name__}.count_letters"}
    }


def count_letters(start: str, continuation: str) -> int:
    return len(continuation)


def test_a_suite_shortens_what_people_read():
    """The content of a requirement has a schema shortened; its name keeps it whole."""
    entry = {"json": SCHEMA, "at_least": "0.9"}
    assert len(format_label("require", entry)) > len(json.dumps(SCHEMA))
    words = describe_requirement(entry, lc.parse("P>=0.9 [ F (G json = 2) ]"), {})
    assert words.startswith('json {"type": "object"')
    assert words.endswith("…")
    assert len(words) < 150


def test_a_suite_names_the_date_of_a_prompt_once(tmp_path, monkeypatch, capfd):
    """A date that the chat template writes is a note of the whole suite, not of each case."""
    table = lc.TableModel(WORDS, lambda tokens: [0, 0.25, 0.25, 0.5])
    table.find_prompt_date = lambda start: "26 July 2024"
    monkeypatch.setattr(session, "open_model", lambda *_, **__: OpenTable(table))
    case = {"start": "once", "require": {"he": "P<=0.9 [ F gender > 1 ]"}}
    keys = {"length": 2, "cases": [case | {"name": "a"}, case | {"name": "b"}]}
    suite = write_suite(tmp_path, keys)
    assert main(["test", str(suite), "--markdown", str(tmp_path / "r.md")]) < 3
    for text in (capfd.readouterr().out, (tmp_path / "r.md").read_text()):
        assert text.count("the chat template writes the date 26 July 2024") == 1


def test_a_result_of_a_suite_has_them_too(tmp_path, monkeypatch, capfd, random_model):
    """The JSON lines of a suite define each quantifier and assertion of a case."""
    monkeypatch.chdir(tmp_path)
    suite = {
        "model": str(random_model("gpt2")),
        "length": 2,
        "budget": {"passes": 20},
        "cases": [{"start": "a", "require": [{"contains": "b", "at_most": 1}]}],
    }
    Path("suite.yaml").write_text(yaml.safe_dump(suite))
    assert main(["test", "suite.yaml", "--json", "r.jsonl"]) < 3
    answer = json.loads(Path("r.jsonl").read_text().splitlines()[1])["answer"]
    assert answer["assertion"] == {"contains": "b", "at_most": "1"}
    assert answer["quantifiers"] == {"contains": {"type": "pattern", "pattern": "b"}}
