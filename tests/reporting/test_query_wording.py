"""Queries in words: that a description has the meaning of its query, and no operator."""

import pytest

import llmchecker as lc
from llmchecker.properties.registry import create_quantifier
from llmchecker.reporting.query_wording import describe_answer

QUANTIFIERS = {name: create_quantifier(name) for name in ("gender", "json", "refuses", "polarity")}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("P=? [ F gender > 0 ]", "probability of more male than female words within 3 tokens"),
        ("P=? [ F 0 > gender ]", "probability of more female than male words within 3 tokens"),
        ("P=? [ F gender >= 1 ]", "probability of more male than female words within 3 tokens"),
        ("P=? [ F<=2 gender > 1 ]", "probability of gender above 1 within 2 tokens"),
        ("P=? [ G refuses = 0 ]", "probability of no refusal throughout 3 tokens"),
        ("P=? [ F json = 2 ]", "probability of valid JSON within 3 tokens"),
        (
            "P=? [ F step = 3 & polarity >= 30 ]",
            "probability of 3 tokens and polarity of at least 30 within 3 tokens",
        ),
        (
            "P=? [ gender = 0 U polarity < 1 ]",
            "probability of as many male as female words until polarity below 1, within 3 tokens",
        ),
        ("P=? [ F=2 gender > 0 ]", "probability of more male than female words after 2 tokens"),
        (
            "S=? [ gender > 0 ]",
            "probability of more male than female words at the end, after at most 3 tokens",
        ),
        ('R{"polarity"}=? [ I=2 ]', "expected polarity after 2 tokens"),
        ('R{"polarity"}=? [ C<=2 ]', "expected sum of polarity over the first 2 texts"),
        ('R{"polarity"}=? [ S ]', "expected polarity at the end"),
        (
            "P=? [ F G gender > 0 ]",
            "probability of more male than female words at the end, after at most 3 tokens",
        ),
        (
            "P=? [ G F refuses = 1 ]",
            "probability of a refusal at the end, after at most 3 tokens",
        ),
        ("P=? [ F<=2 G gender > 0 ]", "probability that the query holds"),
        ("P=? [ F G !(gender > 0) ]", "probability that the query holds"),
        ("P=? [ X G gender > 0 ]", "probability that the query holds"),
        ("P=? [ F !(gender > 0) ]", "probability that the query holds"),
        ("P=? [ F (gender > 0 | json = 2) & refuses = 1 ]", "probability that the query holds"),
        ("P>=0.5 [ F gender > 0 ]", "whether the query holds (1) or not (0)"),
    ],
)
def test_an_answer_has_a_description_in_words(query, words):
    """The description names the event and the horizon, and no event that words cannot hold."""
    assert describe_answer(lc.parse(query), QUANTIFIERS, 3) == words


def test_a_name_has_the_meaning_of_its_quantifier():
    """A quantifier of another class keeps its name, even with that of a class of the package."""
    words = describe_answer(lc.parse("P=? [ F gender > 0 ]"), {"gender": lc.Length()}, 3)
    assert words == "probability of gender above 0 within 3 tokens"
