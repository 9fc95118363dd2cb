"""Every assertion is a query: on every text of a table model it says what the assertion says."""

import itertools
import json
import math
from fractions import Fraction

import pytest
from helpers.plain_scores import measure_length
from helpers.questions import check_anytime

import llmchecker as lc
from llmchecker.checking.budget import Budget
from llmchecker.checking.measurement import find_threshold
from llmchecker.properties.assertions import KINDS, build_assertion, parse_assertion
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import find_part
from llmchecker.properties.registry import create_quantifier

TOKENS = ["s", "Ab", " b", '"x"', "."]
END = 4
WEIGHTS = [0, 0.25, 0.25, 0.25, 0.25]
LENGTH = 3

TRUTHS = {
    "contains": ("b", lambda text: "b" in text),
    "icontains": ("B A", lambda text: "b a" in text.lower()),
    "contains_any": (["Ab", "x"], lambda text: "Ab" in text or "x" in text),
    "icontains_any": (["aB"], lambda text: "ab" in text.lower()),
    "contains_all": (["b", "x"], lambda text: "b" in text and "x" in text),
    "icontains_all": (["B", "X"], lambda text: "b" in text.lower() and "x" in text),
    "equals": ("Ab b", lambda text: text == "Ab b"),
    "matches": ("^(Ab)*$", lambda text: text.replace("Ab", "") == ""),
    "starts_with": ("Ab", lambda text: text.startswith("Ab")),
    "ends_with": (' b"x"', lambda text: text.endswith(' b"x"')),
    "json": ({"type": "string"}, lambda text: is_json_string(text)),
    "max_words": (1, lambda text: count_words(text) <= 1),
    "min_words": (2, lambda text: count_words(text) >= 2),
    "max_characters": (4, lambda text: len(text) <= 4),
    "min_characters": (4, lambda text: len(text) >= 4),
    "max_sentences": (0, lambda text: text == ""),
    "min_sentences": (1, lambda text: text != ""),
    "ends": (None, None),
}


def is_json_string(text: str) -> bool:
    try:
        return isinstance(json.loads(text), str)
    except ValueError:
        return False


def count_words(text: str) -> int:
    return len(text.replace('"', " ").split())


def texts() -> list[tuple[str, float, bool]]:
    """Every text, its probability, and whether it ended."""
    found = []
    for length in range(LENGTH + 1):
        for tokens in itertools.product(range(1, END), repeat=length):
            text = "".join(TOKENS[token] for token in tokens)
            if length < LENGTH:
                found.append((text, 0.25 ** (length + 1), True))
            else:
                found.append((text, 0.25**length, False))
    return found


@pytest.mark.few(10)
@pytest.mark.parametrize("kind", TRUTHS)
@pytest.mark.parametrize("prefix", ["", "not_"])
def test_an_assertion_has_the_probability_of_its_texts(kind, prefix):
    """The probability of the query is that of the texts for which the assertion is true."""
    value, is_true = TRUTHS[kind]
    assertion = build_assertion(prefix + kind, value)
    query = parse(assertion.format_query())
    quantifiers = {name: create_quantifier(name, s) for name, s in assertion.properties.items()}
    model = lc.TableModel(TOKENS, lambda tokens: WEIGHTS, frozenset([END]))
    asked = Property(query, quantifiers, LENGTH)
    budget = Budget(passes=1000, certain=True)
    verdict = check_anytime(model, "s", asked, budget)
    expected = sum(
        probability
        for text, probability, has_ended in texts()
        if (has_ended if is_true is None else is_true(text)) != bool(prefix)
    )
    assert verdict.lower == pytest.approx(expected, abs=1e-9)
    assert verdict.upper == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("unit", ["words", "characters", "sentences"])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_limits_of_a_length_have_the_probability_of_its_texts(unit, limit):
    """Limits of words, characters or sentences have the probability of all texts within them."""
    tokens = ["s", "a", ". ", "。", "3.1 b", "."]
    model = lc.TableModel(tokens, lambda text: [0, *[0.2] * 5], frozenset([5]))
    found = []
    for length in range(4):
        for chosen in itertools.product(tokens[1:5], repeat=length):
            found.append((measure_length(unit, "".join(chosen)), 0.2 ** min(length + 1, 3)))
    for kind, holds in (
        (f"max_{unit}", lambda number: number <= limit),
        (f"min_{unit}", lambda number: number >= limit),
        (f"not_max_{unit}", lambda number: number > limit),
        (f"not_min_{unit}", lambda number: number < limit),
    ):
        assertion = build_assertion(kind, limit)
        quantifiers = {name: create_quantifier(name, s) for name, s in assertion.properties.items()}
        asked = Property(parse(assertion.format_query()), quantifiers, 3)
        verdict = check_anytime(model, "s", asked, Budget(passes=1000, certain=True))
        expected = math.fsum(probability for number, probability in found if holds(number))
        assert verdict.lower == pytest.approx(expected, abs=1e-9)
        assert verdict.upper == pytest.approx(expected, abs=1e-9)


