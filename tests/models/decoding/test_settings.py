"""Decoding: what `generate` of transformers draws from, to the last cut token."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.marks import long
from scipy.stats import chisquare
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
)

import llmchecker as lc
from llmchecker.errors import ConfigError, InvalidDistribution
from llmchecker.models.decoding.logits_processor import LogitsDecoder, parse_generation_config
from llmchecker.models.decoding.settings import Decoding, parse_decoding
from llmchecker.models.servers.text_apis import _build_sampling
from llmchecker.models.transformers.load import apply_decoding, load_model, wrap_model
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import MAX_K, StateKind, Truncation

START = "The player won because"
BAD = [[40, 41], [45], [7, 8, 9], [50, 41]]
GRID = [
    {"temperature": 0.2, "top_p": 0.9},
    {"temperature": 1.7},
    {"top_k": 7},
    {"top_p": 0.5},
    {"min_p": 0.1},
    {"typical_p": 0.6},
    {"repetition_penalty": 1.3},
    {"no_repeat_ngram_size": 1},
    {"encoder_repetition_penalty": 1.4, "encoder_no_repeat_ngram_size": 1},
    {"bad_words_ids": BAD, "suppress_tokens": [30, 31, 60]},
    {"do_sample": False},
]
LONG_GRID = [
    {"temperature": 0.05, "top_k": 3},
    {"temperature": 3.0, "top_p": 0.3},
    {"temperature": 0.7, "top_k": 20, "top_p": 0.8},
    {"top_p": 0.01},
    {"top_k": 100_000, "min_p": 1.0},
    {"top_k": 12, "top_p": 0.7, "min_p": 0.05, "typical_p": 0.9},
    {"temperature": 0.6, "typical_p": 0.2, "min_p": 0.3},
    {"repetition_penalty": 0.6, "temperature": 0.5, "top_p": 0.9},
    {"no_repeat_ngram_size": 2, "repetition_penalty": 1.8, "top_k": 5},
    {"bad_words_ids": BAD, "no_repeat_ngram_size": 3, "temperature": 0.3, "top_p": 0.95},
    {"suppress_tokens": list(range(100)), "top_k": 4},
    {"do_sample": False, "repetition_penalty": 2.0, "no_repeat_ngram_size": 1},
    {"do_sample": False, "suppress_tokens": list(range(200)), "bad_words_ids": BAD},
]
RANDOM = ("llama", "gpt2", "gemma3")
CUT = {"temperature": 0.5, "top_k": 5, "top_p": 0.9}


def scores_of_generate(network, prompt, settings, steps=4):
    """What `generate` draws from, (steps, vocabulary), and the tokens that it drew."""
    whole = {"do_sample": True, "top_k": 0} | settings
    if not whole["do_sample"]:
        del whole["top_k"]
    torch.manual_seed(0)
    written = network.generate(
        torch.tensor([prompt]),
        max_new_tokens=steps,
        eos_token_id=[],
        output_scores=True,
        return_dict_in_generate=True,
        **whole,
    )
    return torch.cat(written.scores), written.sequences[0, len(prompt) :].tolist()


def difference(model, settings, start=START) -> float:
    """The largest difference from `generate` of a probability after texts that it wrote.

    Where a token is cut by one of them alone, it is infinite.
    """
    prompt = list(model.encode(start))
    scores, tokens = scores_of_generate(model.network, prompt, settings)
    asked = apply_decoding(model, Decoding.from_settings(settings))
    continuations, largest = asked.open_prefix(prompt, len(tokens)), 0.0
    for step, row in enumerate(scores.double()):
        suffix = np.array([tokens[:step]], dtype=np.int64)
        (found,) = continuations.map_next(
            lambda _, part: part.probabilities(), suffix, will_extend=True
        )
        if settings.get("do_sample", True):
            expected = row.softmax(0)
        else:
            expected = torch.nn.functional.one_hot(row.argmax(), len(row)).double()
        if not torch.equal(found[0] > 0, expected > 0):
            return np.inf
        largest = max(largest, (found[0] - expected).abs().max().item())
    return largest


@pytest.fixture(scope="module", params=["llama", *long("gpt2", "gemma3")])
def precise(request, random_model):
    """A random model in float64."""
    return load_model(random_model(request.param), dtype="float64")


@pytest.mark.parametrize("settings", [*GRID, *long(*LONG_GRID)], ids=str)
def test_distributions_are_those_that_generate_samples_from(settings, precise):
    """After every text that `generate` writes, probabilities equal those of its own scores.

    In float64 the logits are the same in batches of any shape, so that no temperature, however low,
    makes their rounding large.
    """
    assert difference(precise, settings) < 1e-6


@pytest.fixture(scope="module")
def precise_smollm2(smollm2):
    """SmolLM2 in float64, in which batches of any size give the logits of one another."""
    network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float64)
    return wrap_model(network, AutoTokenizer.from_pretrained(smollm2))


@pytest.mark.long
@pytest.mark.parametrize("settings", GRID[::3], ids=str)
def test_distributions_of_smollm2_are_those_of_generate(settings, precise_smollm2):
    """On the real SmolLM2 they equal those of `generate`'s scores."""
    assert difference(precise_smollm2, settings) < 1e-6


