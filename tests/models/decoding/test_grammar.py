"""Structured output: distributions and answers of decodings with a grammar."""

import itertools
import json
import sys
from dataclasses import dataclass

import llguidance
import llguidance.hf
import numpy as np
import pytest
import regex
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerFast,
)

import llmchecker as lc
from llmchecker.errors import ConfigError, MissingTool, UnusableText
from llmchecker.models.decoding.answer_format import ThoughtMarks
from llmchecker.models.decoding.answer_reader import AnswerReader, apply_reader
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.end_of_sequence import apply_end_of_sequence
from llmchecker.models.transformers.load import apply_decoding, load_model, wrap_model
from llmchecker.trees.text_tree import StateKind

SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"type": "integer"},
        "reason": {"type": "string", "maxLength": 3},
        "parts": {"type": "array", "items": {"enum": ["é", 1, None]}},
    },
    "required": ["answer"],
    "additionalProperties": False,
}
PATTERNS = ["yes|no|not yet", "[0-9]{1,3}( legs)?", "(a+b?)*", r"\w{3}", "é.😀?"]
LARK = 'start: "(" start? ")" | NUMBER\nNUMBER: /[0-9]{1,2}/\n'
CHOICE = ["a dog", "a dogs", "dog's", 'say "hi"\n', "😀"]
SMALL = ["a", "b", "c", "ab", "bc", "abc", "aab", "1", "12"]
"""The texts of the tokens of a small vocabulary, after which the end token follows."""
SMALL_PATTERNS = ["a*", "ab|abc|c", "(ab|c){1,2}", "a?b?c?", "[abc]{2}1?", "1(2|a)*", "(a|ab)(bc)?"]


