"""What is paid: every door keeps a limit of tokens or of money, and pays no answer twice."""

from collections.abc import Iterator

import pytest
from helpers.doors import DOORS, Door, Found
from helpers.fake_server import running
from helpers.subjects import ChatProvider, Fault, Subject

from llmchecker.models.servers import text_client
from llmchecker.models.servers.http_client import RequestLimits

TOKENS = 12
"""The tokens of a prompt and an answer of the provider, whose prices are a dollar a million."""
PLACES = [
    (name, kind)
    for name in DOORS[1:]
    for kind in ("answer", "conversation", "simulated user")
    if name != "check" or kind == "answer"
]


@pytest.fixture(params=PLACES, ids=str)
def place(request) -> tuple[str, str]:
    """A door and a kind of text."""
    return request.param


@pytest.fixture
def provider(place) -> ChatProvider:
    """The provider of the models."""
    return Subject("texts", place[1]).open_provider(Fault())


@pytest.fixture
def door(place, provider, tmp_path, monkeypatch, capsys) -> Iterator[Door]:
    """The door to the provider, whose requests are made once."""
    limits = RequestLimits(attempts=1, first_pause_seconds=0.001)
    monkeypatch.setitem(text_client.TextClient.__init__.__kwdefaults__, "limits", limits)
    name, kind = place
    with running(provider) as address:
        yield Door(name, Subject("texts", kind), tmp_path, monkeypatch, capsys, address)


def ask_close(door: Door, **limits: float) -> Found:
    """Ask for a threshold that the answers do not decide."""
    return door.ask(f"P>={door.subject.truth:.5f} [ F b = 1 ]", **{"answers": 24, **limits})


@pytest.mark.few(5)
@pytest.mark.parametrize("limit", [{"tokens": 3000}, {"dollars": 0.003}])
def test_a_limit_of_tokens_or_money_is_kept(door, provider, limit):
    """No answer is requested that might exceed the limit, and those that are paid count."""
    found = ask_close(door, answers=1000, **limit)
    assert 8 < found.costs == len(provider.questions)
    assert TOKENS * len(provider.questions) <= 3000
    assert found.low - 1e-9 <= door.subject.truth <= found.high + 1e-9
    assert not found.error


def test_no_answer_is_paid_twice(door, provider):
    """A run that a failure ended continues with the stored answers, and so does one without its
    log; both have the result of a run that nothing disturbed."""
    provider.left = Fault(5)
    failed = ask_close(door)
    assert "is gone" in failed.error
    assert failed.status == 3
    assert len(provider.questions) == 5
    provider.left = Fault()
    found = ask_close(door)
    assert found.costs <= 24
    assert len(provider.questions) <= 24
    paid = len(provider.questions)
    door.log.unlink(missing_ok=True)
    assert ask_close(door) == found
    assert len(provider.questions) == paid