class Formula(LogitsProcessor):
    """The penalties of vLLM's documentation in plain Python, for `generate`."""

    def __init__(self, length, settings):
        self.length = length
        self.frequency = settings.get("frequency_penalty", 0.0)
        self.presence = settings.get("presence_penalty", 0.0)

    def __call__(self, input_ids, scores):
        for row, tokens in enumerate(input_ids[:, self.length :].tolist()):
            for token, count in Counter(tokens).items():
                scores[row, token] -= self.frequency * count + self.presence
        return scores


ANSWER_GRID = [
    {"frequency_penalty": 1.5},
    {"presence_penalty": -2.0},
    {"frequency_penalty": 0.7, "presence_penalty": 0.5, "repetition_penalty": 1.3, "top_k": 9},
    {"logit_bias": {40: 3.5, 41: -100.0}},
    {"logit_bias": {"40": 3.0}, "frequency_penalty": 2.0, "temperature": 0.5},
    {"min_new_tokens": 3},
    {"min_new_tokens": 2, "temperature": 0},
]


@pytest.mark.parametrize("settings", ANSWER_GRID, ids=str)
def test_penalties_of_servers_are_those_of_their_formulas(settings, precise):
    """After each of 30 texts, probabilities are those of `generate` with the formulas of vLLM."""
    end, prompt = min(precise.end_tokens), list(precise.encode(START))
    plain = {"do_sample": True, "top_k": 0} | settings
    bias = {(int(token),): value for token, value in plain.pop("logit_bias", {}).items()}
    for name in ("frequency_penalty", "presence_penalty"):
        plain.pop(name, None)
    if is_greedy := plain.get("temperature") == 0:
        plain = {"do_sample": False, "min_new_tokens": plain["min_new_tokens"]}
    torch.manual_seed(2)
    written = precise.network.generate(
        torch.tensor([prompt] * 30),
        attention_mask=torch.ones((30, len(prompt)), dtype=torch.int64),
        max_new_tokens=5,
        eos_token_id=end,
        pad_token_id=end,
        output_scores=True,
        return_dict_in_generate=True,
        logits_processor=LogitsProcessorList([Formula(len(prompt), settings)]),
        **({"sequence_bias": bias} if bias else {}),
        **plain,
    )
    texts = written.sequences[:, len(prompt) :].numpy()
    asked = apply_decoding(precise, Decoding.from_settings(settings)).open_prefix(prompt, 5)
    for depth, scores in enumerate(written.scores):
        going = np.flatnonzero(~(texts[:, :depth] == end).any(axis=1))
        for rows, found in asked.map_next(
            lambda rows, part: (rows, part.probabilities()), texts[going, :depth], will_extend=True
        ):
            expected = scores[going][rows].double().softmax(dim=1)
            if is_greedy:
                chosen = expected.argmax(dim=1)
                expected = torch.nn.functional.one_hot(chosen, expected.shape[1]).double()
            assert torch.allclose(found, expected, atol=1e-6)
            assert torch.equal(found > 0, expected > 0)


