"""Probabilities of fixed continuations, beside those of trees and of transformers."""

import json
import math
from fractions import Fraction

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import llmchecker as lc
from llmchecker.errors import LLMCheckerError

TABLE = {"a": Fraction(1, 2), "b": Fraction(1, 3), "c": Fraction(1, 6)}


def table() -> lc.TableModel:
    """A model whose next letter depends on the last one."""

    def distribution(tokens):
        shift = tokens[-1] if tokens else 0
        return [float(list(TABLE.values())[(each + shift) % 3]) for each in range(3)]

    return lc.TableModel(list(TABLE), distribution)


def test_the_probability_of_letters_is_their_product():
    """Continuations of different lengths, with common beginnings, have exact products."""
    texts = ["a", "ab", "abc", "b", "ab"]
    found = lc.probability_of(table(), "a", texts)
    values = list(TABLE.values())

    def product(text: str) -> float:
        probability, last = Fraction(1), 0
        for letter in text:
            token = "abc".index(letter)
            probability *= values[(token + last) % 3]
            last = token
        return float(probability)

    assert found == pytest.approx([product(text) for text in texts], rel=1e-12)
    tree = lc.grow(table(), "a", alpha=1, k=3, length=3)
    answer = lc.check({"starts_with": "abc"}, tree)
    assert (answer.lower, answer.upper) == pytest.approx((found[2], found[2]), rel=1e-9)


def test_a_network_has_the_probabilities_of_transformers(random_model):
    """The product is that of a softmax of transformers' logits, for words of several tokens."""
    directory = random_model("gpt2")
    prompt, texts = "The player won because", [" he is", " the other player", " x"]
    found = lc.probability_of(lc.load(directory), prompt, texts)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    network = AutoModelForCausalLM.from_pretrained(directory).eval()
    start = tokenizer(prompt)["input_ids"]
    for text, probability in zip(texts, found, strict=True):
        tokens = tokenizer(prompt + text)["input_ids"]
        with torch.no_grad():
            logs = torch.log_softmax(network(torch.tensor([tokens])).logits[0].double(), dim=1)
        places = range(len(start), len(tokens))
        expected = math.exp(sum(logs[place - 1, tokens[place]].item() for place in places))
        assert probability == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "texts", "message"),
    [
        (lambda: lc.texts(str), ["x"], "has no probabilities of all tokens"),
        (table, "ab", "continuations: 'ab' is no list"),
        (table, [], "continuations: .* is no list"),
        (table, ["a", ""], "continuations: '' is no text"),
        (table, ["a", 3], "continuations: 3 is no text"),
    ],
)
def test_what_has_no_probability_is_refused(model, texts, message):
    """A model of texts alone, one text in place of a list, and an empty text are named."""
    with pytest.raises(LLMCheckerError, match=message):
        lc.probability_of(model(), "a", texts)


def test_a_continuation_that_changes_the_tokens_of_the_prompt_is_refused():
    """Where prompt and continuation share a token, the product would be of another text."""
    vocabulary = ["a", "b", "ab"]

    class Merging(lc.TableModel):
        def encode(self, start):
            return (2,) if start == "ab" else tuple("ab".index(letter) for letter in start)

    model = Merging(vocabulary, lambda tokens: [0.5, 0.25, 0.25])
    assert lc.probability_of(model, "b", ["b"]) == (0.25,)
    with pytest.raises(LLMCheckerError, match="'b' has no tokens of its own after the prompt"):
        lc.probability_of(model, "a", ["b"])


def test_choices_are_rated_by_their_probabilities_and_lengths(tmp_path):
    """The accuracies are those of products of a table, also for each character, and are written."""
    rows = [
        {"prompt": "a", "choices": ["a", "ab"], "answer": 0},
        {"prompt": "a", "choices": ["b", "aa"], "answer": 1},
    ]
    report = lc.rate_choices(table(), rows, delimiter="")
    values = [[1 / 2, 1 / 2 * 1 / 3], [1 / 3, 1 / 2 * 1 / 2]]
    found = [[math.exp(log) for log in row.log_probabilities] for row in report.rows]
    assert found == [pytest.approx(value) for value in values]
    # sqrt(1/4) > 1/3, though 1/4 < 1/3
    assert [row.acc for row in report.rows] == [1, 0]
    assert [row.acc_norm for row in report.rows] == [1, 1]
    assert (report.acc, report.acc_norm, report.acc_bytes) == (0.5, 1, 1)
    report.write(tmp_path / "predictions.jsonl")
    lines = map(json.loads, (tmp_path / "predictions.jsonl").read_text().splitlines())
    assert [(line["choices"], line["answer"], line["acc"]) for line in lines] == [
        (row["choices"], row["answer"], acc) for row, acc in zip(rows, (1, 0), strict=True)
    ]


def test_an_impossible_choice_is_written_as_null(tmp_path):
    """The logarithm of 0 is no number of JSON."""
    model = lc.TableModel(["a", "b"], lambda tokens: [1.0, 0.0])
    question = {"prompt": "a", "choices": ["a", "b"], "answer": 0}
    lc.rate_choices(model, [question], delimiter="").write(tmp_path / "predictions.jsonl")
    line = json.loads((tmp_path / "predictions.jsonl").read_text())
    assert (line["log_probabilities"], line["acc"]) == ([0, None], 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"choices": "ab"}, "question 2: choices: 'ab' is no list of texts"),
        ({"choices": []}, "question 2: choices: .* is no list of texts"),
        ({"answer": 2}, "question 2: answer: 2 is no index; write one from 0 to 1"),
        ({"answer": "a"}, "question 2: answer: 'a' is no index"),
        ({"choices": ["a", ""]}, "question 2: choices: .* is no list of texts"),
    ],
)
def test_a_question_without_choices_or_answer_is_refused(change, message):
    """The number of the question and its key are named."""
    question = {"prompt": "a", "choices": ["a", "b"], "answer": 0}
    with pytest.raises(LLMCheckerError, match=message):
        lc.rate_choices(table(), [question, {**question, **change}], delimiter="")
