"""Commands, library and suites know the same quantifiers without a configuration."""

import json
from pathlib import Path

import pytest
import yaml
from helpers.suites import load, run, words_model

import llmchecker as lc
from llmchecker.errors import ConfigError
from llmchecker.interfaces.cli.main import main
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifiers.refusal import Refusal
from llmchecker.properties.registry import BUILTIN_TYPES, find_quantifiers

STANDARD = ("gender", "json", "length", "polarity", "readability", "refuses")
START = ["--start", "The player won because", "--length", "2"]
PAIR = [*START, "--versus-start", "The nurse won because", "--passes", "4", "--json"]


@pytest.fixture
def model(tmp_path, random_model, monkeypatch) -> str:
    """A model directory for a command in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return str(random_model("gpt2"))


def query_of(name: str) -> str:
    return f"P=? [ F {name} > 1 ]"


@pytest.mark.parametrize("name", sorted(BUILTIN_TYPES))
def test_standard_quantifiers_are_the_types_without_required_settings(name):
    """Each other type names the setting that it lacks, and a defined quantifier comes first."""
    query = parse(query_of(name))
    if name in STANDARD:
        assert type(find_quantifiers(query, 3, {})[name]) is BUILTIN_TYPES[name].load()
    else:
        with pytest.raises(ConfigError, match=name):
            find_quantifiers(query, 3, {})
    own = Refusal()
    assert find_quantifiers(query, 3, {name: own})[name] is own


@pytest.mark.few(2)
@pytest.mark.parametrize("name", STANDARD)
def test_check_and_compare_know_them_in_an_empty_directory(model, capfd, name):
    """Both commands answer a query over a standard quantifier without a configuration."""
    assert main(["check", query_of(name), "--model", model, *START, "--passes", "4"]) == 0
    capfd.readouterr()
    assert main(["compare", query_of(name), "--model", model, *PAIR]) in (0, 2)
    assert json.loads(capfd.readouterr().out)["query"] == query_of(name)


def test_compare_defines_a_quantifier_as_check_does(model, capfd):
    """--quantifier gives settings, also with paths, and a setting that lacks is named."""
    Path("words.txt").write_text("he\n")
    own = ["--quantifier", "own={type: words, file: words.txt}"]
    assert main(["compare", query_of("own"), "--model", model, *own, *PAIR]) in (0, 2)
    capfd.readouterr()
    assert main(["compare", query_of("pattern"), "--model", model, *PAIR]) == 3
    assert "the setting 'pattern' is missing" in capfd.readouterr().err
    assert main(["compare", query_of("gendr"), "--model", model, *PAIR]) == 3
    assert "did you mean 'gender'" in capfd.readouterr().err


def test_paths_of_compare_are_relative_to_its_directory(model, tmp_path, capfd):
    """With a configuration elsewhere, both sides read files of the current directory."""
    (tmp_path / "else").mkdir()
    config = {"quantifiers": {"length": {"unit": "words"}}}
    (tmp_path / "else/config.yaml").write_text(yaml.safe_dump(config))
    Path("words.txt").write_text("he\n")
    query = "P=? [ F own + length > 1 ]"
    options = ["--config", "else/config.yaml", "--quantifier", "own={type: words, file: words.txt}"]
    assert main(["compare", query, "--model", model, *options, *PAIR]) in (0, 2)
    capfd.readouterr()


def test_a_suite_and_the_library_give_a_name_the_same_meaning(tmp_path):
    """A name without a definition is the standard quantifier in a suite, ask and compare."""
    query = "P=? [ F length > 8 ]"
    table = words_model()
    case = {"start": "once", "require": [query.replace("=?", ">=0.01")]}
    (result,) = run(load(tmp_path, [case]), table).results
    answer = lc.ask(query, table, "once", length=3, passes=100)
    assert result.measurement.certain.lower <= answer.upper
    assert answer.lower <= result.measurement.certain.upper
    assert answer.lower == pytest.approx(answer.upper)
    compared = lc.compare(query, table, "once", versus_start="once he", length=3, passes=200)
    assert compared.first.lower == pytest.approx(answer.lower)