def chi_square(model, decoding, length, texts, at_once) -> float:
    """The p-value of texts that `generate` wrote against the tree with alpha = 1."""
    tree = build_tree(
        apply_decoding(model, Decoding.from_settings(decoding)),
        START,
        Truncation(1.0, MAX_K, length),
    )
    assert not (tree.kind == StateKind.REST).any()
    prompt, drawn = list(model.encode(START)), Counter()
    torch.manual_seed(1)
    for _ in range(texts // at_once):
        written = model.network.generate(
            torch.tensor([prompt]),
            do_sample=True,
            max_new_tokens=length,
            num_return_sequences=at_once,
            **({"top_k": 0} | decoding),
        )
        for row in written[:, len(prompt) :].tolist():
            ends = [place for place, token in enumerate(row) if token in model.end_tokens]
            drawn[tuple(row[: ends[0] + 1] if ends else row)] += 1
    path = [()]
    for uid in range(1, len(tree)):
        path.append((*path[tree.parent[uid]], int(tree.token[uid])))
    leaves = np.flatnonzero(~tree.internal)
    expected = tree.path_probability[leaves] * texts
    found = np.array([drawn.pop(path[leaf], 0) for leaf in leaves])
    assert not drawn, "generate wrote a text that the tree does not hold"
    rare = expected < 5
    pooled = [expected[~rare], [expected[rare].sum()]] if rare.any() else [expected]
    counted = [found[~rare], [found[rare].sum()]] if rare.any() else [found]
    expected, found = np.concatenate(pooled), np.concatenate(counted)
    assert len(expected) > 5
    return chisquare(found, expected * (found.sum() / expected.sum())).pvalue


@pytest.mark.long
@pytest.mark.parametrize("architecture", ["llama", *long("gpt2", "gemma3")])
@pytest.mark.parametrize(
    "decoding",
    [
        {"temperature": 0.5, "top_k": 4, "top_p": 0.95},
        *long({"top_k": 3, "repetition_penalty": 1.5, "no_repeat_ngram_size": 2}),
    ],
    ids=str,
)
def test_generated_texts_are_distributed_as_in_the_tree(architecture, decoding, random_model):
    """20,000 texts that `generate` writes pass a chi-square test against the tree."""
    assert chi_square(load_model(random_model(architecture)), decoding, 3, 20_000, 20_000) > 1e-3


@pytest.mark.long
def test_texts_of_smollm2_are_distributed_as_in_the_tree(loaded_smollm2):
    """So are 500 texts of the real SmolLM2 at temperature 0.7 and top-p 0.6."""
    assert chi_square(loaded_smollm2, {"temperature": 0.7, "top_p": 0.6}, 2, 500, 500) > 1e-3


@pytest.mark.parametrize("architecture", RANDOM)
def test_cut_tokens_leave_no_rest(architecture, random_model):
    """With alpha = 1 nothing is left to `rest`, and lower bound, value and upper bound agree."""
    model = lc.load(random_model(architecture), decoding=CUT)
    tree = lc.grow(model, START, alpha=1, k=1000, length=4)
    assert not (tree.kind == StateKind.REST).any()
    assert (tree.probability > 0).all()
    verdict = lc.check("P=? [ X odd = 1 ]", tree, odd=lambda start, text: sum(map(ord, text)) % 2)
    assert 0 < verdict.bounded < 1
    assert verdict.lower == pytest.approx(verdict.bounded, rel=1e-13, abs=0)
    assert verdict.upper == pytest.approx(verdict.bounded, rel=1e-13, abs=0)
    assert verdict.lower <= verdict.bounded <= verdict.upper


def test_a_greedy_tree_is_the_text_that_generate_writes(random_model):
    """Greedy decoding has one text, with probability 1."""
    model = lc.load(random_model("llama"))
    prompt = list(model.encode(START))
    written = model.network.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=6)
    tree = lc.grow(model, START, alpha=1, k=5, length=6, decoding="greedy")
    assert tree.token[1:].tolist() == written[0, len(prompt) :].tolist()
    assert tree.probability.tolist() == [1.0] * len(tree)