def build_network(vocabulary_size: int, end_token: int, seed: int = 0) -> LlamaForCausalLM:
    """A random network whose next tokens differ much in probability, in float64."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        num_hidden_layers=1,
        bos_token_id=end_token,
        eos_token_id=end_token,
        **sizes,
    )
    network = LlamaForCausalLM(config).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(6 if parameter.dim() > 1 else 1)
    return network


@pytest.fixture(scope="module")
def tokenizer(smollm2):
    return AutoTokenizer.from_pretrained(smollm2)


@pytest.fixture(scope="module")
def model(tokenizer):
    """A tiny random model with the tokenizer of SmolLM2."""
    return wrap_model(build_network(len(tokenizer), tokenizer.eos_token_id), tokenizer)


def build_small_model(seed: int):
    """A random model with the vocabulary `SMALL`."""
    vocabulary = {text: token for token, text in enumerate([*SMALL, "<end>"])}
    backend = Tokenizer(models.BPE(vocabulary, [("a", "b"), ("b", "c")]))
    backend.decoder = decoders.ByteLevel()
    end = {"eos_token": "<end>", "bos_token": "<end>"}
    small = PreTrainedTokenizerFast(tokenizer_object=backend, **end)
    return wrap_model(build_network(len(vocabulary), len(SMALL), seed), small, name="small")


class Mask(LogitsProcessor):
    """A processor for `generate` that allows what llguidance's own reading of a tokenizer allows.

    Args:
        grammar: the grammar in Lark syntax.
        tokenizer: the tokenizer.
        length: number of tokens of the prompt.
    """

    def __init__(self, grammar, tokenizer, length):
        self.end, self.length = tokenizer.eos_token_id, length
        self.tokenizer = llguidance.hf.from_tokenizer(tokenizer)
        self.grammar = f'%llguidance {{"no_forcing": true}}\n{grammar}'

    def __call__(self, input_ids, scores):
        for row, tokens in enumerate(input_ids[:, self.length :].tolist()):
            if self.end not in tokens:
                # not one with `reset`, after which llguidance 1.9.1 allows tokens of other texts
                matcher = llguidance.LLMatcher(self.tokenizer, self.grammar)
                assert matcher.consume_tokens(tokens)
                bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
                allowed = np.unpackbits(bits, bitorder="little").astype(bool)
                scores[row, torch.from_numpy(~allowed[: scores.shape[1]])] = -torch.inf
        return scores


GRAMMARS = [
    ({"json_schema": SCHEMA}, f"start: %json {json.dumps(SCHEMA)}"),
    (
        {"json_schema": SCHEMA, "temperature": 0.5, "top_p": 0.9},
        f"start: %json {json.dumps(SCHEMA)}",
    ),
    ({"grammar": LARK}, LARK),
    ({"regex": PATTERNS[1], "repetition_penalty": 1.5}, f"start: /{PATTERNS[1]}/"),
    ({"choice": CHOICE, "top_k": 3}, "start: " + "|".join(map(json.dumps, CHOICE[:4])) + '|"😀"'),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("settings", "lark"), GRAMMARS, ids=lambda each: str(each)[:40])
def test_distributions_are_those_of_masked_generate(settings, lark, model, tokenizer):
    """After each of many texts of masked `generate`, probabilities are those of its scores."""
    count = 40
    prompt = list(model.encode("How many legs has a dog?"))
    whole = {"do_sample": True, "top_k": 0} | settings
    for name in ("json_schema", "grammar", "regex", "choice"):
        whole.pop(name, None)
    torch.manual_seed(1)
    written = model.network.generate(
        torch.tensor([prompt] * count),
        max_new_tokens=10,
        output_scores=True,
        return_dict_in_generate=True,
        pad_token_id=tokenizer.eos_token_id,
        logits_processor=LogitsProcessorList([Mask(lark, tokenizer, len(prompt))]),
        **whole,
    )
    texts = written.sequences[:, len(prompt) :].numpy()
    prefix = apply_decoding(model, Decoding.from_settings(settings)).open_prefix(prompt, 10)
    for depth, scores in enumerate(written.scores):
        going = np.flatnonzero(~(texts[:, :depth] == tokenizer.eos_token_id).any(axis=1))
        if len(going) == 0:
            break
        expected = scores[going].double().softmax(dim=1)
        for rows, found in prefix.map_next(
            lambda rows, part: (rows, part.probabilities()), texts[going, :depth], will_extend=True
        ):
            assert torch.equal(found > 0, expected[rows] > 0)
            assert torch.allclose(found, expected[rows], atol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_tokens_of_a_pattern_are_those_of_partial_matches(pattern, model, tokenizer):
    """The tokens with which a text begins a match have all of the probability."""
    decoded = apply_decoding(model, Decoding.from_settings({"regex": pattern}))
    prompt, generator = model.encode("Once"), np.random.default_rng(0)
    compiled, end = regex.compile(pattern), tokenizer.eos_token_id
    contents = model.token_bytes
    for _text in range(3):
        tokens: list[int] = []
        for _ in range(5):
            ((found,),) = decoded.open_prefix(prompt, 9).map_next(
                lambda _, part: part.probabilities().numpy(), np.array([tokens], dtype=np.int64)
            )
            assert found.sum() == pytest.approx(1)
            written = b"".join(contents.tokens[token] for token in tokens)
            for token in {*np.flatnonzero(found), *generator.integers(0, len(found), 500)}:
                text = (written + contents.tokens[token]).decode(errors="ignore")
                is_text = token not in contents.special_tokens
                if token == end:
                    expected = bool(compiled.fullmatch(written.decode(errors="ignore")))
                else:
                    expected = is_text and bool(compiled.fullmatch(text, partial=True))
                # bytes within a character are only compared where they end one
                if (written + contents.tokens[token]) == text.encode() or token == end:
                    assert (found[token] > 0) == expected, (tokens, token, text)
            tokens.append(int(generator.choice(len(found), p=found / found.sum())))
            if tokens[-1] == end:
                break


def enumerate_texts(model, pattern: str, length: int) -> dict[tuple[int, ...], float]:
    """The probability of each text of at most `length` tokens, by an enumeration of all.

    The masks are those of partial matches of the pattern, and the logits those of the network.
    """
    compiled, end = regex.compile(pattern), len(SMALL)
    prompt, found = list(model.encode("c")), {}
    open_texts = {(): 1.0}
    for _ in range(length):
        going, open_texts = open_texts, {}
        for tokens, mass in going.items():
            text = "".join(SMALL[token] for token in tokens)
            allowed = [bool(compiled.fullmatch(text + each, partial=True)) for each in SMALL]
            allowed.append(bool(compiled.fullmatch(text)))
            with torch.inference_mode():
                logits = model.network(torch.tensor([[*prompt, *tokens]])).logits[0, -1]
            weights = (logits - logits.max()).exp().numpy() * allowed
            for token in np.flatnonzero(weights):
                share = mass * weights[token] / weights.sum()
                (found if token == end else open_texts)[(*tokens, int(token))] = share
    return found | open_texts


@dataclass(frozen=True)
class Hit:
    """Whether an answer contains a word."""

    word: str

    def __call__(self, start: str, continuation: str) -> int:
        return int(self.word in continuation)


@pytest.mark.few(10)
@pytest.mark.parametrize(("pattern", "seed"), [*itertools.product(SMALL_PATTERNS, range(4))])
def test_certain_bounds_are_those_of_an_enumeration(pattern, seed):
    """Whole exploration of masked answers gives the probability that all texts add up to."""
    model = build_small_model(seed)
    masses = enumerate_texts(model, pattern, 4)
    assert sum(masses.values()) == pytest.approx(1)
    decoded = apply_decoding(model, Decoding.from_settings({"regex": pattern}))
    texts = {tokens: "".join([*SMALL, ""][token] for token in tokens) for tokens in masses}
    for word in ("ab", "c"):
        hit = Hit(word)
        answer = lc.ask("P=? [ F hit > 0 ]", decoded, "c", length=4, passes=5000, hit=hit)
        expected = sum(mass for tokens, mass in masses.items() if word in texts[tokens])
        assert answer.lower - 1e-6 <= expected <= answer.upper + 1e-6
        assert answer.upper - answer.lower < 1e-6


@pytest.mark.parametrize("pattern", SMALL_PATTERNS)
def test_only_texts_of_the_grammar_are_in_a_tree(pattern):
    """A tree with all tokens has exactly the enumerated texts, with their probabilities."""
    model = build_small_model(0)
    masses = enumerate_texts(model, pattern, 3)
    decoded = apply_decoding(model, Decoding.from_settings({"regex": pattern}))
    tree = lc.grow(decoded, "c", alpha=1, k=10, length=3)
    leaves = {}
    for row in np.flatnonzero(~tree.internal):
        tokens, node = [], row
        while tree.parent[node] >= 0:
            tokens.insert(0, int(tree.token[node]))
            node = tree.parent[node]
        # a rest of rounding errors has no token
        if tree.kind[row] != StateKind.REST:
            leaves[tuple(tokens)] = tree.path_probability[row]
    assert leaves == pytest.approx(masses, abs=1e-6)


def test_nothing_but_ends_follows_an_end_that_is_an_ordinary_token():
    """Where end tokens are ordinary, a whole answer is continued by end tokens alone."""
    decoded = apply_decoding(build_small_model(0), Decoding(choice=("ab", "c")))
    endless = apply_end_of_sequence(decoded, "ordinary")
    found = endless.open_prefix(endless.encode("c"), 9).map_next(
        lambda _, part: part.probabilities(), np.array([[3, len(SMALL)], [2, len(SMALL)]])
    )
    assert torch.cat(list(found))[:, -1].tolist() == [1, 1]


BAD = [
    ({"choice": []}, "choice: it has no text"),
    ({"choice": "yes"}, "choice: 'yes' is not a list of texts"),
    ({"choice": ["a"], "regex": "b"}, "choice: regex is set too; remove one"),
    ({"regex": 3}, "regex: 3 is not a text"),
    ({"regex": "a("}, "regex: .*unclosed group"),
    ({"regex": r"\ba"}, "regex: .*lookarounds not supported"),
    ({"regex": r"[^\s\S]"}, "regex: the grammar has no text"),
    ({"grammar": "start: x"}, 'grammar: .*unknown name: "x"'),
    ({"grammar": 'start: "a" <|x|>'}, 'grammar: .*unknown special token: "<\\|x\\|>"$'),
    ({"grammar": 'start: b\nb: b "x"'}, "grammar: the grammar has no text"),
    ({"json_schema": {"$ref": "#"}}, "json_schema: the grammar has no text"),
    ({"json_schema": [1]}, "json_schema: \\[1\\] is not an object"),
    ({"json_schema": "absent.json"}, "json_schema: 'absent.json' cannot be read"),
    ({"json_schema": '{"a":'}, "json_schema: it is not JSON"),
    ({"json_schema": {"const": {1, 2}}}, "json_schema: it is not JSON"),
    ({"json_schema": {"type": "strin"}}, "json_schema: #/type: .*Invalid type: strin"),
    (
        {"json_schema": {"properties": {"a/b": {"anyOf": [{"type": "null"}, {"not": {}}]}}}},
        "json_schema: #/properties/a~1b/anyOf/1/not: .*Unimplemented",
    ),
    (
        {"json_schema": {"$ref": "#/$defs/a", "$defs": {"a": {"uniqueItems": True}}}},
        "json_schema: #/\\$defs/a/uniqueItems: .*Unimplemented",
    ),
    (
        {"json_schema": {"anyOf": [{"type": "integer", "minimum": 3, "maximum": 2}]}},
        "json_schema: #/anyOf/0/minimum: .*Unsatisfiable",
    ),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=lambda each: str(each)[:50])
def test_a_grammar_that_cannot_be_used_is_named_with_its_place(settings, message):
    """A rejected grammar, a schema with an unsupported part and a grammar without texts say so."""
    with pytest.raises(ConfigError, match=message):
        apply_decoding(build_small_model(0), Decoding.from_settings(settings))


def test_a_grammar_needs_tokens_with_texts_and_an_end(random_model, monkeypatch):
    """Models without pieces or end tokens, and a missing package, are named."""
    small = build_small_model(0)
    with pytest.raises(ConfigError, match="no end token"):
        small.with_decoding(Decoding(regex="a"), frozenset())
    with pytest.raises(ConfigError, match="is not a local causal model"):
        apply_decoding(load_model(random_model("bert"), "masked"), Decoding(regex="a"))
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(MissingTool, match=r"llguidance: .* pip install 'llmchecker\[grammars\]'"):
        apply_decoding(small, Decoding(regex="a"))


def test_a_schema_is_given_in_three_forms(tmp_path):
    """A schema, its text and a file in the folder of the configuration are one decoding."""
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA, indent=2), encoding="utf-8")
    first = Decoding.from_settings({"json_schema": SCHEMA})
    assert first == Decoding.from_settings({"json_schema": json.dumps(SCHEMA)})
    assert first == Decoding.from_settings({"json_schema": "schema.json"}, tmp_path)
    assert first == Decoding.from_settings(first.settings)
    properties = dict(reversed(SCHEMA["properties"].items()))
    assert first != Decoding.from_settings({"json_schema": {**SCHEMA, "properties": properties}})


def test_an_answer_says_which_objects_have_a_fixed_order(model):
    """The note on the order of properties names the places, and values are no schemas."""
    inner = {"properties": {"c": {}, "d": {"default": SCHEMA}}}
    schema = {"properties": {"a": {"items": inner}}, "type": "object"}
    decoded = apply_decoding(model, Decoding.from_settings({"json_schema": schema}))
    answer = lc.ask("P=? [ F hit > 0 ]", decoded, "c", length=1, passes=1, hit=Hit("{"))
    (note,) = [note for note in answer.notes if "order" in note]
    assert "the properties in #/properties/a/items have the order" in note
    assert not Decoding.from_settings({"json_schema": {"properties": {"a": {}}}}).notes


def test_a_prompt_that_begins_a_thought_has_no_grammar(model):
    """A grammar excludes the end of a thought, so that no answer would ever begin."""
    decoded = apply_decoding(model, Decoding(choice=("yes", "no")))
    thinking = apply_reader(decoded, AnswerReader(marks=ThoughtMarks("<a>", "</a>")))
    with pytest.raises(UnusableText, match="choice: the prompt begins a thought"):
        lc.ask("P=? [ F hit > 0 ]", thinking, "Why? <a>", length=1, passes=1, hit=Hit("y"))
    answer = lc.ask("P=? [ F hit > 0 ]", thinking, "Why?", length=3, passes=9, hit=Hit("y"))
    assert answer.upper > answer.lower - 1e-9
