"""Rows show what was read for a verdict, and texts whose truth an independent look confirms."""

import html
import itertools
import json
import random
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from helpers.conversations import chat_table
from helpers.fake_provider import FakeProvider
from helpers.fake_server import running
from helpers.served_models import connected, fake
from helpers.suites import OpenTable, load, run

import llmchecker as lc
from llmchecker.processes.conversation import format_messages
from llmchecker.suites.entries import build_entries
from llmchecker.suites.examples import Example
from llmchecker.suites.html_page import format_html
from llmchecker.suites.json_lines import read_results
from llmchecker.suites.junit import format_junit
from llmchecker.suites.load import load_suite
from llmchecker.suites.markdown_summary import format_markdown
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.session import run_suite
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import Status

WORDS = ["once", " he", " she", " it", " they", "."]
SHARES = [0.0, 0.05, 0.3, 0.3, 0.25, 0.1]


def read_outputs(result: SuiteResult) -> list[str]:
    """The four outputs as a reader sees them."""
    return [
        format_table(result),
        "\n".join(ElementTree.fromstring(format_junit(result)).itertext()),
        html.unescape(format_markdown(result)),
        re.sub(r"<[^>]+>", "", html.unescape(format_html(result))),
    ]


def read_from_provider(folder, monkeypatch, writer, cases, answers, **keys) -> SuiteResult:
    """The result of a suite on a provider of texts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    with running(FakeProvider("openai-chat", writer)) as address:
        model = {"source": address, "api": "openai-chat"}
        content = {"model": model, "budget": {"answers": answers}, "cases": cases, **keys}
        (folder / "suite.yaml").write_text(json.dumps(content), encoding="utf-8")
        return run_suite(load_suite(folder / "suite.yaml"), log=folder / "results.jsonl")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("requirement", "against"),
    [
        ({"not_contains": "SAVE20", "at_least": 0.8}, 3),
        ({"contains": "SAVE20", "at_most": 0.2}, 3),
        ({"contains": "SAVE20", "at_least": 0.2}, 18),
        ({"not_contains": "SAVE20", "at_most": 0.8}, 18),
    ],
)
def test_a_row_counts_the_answers_of_a_texts_only_model(
    requirement, against, tmp_path, monkeypatch
):
    """Of 21 answers every seventh has the code; whole answers and their scores are shown."""
    numbers = itertools.count(1)
    long = "Sure! " * 100

    def write(drawn: random.Random) -> tuple[str, bool]:
        # a provider answers under a lock of its own only where it draws, so that counting is atomic
        return (f"{long}Use SAVE20." if next(numbers) % 7 == 0 else "No codes here."), True

    case = {"user": "Any codes?", "require": [requirement]}
    result = read_from_provider(tmp_path, monkeypatch, write, [case], 21, length=400)
    verbs = [
        f"{n} {'violate' if bad else 'meet'} it" for n, bad in ((against, 1), (21 - against, 0))
    ]
    for output in read_outputs(result):
        assert f"21 answers read: {', '.join(verbs)}" in output
        assert "violates it (contains = " in output
    (stored,) = read_results(tmp_path / "results.jsonl")
    assert {each.text for each in stored.examples} == {f"{long}Use SAVE20.", "No codes here."}
    for each in stored.examples:
        assert each.scores == {"contains": int("SAVE20" in each.text)}
        assert each.ending == "ended"
        assert each.is_violating == (("SAVE20" in each.text) == (against == 3))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "requirement",
    [
        # the word is rare, so that neither a text with it nor a whole one is in the tree
        "P<=0.001 [ F rare = 1 ]",
        "P>=0.5 [ F (G it = 1) ]",
        "P<=0.5 [ F (G it = 1) ]",
        "P>=0.999999 [ G rare = 0 ]",
        "P>=0.9 [ F (G it = 1) ]",
        "P<=0.01 [ F she = 1 ]",
    ],
)
def test_every_violated_or_unknown_row_shows_a_text(requirement, tmp_path):
    """Each text has the scores that a plain look finds, and a whole one the truth of its kind."""
    rare = 1e-7
    shares = [0.0, rare, 0.3, 0.3, 0.3 - rare, 0.1]
    model = lc.TableModel(WORDS, lambda tokens: shares, frozenset([5]))
    patterns = {"rare": " he", "it": "it$", "she": "she"}
    properties = {n: {"type": "pattern", "pattern": p} for n, p in patterns.items()}
    cases = [{"start": "once", "require": [requirement]}]
    suite = load(tmp_path, cases, properties=properties, length=30, budget={"passes": 300})
    result = run(suite, model)
    (found,) = result.results
    (entry,) = build_entries(result)
    assert found.status.value in ("VIOLATED", "UNKNOWN")
    shown = [line for line in entry.reasons if re.match(r'(sampled|[0-9.e-]+)  "', line)]
    assert shown
    assert all(any(line in output for line in shown) for output in read_outputs(result))
    if found.answer.samples and not found.is_certain:
        estimate = f"from {found.answer.samples} sampled answers"
        assert all(estimate in output for output in read_outputs(result))
    for example in found.examples:
        assert example.scores
        for name, score in example.scores.items():
            assert score == bool(re.search(patterns[name], example.text))
        words = len(re.findall(r" \w+", example.text))
        assert (example.ending == "ended") <= (words < 30)
        is_whole = example.ending == "ended" or words == 30
        if is_whole and "G it" in requirement:
            is_met = example.text.endswith("it")
            assert example.is_violating == (is_met == ("<=" in requirement))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_a_served_model_shows_texts_too(seed, tmp_path):
    """Rows of a server that lists few tokens have texts with plain scores."""
    server = fake(tmp_path, "vllm", seed)
    properties = {"aa": {"type": "pattern", "pattern": "aa"}}
    cases = [{"start": "ab", "require": ["P<=0.0001 [ F aa = 1 ]", "P>=0.45 [ F (G aa = 0) ]"]}]
    with running(server) as address:
        model = connected(tmp_path, server, address)
        suite = load(tmp_path, cases, properties=properties, length=12, budget={"passes": 150})
        result = run_suite(suite, open_model=lambda deployment: OpenTable(model))
    for found, entry in zip(result.results, build_entries(result), strict=True):
        if found.status.value == "HOLDS":
            continue
        assert any(re.match(r'(sampled|[0-9.e-]+)  "', line) for line in entry.reasons)
        for example in found.examples:
            assert example.scores == {"aa": int("aa" in example.text)}


def test_a_conversation_shows_why_it_counts(tmp_path, monkeypatch):
    """Rows of conversations, sampled or in process, show their messages and the deciding score."""
    properties = {"leaks": {"type": "pattern", "pattern": "c"}}
    turns = [{"user": "ab"}, {"user": "ca"}]
    cases = [{"turns": turns, "require": ["P<=0.001 [ F leaks = 1 ]", "P>=0.4 [ G leaks = 0 ]"]}]
    suite = load(tmp_path, cases, properties=properties, length=2, budget={"passes": 60})
    table = chat_table(7, is_truncated=True)
    local = run_suite(suite, open_model=lambda deployment: OpenTable(table))

    def write(drawn: random.Random) -> tuple[str, bool]:
        return ("a c" if drawn.random() < 0.5 else "a b"), True

    (tmp_path / "p").mkdir()
    served = read_from_provider(
        tmp_path / "p", monkeypatch, write, cases, 20, length=4, properties=properties
    )
    for result in (local, served):
        for found, entry in zip(result.results, build_entries(result), strict=True):
            if found.status.value == "HOLDS":
                continue
            assert entry.transcripts
            for transcript in entry.transcripts:
                last = transcript.example.messages[-1]
                assert last[0] == "assistant"
                assert f"leaks = {int('c' in last[1])}" in transcript.reason
                assert f"leaks = {int('c' in last[1])}" in format_table(result)
    assert re.search(r"\d+ conversations read: ", format_table(served))


def test_a_conversation_that_decides_nothing_is_named_so_in_every_output(tmp_path):
    """No output claims that a sampled, undecided conversation meets or violates a requirement."""
    properties = {"leaks": {"type": "pattern", "pattern": "c"}}
    case = {"turns": [{"user": "ab"}, {"user": "ca"}], "require": ["P<=0.5 [ F leaks = 1 ]"]}
    suite = load(tmp_path, [case], properties=properties, length=2, budget={"passes": 20})
    result = run_suite(suite, open_model=lambda deployment: OpenTable(chat_table(7)))
    text = format_messages([("assistant", "a b"), ("user", "ca"), ("assistant", "c")])
    found = replace(result.results[0], status=Status.UNKNOWN, examples=(Example(text, 0.25, None),))
    page = read_outputs(replace(result, results=(found,)))
    for output in page:
        assert "ca" in output
        assert not re.search(r"(meets|violates) (it|the requirement)", output)
    assert "a conversation that decides nothing so far" in page[-1]
    assert re.search(r"sampled  assistant: ", page[0])


@pytest.mark.parametrize("requirement", ["P<=0.001 [ F bad = 1 ]", "P>=0.9995 [ G bad = 0 ]"])
def test_one_pass_lists_a_text_against_a_requirement_that_rare_tokens_violate(
    requirement, tmp_path
):
    """Of 700 tokens a visit lists 512; the rare token is shown with its exact probability."""
    words = ["once", *(f" w{n}" for n in range(699)), " bad"]
    share = (1 - 0.001) / 699
    model = lc.TableModel(words, lambda tokens: [0.0, *[share] * 699, 0.001])
    properties = {"bad": {"type": "words", "words": ["bad"]}}
    cases = [{"start": "once", "require": [requirement]}]
    budget = {"passes": 40}
    suite = load(tmp_path, cases, properties=properties, length=6, budget=budget)
    result = run(suite, model)
    (found,) = result.results
    assert found.status.value == "VIOLATED"
    assert found.passes <= budget["passes"]
    best = found.witnesses[0]
    assert best.continuation.endswith(" bad")
    # the words before it have equal probabilities
    assert best.probability == pytest.approx(0.001 * share ** best.continuation.count(" w"))
    assert f'"{best.continuation}" …  (bad = 1)' in format_table(result)
    # the bounds are those of the tokens that the visits summed
    assert found.measurement.certain.lower <= 1 - (
        1 - 0.001
    ) ** 6 <= found.measurement.certain.upper or (
        found.measurement.certain.lower <= (1 - 0.001) ** 6 <= found.measurement.certain.upper
    )
