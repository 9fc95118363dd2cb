"""Language models: loading, tokens and texts, and answers that depend on nothing but the text."""

import numpy as np
import pytest
import torch
from helpers.random_models import ARCHITECTURES, CAUSAL
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from llmchecker.errors import UnusableModel, UnusableText
from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.load import load_model, wrap_model

ANY_TEXT = [
    "The player won because",
    "",
    'She said "yes"\nand \t left',
    "🙂 the 日本 игрок won",
]


def all_rows(continuations, suffixes, extended=False) -> torch.Tensor:
    return torch.cat(
        list(
            continuations.map_next(
                lambda _, part: part.probabilities(), np.array(suffixes), extended
            )
        )
    )


def kind_of(architecture: str) -> str:
    return "masked" if architecture == "bert" else "causal"


@pytest.mark.few(3)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_distributions_are_the_float64_softmax_of_one_plain_pass(architecture, random_model):
    """After any suffix the answer is the softmax of one unbatched, uncached pass, in float64."""
    model = load_model(random_model(architecture), kind_of(architecture))
    prompt = model.encode("The player won because")
    suffixes = np.array([[7, 11], [9, 5], [7, 30]])
    rows = all_rows(model.open_prefix(prompt), suffixes)
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


@pytest.mark.few(6)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("text", ANY_TEXT)
def test_any_text_is_a_prompt(architecture, text, random_model):
    """Empty, quoted, multi-line and non-Latin texts give at least one token and a distribution."""
    model = load_model(random_model(architecture), kind_of(architecture))
    prompt = model.encode(text)
    assert len(prompt) >= 1
    row = all_rows(model.open_prefix(prompt), np.empty((1, 0), dtype=np.int64))[0]
    assert row.sum().item() == pytest.approx(1, abs=1e-12)


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_decoding_many_is_decoding_each(architecture, random_model):
    """Texts decoded at once are what the tokenizer's own decoding gives for each."""
    model = load_model(random_model(architecture), kind_of(architecture))
    many = np.random.default_rng(0).integers(0, model.vocabulary_size, (50, 6)).tolist()
    plain = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    assert model.decode(many) == [model.tokenizer.decode(text, **plain) for text in many]


@pytest.mark.few(6)
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
    row = all_rows(model.open_prefix((4, 3)), np.array([[5]]))[0]
    assert row.dtype == torch.float64


def test_table_model_reads_its_longest_tokens():
    """A table model splits a text into its longest tokens and joins them again."""
    model = TableModel(["a", "ab", "b"], lambda tokens: [1 / 3] * 3)
    assert model.encode("abb") == (1, 2)
    assert model.decode([(1, 2), (0,)]) == ["abb", "a"]
    with pytest.raises(ValueError, match="no token"):
        model.encode("c")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_special_tokens_in_a_text_are_text(architecture, random_model):
    """Somebody who types what looks like a special token has typed text, and finds it again."""
    model = load_model(random_model(architecture), kind_of(architecture))
    before = model.encode("")
    own = set(before) if architecture != "gpt2" else set()
    for special in model.tokenizer.all_special_tokens:
        tokens = model.encode(f"the {special} player")
        found = set(tokens) & set(model.tokenizer.all_special_ids)
        assert found <= own | {model.tokenizer.unk_token_id}
        (text,) = model.decode([tokens])
        if architecture == "bert":  # whose words are split at punctuation and have no capitals
            assert model.tokenizer.unk_token_id in tokens or special[1:-1].lower() in text
        else:
            assert text == f"the {special} player"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_tokens_before_a_text_stay(architecture, random_model):
    """What the tokenizer itself puts before a text is still there when special tokens are text."""
    model = load_model(random_model(architecture), kind_of(architecture))
    begins = {"bert": model.tokenizer.cls_token_id, "gpt2": None}
    begin = begins.get(architecture, model.tokenizer.bos_token_id)
    tokens = model.encode("<s> the player")
    assert tokens.count(begin) == (begin is not None)
    assert begin is None or tokens[0] == begin


def test_a_tokenizer_that_cannot_read_text_as_text_is_refused(random_model):
    """Where a whole word is a special token in any case, it is refused by name."""
    words = ["[UNK]", "[PAD]", "</s>", "the", "player", "won"]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]", eos_token="</s>"
    )
    model = wrap_model(load_model(random_model("llama")).network, tokenizer, name="words")
    assert model.encode("the player won") == (3, 4, 5)
    with pytest.raises(UnusableText, match=r"words: .* 'the </s> player' .* '</s>'"):
        model.encode("the </s> player")


def test_a_tokenizer_of_another_model_is_refused(random_model):
    """A tokenizer with tokens that the network does not know is refused, and both sizes named."""
    network = load_model(random_model("bert"), "masked").network
    tokenizer = load_model(random_model("llama")).tokenizer
    with pytest.raises(UnusableModel, match=r"tokenizer: .* more tokens than the network"):
        wrap_model(network, tokenizer)


def test_a_masked_model_needs_a_mask(random_model):
    """A tokenizer without a mask cannot say where a masked model is to be read."""
    network = load_model(random_model("llama")).network
    with pytest.raises(UnusableModel, match="no mask_token"):
        wrap_model(network, load_model(random_model("llama")).tokenizer, "masked")


def test_a_loaded_network_answers_as_its_directory_does(random_model):
    """Wrapped by its caller or loaded from its directory, a model gives the same bits."""
    directory = random_model("llama")
    network = AutoModelForCausalLM.from_pretrained(directory).train()
    wrapped = wrap_model(network, AutoTokenizer.from_pretrained(directory))
    assert wrapped.name == str(directory)
    suffixes = np.array([[7, 11], [9, 5]])
    one, other = (
        all_rows(model.open_prefix(model.encode("The player")), suffixes)
        for model in (wrapped, load_model(directory))
    )
    assert torch.equal(one, other)
