"""Shell, Python, suites and configurations describe a question with the same keys."""

import argparse
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import llmchecker as lc
from llmchecker.checking import runs
from llmchecker.checking.budget import Budget, build_budget
from llmchecker.config.keys import AnswerKeys
from llmchecker.config.question import HorizonKeys
from llmchecker.config.registry import Registry
from llmchecker.config.registry_keys import OutputKeys
from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.interfaces.cli.arguments import parse_question
from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.suites.load import load_suite
from llmchecker.suites.suite_file import SuiteKeys
from llmchecker.utils.section import parse_section

ROOT = Path(__file__).parents[2]
QUERY = "P=? [ F gender > 0 ]"
COIN = lc.TableModel(["x", "y"], lambda tokens: [0.5, 0.5])
OPTIONS = {
    "decoding": lambda value: [f"--decoding={yaml.safe_dump(value)}"],
    "stop": lambda value: [f"--stop={text}" for text in value],
    "thought": lambda value: ["--thought", value["begin"], value["end"]],
    "template": lambda value: [
        f"--template={name}={json.dumps(each)}" for name, each in value.items()
    ],
    "include_stop": lambda value: ["--include-stop"],
    "max_tokens": lambda value: [f"--max-tokens={value}"],
    "certain": lambda value: ["--certain"],
}


class _Asked(Exception):
    """The question that would be answered, in its place."""


pytestmark = pytest.mark.usefixtures("unloadable_model")


@pytest.fixture
def ask(monkeypatch):
    """Asks in Python, and returns the question."""

    def capture(question: Any, **_: Any) -> None:
        raise _Asked(question)

    monkeypatch.setattr(runs, "answer_question", capture)

    def call(**keys: Any) -> Any:
        with pytest.raises((_Asked, LLMCheckerError)) as caught:
            lc.ask(QUERY, COIN, "x", **keys)
        if not isinstance(caught.value, _Asked):
            raise caught.value
        return caught.value.args[0]

    return call


def ask_in_shell(keys: dict[str, Any]) -> Any:
    """The question of the options of keys."""
    options = [
        option
        for name, value in keys.items()
        for option in OPTIONS.get(name, lambda value: [f"--{name}={value}"])(value)  # noqa: B023
    ]
    arguments = build_parser(["check"]).parse_args(
        ["check", QUERY, "--model=./m", "--user=x", *options]
    )
    return parse_question(arguments)[1]