def test_the_bits_do_not_depend_on_the_batch(random_model):
    """A text has the same probabilities alone and among hundreds of others, on any threads."""
    settings = Decoding.from_settings(
        {"temperature": 0.7, "top_p": 0.95, "repetition_penalty": 1.2}
    )
    suffixes = np.random.default_rng(0).integers(50, 300, (600, 2))

    def rows(threads, asked):
        model = apply_decoding(load_model(random_model("llama"), threads=threads), settings)
        parts = model.open_prefix(model.encode(START)).map_next(
            lambda _, part: part.probabilities(), asked
        )
        return torch.cat(list(parts))

    many = rows(2, suffixes)
    for place in (0, 17, 599):
        assert torch.equal(rows(1, suffixes[place : place + 1])[0], many[place])


def test_a_decoded_tree_from_the_store_has_the_same_bits(tmp_path, random_model):
    """Stored heads that end in a cut token are whole, so that nothing is asked a second time."""
    model = apply_decoding(load_model(random_model("llama")), Decoding.from_settings({"top_k": 40}))
    prompt = model.encode(START)

    def grown(truncation):
        stored = DistributionCache(tmp_path, 2**30).open_distributions("model", prompt)
        return build_tree(model, START, truncation, distributions=stored), stored.added_count

    tree, added = grown(Truncation(1.0, 1000, 2))
    assert added == tree.internal.sum()
    for truncation in (Truncation(1.0, 1000, 2), Truncation(0.8, 50, 2), Truncation(1.0, 3, 2)):
        again, added = grown(truncation)
        plain = build_tree(model, START, truncation)
        assert added == 0
        assert (again.probability == plain.probability).all()
        assert (again.token == plain.token).all()


PUBLISHED = [
    {"do_sample": True, "temperature": 0.6, "top_p": 0.9},
    {"do_sample": True, "top_k": 20, "repetition_penalty": 1.05},
    {"do_sample": False, "no_repeat_ngram_size": 1},
]


