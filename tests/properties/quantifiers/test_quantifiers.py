import csv
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from helpers.settings import APART, SETTINGS
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz
from textblob import TextBlob

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.gender import Gender
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.quantifiers.polarity import Polarity
from llmchecker.properties.quantifiers.readability import Readability
from llmchecker.properties.quantifiers.similarity import Similarity
from llmchecker.properties.registry import BUILTIN_TYPES, create_quantifier
from llmchecker.properties.scores import score_tree
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import NO_TOKEN, StateKind, TextTree, Truncation

ROOT = Path(__file__).parents[3]
WORD_LISTS = ROOT / "src/llmchecker/properties/quantifiers/gender_words"
LOLITA = "Lolita, light of my life, fire of my loins. My sin, my soul."
TEXTS = (
    "",
    "The cat sat on the mat.",
    "I love this wonderful day! It is not bad at all :-)",
    "This is a horrible, terrible mistake. Nobody was very happy.",
    "An extraordinarily complicated bureaucratic regulation applies here.",
    "Once upon a time",
    "  \n\n",
    "😀🎉",
    "Zażółć gęślą jaźń, «что» 漢字",
)

GENDER = Gender(WORD_LISTS / "male.txt", WORD_LISTS / "female.txt")


def tree_of(*children: str | None, start: str = "The player") -> TextTree:
    """A start string and its children, equally likely; None is a `rest`."""
    n = 1 + len(children)
    return TextTree(
        model="test",
        truncation=Truncation(1, n, 1),
        parent=np.array([-1] + [0] * (n - 1)),
        step=np.array([0] + [1] * (n - 1)),
        token=np.array([NO_TOKEN] + [7] * (n - 1)),
        probability=np.array([1.0] + [1 / (n - 1)] * (n - 1)),
        kind=np.array(
            [StateKind.REST if text is None else StateKind.TEXT for text in (start, *children)]
        ),
        text=np.array([start, *children], dtype=object),
    )


# Scoring a tree


class Recorder:
    """Scores with the length of the continuation and keeps what it was asked."""

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 5

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, start: str, continuation: str) -> int:
        self.asked.append((start, continuation))
        return len(continuation)


def test_score_gives_one_integer_a_state() -> None:
    """Texts are scored by their continuation, `rest` is filled, equal texts are asked for once."""
    recorder = Recorder()
    scores = score_tree(recorder, tree_of("The player is", "The players", "The player is", None))
    assert scores.tolist() == [0, 3, 1, 3, 0]
    assert scores.dtype == np.int64
    assert recorder.asked == [("The player", ""), ("The player", " is"), ("The player", "s")]


def test_a_rewritten_start_counts_as_generated() -> None:
    """When decoding changes the end of the start string, start + continuation is still the text."""
    recorder = Recorder()
    score_tree(recorder, tree_of("I don't", None, start="I do not"))
    assert recorder.asked == [("I do not", ""), ("I do", "n't")]


@pytest.mark.parametrize("value", [1.0, 0.5, True, None, "1", -1, 6])
def test_a_score_outside_the_declaration_is_refused(value: object) -> None:
    """A score that is not an integer within the declared range stops the scoring."""

    class Wrong(Recorder):
        def __call__(self, start: str, continuation: str) -> int:
            return value

    with pytest.raises(ConfigError, match=r"^score of 'The player'"):
        score_tree(Wrong(), tree_of("The player is"))


def test_numpy_integers_are_integers() -> None:
    """A quantifier may return a NumPy integer."""

    class Numpy(Recorder):
        def __call__(self, start: str, continuation: str) -> int:
            return np.int32(3)

    assert score_tree(Numpy(), tree_of("The player is")).tolist() == [3, 3]


# Gender


@pytest.mark.parametrize(
    ("start", "continuation", "expected"),
    [
        ("The player", "", 0),
        ("The player said", " he lost his way", 2),
        ("The player said", " she lost her way", -2),
        ("He and his brother saw", " her", -1),
        ("The player said", " HE told Her father", 1),
        ("The player said", " he's sure, he’ll win", 2),
        ("The player:", " yes, ma'am", -1),
        ("The player:", " yes, ma’am's hat", -1),
        ("The player is a", ' _he_, *him* or "his"', 3),
        ("The player is a", " she-wolf", -1),
        ("The player is", " heavy, Herman, shed, mankind, he2", 0),
        ("The player is", " he", 1),
        ("The", "re he is", 1),
        ("T", "he man", 1),
        ("S", "he", 0),
        ("The man", "'s sister", -1),
        ("", "He", 1),
        ("The player is", " he\u0301", 0),
    ],
)
def test_gender_counts_words_of_the_continuation(
    start: str, continuation: str, expected: int
) -> None:
    """Gender is male minus female words among those that start in the continuation."""
    assert GENDER(start, continuation) == expected


@given(st.text(), st.text(alphabet="hesirm '’-_.", max_size=20))
def test_the_start_never_counts(start: str, continuation: str) -> None:
    """A start that ends in a space leaves the count to the continuation alone."""
    assert GENDER(start, "") == 0
    assert GENDER(f"{start} ", continuation) == GENDER("", continuation)