def test_every_other_kind_is_compared_with_its_texts():
    """The comparison covers all kinds but those that read a lexicon or a network."""
    assert set(KINDS) - set(TRUTHS) == {"refuses", "classifier", "judge"}


@pytest.mark.parametrize(
    ("entry", "query"),
    [
        ({"contains": "a", "at_least": 0.95}, "P>=0.95 [ F contains = 1 ]"),
        ({"not_contains": "a", "at_most": 0.1}, "P<=0.1 [ G contains = 0 ]"),
        ({"matches": "a", "at_least": 1e-05}, "P>=0.00001 [ F (G matches = 1) ]"),
        ({"json": True, "at_least": 1}, "P>=1 [ F (G json = 2) ]"),
        ({"refuses": True, "at_most": 0.001}, "P<=0.001 [ F refuses = 1 ]"),
        ({"ends": True, "at_least": 0.5}, 'P>=0.5 [ F "end" ]'),
        ({"max_words": "42", "at_least": "0.50"}, "P>=0.50 [ G words <= 42 ]"),
        ({"contains": "a", "all_of": 2, "at_least": 0.25}, "P>=0.5 [ F contains = 1 ]"),
        ({"contains": "a", "any_of": 2, "at_most": 0.75}, "P<=0.5 [ F contains = 1 ]"),
    ],
)
def test_an_assertion_stands_for_a_query(entry, query):
    """An entry is the query that it abbreviates, with the probability exactly as written."""
    assert parse_assertion(entry)[0] == query
    parse(query)


@pytest.mark.parametrize("key", ["at_least", "at_most"])
@pytest.mark.parametrize("repeats", ["all_of", "any_of"])
@pytest.mark.parametrize(("count", "number"), [(5, "0.9"), (2, "0.1"), (100, "0.001"), (3, "1")])
def test_a_limit_of_repeats_is_that_of_one_answer(key, repeats, count, number):
    """A float meets the limit of the query exactly if the exact power of it meets that of k."""
    entry = {"contains": "a", repeats: count, key: number}
    threshold = find_threshold(parse(parse_assertion(entry)[0]))
    near = float(threshold.number)
    ends = [near]
    for _ in range(3):
        ends = [math.nextafter(ends[0], 0), *ends, math.nextafter(ends[-1], 1)]
    for end in ends:
        p = Fraction(end)
        power = p**count if repeats == "all_of" else 1 - (1 - p) ** count
        is_met = power >= Fraction(number) if key == "at_least" else power <= Fraction(number)
        assert threshold.compare_ends(end, end) is is_met


@pytest.mark.parametrize("part", ["answer", "thought", "output"])
@pytest.mark.parametrize(
    "entry", [{"icontains": "YES"}, {"not_starts_with": "y"}, {"max_words": 2}, {"refuses": True}]
)
def test_an_assertion_reads_a_part(entry, part):
    """With `of`, the query stays, and its quantifier is the one that reads the part."""
    entry = {**entry, "at_least": 0.5}
    query, assertion = parse_assertion({**entry, "of": part})
    whole, plain = parse_assertion(entry)
    assert query == whole
    ((name, settings),) = assertion.properties.items()
    expected = plain.properties[name] | ({} if part == "answer" else {"of": part})
    assert settings == expected
    assert find_part(create_quantifier(name, settings)) == part
