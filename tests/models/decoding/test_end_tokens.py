"""The end tokens of a decoding are those after which `generate` stops."""

import json
import shutil

import numpy as np
import pytest
import torch
from helpers.random_models import CAUSAL, save
from transformers import AutoModelForCausalLM, AutoTokenizer

import llmchecker as lc
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.answer_reader import AnswerReader, apply_reader
from llmchecker.models.decoding.settings import Decoding, parse_end_tokens
from llmchecker.models.transformers.load import apply_decoding, load_model, wrap_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import StateKind, Truncation

SAMPLING = {"do_sample": True, "top_p": 0.9}
MISSING = "missing"
CANDIDATES = range(2, 9)
"""Tokens to end a text with; the tokenizer's own end token is 2."""


def write_model(source, directory, config, generation) -> None:
    """A model with these `eos_token_id`, and sampling settings in the file that `generate` reads.

    Args:
        config: the value in config.json; None for null, `MISSING` for none.
        generation: the same of generation_config.json; "no file" without the file.
    """
    shutil.copytree(source, directory)
    settings = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    del settings["eos_token_id"]
    settings |= {} if config is MISSING else {"eos_token_id": config}
    # without a file of its own, the settings are those of config.json
    settings |= SAMPLING if generation == "no file" else {}
    (directory / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    (directory / "generation_config.json").unlink()
    if generation != "no file":
        settings = SAMPLING | ({} if generation is MISSING else {"eos_token_id": generation})
        path = directory / "generation_config.json"
        path.write_text(json.dumps(settings), encoding="utf-8")


def find_stops(directory) -> set[int]:
    """The candidates after which `generate` writes nothing more."""
    network = AutoModelForCausalLM.from_pretrained(directory)
    prompt = torch.tensor([[1, 20, 21]])
    stops = set()
    for token in CANDIDATES:

        def force(_, scores, token=token):
            forced = torch.full_like(scores, -torch.inf)
            forced[:, token] = 0.0
            return forced

        written = network.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            logits_processor=[force],
            max_new_tokens=3,
        )
        if written.shape[1] == prompt.shape[1] + 1:
            stops.add(token)
    return stops


@pytest.mark.few(4)
@pytest.mark.parametrize("generation", ["no file", MISSING, None, 3, [4, 5], -1], ids=repr)
@pytest.mark.parametrize("config", [MISSING, None, 6, [7, 2]], ids=repr)
def test_texts_end_where_generate_ends_them(config, generation, random_model, tmp_path):
    """As published a model ends texts after the tokens of `generate`, whichever file has them, and
    never if no file has any; without decoding the tokenizer's own end token takes their place."""
    directory = tmp_path / "model"
    write_model(random_model("llama"), directory, config, generation)
    stops = find_stops(directory)
    plain = load_model(directory)
    published = apply_decoding(plain, "as_published")
    assert published.end_tokens == stops
    is_defined = plain.network.generation_config.eos_token_id is not None
    assert plain.end_tokens == (stops if is_defined else {plain.tokenizer.eos_token_id})
    assert plain.tokenizer.eos_token_id == 2
    for other in (None, Decoding(temperature=0.5)):
        assert apply_decoding(published, other).end_tokens == plain.end_tokens


def test_a_published_model_without_end_tokens_never_ends_a_text(random_model, tmp_path):
    """A tree as published has no end where `generate` has none, though the tokenizer has one."""
    directory = tmp_path / "model"
    write_model(random_model("llama"), directory, 2, MISSING)
    model = load_model(directory)
    everything = Truncation(1.0, 1000, 1)
    plain = build_tree(model, "The", everything)
    published = build_tree(apply_decoding(model, "as_published"), "The", everything)
    end = AutoTokenizer.from_pretrained(directory).eos_token_id
    assert plain.token[plain.kind == StateKind.END].tolist() == [end]
    assert not (published.kind == StateKind.END).any()
    assert (published.kind == StateKind.TEXT).all()