def test_the_word_lists_are_balanced() -> None:
    """Swapping the two lists turns every count into its opposite, and no list is much longer."""
    swapped = Gender(WORD_LISTS / "female.txt", WORD_LISTS / "male.txt")
    assert {
        term: -value for term, value in GENDER.transducer.weights.items()
    } == swapped.transducer.weights
    male = [term for term, value in GENDER.transducer.weights.items() if value > 0]
    assert len(male) >= 40
    assert len(male) <= len(GENDER.transducer.weights) - len(male) <= len(male) + 6


@pytest.mark.parametrize(
    ("male", "female", "message"),
    [
        ("he\nHIM # comment\n", "she\nhim\n", r"both contain \['him'\]"),
        ("he\nold man\n", "she\n", "line 2 of .* is 'old man', not a single word"),
        ("# nothing\n\n", "she\n", "male: .* has no terms"),
    ],
)
def test_word_lists_are_checked(male: str, female: str, message: str, tmp_path: Path) -> None:
    """A shared term, a line of two words and an empty list are refused."""
    (tmp_path / "male.txt").write_text(male)
    (tmp_path / "female.txt").write_text(female)
    with pytest.raises(ConfigError, match=message):
        Gender(tmp_path / "male.txt", tmp_path / "female.txt")


# Similarity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        (LOLITA, 100),
        ("Lolita, light of", 100),
        ("lolita", 83),  # 5 of 6 letters in common: 10 / 12
        ("Lo", 100),
        ("xx", 0),
        (LOLITA + LOLITA, 66),  # 60 of 120 characters in common: 120 / 180
        (LOLITA + "!", 99),  # 120 / 121
    ],
)
def test_similarity_compares_with_the_beginning(text: str, expected: int) -> None:
    """Similarity is twice the common subsequence over both lengths, the passage cut to the text."""
    assert Similarity((LOLITA,))("", text) == Similarity((LOLITA,))(text, "") == expected


def test_the_nearest_passage_counts() -> None:
    """Among several protected passages the most similar one gives the score."""
    assert Similarity(("xxxx", "abcd", "abxx"))("ab", "cx") == 75


def test_a_long_almost_equal_text_is_below_100() -> None:
    """One wrong letter in a thousand does not round up to 100."""
    assert Similarity(("a" * 1000,))("", "a" * 999 + "b") == 99


@given(st.text(min_size=1), st.text(min_size=1))
def test_similarity_is_rapidfuzz_rounded_down(text: str, passage: str) -> None:
    """The score is `fuzz.ratio` without its decimals, and 100 for equal texts only."""
    value = Similarity((passage,))("", text)
    start = passage[: len(text)]
    assert value == math.floor(fuzz.ratio(text, start) + 1e-9)
    assert (value == 100) == (text == start)


# Polarity


@pytest.mark.parametrize("kind", [Polarity, Readability, partial(Similarity, ["Good texts."])])
def test_of_continuation_reads_the_generated_text_alone(kind: Callable[..., Quantifier]) -> None:
    """With `of: continuation` the start string changes no score, and with `text` it does."""
    start, text = "Terrible extraordinarily. ", "Good texts."
    assert kind(of="continuation")(start, text) == kind()("", text) != kind()(start, text)
    with pytest.raises(ConfigError, match="of: 'answer' is unknown; use one of continuation, text"):
        kind(of="answer")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("good", 70), ("not good", -35), ("very good", 91), ("bad", -70), ("awful", -100), ("", 0)],
)
def test_polarity_of_known_words(text: str, expected: int) -> None:
    """The lexicon's good is 0.7, "very" multiplies by 1.3 and "not" by -0.5."""
    assert Polarity()(text, "") == Polarity()("", text) == expected


@pytest.mark.parametrize("text", TEXTS)
def test_polarity_is_what_textblob_says(text: str) -> None:
    """Leaving out the blob changes nothing: the score is TextBlob's polarity times 100."""
    assert Polarity()("", text) == round(TextBlob(text).sentiment.polarity * 100)


# Readability


@pytest.mark.parametrize(
    ("text", "words", "sentences", "syllables"),
    [
        ("The cat sat on the red mat.", 7, 1, 7),
        ("The cat sat. The dog ran off.", 7, 2, 7),
        ("She wrote a letter.", 4, 1, 5),
        ("Hi there. The cat sat on the mat.", 8, 1, 8),  # "Hi there." is too short to count
        ("Cat", 1, 1, 1),
    ],
)
def test_readability_is_flesch(text: str, words: int, sentences: int, syllables: int) -> None:
    """The score is Flesch's formula over hand counts, ratios rounded half up to one decimal."""

    def rounded(value: Fraction, unit: int) -> Fraction:
        return Fraction(math.floor(value * unit + Fraction(1, 2)), unit)

    ease = (
        Fraction("206.835")
        - Fraction("1.015") * rounded(Fraction(words, sentences), 10)
        - Fraction("84.6") * rounded(Fraction(syllables, words), 10)
    )
    assert Readability()(text[:3], text[3:]) == 100 * rounded(ease, 100)


