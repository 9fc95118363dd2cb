"""An empty start string is answered like any other, or refused by name."""

from fractions import Fraction

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import llmchecker as lc
from llmchecker.errors import UnusableText
from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.load import wrap_model

QUERY = "P=? [ X ones = 1 ]"
SETTINGS = {"alpha": 0.9, "k": 2, "length": 2}


def first_more_likely(tokens: tuple[int, ...]) -> list[Fraction]:
    """Next tokens after a text: the first token is more likely at the beginning of a text."""
    return [Fraction(1, 2)] * 2 if tokens else [Fraction(3, 4), Fraction(1, 4)]


TABLE = TableModel(["0", "1"], first_more_likely)


def ones(start: str, text: str) -> int:
    """The number of ones in a text."""
    return text.count("1")


def test_a_table_has_a_tree_after_an_empty_start():
    """The tree of a table after an empty start has the table's texts and probabilities."""
    tree = lc.grow(TABLE, "", alpha=1, k=2, length=2)
    assert tree.text.tolist() == ["", "0", "1", "00", "01", "10", "11"]
    assert tree.path_probability.tolist() == [1, 0.75, 0.25, 0.375, 0.375, 0.125, 0.125]
    verdict = lc.check(QUERY, tree, ones=ones)
    assert (verdict.lower, verdict.bounded, verdict.upper) == pytest.approx((0.25,) * 3, abs=1e-12)


@pytest.mark.parametrize("effort", [{"certain": True}, {"passes": 20}, {"passes": 1}], ids=str)
def test_a_table_is_asked_after_an_empty_start(effort):
    """Refinement and samples of a table after an empty start agree with the table."""
    answer = lc.ask("P=? [ X X ones = 1 ]", TABLE, "", length=2, ones=ones, **effort)
    assert answer.lower <= 0.5 <= answer.upper


def test_a_text_beside_a_table_is_refused():
    """A text that holds something else than tokens is refused, even where a token is empty."""
    table = TableModel(["0", "1", ""], lambda tokens: [0.5, 0.25, 0.25], frozenset([2]))
    assert table.encode("") == ()
    with pytest.raises(UnusableText, match="table: the table has no token that begins 'x0'"):
        table.encode("1x0")


@pytest.fixture
def parts(random_model):
    """Network and tokenizer of a random GPT-2, whose tokenizer adds no token to a text."""
    directory = random_model("gpt2")
    network = AutoModelForCausalLM.from_pretrained(directory)
    return network, AutoTokenizer.from_pretrained(directory)


def test_an_empty_start_needs_a_first_token(parts):
    """A model without a token that begins or ends a text refuses an empty start by name."""
    network, tokenizer = parts
    tokenizer.bos_token = tokenizer.eos_token = None
    network.generation_config.eos_token_id = None
    model = wrap_model(network, tokenizer, name="endless")
    with pytest.raises(UnusableText, match="endless: the start string is empty, but no special"):
        lc.grow(model, "", **SETTINGS)
    assert len(lc.grow(model, "The", **SETTINGS)) > 3


@pytest.mark.parametrize("start", ["", [{"user": "The"}]], ids=str)
def test_a_special_token_that_the_network_lacks_is_refused(start, parts):
    """A first token, or one of a template, that is the tokenizer's alone is refused by name."""
    network, tokenizer = parts
    tokenizer.add_special_tokens({"bos_token": "<new>"})
    tokenizer.chat_template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    model = wrap_model(network, tokenizer)
    with pytest.raises(UnusableText, match="lacks the tokenizer's special token '<new>'"):
        lc.grow(model, start, **SETTINGS)
    assert len(lc.grow(model, "The", **SETTINGS)) > 3
