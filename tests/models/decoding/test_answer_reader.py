"""Readers of answers: stops and thoughts on whole texts."""

import itertools

import pytest

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.answer_format import ThoughtMarks
from llmchecker.models.decoding.answer_reader import AnswerReader, Reading, build_reader

MARKS = ThoughtMarks("<think>", "</think>")


def release(stop: tuple[str, ...], text: str, *, is_whole: bool = False) -> str:
    """Return the output that stops release of a text."""
    return AnswerReader(stop).read(text, is_whole=is_whole).output


@pytest.mark.parametrize(
    ("stop", "text", "released"),
    [
        (("User:",), "No.U", "No."),
        (("User:",), "No.Use it", "No.Use it"),
        (("User:",), "No.User: hi", "No."),
        (("aab",), "aaa", "a"),
        (("aab",), "aaab", "a"),
        (("abc", "bc"), "xabc", "x"),
        (("abcd", "b"), "a", ""),
        (("\n\n", "User:"), "a\nUser", "a\n"),
    ],
)
def test_stops_hold_back_what_may_begin_them(
    stop: tuple[str, ...], text: str, released: str
) -> None:
    """A stop ends a text before itself, and only a suffix that may begin a stop is held back."""
    if stop == ("abcd", "b"):
        with pytest.raises(ConfigError, match="'abcd' is never reached"):
            AnswerReader(stop)
        return
    assert release(stop, text) == released


def test_a_whole_text_is_released() -> None:
    """A text that ends, or that is cut, has the suffix that might have begun a stop."""
    assert release(("User:",), "No.Use", is_whole=True) == "No.Use"


def test_a_stop_is_included_on_request() -> None:
    """With `include_stop` a text ends after its first stop, and holds nothing back."""
    reader = AnswerReader(("END",), include_stop=True)
    assert reader.read("a EN", is_whole=False).output == "a EN"
    assert reader.read("a END END", is_whole=False).output == "a END"


@pytest.mark.parametrize(
    ("text", "thought", "answer", "is_thinking"),
    [
        ("<think>yes</think>No.", "yes", "No.", False),
        ("\n<think>\nyes</think>\n\nNo.\n", "yes", "No.\n", False),
        ("<think>yes</thi", "yes", "", True),
        (" <thi", "", "", False),
        (" <thx", "", "<thx", False),
        ("a<think>b</think>c", "", "a<think>b</think>c", False),
        ("a</think>b", "", "a</think>b", False),
        ("<think><think></think>", "<think>", "", False),
    ],
)
def test_marks_split_a_text(text: str, thought: str, answer: str, is_thinking: bool) -> None:
    """What is between marks at the start is a thought, and what follows is the answer."""
    reading = AnswerReader(marks=MARKS).read(text, is_whole=False)
    assert reading == Reading(text, thought, answer, False, is_thinking)


def test_a_thought_may_begin_in_the_prompt() -> None:
    """After a prompt that ends with the mark of a thought, a text begins within it."""
    reader = AnswerReader(marks=MARKS)
    opened = reader.continue_prompt("user\nassistant\n<think>\n")
    assert opened.read("yes</think>No", is_whole=True).answer == "No"
    assert reader.continue_prompt("What is <think>? Say.") is reader
    assert reader.continue_prompt("<think>\n\n</think>\n\n") is reader


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("include_stop", [False, True])
def test_readers_only_append(is_open: bool, include_stop: bool) -> None:
    """What is read of a text begins what is read of every continuation of it, on all texts."""
    marks = ThoughtMarks("<", ">>", is_open)
    reader = AnswerReader(("ab", "ba>"), include_stop, marks)
    for text in map("".join, itertools.product("ab<> ", repeat=5)):
        readings = [reader.read(text[:n], is_whole=False) for n in range(len(text) + 1)]
        readings.append(reader.read(text, is_whole=True))
        for before, after in itertools.pairwise(readings):
            for part in ("output", "thought", "answer"):
                assert after.select(part).startswith(before.select(part)), (text, part)
            assert after.has_stopped >= before.has_stopped


