"""Suites with tools and simulated users: verdicts, notes, and errors before a model is loaded."""

import json
import re
from copy import copy

import pytest
from helpers.conversations import (
    CALL,
    Actor,
    ChatTable,
    Result,
    chat_table,
    enumerate_conversations,
)
from helpers.suites import OpenTable, load

from llmchecker.errors import LLMCheckerError
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.suites.json_lines import read_results
from llmchecker.suites.session import run_suite
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import Status

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PROPERTIES = {"leaks": {"type": "pattern", "pattern": "b"}}
USER = {"model": "u", "system": "b", "length": 1, "decoding": {"temperature": 0.5}}
LENGTH = 2


def load_cases(folder, cases: list, **keys):
    (folder / "u").mkdir(exist_ok=True)
    # an unchanged model keeps its time, on which the digest depends
    if not (folder / "u/config.json").exists():
        (folder / "u/config.json").write_text("{}")
    keys = {"length": LENGTH, "budget": {"passes": 3000}, "properties": PROPERTIES, **keys}
    return load(folder, cases, **keys)


def run(suite, model: ChatTable, user: ChatTable | None = None, **options):
    def open_model(deployment):
        # the system prompt is that of the simulated user
        return OpenTable(model if deployment.system is None else user)

    return run_suite(suite, open_model=open_model, **options)


def test_requirements_on_calls_use_the_tools_of_the_case(tmp_path):
    """`calls` without tools has those of the case, and a result follows an answer with a call."""
    model, turns = chat_table(3, calls=True), ["ab", Result("b")]
    quantifiers = {"calls": lambda start, text: 2 * (text.count(CALL) > 0)}
    tree = enumerate_conversations(model, turns, LENGTH, quantifiers)
    truth = float(tree.probability_of(("X", ("F", None, ("atom", "calls", "=", 2)))))
    assert 0.1 < truth < 0.9
    require = [f"P>={truth + change:.6f} [ F calls = 2 ]" for change in (-1e-4, 1e-4)]
    require += [query.replace("calls", "asks") for query in require]
    entry = {"turns": [{"user": "ab"}, {"tool": {"name": "f", "content": "b"}}], "require": require}
    properties = {"asks": {"type": "calls"}}
    suite = load_cases(tmp_path, [entry], tools=[TOOL], properties=properties)
    found = [each.status for each in run(suite, model).results]
    assert found == [Status.HOLDS, Status.VIOLATED] * 2


def test_a_witness_shows_the_result_of_the_tool(tmp_path):
    """The lines of a conversation name the role `tool`, and the prompt the tool."""
    turns = [{"user": "ab"}, {"tool": {"name": "f", "content": "b {answer 1}"}}]
    entry = {"turns": turns, "tools": [TOOL], "require": ["P<=0.01 [ F (turn = 2 & leaks = 1) ]"]}
    result = run(load_cases(tmp_path, [entry]), chat_table(3, calls=True))
    assert result.results[0].status is Status.VIOLATED
    assert 'tool: "b ' in format_table(result)
    assert result.suite.cases[0].prompt == "ab → f: b {answer 1}"


def test_a_simulated_user_is_named_with_its_decoding(tmp_path):
    """Verdicts are those of an enumeration of both tables, and outputs name the second model."""
    model, table = chat_table(5), chat_table(6, is_truncated=True)
    turns = ["ab", Actor(table, "b", 1)]
    tree = enumerate_conversations(model, turns, LENGTH, {"leaks": Pattern("b")})
    truth = float(tree.probability_of(("X", ("G", None, ("atom", "leaks", "=", 0)))))
    require = [f"P>={truth + change:.6f} [ G leaks = 0 ]" for change in (-1e-4, 1e-4)]
    entry = {"turns": [{"user": "ab"}, {"simulated_user": USER}], "require": require}
    log = tmp_path / "results.jsonl"
    result = run(load_cases(tmp_path, [entry]), model, table, log=log)
    assert [each.status for each in result.results] == [Status.HOLDS, Status.VIOLATED]
    note = "simulated user (u, temperature 0.5) writes turn 2 in up to 1 token"
    assert format_table(result).count(note) == 1
    assert all(each.answer.notes == result.results[0].answer.notes for each in read_results(log))
    (line, *_) = (each for each in map(json.loads, log.open()) if "case" in each)
    assert line["prompt"] == "ab → simulated user (u, temperature 0.5)"
    assert note in line["answer"]["notes"]


def test_a_message_ends_where_no_answer_ends(tmp_path):
    """If an end token ends no answer, it still ends the message of a simulated user."""
    model, table = chat_table(5), chat_table(6)
    # texts without an end are those of a table without end tokens
    endless, other = copy(model), copy(table)
    endless.end_tokens = other.end_tokens = frozenset()
    formula = ("X", ("G", None, ("atom", "leaks", "=", 0)))
    truth, wrong = (
        float(
            enumerate_conversations(
                endless, ["ab", Actor(user, "b", 2)], LENGTH, {"leaks": Pattern("b")}
            ).probability_of(formula)
        )
        for user in (table, other)
    )
    assert abs(truth - wrong) > 1e-3
    require = [f"P>={truth + change:.6f} [ G leaks = 0 ]" for change in (-1e-4, 1e-4)]
    turns = [{"user": "ab"}, {"simulated_user": {**USER, "length": 2}}]
    suite = load_cases(tmp_path, [{"turns": turns, "require": require}])

    def open_model(deployment):
        return OpenTable(model if deployment.system is None else table, "ordinary")

    found = [each.status for each in run_suite(suite, open_model=open_model).results]
    assert found == [Status.HOLDS, Status.VIOLATED]