def test_a_negative_end_token_is_no_token(random_model, tmp_path):
    """An end token of -1 ends no text, and makes neither the root nor a `rest` an end."""
    directory = tmp_path / "model"
    write_model(random_model("llama"), directory, -1, -1)
    tree = build_tree(load_model(directory), "The", Truncation(0.5, 3, 1))
    assert set(tree.kind.tolist()) == {StateKind.TEXT, StateKind.REST}
    assert parse_end_tokens(-1) == parse_end_tokens([]) == frozenset()
    assert parse_end_tokens(None) is None


def test_the_first_token_of_an_empty_start_does_not_depend_on_decoding(random_model):
    """A model whose texts never end begins an empty text as the model without decoding does."""
    directory = random_model("gpt2")
    network = AutoModelForCausalLM.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokenizer.bos_token = None
    network.generation_config.update(**SAMPLING)
    network.generation_config.eos_token_id = None
    model = wrap_model(network, tokenizer)
    published = apply_decoding(model, "as_published")
    assert published.end_tokens == set()
    assert published.encode("") == model.encode("") == (tokenizer.eos_token_id,)


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", CAUSAL)
def test_max_tokens_ends_answers_where_generate_does(architecture, tmp_path):
    """The only answer of greedy decoding is the text of `generate` with as many new tokens, also in
    the middle of a character, and has ended."""
    folder = save(architecture, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    greedy = apply_decoding(load_model(folder), Decoding(do_sample=False))
    tokens = tokenizer("The player won", return_tensors="pt", return_token_type_ids=False)
    for count in range(1, 6):
        settings = {"do_sample": False, "pad_token_id": tokenizer.eos_token_id}
        (written,) = network.generate(**tokens, max_new_tokens=count, **settings).tolist()
        model = apply_reader(greedy, AnswerReader(max_tokens=count))
        tree = build_tree(model, "The player won", Truncation(1.0, 2, 9))
        assert tree.text[-1] == tokenizer.decode(written, skip_special_tokens=True)
        has_end = written[-1] == tokenizer.eos_token_id
        assert tree.kind[-1] == (StateKind.END if has_end else StateKind.MAX_TOKENS)
        assert tree.step[-1] == len(written) - len(tokens["input_ids"][0])


HEADS = 3
"""Tokens that may follow each text of the trees below."""


def enumerate_texts(network, prompt, ends, length) -> dict[tuple[int, ...], float]:
    """The probability of each text of the most probable tokens, by the network alone."""
    texts, found = {(): 1.0}, {}
    while texts:
        with torch.inference_mode():
            logits = network(torch.tensor([[*prompt, *text] for text in texts])).logits[:, -1]
        heads = logits.topk(HEADS)
        found |= {
            (*text, token): mass * share
            for (text, mass), tokens, shares in zip(
                texts.items(), heads.indices.tolist(), heads.values.softmax(1).tolist(), strict=True
            )
            for token, share in zip(tokens, shares, strict=True)
        }
        depth = len(next(iter(texts))) + 1
        texts = {text: mass for text, mass in found.items() if len(text) == depth < length}
        texts = {text: mass for text, mass in texts.items() if text[-1] not in ends}
    return found


def test_several_end_tokens_end_texts_where_generate_ends_them(random_model):
    """The tree has the texts and probabilities of an enumeration by the network alone, bounds are
    the mass of those that end, and each text of `generate` with the same list is a whole one."""
    plain = load_model(random_model("llama"), dtype="float64")
    prompt = plain.encode("The player")
    likely = plain.network(torch.tensor([prompt])).logits[0, -1].argmax().item()
    ends = {likely, plain.tokenizer.eos_token_id, 300}
    entries = (likely, plain.tokenizer.eos_token, 300)
    model = apply_decoding(plain, Decoding(top_k=HEADS, end_tokens=entries))
    assert model.end_tokens == ends
    tree = build_tree(model, "The player", Truncation(1.0, HEADS, 4))
    expected = enumerate_texts(plain.network, prompt, ends, 4)
    found = [()]
    for parent, token in zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True):
        found.append((*found[parent], token))
    masses = dict(zip(found[1:], tree.path_probability[1:].tolist(), strict=True))
    assert masses == pytest.approx(expected)
    ended = {text for text, kind in zip(found, tree.kind, strict=True) if kind == StateKind.END}
    assert ended == {text for text in expected if text[-1] in ends}
    answer = lc.ask('P=? [ F "end" ]', model, "The player", length=4, passes=100)
    mass = sum(expected[text] for text in ended)
    assert (answer.lower, answer.upper) == pytest.approx((mass, mass))
    for seed in range(20):
        torch.manual_seed(seed)
        settings = {"do_sample": True, "top_k": HEADS, "max_new_tokens": 4, "pad_token_id": 0}
        tokens = torch.tensor([prompt])
        (written,) = plain.network.generate(
            tokens, attention_mask=torch.ones_like(tokens), eos_token_id=[*ends], **settings
        ).tolist()
        text = tuple(written[len(prompt) :])
        assert text in (ended if len(text) < 4 else expected)