@pytest.mark.parametrize(
    ("stop", "problem"),
    [
        (("",), "'' ends no text"),
        (("User:", "User"), "'User:' is never reached, since 'User'"),
        (("a", "a"), "given twice"),
    ],
)
def test_impossible_stops_are_refused(stop: tuple[str, ...], problem: str) -> None:
    """A stop that is empty, or that another one always precedes, is refused by name."""
    with pytest.raises(ConfigError, match=problem):
        AnswerReader(stop)


@pytest.mark.parametrize(
    ("stop", "begin", "end", "problem"),
    [
        ((), "<t>", "<t>", "overlap"),
        ((), "<t>", "x<t>", "overlap"),
        ((), "<t>", "\n</t>", "white space around"),
        (("t>",), "<t>", "</t>", "ends every answer within the mark"),
    ],
)
def test_marks_that_overlap_are_refused(
    stop: tuple[str, ...], begin: str, end: str, problem: str
) -> None:
    """Marks of which one contains the other or a stop are refused by name."""
    with pytest.raises(ConfigError, match=problem):
        AnswerReader(stop, marks=ThoughtMarks(begin, end))


def test_keys_are_read() -> None:
    """`stop` is a text or several, and `thought` has marks or is false; others are refused."""
    assert build_reader({"stop": "\n"}) == AnswerReader(("\n",))
    before = AnswerReader(("a", "b"), marks=MARKS)
    assert build_reader({"stop": ["c"]}, before) == AnswerReader(("c",), marks=MARKS)
    assert build_reader({"thought": False}, before) == AnswerReader(("a", "b"), finds_marks=False)
    keys = {"thought": {"begin": "<t>", "end": "</t>", "open": True}}
    assert build_reader(keys).marks == ThoughtMarks("<t>", "</t>", is_open=True)
    for wrong, problem in (
        ({"stop": 3}, "stop: 3 is not a text"),
        ({"thought": "<t>"}, "thought: '<t>' has another form"),
        ({"thought": {"begin": "<t>"}}, "has another form"),
        ({"thought": {"begin": "<t>", "end": " "}}, "thought: end: ' ' is no mark"),
        ({"include_stop": True}, "include_stop: no effect without stop"),
        ({"max_tokens": 0}, "max_tokens: 0 is not a whole number above 0"),
    ):
        with pytest.raises(ConfigError, match=problem):
            build_reader(wrong)


def test_settings_are_described() -> None:
    """The settings with an effect are words for a person, and JSON for fingerprints."""
    reader = AnswerReader(("User:", "\n"), marks=MARKS)
    assert str(reader) == r"stop 'User:', '\n', answers after '</think>'"
    assert reader.as_json == {
        "stop": ["User:", "\n"],
        "thought": {"begin": "<think>", "end": "</think>", "open": False},
    }
    assert AnswerReader(finds_marks=False).as_json == {"thought": False}
    assert AnswerReader().as_json == {}
    assert AnswerReader(max_tokens=9).as_json == {"max_tokens": 9}
    assert str(AnswerReader(max_tokens=9)) == "max_tokens 9"


def test_the_usual_marks_of_texts_alone_are_found() -> None:
    """A usual mark at the start begins a thought, and an end without a beginning is refused."""
    reader = AnswerReader()
    assert reader.find_marks("\n<think>yes</think>No") == AnswerReader(marks=MARKS)
    assert reader.find_marks("What is <think>?") is reader
    stated = AnswerReader(marks=ThoughtMarks("<t>", "</t>"))
    assert stated.find_marks("<think>yes</think>") is stated
    with pytest.raises(ConfigError, match=r"'</think>' and does not begin .* open: true"):
        reader.find_marks("yes</think>No")
    off = AnswerReader(finds_marks=False)
    assert off.find_marks("yes</think>No") is off
