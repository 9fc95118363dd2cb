"""Texts whose continuations can no longer change a query are decided without a visit."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from helpers.anytime_checks import Kind, plant, refine, spread_model
from helpers.byte_texts import TOKENIZERS, scripted_table
from helpers.questions import check_anytime

from llmchecker.checking.budget import Budget
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.json_validity import JsonText
from llmchecker.properties.quantifiers.length import Length
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.properties.quantifiers.word_count import Words
from llmchecker.properties.scores import score_texts
from llmchecker.suites.examples import find_texts


class Unnarrowed:
    """A quantifier whose incremental form has no ranges."""

    def __init__(self, quantifier: Callable) -> None:
        self.minimum, self.maximum = quantifier.minimum, quantifier.maximum
        self.final = getattr(quantifier, "final", ())
        self._quantifier = quantifier

    def __call__(self, start: str, continuation: str) -> int:
        return self._quantifier(start, continuation)

    def build_transducer(self) -> "Unnarrowed":
        transducer = self._quantifier.build_transducer()
        for name in ("start", "effect", "advance", "score"):
            setattr(self, name, getattr(transducer, name))
        return self


def atom(comparison: str, number: int) -> tuple:
    return ("atom", "gender", comparison, number)


def finally_always(score: int) -> tuple:
    return ("F", None, ("G", None, atom("=", score)))


CASES = {
    "anchored": (Pattern("^ab"), ("F", None, atom(">", 0))),
    "never anchored": (Pattern("^ab"), ("G", None, atom("=", 0))),
    "equal": (Pattern("abc", "whole"), finally_always(1)),
    "not equal": (Pattern("abc", "whole"), finally_always(0)),
    "contained": (Pattern("b"), finally_always(1)),
    "all of several": (Pattern(r"\A(?=.*b)(?!.*c)"), finally_always(1)),
    "matches": (Pattern("ba", "count"), ("F", None, ("&", atom("=", 0), ("atom", "step", ">", 1)))),
    "anchored matches": (Pattern("^a", "count"), finally_always(0)),
    "exact length": (Length("characters"), ("F", None, atom("=", 2))),
    "length at last": (Length("characters", of="text"), finally_always(2)),
    "later length": (Length("characters"), ("U", None, atom("<", 3), ("atom", "step", "=", 3))),
    "no word": (Words(["ab"], of="text"), finally_always(1)),
}
SAME = {"exact length", "later length", "no word"}
"""The cases in which no range decides a text before the horizon, which no length skips."""


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CASES)
def test_bounds_contain_the_enumerated_truth_with_fewer_passes(name: str) -> None:
    """Ranges of states leave the answer of the enumeration, and fewer texts to visit."""
    quantifier, path = CASES[name]
    for seed in range(2):
        model = spread_model(seed)
        kind = Kind(path, quantifiers={"gender": quantifier}, length=4)
        plain = Kind(path, quantifiers={"gender": Unnarrowed(quantifier)}, length=4)
        truth = kind.find_truth(model)
        passes = []
        for asked in (kind.ask(), plain.ask()):
            tree, server = plant(asked, model)
            has_more = True
            while has_more:
                (mass,) = tree.find_masses()
                assert mass.interval.lower <= truth <= mass.interval.upper
                has_more = refine(tree, server)
            assert mass.undecided.is_empty
            passes.append(tree.passes)
        assert passes[0] == passes[1] if name in SAME else passes[0] < passes[1]


def test_an_anchored_pattern_needs_one_visit() -> None:
    """After "No" the pattern ^Yes is decided false, and after "Yes" true."""
    model = TableModel(["Yes", "No", "!", "."], lambda text: [0.5, 0.25, 0.125, 0.125], {3})
    for query, truth in (("F matches > 0", 0.5), ("F (G matches = 0)", 0.5)):
        asked = Property(parse(f"P=? [ {query} ]"), {"matches": Pattern("^Yes")}, 9)
        answer = check_anytime(model, "", asked, Budget(width=1e-9))
        assert (answer.lower, answer.upper) == pytest.approx((truth, truth), abs=1e-12)
        assert answer.costs.passes == 1


def test_a_decided_text_is_an_example_of_a_violation() -> None:
    """The texts of a threshold that fails are those that no continuation can mend."""
    model = TableModel(["Yes", "No", "!", "."], lambda text: [0.5, 0.25, 0.125, 0.125], {3})
    query = parse("P>=0.9 [ F matches > 0 ]")
    asked = Property(query, {"matches": Pattern("^Yes")}, 9)
    answer = check_anytime(model, "", asked, Budget(width=1e-9))
    assert answer.holds is False
    assert [(text.text, text.probability) for text in answer.witnesses] == [("No", 0.25)]
    violating = find_texts(query, answer).violating
    assert {text.text: text.probability for text in violating} == {
        "No": 0.25,
        "!": 0.125,
        "": 0.125,
    }


TOKENS = ["{", "}", '"a":', '"b":', "1", "[", ".", "]"]
SCHEMA = {"type": "object", "required": ["a"], "additionalProperties": False,
          "properties": {"a": {"type": "integer"}}}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("path", ["F (G json = 2)", "G json > 0", "F json = 2", "F (G json = 1)"])
def test_json_that_cannot_satisfy_its_schema_is_decided(path: str) -> None:
    """A text with an undeclared property, or of another type, is not visited."""

    def distribution(text: tuple[int, ...]) -> list[float]:
        chance = np.random.default_rng([len(text), *text])
        parts = chance.multinomial(64 - len(TOKENS), [1 / len(TOKENS)] * len(TOKENS)) + 1
        return [part / 64 for part in parts.tolist()]

    model, length = TableModel(TOKENS, distribution, frozenset({6})), 5
    quantifier, passes = JsonText(SCHEMA), []
    truth = enumerate_truth(model, quantifier, path, length)
    for each in (quantifier, Unnarrowed(quantifier)):
        asked = Property(parse(f"P=? [ {path} ]"), {"json": each}, length)
        answer = check_anytime(model, "", asked, Budget(width=1e-9))
        assert answer.lower - 1e-12 <= truth <= answer.upper + 1e-12
        assert answer.upper - answer.lower < 1e-9
        passes.append(answer.costs.passes)
    assert passes[0] < passes[1] if "2" in path else passes[0] == passes[1]


def enumerate_truth(model: TableModel, quantifier: Callable, path: str, length: int) -> Fraction:
    """The probability of one of four formulas by a walk over all texts, in fractions."""
    holds = {
        "F (G json = 2)": lambda scores: scores[-1] == 2,
        "G json > 0": lambda scores: min(scores) > 0,
        "F json = 2": lambda scores: max(scores) == 2,
        "F (G json = 1)": lambda scores: scores[-1] == 1,
    }[path]
    score = cache(lambda text: quantifier("", text))

    def walk(tokens: tuple[int, ...], scores: tuple[int, ...]) -> Fraction:
        text = "".join(TOKENS[token] for token in tokens if token != 6)
        scores = (*scores, score(text))
        if len(tokens) == length or 6 in tokens:
            return Fraction(holds(scores))
        return sum(
            Fraction(p) * walk((*tokens, token), scores)
            for token, p in enumerate(model.distribution(tokens))
        )

    return walk((), ())


@pytest.mark.few(6)
@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("content", [b"\xc3\xa9\x80", b"\xc3\xa9he", b"\xc3\xa9", b"h\xc3\xa9\xff"])
def test_bytes_that_may_still_change_decide_nothing(name: str, content: bytes) -> None:
    """A byte after a character of byte tokens may replace it by U+FFFD: é is not yet for good."""
    tokenizer = TOKENIZERS[name]()
    model = scripted_table(tokenizer, content)
    (prompt,) = model.encode("h")[:1] or (0,)
    asked = Property(parse("P=? [ F (G matches = 1) ]"), {"matches": Pattern("é")}, 5)
    answer = check_anytime(model, "h", asked, Budget(width=1e-9))
    tokens = [prompt, *script(model, len(content))]
    (text,) = model.decode([tokens])
    truth = score_texts(Pattern("é"), "", [text])[0]
    assert (answer.lower, answer.upper) == (truth, truth)


def script(model: TableModel, count: int) -> list[int]:
    """The tokens that a scripted model writes."""
    return [int(np.argmax(model.distribution((0,) * (1 + i)))) for i in range(count)]
