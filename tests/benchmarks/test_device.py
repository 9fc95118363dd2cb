"""A run on a tiny random network measures every figure, and random networks resemble real ones."""

import json
import math

import device
import pytest
import torch
from helpers.figure_names import find_mismatches
from random_llama import LOGIT_DEVIATION, SHAPES, START, build_network, make_tokenizer

import llmchecker as lc

TINY = ["--device", "cpu", "--dtype", "float32", "--shape", "tiny", "--tokenizer", device.MADE]


@pytest.fixture(scope="module")
def tokenizer():
    """The tokenizer that is made for the tiny shape."""
    return make_tokenizer(SHAPES["tiny"].vocabulary)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What a quick run on the processor writes."""
    output = tmp_path_factory.mktemp("device") / "device.json"
    device.main([*TINY, "--quick", "--output", str(output)])
    return json.loads(output.read_text(encoding="utf-8"))


@pytest.mark.long
def test_a_run_measures_every_defined_figure_and_no_other(written):
    """Each figure is finite and has a definition, and each definition has a figure."""
    assert not find_mismatches(written["figures"], device.DEFINITIONS)
    assert all(math.isfinite(value) for value in written["figures"].values())


@pytest.mark.long
def test_a_run_names_its_device(written):
    """The file contains what the figures depend on."""
    assert written["device"]
    assert (written["shape"], written["dtype"], written["tokenizer"]) == ("tiny", "float32", "made")


def test_shares_are_quotients_of_figures(written):
    """A share is the quotient of the two figures that its definition names."""
    figures = written["figures"]
    for share, part, whole in (
        ("grow.share_of_network", "grow.texts_per_second", "network.texts_per_second"),
        ("check.L2.share_of_generate", "check.L2.passes_per_second", "generate.tokens_per_second"),
        ("prompt.share_of_short", "prompt.passes_per_second", "check.L3.passes_per_second"),
        ("widths.L2.width_ratio", "widths.L2.check_width", "widths.L2.plain_width"),
    ):
        assert figures[share] == pytest.approx(figures[part] / figures[whole])


def test_a_whole_tree_of_two_steps_has_ten_internal_texts(written):
    """With alpha 1 and k 9, one text has nine children before the horizon of two tokens."""
    assert written["figures"]["grow.texts"] == 10


def test_a_part_alone_is_measured(tmp_path, capsys):
    """`--only` measures one part, and leaves out shares of other parts."""
    output = tmp_path / "device.json"
    device.main([*TINY, "--quick", "--only", "grow", "--output", str(output)])
    figures = json.loads(output.read_text(encoding="utf-8"))["figures"]
    parts = {name.partition(".")[0] for name in figures}
    assert parts == {"parameters", "tokens", "weights_gb", "grow"}
    assert "grow.share_of_network" not in figures
    assert "grow.texts_per_second" in capsys.readouterr().out


def test_a_made_tokenizer_is_always_the_same(tokenizer):
    """It has the requested number of tokens, and two of them are equal."""
    assert len(tokenizer) == SHAPES["tiny"].vocabulary
    assert make_tokenizer(len(tokenizer)).get_vocab() == tokenizer.get_vocab()


def test_a_made_tokenizer_can_write_gendered_texts(tokenizer):
    """Common gender words are single tokens, and every text survives a round trip."""
    for word in (" he", " she", " him"):
        assert len(tokenizer.encode(word)) == 1
        assert lc.Gender()(START, word) != 0
    text = f"{START} he said: \u00e9t\u00e9 \U0001f600 2026!"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_logits_of_a_random_network_have_the_deviation_of_real_ones(tokenizer):
    """Over many texts, logits deviate by `LOGIT_DEVIATION` within a tenth."""
    network = build_network(SHAPES["tiny"], tokenizer)
    ids = torch.randint(len(tokenizer), (8, 6), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        logits = network(ids).logits
    assert float(logits.std()) == pytest.approx(LOGIT_DEVIATION, rel=0.1)
