"""Language models: loading, tokens and texts, and answers that depend on nothing but the text."""

import numpy as np
import pytest
import torch
from helpers.random_models import ARCHITECTURES, CAUSAL

from llmchecker.errors import UnusableModel
from llmchecker.models.distributions import Distributions
from llmchecker.models.loading import load_model
from llmchecker.models.table import TableModel

ANY_TEXT = [
    "The player won because",
    "",
    'She said "yes"\nand \t left',
    "🙂 the 日本 игрок won",
]


def all_rows(continuations, suffixes, extended=False) -> torch.Tensor:
    return torch.cat(
        list(continuations.map(Distributions.probabilities, np.array(suffixes), extended))
    )


def kind_of(architecture: str) -> str:
    return "masked" if architecture == "bert" else "causal"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_distributions_are_the_float64_softmax_of_one_plain_pass(architecture, random_model):
    """After any suffix the answer is the softmax of one unbatched, uncached pass, in float64."""
    model = load_model(random_model(architecture), kind_of(architecture))
    prompt = model.encode("The player won because")
    suffixes = np.array([[7, 11], [9, 5], [7, 30]])
    rows = all_rows(model.continuations(prompt), suffixes)
    assert rows.dtype == torch.float64
    for suffix, row in zip(suffixes.tolist(), rows, strict=True):
        text = [*prompt, *suffix]
        if architecture == "bert":
            text += [model.tokenizer.mask_token_id, model.tokenizer.sep_token_id]
        with torch.inference_mode():
            logits = model.network(input_ids=torch.tensor([text])).logits[0]
        logits = logits[-2 if architecture == "bert" else -1]
        expected = torch.softmax(logits.double(), dim=-1)
        torch.testing.assert_close(row, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("text", ANY_TEXT)
def test_any_text_is_a_prompt(architecture, text, random_model):
    """Empty, quoted, multi-line and non-Latin texts give at least one token and a distribution."""
    model = load_model(random_model(architecture), kind_of(architecture))
    prompt = model.encode(text)
    assert len(prompt) >= 1
    row = all_rows(model.continuations(prompt), np.empty((1, 0), dtype=np.int64))[0]
    assert row.sum().item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_decoding_many_is_decoding_each(architecture, random_model):
    """Texts decoded at once are what the tokenizer's own decoding gives for each."""
    model = load_model(random_model(architecture), kind_of(architecture))
    many = np.random.default_rng(0).integers(0, model.vocabulary_size, (50, 6)).tolist()
    plain = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    assert model.decode(many) == [model.tokenizer.decode(text, **plain) for text in many]


@pytest.mark.parametrize("architecture", CAUSAL)
@pytest.mark.parametrize("text", ANY_TEXT)
def test_decoding_gives_back_the_prompt(architecture, text, random_model):
    """Decoding a causal model's prompt gives back the text."""
    model = load_model(random_model(architecture))
    (decoded,) = model.decode([model.encode(text)])
    assert decoded == text


def test_masked_models_read_before_the_separator(random_model):
    """A masked model's prompt has no closing separator: the mask stands where the text goes on."""
    model = load_model(random_model("bert"), "masked")
    prompt = model.encode("the player")
    assert prompt[0] == model.tokenizer.cls_token_id
    assert model.tokenizer.sep_token_id not in prompt


def test_end_tokens_come_from_the_model(random_model):
    """The end of a text is the model's own end-of-sequence token, for BERT its separator."""
    llama, bert = load_model(random_model("llama")), load_model(random_model("bert"), "masked")
    assert llama.end_tokens == {llama.tokenizer.eos_token_id}
    assert bert.end_tokens == {bert.tokenizer.sep_token_id}


def test_pickled_weights_are_not_loaded(tmp_path, random_model):
    """A directory whose weights are a pickle is refused, whatever else it holds."""
    source = random_model("llama")
    for file in source.iterdir():
        if file.suffix == ".json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UnusableModel, match="does not load as a causal model"):
        load_model(tmp_path)


def test_dtype_is_obeyed(random_model):
    """A model asked for in bfloat16 holds bfloat16 weights, and its answers are float64 still."""
    model = load_model(random_model("llama"), dtype="bfloat16")
    assert model.network.dtype == torch.bfloat16
    row = all_rows(model.continuations((4, 3)), np.array([[5]]))[0]
    assert row.dtype == torch.float64


def test_table_model_reads_its_longest_tokens():
    """A table model splits a text into its longest tokens and joins them again."""
    model = TableModel(["a", "ab", "b"], lambda tokens: [1 / 3] * 3)
    assert model.encode("abb") == (1, 2)
    assert model.decode([(1, 2), (0,)]) == ["abb", "a"]
    with pytest.raises(ValueError, match="no token"):
        model.encode("c")
