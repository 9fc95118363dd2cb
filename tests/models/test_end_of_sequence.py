"""The end of sequence: end tokens end a text, or are tokens as any other."""

import pytest

import llmchecker as lc
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.transformers.load import describe_decoding, load_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import StateKind, Truncation

QUERY = "P=? [ F count >= 2 ]"


def flip(heads: float) -> lc.TableModel:
    """A coin that is thrown again and again; tails is an end token."""
    return lc.TableModel(["h", "."], lambda tokens: [heads, 1 - heads], frozenset([1]))


def count(start: str, continuation: str) -> int:
    """The number of heads."""
    return continuation.count("h")


@pytest.mark.parametrize(("end", "expected"), [("terminal", 1 / 4), ("ordinary", 1 / 2)])
def test_an_ordinary_end_token_ends_no_text(end, expected):
    """Two heads among three throws are as probable as a textbook says, with and without an end."""
    options = {"length": 3, "passes": 50, "end_of_sequence": end, "count": count}
    answer = lc.ask(QUERY, flip(1 / 2), "h", **options)
    assert (answer.lower, answer.upper) == pytest.approx((expected, expected))


def test_both_sides_of_a_comparison_have_the_end_of_sequence():
    """The difference of two coins is that of binomial distributions, if no throw is the last."""
    options = {"length": 3, "passes": 100, "end_of_sequence": "ordinary", "count": count}
    compared = lc.compare(QUERY, flip(1 / 2), "h", versus_model=flip(1 / 4), **options)
    expected = 1 / 2 - (3 * (1 / 4) ** 2 * (3 / 4) + (1 / 4) ** 3)
    assert (compared.lower, compared.upper) == pytest.approx((expected, expected))


def test_a_comparison_names_the_decoding_of_a_model_without_an_end(random_model):
    """The words of a side are the same with both ends of sequence."""
    model = lc.load(random_model("gpt2"), decoding={"top_k": 2})
    for end_of_sequence in ("terminal", "ordinary"):
        compared = lc.compare(
            "P=? [ F gender > 0 ]",
            model,
            "The player",
            versus_start="She",
            length=1,
            passes=4,
            end_of_sequence=end_of_sequence,
        )
        assert [side.decoding for side in compared.sides] == [describe_decoding(model)] * 2


def test_an_opened_model_has_its_decoding_and_no_end(random_model):
    """With `ordinary`, a model loses its end tokens, but none of its distributions."""
    decoding = Decoding(top_k=5)
    settings = {"kind": "causal", "dtype": "float32", "device": "cpu"}
    opened = LazyModel(
        random_model("gpt2"),
        **settings,
        threads=1,
        memory_bytes=10**8,
        decoding=decoding,
        end_of_sequence="ordinary",
    )
    plain = load_model(random_model("gpt2")).with_decoding(decoding)
    assert opened.own_model.end_tokens == plain.end_tokens != frozenset()
    assert opened.model.end_tokens == frozenset()
    truncation = Truncation(1.0, 5, 2)
    tree, expected = (build_tree(model, "She", truncation) for model in (opened.model, plain))
    assert not (tree.kind == StateKind.END).any()
    assert tree.probability[:6].tolist() == expected.probability[:6].tolist()


def test_an_unknown_end_of_sequence_is_refused():
    """Every call of the library names the two that exist."""
    options = {"end_of_sequence": "never", "length": 1}
    calls = [
        lambda: lc.grow(flip(1 / 2), "h", alpha=1.0, k=2, **options),
        lambda: lc.ask(QUERY, flip(1 / 2), "h", count=count, **options),
        lambda: lc.compare(QUERY, flip(1 / 2), "h", versus_start="hh", count=count, **options),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="'never' is unknown; use 'terminal' or 'ordinary'"):
            call()