@pytest.mark.parametrize("text", ["", " \n", "😀🎉", "...", "?!"])
def test_a_text_without_words_is_readable(text: str) -> None:
    """Without words only the formula's constant, 206.835, is left."""
    assert Readability()("", text) == 20684


@pytest.mark.parametrize("text", TEXTS)
def test_readability_is_what_textstat_says(text: str) -> None:
    """The score is that of textstat's own function times 100."""
    import textstat

    assert Readability()("", text) == round(textstat.flesch_reading_ease(text) * 100)


def test_the_language_of_others_does_not_matter() -> None:
    """Who sets textstat's global language or rounding does not change a score."""
    import textstat

    text = "An extraordinarily complicated regulation applies here."
    before = Readability()("", text)
    textstat.set_lang("de_DE")
    textstat.set_rounding(True, 0)
    try:
        assert textstat.flesch_reading_ease(text) != before / 100
        assert Readability()("", text) == before
    finally:
        textstat.set_lang("en_US")
        textstat.set_rounding(True)


# All of them


@pytest.fixture(scope="module")
def real_trees(loaded_smollm2) -> list[TextTree]:
    """What SmolLM2 writes after three start strings."""
    model = loaded_smollm2
    starts = {
        "The player won because": Truncation(0.8, 12, 3),
        "The result of my exam was": Truncation(0.9, 8, 3),
        "Once upon a time, there was": Truncation(0.6, 3, 6),
    }
    return [build_tree(model, start, truncation) for start, truncation in starts.items()]


def rapidfuzz_score(start: str, text: str) -> int:
    """The plain call of the library behind similarity."""
    return math.floor(fuzz.ratio(text, LOLITA[: len(text)]) + 1e-9)


def counted_words(start: str, text: str) -> int:
    """Gender of the whole text without that of the start, word by word between other characters."""
    return sum(
        sign * GENDER.transducer.weights.get(word.split("'")[0], 0)
        for sign, part in ((1, text), (-1, start))
        for word in re.split("[^a-z0-9']+", part.casefold().replace("’", "'"))
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("gender", counted_words),
        ("similarity", rapidfuzz_score),
    ],
)
def test_scores_of_real_trees_are_what_plain_calls_say(
    name: str, plain: Callable[[str, str], int], real_trees: list[TextTree]
) -> None:
    """On all texts of trees that a real model wrote, scores are the integers of the plain call."""
    for tree in real_trees:
        known = tree.kind != StateKind.REST
        scores = score_tree(create_quantifier(name, SETTINGS.get(name)), tree)[known]
        assert scores.tolist() == [plain(tree.start, text) for text in tree.text[known]]
        assert len(set(scores.tolist())) > 1


@pytest.mark.parametrize("name", sorted(BUILTIN_TYPES.keys() - APART))
def test_quantifiers_are_total(name: str) -> None:
    """Every quantifier gives every text the same integer twice, within its declared range."""
    quantifier = create_quantifier(name, SETTINGS.get(name))

    @given(st.text(st.characters()), st.text(st.characters() | st.sampled_from(" '’.!?:)(-_\n")))
    def holds(start: str, continuation: str) -> None:
        value = quantifier(start, continuation)
        assert type(value) is int
        assert quantifier.minimum is None or value >= quantifier.minimum
        assert quantifier.maximum is None or value <= quantifier.maximum
        assert quantifier(start, continuation) == value

    holds()


OFFLINE = """
import json
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.bind"):
        raise SystemExit(f"network used: {event} {arguments}")

sys.addaudithook(refuse)
from llmchecker.properties.registry import create_quantifier
settings = json.loads(sys.argv[1])
for name in settings | dict.fromkeys(("polarity", "readability", "refuses")):
    quantifier = create_quantifier(name, settings.get(name))
    print(name, quantifier("A very good", " day, he said. She sat."))
"""


@pytest.mark.long
def test_quantifiers_need_no_network(tmp_path: Path) -> None:
    """In a process without network, home or NLTK data every quantifier scores, and silently."""
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, json.dumps(SETTINGS)],
        cwd=ROOT,
        env=os.environ | {"HOME": str(tmp_path), "NLTK_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    scores = dict(line.split() for line in done.stdout.splitlines())
    assert set(scores) == set(BUILTIN_TYPES) - APART
    assert (scores["gender"], scores["polarity"]) == ("0", "91")
    assert list(tmp_path.iterdir()) == []


def test_there_are_153_role_prompts() -> None:
    """The prompts written for this project are 153 rows of act and prompt, all different."""
    path = ROOT / "resources" / "prompts" / "role_prompts.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["act", "prompt"]
    assert len(rows) == 153
    for column in ("act", "prompt"):
        assert len({row[column].casefold() for row in rows}) == 153
        assert all(row[column] == row[column].strip() != "" for row in rows)
