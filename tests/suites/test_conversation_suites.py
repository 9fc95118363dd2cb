"""Suites of conversations: verdicts, outputs, and errors before a model is loaded."""

import base64
import html
import json
import re
from dataclasses import replace
from fractions import Fraction
from xml.etree import ElementTree

import pytest
import yaml
from helpers.conversations import chat_table, enumerate_conversations
from helpers.fake_server import running
from helpers.served_models import fake_chat
from helpers.suites import OpenTable, load

from llmchecker.errors import ConfigError
from llmchecker.processes.conversation import parse_messages
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.suites.html_page import format_html
from llmchecker.suites.json_lines import read_results
from llmchecker.suites.junit import format_junit
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import Status

PROPERTIES = {"leaks": {"type": "pattern", "pattern": "c"}}
TURNS = [{"user": "ab"}, {"user": "c{answer 1}a"}]
LENGTH = 2
SVG_TEXT = "{http://www.w3.org/2000/svg}text"


def model():
    return chat_table(7, is_truncated=True)


def case(*require, **keys) -> dict:
    return {"turns": TURNS, "require": list(require), **keys}


def run(folder, *require, keys=None, options=None, **suite_keys):
    suite = load(
        folder,
        [case(*require, **(keys or {}))],
        properties=PROPERTIES,
        length=LENGTH,
        budget={"passes": 2000},
        **suite_keys,
    )
    return run_suite(suite, open_model=lambda deployment: OpenTable(model()), **(options or {}))


def find_truth(formula: tuple) -> Fraction:
    quantifiers = {"leaks": Pattern("c")}
    tree = enumerate_conversations(model(), ("ab", "c{1}a"), LENGTH, quantifiers)
    return tree.probability_of(("X", formula))


LEAKS = ("atom", "leaks", "=", 1)
NO_LEAK = ("atom", "leaks", "=", 0)


@pytest.mark.parametrize(
    ("require", "formula"),
    [
        ("P>={} [ G leaks = 0 ]", ("G", None, NO_LEAK)),
        ("P>={} [ F (turn = 2 & leaks = 1) ]", ("X", LEAKS)),
        ({"contains": "c", "at_least": "{}"}, ("X", LEAKS)),
        ({"not_contains": "c", "at_least": "{}"}, ("X", NO_LEAK)),
        ({"not_contains": "c", "at_least": "{}", "turn": "every"}, ("G", None, NO_LEAK)),
        ({"contains": "c", "at_least": "{}", "turn": "any"}, ("F", None, LEAKS)),
        ({"contains": "c", "at_least": "{}", "turn": 1}, LEAKS),
        ({"ends": True, "at_least": "{}"}, ("X", ("label", "end"))),
    ],
    ids=str,
)
def test_requirements_are_about_turns(require, formula, tmp_path):
    """Thresholds next to the enumerated truth have opposite verdicts; an assertion is of a turn."""
    truth = float(find_truth(formula))

    def fill(number: float):
        text = f"{number:.6f}"
        if isinstance(require, str):
            return require.format(text)
        return {key: text if value == "{}" else value for key, value in require.items()}

    result = run(tmp_path, fill(max(0.0, truth - 1e-4)), fill(min(1.0, truth + 1e-4)))
    below, above = (each.status for each in result.results)
    assert below is Status.HOLDS
    assert above is (Status.HOLDS if truth == 1 else Status.VIOLATED)


def test_outputs_show_turns_and_the_most_probable_violating_conversation(tmp_path):
    """Each output has the number of turns, and the conversation from its start."""
    log = tmp_path / "results.jsonl"
    late = "P<=0.01 [ F (turn = 2 & leaks = 1) ]"
    result = run(tmp_path, late, options={"log": log})
    (found,) = result.results
    assert found.status is Status.VIOLATED
    table, junit = format_table(result), format_junit(result).decode()
    for output in (table, junit, format_html(result)):
        assert "in 2 turns of at most 2 tokens" in output
    assert re.search(r'assistant: "[abc]*"', table)
    assert 'user: "c' in junit
    ElementTree.fromstring(junit)
    (line,) = (each for each in map(json.loads, log.open()) if "case" in each)
    assert line["prompt"] == "ab → c{answer 1}a"
    assert line["answer"]["turns"] == 2
    (read,) = read_results(log)
    assert read.answer.about == found.answer.about
    assert read.witnesses == found.witnesses


def test_the_page_has_a_block_for_each_conversation_from_its_start(tmp_path):
    """A conversation is one block with its probability and its messages, each with its role."""
    result = run(tmp_path, "P<=0.01 [ F (turn = 2 & leaks = 1) ]")
    page = format_html(result)
    (found,) = result.results
    messages = [("user", "ab"), *parse_messages(found.witnesses[0].continuation)]
    assert [role for role, _ in messages] == ["user", "assistant", "user", "assistant"]
    first, *others = read_conversations(page)
    assert first == (found.witnesses[0].probability, messages)
    # those of the answers, of both kinds
    assert len(others) == len(found.examples) > 2
    assert "assistant: " not in page


