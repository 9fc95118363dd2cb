"""Words of a list, and lengths, counted by hand and by other means."""

import subprocess
import sys
from pathlib import Path

import pytest
import regex
from helpers.plain_scores import count_segments
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.gender import Gender
from llmchecker.properties.quantifiers.length import Length
from llmchecker.properties.quantifiers.word_count import Words

TEXTS = st.lists(
    st.sampled_from(["he", "She", "HIM", "her", "ma'am", "ma’am's", " ", " ", ".", "-", "x", "’"])
).map("".join)


@given(TEXTS, TEXTS)
def test_gender_is_the_difference_of_two_counts(start: str, continuation: str) -> None:
    """The words of the male list minus those of the female list are the gender of a text."""
    gender = Gender()
    male, female = Words(file=gender.male), Words(file=gender.female)
    difference = male(start, continuation) - female(start, continuation)
    assert gender(start, continuation) == difference


@pytest.mark.parametrize(
    ("start", "continuation", "expected"),
    [
        ("", "", 0),
        ("A cat", " and a dog", 1),
        ("A", " Cat, a DOG's tail, cats", 2),
        ("A do", "g", 0),
        ("A ", "dog", 1),
        ("the dog", " sat", 0),
    ],
)
def test_words_of_the_continuation_are_counted(start, continuation, expected) -> None:
    """A word counts if it starts in the continuation, whatever its case and ending."""
    assert Words(["cat", "Dog"])(start, continuation) == expected


def test_words_of_the_text_are_counted() -> None:
    """With `of: text` the start string counts too."""
    assert Words(["dog"], of="text")("A do", "g and a dog") == 2


def test_a_file_and_a_list_mean_the_same(tmp_path: Path) -> None:
    """One word a line, comments after #: the same counts as the words themselves."""
    file = tmp_path / "animals.txt"
    file.write_text("# animals\ncat\n\nDog # barks\n", encoding="utf-8")
    for text in ("a cat", "dogs", "DOG cat cat"):
        assert Words(file=file)("", text) == Words(["cat", "dog"])("", text)
    assert Words(file=str(file)).file == file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# nothing\n", "has no terms"),
        (b"", "has no terms"),
        (b"caf\xe9\n", "cannot be read: 'utf-8' codec"),
        (b"cat\nold dog\n", "file: line 2 of .* is 'old dog', not a single word"),
    ],
)
def test_a_bad_file_of_words_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    """A file that is empty, no UTF-8 or has a line of two words is refused."""
    file = tmp_path / "words.txt"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        Words(file=file)


@pytest.mark.parametrize(
    ("text", "characters", "words", "sentences"),
    [
        ("", 0, 0, 0),
        (" \n", 2, 0, 0),
        ("...!", 4, 0, 0),
        ("Yes", 3, 1, 1),
        ("Yes.", 4, 1, 1),
        ("He's here. Is she? No!", 22, 5, 3),
        ("It is 3.14 now", 14, 4, 1),
        ('He said "Go!" She went', 22, 5, 2),
        ("Wait... what?!", 14, 2, 2),
        ("Über die Brücke", 15, 3, 1),
        ("Two\nlines. And\nmore", 19, 4, 2),
        ("你好世界", 4, 4, 1),
        ("你好。世界！」 好", 9, 5, 3),
        ("snake_case, well-known", 22, 3, 1),
        ("See example.com/a?b=1.", 22, 5, 1),
        ("1,000.50 U.S. dollars", 21, 3, 2),
        ("カタカナ 한국어", 8, 2, 1),
        ("e\u0301te\u0301 — 😀 ok", 12, 2, 1),
        ("क्या यह है? हाँ। ठीक।", 21, 5, 3),
    ],
)
def test_lengths_counted_by_hand(text, characters, words, sentences) -> None:
    """Characters, words and sentences are those that a person counts."""
    for unit, expected in (
        ("characters", characters),
        ("words", words),
        ("sentences", sentences),
    ):
        assert Length(unit)("Before. ", text) == expected
        assert Length(unit, of="text")("", text) == expected


@given(st.text("aé1_.,:'’\" -\u0301\u200dカ漢ひא!。", max_size=9))
def test_words_are_those_of_unicode(text: str) -> None:
    """Words are the segments of UAX 29 that have a letter or a numeral."""
    assert Length()("", text) == count_segments(text)


@given(st.text("ab1_.,:'’ -カ漢!", max_size=9))
def test_words_are_segments_of_another_implementation(text: str) -> None:
    """Without accents after marks, `regex` divides texts into the same words."""
    segments = regex.split(r"(?V1w)\b", text)
    expected = sum(1 for each in segments if regex.search(r"[\p{L}\p{N}]", each))
    assert Length()("", text) == expected


@given(st.lists(st.sampled_from(["one", "two", "three"]), max_size=9), st.text(max_size=9))
def test_words_between_spaces_are_counted(words: list[str], start: str) -> None:
    """Of plain words, the length is their number, and the characters are those of Python."""
    text = " ".join(words)
    assert Length()(start, text) == len(words)
    assert Length("characters", of="text")(start, text) == len(start + text)


def test_tokens_are_steps() -> None:
    """Who asks for tokens is told that queries have them already."""
    with pytest.raises(ConfigError, match="unit: 'tokens' is unknown; use `step`"):
        Length("tokens")
    with pytest.raises(ConfigError, match="unit: 'word' is unknown, did you mean 'words'"):
        Length("word")


LONG_TEXT = """
import resource
from llmchecker.properties.quantifiers.length import Length
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # a pattern with quadratic steps takes an hour
print(Length("sentences")("", "a" + "." * 400_000 + "x"))
"""


@pytest.mark.long
def test_a_text_of_many_marks_is_counted() -> None:
    """The count ends on a text for which steps that grow with the square would not end."""
    ended = subprocess.run([sys.executable, "-c", LONG_TEXT], capture_output=True, text=True)
    assert ended.stdout.split() == ["1"], ended.stderr