@pytest.mark.parametrize("settings", PUBLISHED, ids=str)
def test_published_settings_are_what_generate_does_by_default(settings, random_model):
    """`as_published` gives the scores of `generate` without arguments, its top_k of 50 included."""
    model = load_model(random_model("llama"))
    model.network.generation_config.update(**settings)
    prompt = list(model.encode(START))
    written = model.network.generate(
        torch.tensor([prompt]), max_new_tokens=1, output_scores=True, return_dict_in_generate=True
    )
    asked = apply_decoding(model, "as_published")
    (found,) = asked.open_prefix(prompt).map_next(
        lambda _, part: part.probabilities(), np.empty((1, 0), dtype=np.int64)
    )
    expected = written.scores[0][0].double().softmax(0)
    if not settings["do_sample"]:
        expected = torch.nn.functional.one_hot(expected.argmax(), len(expected)).double()
    assert (found[0] - expected).abs().max() < 1e-6
    assert torch.equal(found[0] > 0, expected > 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no decoding settings"),
        ({"temperature": 0.6}, "temperature 0.6 without do_sample"),
        ({"do_sample": True, "num_beams": 4}, "num_beams is 4, an unknown setting"),
        ({"do_sample": True, "begin_suppress_tokens": [3]}, "begin_suppress_tokens is"),
        ({"do_sample": True, "epsilon_cutoff": 0.1}, "epsilon_cutoff is"),
    ],
)
def test_published_settings_that_are_not_clear_are_refused(settings, message, random_model):
    """Nothing said, a contradiction, or what is not known here: a message names it."""
    model = load_model(random_model("llama"))
    model.network.generation_config.update(**settings)
    with pytest.raises(ConfigError, match=message):
        apply_decoding(model, "as_published")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"seed": 1}, "unknown key 'seed': the seed of a run is that of"),
        ({"n": 2}, "unknown key 'n': each answer is a sample of its own"),
        ({"min_tokens": 2}, "unknown key 'min_tokens', did you mean 'min_new_tokens'"),
        ({"frequency_penalty": 3}, "frequency_penalty: 3 is not from -2 to 2"),
        ({"logit_bias": [1]}, r"logit_bias: \[1\] is not a bias by token id"),
        ({"logit_bias": {1: 101}}, "logit_bias: 101 is not from -100 to 100"),
        ({"logit_bias": {"a": 1}}, "logit_bias: 'a' is not a token id"),
        ({"stop": ["a"]}, "unknown key 'stop': stops are a setting of a model; write"),
        ({"temprature": 0.2}, "unknown key 'temprature', did you mean 'temperature'"),
        ({"temperature": -0.1}, "temperature: -0.1 is not at least 0"),
        ({"temperature": 0, "top_p": 0.9}, r"top_p: no effect with greedy \(temperature: 0\)"),
        ({"temperature": float("nan")}, "temperature: nan"),
        ({"temperature": True}, "temperature: true"),
        ({"top_k": -1}, "top_k: -1"),
        ({"top_k": 2.5}, "top_k: 2.5"),
        ({"top_p": 1.5}, "top_p: 1.5 is not above 0 and at most 1"),
        ({"min_p": -0.1}, "min_p: -0.1"),
        ({"typical_p": "much"}, "typical_p: 'much'"),
        ({"repetition_penalty": 0}, "repetition_penalty: 0"),
        ({"encoder_repetition_penalty": -1}, "encoder_repetition_penalty: -1"),
        ({"encoder_no_repeat_ngram_size": 1.5}, "encoder_no_repeat_ngram_size: 1.5"),
        ({"bad_words_ids": [3]}, r"bad_words_ids: \[3\] is not a list of lists"),
        ({"bad_words_ids": [[]]}, "a word has no token"),
        ({"suppress_tokens": [-3]}, "suppress_tokens: -3 is not a token id"),
        ({"do_sample": 0}, "do_sample: 0 is not"),
        ({"do_sample": False, "top_p": 0.9}, "top_p: no effect with greedy"),
        ("gready", "^'gready' is not greedy"),
        (3, "^3 is not greedy"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_used_are_named(entry, message):
    """A wrong value, an unknown name and a contradiction get one message that names the setting."""
    with pytest.raises(ConfigError, match=message):
        parse_decoding(entry)


def test_settings_that_change_nothing_are_no_decoding():
    """Temperature 1, top_p 1 and the like are the model as it is, whole numbers or not."""
    assert parse_decoding({"temperature": 1, "top_p": 1.0, "top_k": 0, "min_p": 0}) is None
    assert Decoding(temperature=2) == Decoding(temperature=2.0)
    assert str(parse_decoding("greedy")) == "greedy"
    assert parse_decoding(Decoding(top_k=3)) == Decoding(top_k=3)


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, "0"])
def test_temperature_0_is_greedy(zero):
    """Whoever writes temperature 0 gets the decoding that `greedy` names, in one form."""
    if isinstance(zero, str):
        with pytest.raises(ConfigError, match="temperature: '0' is not"):
            parse_decoding({"temperature": zero})
        return
    found = parse_decoding({"temperature": zero})
    assert found == parse_decoding("greedy") == Decoding(temperature=zero, do_sample=False)
    assert (str(found), found.settings) == ("greedy", {"do_sample": False})
    penalty = {"repetition_penalty": 1.5}
    assert parse_decoding(penalty | {"temperature": zero}) == parse_decoding(
        penalty | {"do_sample": False}
    )
    for defaults in ({"temperature": 1.0, "top_p": 1.0}, {"temperature": 1.0}):
        assert _build_sampling(found, defaults) == {"temperature": 0.0}
    biased = parse_decoding({"temperature": zero, "logit_bias": {7: 1}})
    sent = _build_sampling(biased, {"temperature": 1.0, "top_p": 1.0})
    assert sent == {"temperature": 0.0, "logit_bias": {"7": 1.0}}