def test_results_of_other_tools_and_users_are_of_another_suite(tmp_path):
    """The digest of a suite and what a case asks depend on tools, and on all of a user."""

    def describe(**changes):
        turns = [{"user": "ab"}, {"simulated_user": {**USER, **changes.get("user", {})}}]
        tools = [{"name": "f", "description": changes.get("description", "a")}]
        entry = {"turns": turns, "tools": tools, "require": ["P>=0.5 [ G leaks = 0 ]"]}
        return load_cases(tmp_path, [entry]).digest

    changes = (
        {"description": "b"},
        {"user": {"system": "a"}},
        {"user": {"length": 2}},
        {"user": {"decoding": {"temperature": 0.6}}},
    )
    digests = {describe(), *(describe(**each) for each in changes)}
    assert len(digests) == 5
    assert describe() in digests


def test_columns_are_inserted_into_results_and_system_prompts(tmp_path):
    """Texts of turns are templates where the case has a table."""
    (tmp_path / "rows.csv").write_text("city\nUlm\n")
    turns = [
        {"user": "{city}"},
        {"tool": {"name": "f", "content": "{city} {answer 1}"}},
        {"simulated_user": {**USER, "system": "You are from {city}."}},
    ]
    require = ["P>=0.5 [ G leaks = 0 ]"]
    entry = {"turns": turns, "tools": [TOOL], "prompts": "rows.csv", "require": require}
    conversation = load_cases(tmp_path, [entry]).cases[0].question.conversation
    assert conversation.build_chat([CALL]).messages[-1] == ("tool", f"Ulm {CALL}")
    assert conversation.later_turns[1].system == "You are from Ulm."


TURNS = [{"user": "a"}, {"simulated_user": USER}]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"turns": [{"user": "a"}, {"tool": {"name": "g", "content": ""}}]}, r"turns\[1\]: the t"),
        ({"turns": [{"tool": {"name": "f", "content": ""}}]}, r"turns\[0\]: the first turn"),
        ({"turns": TURNS[::-1]}, r"turns\[0\]: the first turn has no text"),
        ({"turns": [{"user": "a"}, {"tool": {"name": "f"}}]}, r"turns\[1\]\.tool: .*content"),
        (
            {"turns": [{"user": "a"}, {"tool": {"name": "f", "content": "{answer 2}"}}]},
            r"turns\[1\].*\{answer 2\} does not precede",
        ),
        ({"turns": [{"user": "a"}, {"user": "b", **TURNS[1]}]}, r"turns\[1\]: .* must have one"),
        ({"turns": [{"user": "a"}, {}]}, r"turns\[1\]: .* must have one key"),
        (
            {"turns": [{"user": "a"}, {"simulated_user": {**USER, "model": "x"}}]},
            r"turns\[1\]\.simulated_user: model: 'x' is no model",
        ),
        (
            {"turns": [{"user": "a"}, {"simulated_user": {**USER, "system": " "}}]},
            r"turns\[1\]\.simulated_user: system: the text is empty",
        ),
        (
            {"turns": [{"user": "a"}, {"simulated_user": {**USER, "model": "openai:gpt-4o"}}]},
            r"turns\[1\]\.simulated_user: openai:gpt-4o returns texts alone, and m its prob",
        ),
        (
            {"turns": [{"user": "a"}, {"simulated_user": {**USER, "decoding": {"top": 1}}}]},
            r"turns\[1\]\.simulated_user\.decoding",
        ),
        ({"tools": [{"name": "a b"}]}, r"tools\[0\]: name: 'a b' is no name of a function"),
        (
            {"tools": [{"name": "f", "parameters": {"type": "objekt"}}]},
            r"cases\[0\]\.tools\[0\]: parameters\['type'\]: not a JSON Schema",
        ),
        ({"start": "a", "turns": None}, r"cases\[0\]\.start: tools: it belongs to a chat"),
        (
            {"messages": [{"user": "a"}, {"assistant": "b"}, {"tool": "c"}], "turns": None},
            r"cases\[0\]\.messages\[2\]\.tool: the message before it is no single call",
        ),
    ],
    ids=str,
)
def test_errors_are_named_with_their_line_before_a_model_is_loaded(content, problem, tmp_path):
    """A wrong tool, result or user is an error of the file, with its place."""
    entry = {"turns": TURNS, "tools": [TOOL], "require": ["P>=0.5 [ G leaks = 0 ]"], **content}
    entry = {key: value for key, value in entry.items() if value is not None}
    with pytest.raises(LLMCheckerError, match=problem) as error:
        load_cases(tmp_path, [entry])
    assert re.search(r"suite\.yaml, line \d+", str(error.value))


def test_calls_without_any_tools_are_an_error(tmp_path):
    """Without tools of the case, the quantifier needs its own."""
    entry = {"user": "a", "require": ["P>=0.5 [ F calls = 2 ]"]}
    with pytest.raises(LLMCheckerError, match=r"require\[0\]: .*the setting 'tools' is missing"):
        load_cases(tmp_path, [entry])


def test_a_limit_of_money_needs_the_prices_of_simulated_users(tmp_path):
    """Messages of a simulated user cost money too."""
    source = {"source": "http://localhost:1", "api": "openai-chat", "served_as": "x"}
    model = {**source, "prices": {"input": "1 USD / 1M tokens", "output": "1 USD / 1M tokens"}}
    turns = [{"user": "a"}, {"simulated_user": {**USER, "model": {**source, "label": "buyer"}}}]
    entry = {"turns": turns, "require": ["P>=0.5 [ G leaks = 0 ]"]}
    assert load_cases(tmp_path, [entry], model=model, budget={"answers": 9}).cases
    with pytest.raises(LLMCheckerError, match=r"budget\.dollars: buyer has no prices"):
        load_cases(tmp_path, [entry], model=model, budget={"answers": 9, "dollars": 1})
