"""Values of JSON fields, against Python's parser, and their distribution under a mask."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers.chat_tokenizers import build_tokenizer
from helpers.marks import examples
from helpers.plain_json import is_json
from helpers.transducer_law import assert_law
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

import llmchecker as lc
from llmchecker.errors import ConfigError

VALUES = ["yes", 1, True, None, "é\n", 0.5]
FIELDS = {pointer: lc.JsonField(pointer, VALUES) for pointer in ("", "/a/b", "/1", "/a~1b")}
NAMES = ["a", "b", "1", "0", "a/b", ""]
DOCUMENTS = st.recursive(
    st.sampled_from([*VALUES, "no", 2, False, 1.0, ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def find_value(value: Any, pointer: str) -> list[Any]:
    """The value at a pointer, in a list that is empty where nothing is."""
    for name in pointer.split("/")[1:]:
        name = name.replace("~1", "/")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return []
    return [value]


def find_place(pointer: str, text: str) -> int:
    """The oracle of a score, by Python's parser."""
    for value in find_value(json.loads(text), pointer) if is_json(text) else []:
        for place, known in enumerate(VALUES, 1):
            # equal in JSON: 1 and 1.0, but not 1 and true
            if known == value and isinstance(known, bool) == isinstance(value, bool):
                return place
    return 0


@pytest.mark.parametrize("pointer", FIELDS)
def test_a_field_has_the_value_that_the_parser_finds(pointer: str) -> None:
    """Each beginning of a document, also with a key twice, scores as Python's parser reads it."""
    quantifier = FIELDS[pointer]
    transducer = quantifier.build_transducer()
    assert transducer is not None

    @examples(15)
    @given(DOCUMENTS, DOCUMENTS, st.integers(1, 5))
    def holds(document: Any, other: Any, size: int) -> None:
        # a field that few documents have
        wrapped: list[Any] = [document, {"a": document}, {"a": {"b": other}}, [0, document]]
        for value in wrapped:
            text = json.dumps(value, ensure_ascii=size % 2 == 0)
            if isinstance(value, dict) and isinstance(other, dict) and value and other:
                text = text[:-1] + "," + json.dumps(other)[1:]
            pieces = [text[i : i + size] for i in range(0, len(text), size)]
            assert_law(lambda _, t: find_place(pointer, t), transducer, "", pieces)
            assert quantifier("", text) == find_place(pointer, text)

    holds()


def test_the_distribution_of_a_field_is_that_of_the_masked_model() -> None:
    """Each value has the probability of its texts, enumerated with the network's own numbers."""
    answers = ['{"a":"no"}', '{"a":"not"}', '{"a":3}', '{"a":30}', '{"a":null,"b":"no"}', "[]"]
    tokenizer = build_tokenizer("")
    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=tokenizer.eos_token_id,
    )
    network = LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(6 if parameter.dim() > 1 else 1)
    model = lc.load(network, tokenizer, decoding={"choice": answers})

    def find_probability(answer: str) -> float:
        tokens, probability = tokenizer.encode("?"), 1.0
        for written in range(len(answer) + 1):
            following = {
                tokenizer.encode(each[written])[0] if each[written:] else tokenizer.eos_token_id
                for each in answers
                if each[:written] == answer[:written]
            }
            with torch.no_grad():
                logits = network(torch.tensor([tokens])).logits[0, -1]
            masses = torch.softmax(logits, 0)[sorted(following)].numpy()
            rest = answer[written:]
            token = tokenizer.encode(rest[0])[0] if rest else tokenizer.eos_token_id
            probability *= masses[sorted(following).index(token)] / masses.sum()
            tokens = [*tokens, token]
        return probability

    expected = np.zeros(5)
    for answer, place in zip(answers, (1, 0, 2, 3, 4, 0), strict=True):
        expected[place] += find_probability(answer)
    field = lc.JsonField("/a", ["no", 3, 30, None])
    for place in (0, 2):
        query = f'P=? [ F ("end" & field = {place}) ]'
        answer = lc.ask(query, model, "?", length=30, certain=True, field=field)
        assert [answer.lower, answer.upper] == pytest.approx([expected[place]] * 2, abs=1e-6)
    texts = lc.grow(model, "?", alpha=1, k=10, length=30).frame(field=field)
    shares = texts[texts["kind"] == "end"].groupby("field")["path_probability"].sum()
    assert shares.to_numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pointer": "$.a", "values": [1]}, r"pointer: '\$\.a' is no JSON Pointer"),
        ({"pointer": 3, "values": [1]}, "pointer: 3 is no text"),
        ({"pointer": "/20000", "values": [1]}, "the index 20000 is above 10,000"),
        ({"pointer": "/a", "values": []}, "values: .* is no list of values"),
        ({"pointer": "/a", "values": "yes"}, "values: 'yes' is no list of values"),
        ({"pointer": "/a", "values": [[1]]}, r"values: \[1\] is no text, number"),
        ({"pointer": "/a", "values": [math.nan]}, "values: nan is no text, number"),
        ({"pointer": "/a", "values": [1, 1.0]}, "values: 1.0 is given twice"),
    ],
)
def test_unusable_settings_are_named(settings: dict[str, Any], words: str) -> None:
    """A pointer that leads nowhere and values that no field has are refused by name."""
    with pytest.raises(ConfigError, match=words):
        lc.JsonField(**settings)