def test_temperature_0_is_the_most_probable_token(random_model):
    """At temperature 0 the first of equal logits follows, as in plain greedy decoding."""
    model = load_model(random_model("llama"))
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, -1.0, 5.0, 5.0]])
    decoder = LogitsDecoder(Decoding(temperature=0), 4, frozenset())
    chosen = decoder(torch.zeros((2, 1), dtype=torch.int64), logits, 1).softmax(1)
    assert chosen.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    tree = lc.grow(model, START, alpha=1, k=1, length=2, decoding={"temperature": 0})
    same = lc.grow(model, START, alpha=1, k=1, length=2, decoding="greedy")
    assert tree.token.tolist() == same.token.tolist()


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 0, "do_sample": True}])
def test_a_published_temperature_0_is_greedy(settings, random_model):
    """A generation_config.json with temperature 0 is greedy, with or without do_sample."""
    config = GenerationConfig(**settings)
    assert parse_generation_config(config) == Decoding(do_sample=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"suppress_tokens": [5000]}, "suppress_tokens: 5000 is not a token"),
        ({"bad_words_ids": [[1, 5000]]}, "bad_words_ids: 5000 is not a token"),
        ({"bad_words_ids": [[2]]}, "2 ends texts, so transformers ignores it"),
    ],
)
def test_tokens_that_a_model_does_not_have_are_refused(settings, message, random_model):
    """Tokens beyond the vocabulary, and a forbidden end that `generate` would write, are named."""
    with pytest.raises(ConfigError, match=message):
        lc.load(random_model("llama"), decoding=settings)


def test_a_text_after_which_every_token_is_cut_is_named(random_model):
    """A decoding that leaves no token is refused with the text, whether or not it samples."""
    model = lc.load(random_model("llama"))
    everything = list(range(model.vocabulary_size))
    for more in ({}, {"do_sample": False}, {"top_p": 0.5}):
        decoding = {"suppress_tokens": everything, **more}
        with pytest.raises(InvalidDistribution, match="excludes all tokens after 'The player"):
            lc.grow(model, START, alpha=1, k=5, length=1, decoding=decoding)


@pytest.mark.parametrize("settings", ["greedy", {"top_k": 3}, {"top_p": 0.5}], ids=str)
@pytest.mark.parametrize("damage", [float("nan"), float("inf"), float("-inf")])
def test_damaged_logits_stay_damaged(settings, damage, random_model):
    """Decoding makes no distribution of logits that are none, not even where it takes the best."""
    model = apply_decoding(load_model(random_model("llama")), parse_decoding(settings))
    with torch.no_grad():
        model.network.lm_head.weight[:, :] = damage
    with pytest.raises(InvalidDistribution, match=r"logits in .* are not finite"):
        build_tree(model, START, Truncation(1.0, 5, 2))


def test_only_causal_models_that_run_here_are_decoded(random_model):
    """Masked models and tables are refused by name, and no decoding leaves them as they are."""
    masked = lc.load(random_model("bert"))
    table = lc.TableModel(["a", "b"], lambda text: [0.5, 0.5])
    for model in (masked, table):
        with pytest.raises(
            ConfigError, match=f"decoding: {model.name} is not a local causal model"
        ):
            lc.grow(model, "a", alpha=1, k=2, length=1, decoding="greedy")
        assert apply_decoding(model, None) is model


def test_a_model_can_be_asked_with_several_decodings(random_model):
    """A tree's own decoding replaces that of its model, which keeps it."""
    greedy = lc.load(random_model("llama"), decoding="greedy")
    plain = lc.load(random_model("llama"))
    settings = {"alpha": 0.9, "k": 4, "length": 2}
    free = lc.grow(greedy, START, **settings, decoding={"temperature": 1.0})
    assert free.digest == lc.grow(plain, START, **settings).digest
    assert len(lc.grow(greedy, START, **settings)) == 3
    assert len(lc.grow(plain, START, **settings, decoding="greedy")) == 3


def test_published_settings_are_read_from_the_file(tmp_path, random_model):
    """They come from the generation_config.json that lies with the weights."""
    model = load_model(random_model("llama"))
    model.network.generation_config.update(do_sample=True, temperature=0.4, top_k=7)
    model.network.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "generation_config.json").read_text())["top_k"] == 7
    found = lc.load(tmp_path, decoding="as_published").decoder.decoding
    assert found == Decoding(temperature=0.4, top_k=7)
    assert replace(found, top_k=0) == Decoding(temperature=0.4)