def test_the_page_has_a_drawing_of_the_answers_also_of_stored_results(tmp_path):
    """Each conversation is drawn once, and stored results have the same drawing."""
    log = tmp_path / "results.jsonl"
    result = run(tmp_path, "P<=0.01 [ F (turn = 2 & leaks = 1) ]", options={"log": log})
    (image,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', format_html(result))
    drawing = ElementTree.fromstring(base64.b64decode(image))
    texts = ["".join(element.itertext()) for element in drawing.iter(SVG_TEXT)]
    assert "ab" in texts
    assert "turn 2: c{answer 1}a" in texts
    assert any(re.fullmatch(r"✗ [abc]*…?  leaks 0", text) for text in texts)
    stored = replace(result, results=tuple(read_results(log)))
    assert image in format_html(stored)


def test_messages_of_a_page_are_data(tmp_path):
    """Markup and control characters in a message of the user are shown, not interpreted."""
    turns = [{"user": "<b>a</b>\x07"}, {"user": "<script>{answer 1}</script>"}]
    result = run(tmp_path, "P<=0.01 [ F (turn = 2 & leaks = 1) ]", keys={"turns": turns})
    text = format_html(result)
    assert "<b>a" not in text
    assert "\x07" not in text
    conversations = [messages for _, messages in read_conversations(text)]
    assert all(messages[0] == ("user", "<b>a</b>\\x07") for messages in conversations)
    later = [messages[2][1] for messages in conversations if len(messages) > 2]
    assert later
    assert all(text.startswith("<script>") for text in later)


def read_conversations(page: str) -> list[tuple[float, list[tuple[str, str]]]]:
    """Read the conversations of a page: the probability, and role and text of each message."""
    blocks = re.findall(r'<div class="conversation">(.*?)</dl>', page, re.DOTALL)
    return [
        (
            float(re.search(r'<data value="([^"]*)"', block)[1]),
            [
                (html.unescape(role), html.unescape(text))
                for role, text in re.findall(
                    r"<dt><bdi>([^<>]*)</bdi></dt>"
                    # an answer may have no text
                    r'<dd>(?:<bdi>([^<>]*)</bdi>|<span class="note">[^<>]*</span>)</dd>',
                    block,
                )
            ],
        )
        for block in blocks
    ]


def test_a_run_goes_on_from_its_log(tmp_path):
    """A second run takes stored results over, and other turns are another suite."""
    log = tmp_path / "results.jsonl"
    run(tmp_path, "P>=0.999 [ G leaks = 0 ]", options={"log": log})
    again = load(
        tmp_path,
        [case("P>=0.999 [ G leaks = 0 ]")],
        properties=PROPERTIES,
        length=LENGTH,
        budget={"passes": 2000},
    )

    def fail(deployment):
        raise AssertionError("the model is not needed")

    def open_lazily(deployment):
        class Lazy:
            model = property(fail)

        return Lazy()

    assert run_suite(again, log=log, open_model=open_lazily).results[0].status is Status.VIOLATED
    changed = [{"turns": [{"user": "ab"}, {"user": "b"}], "require": ["P>=0.9 [ G leaks = 0 ]"]}]
    other = load(tmp_path, changed, properties=PROPERTIES, length=LENGTH, budget={"passes": 2000})
    with pytest.raises(ConfigError, match="results of another suite"):
        run_suite(other, log=log, open_model=open_lazily)


def test_whole_answers_count_cut_conversations_against_a_requirement(tmp_path):
    """With `length: end` a conversation with a cut answer does not satisfy P>=p."""
    truth = find_truth(("&", ("G", None, NO_LEAK), ("G", None, ("label", "end"))))
    require = f"P>={float(truth) + 1e-4:.6f} [ G leaks = 0 ]"
    result = run(tmp_path, require, keys={"length": f"end:{LENGTH}"})
    assert result.results[0].status is Status.VIOLATED
    assert '(G leaks = 0) & (G "end")' in result.suite.cases[0].question.query.text


def test_columns_of_a_table_are_inserted_into_turns(tmp_path):
    """A cell is data: it refers to no answer."""
    (tmp_path / "rows.csv").write_text("letter\na\n{answer 1}\n")
    turns = [{"user": "b{letter}"}, {"user": "{letter}-{answer 1}"}]
    suite = load(
        tmp_path,
        [{"turns": turns, "prompts": "rows.csv", "require": ["P>=0.5 [ G leaks = 0 ]"]}],
        properties=PROPERTIES,
    )
    first, second = (each.question.conversation for each in suite.cases)
    assert first.chat.messages == (("user", "ba"),)
    assert first.build_chat(["x"]).messages[-1] == ("user", "a-x")
    assert second.chat.messages == (("user", "b{answer 1}"),)
    assert second.build_chat(["x"]).messages[-1] == ("user", "{answer 1}-x")


def test_a_system_prompt_precedes_the_conversation(tmp_path):
    """The suite's system prompt is the first message of every turn."""
    suite = load(
        tmp_path, [case("P>=0.5 [ G leaks = 0 ]")], properties=PROPERTIES, system="Be short."
    )
    chat = suite.cases[0].question.conversation.build_chat(["b"])
    assert chat.messages == (
        ("system", "Be short."),
        ("user", "ab"),
        ("assistant", "b"),
        ("user", "cba"),
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            {"turns": [{"user": "a"}, {"user": "{answer 2}"}]},
            r"cases\[0\]\.turns\[1\].*\{answer 2\} does not precede this turn; use 1 to 1",
        ),
        ({"turns": [{"user": "{answer 1}"}]}, r"turns\[0\]\.user: no answer precedes"),
        ({"turns": [{"user": "a"}, {"user": " "}]}, r"turns\[1\]\.user: the text is empty"),
        ({"turns": []}, r"turns"),
        ({"turns": [{"assistant": "a"}]}, r"turns\[0\]"),
        ({"turns": TURNS, "user": "a"}, "user and turns"),
        ({"require": ["P>=0.5 [ F turn = 3 ]"]}, "turn = 3 never holds; the conversation has 2"),
        ({"require": ["P>=0.5 [ F step = 1 ]"]}, "step counts tokens"),
        (
            {"require": [{"contains": "a", "at_least": 0.5, "turn": 3}]},
            "turn: 3 is no turn; write 1 to 2, last, every or any",
        ),
        (
            {"turns": None, "user": "a", "require": [{"contains": "a", "at_least": 1, "turn": 1}]},
            "turn: there is no such assertion",
        ),
    ],
    ids=str,
)
def test_errors_are_named_with_their_line_before_a_model_is_loaded(content, problem, tmp_path):
    """A wrong turn, reference or requirement is an error of the file, with its place."""
    entry = {"turns": TURNS, "require": ["P>=0.5 [ G leaks = 0 ]"], **content}
    entry = {key: value for key, value in entry.items() if value is not None}
    with pytest.raises(ConfigError, match=problem) as error:
        load(tmp_path, [entry], properties=PROPERTIES)
    assert re.search(r"suite\.yaml, line \d+", str(error.value))


