"""`compare`: one query on two models or start strings of a caller."""

from xml.etree import ElementTree

import pytest

import llmchecker as lc
from llmchecker.errors import ConfigError, InterruptedCheck, InvalidQuery

WORDS = ["once", " he", " she", " it"]
QUERY = "P=? [ F he > 1 ]"


def table(he_probability: float) -> lc.TableModel:
    """A model that writes `he` with a probability."""
    return lc.TableModel(WORDS, lambda tokens: [0, he_probability, 0.5 - he_probability, 0.5])


def he(start: str, continuation: str) -> int:
    return continuation.count(" he")


def at_least_two(probability: float, length: int) -> float:
    """The probability of two or more successes, by the binomial distribution."""
    none, single = (
        (1 - probability) ** length,
        length * probability * (1 - probability) ** (length - 1),
    )
    return 1 - none - single


@pytest.mark.parametrize(
    ("first", "versus", "outcome"), [(0.5, 0.125, "FIRST"), (0.125, 0.5, "VERSUS")]
)
def test_the_side_with_the_greater_probability_is_found(first, versus, outcome):
    """In both orders the difference is within bounds and interval, and its sign is decided."""
    found = lc.compare(
        QUERY, table(first), "once", versus_model=table(versus), length=5, passes=600, he=he
    )
    truth = at_least_two(first, 5) - at_least_two(versus, 5)
    assert found.lower <= truth <= found.upper
    assert found.low <= truth <= found.high
    assert found.outcome == outcome
    assert found.certainty in ("certain", "with confidence 0.99")


def test_a_comparison_shows_itself():
    """Text and page have the verdict, the difference and both sides."""
    found = lc.compare(QUERY, table(0.5), "once", versus_start="once it", length=3, passes=3, he=he)
    lines = str(found).splitlines()
    assert lines[:5] == [
        f"query           {QUERY}",
        "both            table",
        'first           "once"',
        'versus          "once it"',
        "verdict         undecided: the difference may be 0",
    ]
    assert lines[-2:] == [
        "Continuations of the second side that satisfy it, most probable first:",
        '  0.25        " he he"',
    ]
    page = ElementTree.fromstring(f"<div>{found._repr_html_()}</div>")
    names = ["".join(cell.itertext()) for cell in page.iter("th")]
    assert names[:3] == ["query", "both", "first"]
    assert found.certainty is None


def test_progress_and_watch_get_the_difference():
    """The first interval of the difference is [-1, 1], and a true return ends the work."""
    lines = []
    found = lc.compare(
        QUERY,
        table(0.5),
        "once",
        versus_model=table(0.25),
        length=5,
        passes=5000,
        he=he,
        progress=lines.append,
        watch=lambda progress: progress.passes >= 2,
    )
    assert lines[0] == "certain [-1, 1], 0 passes"
    assert found.passes == found.history[-1].passes < 5000


def test_a_model_that_fails_leaves_a_readable_comparison():
    """The error holds the comparison so far, which prints itself."""
    calls = []

    def distribution(tokens):
        calls.append(tokens)
        if len(calls) > 9:
            raise OSError("the device is gone")
        return [0, 0.25, 0.25, 0.5]

    failing = lc.TableModel(WORDS, distribution)
    with pytest.raises(InterruptedCheck, match="OSError: the device is gone") as caught:
        lc.compare(QUERY, table(0.25), "once", versus_model=failing, length=6, passes=900, he=he)
    assert "difference" in str(caught.value.result)


@pytest.mark.parametrize(
    ("query", "options", "error", "message"),
    [
        (QUERY, {}, ConfigError, "both sides are the same"),
        (
            QUERY,
            {"versus_start": "once", "versus_user": "Hi"},
            ConfigError,
            "versus_start: user is given too",
        ),
        (QUERY, {"versus_system": "Be kind."}, ConfigError, "versus_system: it belongs to a chat"),
        (QUERY, {"versus_model": "gpt2"}, ConfigError, "is not a language model"),
        ("P>=0.5 [ F he > 1 ]", {"versus_start": "once it"}, InvalidQuery, "needs a number"),
    ],
)
def test_what_cannot_be_compared_is_refused(query, options, error, message):
    """A threshold, equal sides and contradicting options are refused by name."""
    with pytest.raises(error, match=message):
        lc.compare(query, table(0.25), "once", passes=10, he=he, **options)