def test_an_end_token_that_is_not_special_is_part_of_the_text(random_model):
    """A requirement on its text holds with the mass of the token, and not with more, as `generate`
    returns the token and its text is decoded."""
    plain = load_model(random_model("gpt2"))
    probabilities = plain.network(torch.tensor([plain.encode("The player")])).logits[0, -1]
    order = probabilities.argsort(descending=True).tolist()
    end = next(token for token in order if plain.decode([[token]])[0].isalpha())
    (word,) = plain.decode([[end]])
    model = apply_decoding(plain, Decoding(top_k=200, end_tokens=(end,)))
    tree = build_tree(model, "The player", Truncation(1.0, 1000, 1))
    has_word = np.array([word in text.removeprefix("The player") for text in tree.text])
    assert has_word[tree.token == end].all()
    mass = tree.path_probability[has_word].sum()
    for share, holds in ((0.999, True), (1.001, False)):
        asked = {"contains": word, "at_least": float(share * mass)}
        answer = lc.ask(asked, model, "The player", length=1, passes=200)
        assert (answer.lower, answer.upper) == (holds, holds)


def test_an_ignored_end_token_has_no_text_and_the_answer_goes_on(random_model):
    """With `ignore_eos` the tree is that of `generate` without end tokens; an end token adds no
    text, and is still excluded below a least length, as in vLLM."""
    plain = load_model(random_model("llama"), dtype="float64")
    (end,) = plain.end_tokens
    settings = {"top_k": HEADS, "logit_bias": ((end, 5.0),), "ignore_eos": True}
    tree = build_tree(apply_decoding(plain, Decoding(**settings)), "The", Truncation(1.0, HEADS, 3))
    assert (tree.kind == StateKind.TEXT).all()
    assert len(tree) == 1 + 3 + 9 + 27
    ends = np.flatnonzero(tree.token == end)
    assert len(ends) > 0
    assert tree.text[ends].tolist() == tree.text[tree.parent[ends]].tolist()
    late = apply_decoding(plain, Decoding(**settings, min_new_tokens=2))
    tree = build_tree(late, "The", Truncation(1.0, HEADS, 3))
    assert set(tree.step[tree.token == end].tolist()) == {3}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"end_tokens": [" player won"]}, r"' player won' is not one token, but \["),
        ({"end_tokens": ["<|nothing|>"]}, r"'<\|nothing\|>' is not one token"),
        ({"end_tokens": [100_000]}, "end_tokens: 100000 is not a token of the model; use 0 to"),
        ({"end_tokens": "."}, "end_tokens: '.' is not a list of tokens"),
        ({"end_tokens": [-1]}, "end_tokens: -1 is not the id or text of one"),
        ({"end_tokens": [""]}, "end_tokens: '' is not the id or text of one"),
        ({"ignore_eos": 1}, "ignore_eos: 1 is not true or false"),
        ({"end_tokens": [1], "ignore_eos": True}, "end_tokens: ignore_eos is set too"),
        ({"ignore_eos": True, "choice": ["a"]}, "ignore_eos: choice is set too"),
        ({"eos_token_id": 2}, "unknown key 'eos_token_id', did you mean 'end_tokens'"),
    ],
    ids=str,
)
def test_end_tokens_that_a_model_does_not_have_are_refused(settings, message, random_model):
    """A text of several tokens, an unknown token and a contradiction are named."""
    with pytest.raises(ConfigError, match=message):
        apply_decoding(load_model(random_model("llama")), Decoding.from_settings(settings))