def test_a_failing_conversation_is_an_error_of_its_case(tmp_path):
    """A template that drops answers is the error of the case, and other cases go on."""
    suite = load(
        tmp_path,
        [case("P>=0.5 [ G leaks = 0 ]"), {"user": "ab", "require": ["P>=0 [ F leaks = 1 ]"]}],
        properties=PROPERTIES,
        length=LENGTH,
    )

    def open_model(deployment):
        broken = model()
        broken.drops_answers = True
        return OpenTable(broken)

    first, second = run_suite(suite, open_model=open_model).results
    assert first.status is Status.ERROR
    assert "drops the answer" in first.error
    assert second.status is Status.HOLDS


def test_a_server_with_probabilities_holds_conversations(tmp_path, monkeypatch):
    """Turns and a simulated user on a server have certain verdicts around the enumerated truth."""
    table, turns = chat_table(3), ["ab", "b{1}"]
    tree = enumerate_conversations(table, turns, 3, {"b": Pattern("b")})
    truth = float(tree.probability_of(("F", None, ("atom", "b", "=", 1))))
    assert 0.55 < truth < 0.9
    monkeypatch.chdir(tmp_path)
    server = fake_chat(tmp_path, table, "vllm")
    with running(server) as address:
        model = {"label": "S", "source": f"server:{address}", "api": "vllm", "tokens": 3}
        models = {"m": {**model, "tokenizer": "path:tokenizer"}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump({"models": models}))
        require = ["P>=0.5 [ F b = 1 ]", "P>=0.95 [ F b = 1 ]"]
        user = {"simulated_user": {"model": "m", "system": "b", "length": 2}}
        suite = {
            "model": "m",
            "config": "config.yaml",
            "length": 3,
            "budget": {"passes": 400},
            "properties": {"b": {"type": "pattern", "pattern": "b"}},
            "cases": [
                {"turns": [{"user": "ab"}, {"user": "b{answer 1}"}], "require": require},
                {"turns": [{"user": "ab"}, user], "require": require[:1]},
            ],
        }
        (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
        scripted, above, simulated = run_suite(load_suite(tmp_path / "suite.yaml")).results
    assert [scripted.status, above.status] == [Status.HOLDS, Status.VIOLATED]
    assert above.is_certain
    assert above.answer.probability.lower <= truth <= above.answer.probability.upper
    assert simulated.status is Status.HOLDS
    assert "simulated user (S, temperature 1) writes turn 2" in " ".join(simulated.answer.notes)
