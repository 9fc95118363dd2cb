"""Conversations with models that return texts alone: samples, limits and failures."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.fake_provider import MODEL, FakeProvider, share
from helpers.fake_server import running
from helpers.questions import check_conversation
from helpers.text_sampler import TextSampler
from scipy.stats import binom

from llmchecker.checking.budget import Budget
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.servers import text_client
from llmchecker.models.servers.http_client import RequestLimits
from llmchecker.processes.conversation import Conversation, ScriptedTurn
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import Status

CONVERSATION = Conversation(
    Chat((("user", "a"),)), (ScriptedTurn.parse("{answer 1}!"), ScriptedTurn.parse("c"))
)


def say_no(seed: int, share_of_no: float, **options: Any) -> TextSampler:
    """A text model that answers `no` with a share, twice as often after a `no`."""

    def write(stream, chance):
        said_no = ("assistant", "no") in stream.prompt.messages
        is_no = chance.random() < share_of_no * (2 if said_no else 1)
        return "no" if is_no else "yes", True

    return TextSampler(write, seed, **options)


def ask(query: str) -> Property:
    return Property(parse(query), {"no": Pattern("no")}, 5)


def check(model: TextSampler, query: str, **limits: Any):
    return check_conversation(model, CONVERSATION, ask(query), Budget(passes=1, **limits))


def test_each_turn_has_the_answers_before_it():
    """A request has all messages so far, and a decided conversation has no further one."""
    model = say_no(0, 0.4)
    answer = check(model, "P=? [ G no = 0 ]", answers=60)
    chats = [chat.messages for chat in model.chats]
    assert all(chat[-1] == ("user", f"{chat[1][1]}!") for chat in chats if len(chat) == 3)
    assert all(chat[2][1] == "yes!" for chat in chats if len(chat) == 5)
    assert len(model.chats) == answer.costs.answers <= 60
    assert answer.samples <= 20
    assert answer.about.startswith("in 3 turns of at most 5 tokens, which cut 0 of ")


class _Judge:
    """A quantifier that reads the chat, and keeps what it reads."""

    minimum, maximum = 0, 1

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []

    def build_notes(self, model: object, *, is_measured: bool = False) -> list[str]:
        return []

    def __call__(self, prompt: str, text: str) -> int:
        self.read.append((prompt, text))
        return 0


def test_a_judge_reads_the_chat_before_each_answer():
    """A quantifier that judges answers gets all messages before the answer."""
    judge = _Judge()
    asked = Property(parse("P=? [ G polite = 0 ]"), {"polite": judge}, 5)
    check_conversation(say_no(0, 0.0), CONVERSATION, asked, Budget(passes=1, answers=3))
    assert judge.read[0] == ("user: a\n", "yes")
    assert ("user: a\nassistant: yes\nuser: yes!\n", "yes") in judge.read


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("query", "truth"),
    [
        ("P=? [ G no = 0 ]", 0.7**3),
        ("P=? [ X no = 1 ]", 0.3 * 0.6 + 0.7 * 0.3),
        ("P=? [ F no = 1 ]", 1 - 0.7**3),
    ],
)
def test_intervals_cover_the_truth_whenever_the_work_stops(query, truth):
    """Misses are not significantly more frequent than the confidence allows.

    Conversations that are decided early end early, which must not favour them.
    """
    seeds = 16
    misses = 0
    for seed in range(seeds):
        answer = check(say_no(seed, 0.3), query, answers=30 + seed, confidence=0.8)
        misses += not answer.low <= truth <= answer.high
    assert binom.sf(misses - 1, seeds, 0.2) > 1e-4


def test_the_first_conversations_to_end_are_not_counted_first():
    """Where a limit ends the run, those under way count as open: early ends have no bias."""
    for seed in range(8):
        answer = check(say_no(seed, 0.3, most=25), "P=? [ F no = 1 ]", answers=900)
        assert answer.low <= 1 - 0.7**3 <= answer.high
    assert "the limit is spent" in answer.notes


def test_withheld_answers_leave_a_conversation_open():
    """A withheld answer counts neither for nor against, and widens the interval."""
    answer = check(say_no(1, 0.0, withheld=0.5), "P=? [ G no = 0 ]", answers=300)
    assert answer.high > 0.99
    assert answer.low < 0.4
    assert any("withheld by a content filter" in note for note in answer.notes)
    assert any("conversations" in note for note in answer.notes)


def write(folder: Path, address: str, require: list, **keys: Any) -> Path:
    model = {"label": "P", "source": f"server:{address}", "api": "openai-chat"}
    model |= {"served_as": MODEL, "requests": 4} | keys.pop("model", {})
    config = {"models": {"provider": model}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    turns = [{"user": "Is it?"}, {"user": "Really {answer 1}?"}]
    suite = {"model": "provider", "length": 3, "budget": {"answers": 100}} | keys
    suite["cases"] = [{"turns": turns, "require": require}]
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False), encoding="utf-8")
    return folder / "suite.yaml"


@pytest.fixture
def quick(monkeypatch):
    """Repeat failed requests at once."""
    limits = RequestLimits(attempts=2, first_pause_seconds=0.001, max_bytes=10_000)
    monkeypatch.setitem(text_client.TextClient.__init__.__kwdefaults__, "limits", limits)


@pytest.mark.usefixtures("quick")
def test_a_suite_decides_conversations_of_a_provider(tmp_path):
    """Verdicts have confidence, a witness is a conversation, and a rerun requests nothing."""
    provider = FakeProvider("openai-chat", share(0.97))
    never = {"equals": "no", "at_least": 0.5, "turn": "any"}
    require = [{"equals": "yes", "at_least": 0.5}, never]
    with running(provider) as address:
        suite = load_suite(write(tmp_path, address, require))
        result = run_suite(suite)
        requests = len(provider.questions)
        again = run_suite(suite)
        assert len(provider.questions) == requests
    assert [each.status for each in result.results] == [Status.HOLDS, Status.VIOLATED]
    assert [each.status for each in again.results] == [Status.HOLDS, Status.VIOLATED]
    assert not any(each.is_certain for each in result.results)
    table = format_table(result)
    assert 'user: "Really yes?"' in table
    assert "in 2 turns of at most 3 tokens, which cut 0 of" in table
    _, question = provider.questions[-1]
    assert [each["role"] for each in question["messages"]] in (
        ["user"],
        ["user", "assistant", "user"],
    )


def test_an_api_without_messages_is_refused_with_its_place(tmp_path):
    """An API that continues texts has no conversations."""
    model = {"api": "openai-completions"}
    path = write(tmp_path, "http://localhost:1", [{"equals": "yes", "at_least": 0.5}], model=model)
    with pytest.raises(ConfigError, match=r"line \d+: cases\[0\]\.turns: .*use start"):
        load_suite(path)