def ask_in_suite(keys: dict[str, Any]) -> Any:
    """The question of a suite with keys, and its model."""
    of_budget = Budget.model_fields.keys() - SuiteKeys.model_fields.keys()
    budget = {name: value for name, value in keys.items() if name in of_budget}
    suite = {name: value for name, value in keys.items() if name not in of_budget}
    case = {"user": "x", "require": ["P>=0.5 [ F gender > 0 ]"]}
    suite |= {"model": "./m", "cases": [case]} | ({"budget": budget} if budget else {})
    Path("suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    return load_suite("suite.yaml").cases[0]


def refuse(door: Any, *arguments: Any, **keys: Any) -> str:
    """The message of a door, from the key on and without a place."""
    with pytest.raises(ConfigError) as caught:
        door(*arguments, **keys)
    return str(caught.value)


BUDGETS = {
    **{"passes": 7, "seconds": 5.5, "width": 0.25, "confidence": 0.9, "seed": 11},
    **{"certain": True, "answers": 9},
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_key_of_the_budget_means_the_same_at_every_door(name, ask):
    """A door either gives a key to the budget, or refuses it with the reason of its reference."""
    keys = {name: BUDGETS[name]}
    expected = getattr(build_budget(**keys), name)
    if name == "answers":
        doors = refuse(ask_in_shell, keys), refuse(ask, **keys), refuse(ask_in_suite, keys)
        for message in doors:
            assert "answers: " in message
            assert message.endswith("has probabilities; limit passes or seconds")
    else:
        assert getattr(ask_in_shell(keys).budget, name) == expected
        assert getattr(ask(**keys).budget, name) == expected
    if name in ("width", "certain"):
        assert f"budget.{name}: " in refuse(ask_in_suite, keys)
    elif name not in ("seed", "answers"):
        assert getattr(ask_in_suite(keys).question.budget, name) == expected
    if name in AnswerKeys.refused_keys:
        assert f"{name}: experiments need" in refuse(parse_section, AnswerKeys, keys)
    else:
        assert getattr(parse_section(AnswerKeys, keys), name) == expected


OUTPUTS = {
    "decoding": {"temperature": 0.5, "top_p": 0.9},
    "template": {"enable_thinking": False},
    "stop": ["a", "b"],
    "include_stop": True,
    "max_tokens": 30,
    "thought": {"begin": "<t>", "end": "</t>"},
}


def test_the_keys_of_an_output_mean_the_same_at_every_door():
    """Decoding, template, stops and marks describe one model in shell, suite and configuration."""
    assert OUTPUTS.keys() == OutputKeys.model_fields.keys()
    configured = Registry.parse({"models": {"m": {"label": "m", "source": "path:m", **OUTPUTS}}})
    expected = configured.models["m"]
    for model in (ask_in_shell(OUTPUTS).model, ask_in_suite(OUTPUTS).deployment.model):
        for part in ("decoding", "template", "reader"):
            assert getattr(model, part) == getattr(expected, part)
    assert OUTPUTS.keys() <= inspect.signature(lc.load).parameters.keys()


@pytest.mark.parametrize("name", ["seed", "answers", "length", "watch"])
def test_a_quantifier_may_have_the_name_of_an_option(name):
    """`quantifiers` takes it, and a keyword of that name is refused with the way to write it."""

    def count(start: str, text: str) -> int:
        return text.count("x")

    answer = lc.ask(f"P=? [ F {name} > 0 ]", COIN, "x", length=2, quantifiers={name: count})
    assert (answer.lower, answer.upper) == pytest.approx((0.75, 0.75), abs=1e-9)
    if name != "watch":
        message = refuse(lc.ask, f"P=? [ F {name} > 0 ]", COIN, "x", **{name: count})
        assert message.startswith(f"{name}: this is an option; for a quantifier of that name write")


def test_a_suite_in_python_has_the_keys_of_test():
    """`lc.suite` replaces keys of a suite as `llmchecker test` does, and names an unknown one."""
    ask_in_suite({"passes": 7, "length": 9})
    (case,) = lc.suite("suite.yaml", passes=3, length=2, seed=5).suite.cases
    assert (case.question.budget.passes, case.question.length) == (3, 2)
    assert refuse(lc.suite, "suite.yaml", passes=0).startswith("suite: passes: 0 is too small")
    assert "unknown key 'pases', did you mean 'passes'" in refuse(lc.suite, "suite.yaml", pases=3)
    assert "suite: width: a case ends when" in refuse(lc.suite, "suite.yaml", width=0.1)


@pytest.mark.parametrize("name", [*OUTPUTS, "tokens", "dollars"])
def test_a_key_of_the_model_names_load(name):
    """`ask` refuses a key that the loaded model has already."""
    message = refuse(lc.ask, QUERY, COIN, "x", **{name: OUTPUTS.get(name, 3)})
    assert message == f"{name}: it belongs to the model; give it to load"


def test_every_key_is_an_option_and_an_argument():
    """`check` has an option and Python an argument for each key, with the default of the key."""
    parser = build_parser(["check"])
    options = parser._subparsers._group_actions[0].choices["check"]._option_string_actions
    arguments = inspect.signature(lc.ask).parameters | inspect.signature(lc.load).parameters
    for section in (HorizonKeys, OutputKeys, Budget):
        for name, field in section.model_fields.items():
            assert isinstance(options[f"--{name.replace('_', '-')}"], argparse.Action)
            default = arguments[name].default
            # without answers, the limit is that of the model
            assert default == field.default or (name == "answers" and default is None)


def test_the_page_of_keys_is_generated(monkeypatch):
    """The reference has where each door has each key, or why not, as docs/config_reference.py."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from config_reference import QUESTION_PAGE, question_page

    text = QUESTION_PAGE.read_text(encoding="utf-8")
    assert text == question_page(), "run `.venv/bin/python docs/config_reference.py`"
