"""The evaluation on an accelerator, which a processor pretends to be."""

import numpy as np
import pytest
import torch
from helpers.pretended_accelerator import pretend_accelerators
from helpers.random_models import CAUSAL, word_piece
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from llmchecker.errors import InvalidDistribution, MachineLimit, UnusableModel
from llmchecker.models.device import compute_running_sums
from llmchecker.models.distribution import Distributions
from llmchecker.models.transformers import batch_invariance, batch_size, batching, key_values
from llmchecker.models.transformers.load import load_model, wrap_model

TEXTS = np.random.default_rng(0).integers(5, 100, (300, 3))
LOGITS = torch.tensor(np.random.default_rng(1).normal(0, 4, (6, 9_000)), dtype=torch.float32)


@pytest.fixture
def accelerator(monkeypatch):
    """A pretended accelerator with small batches, for speed."""
    monkeypatch.setattr(batch_invariance, "MAX_ROWS", 16)
    monkeypatch.setattr(batch_size, "_measured_rows", {})
    monkeypatch.setattr(batch_size, "_MAX_ACCELERATOR_ROWS", 64)
    with pretend_accelerators(2) as accelerators:
        yield accelerators


def probabilities(model, texts=TEXTS[:100], prompt=(7, 8, 9)) -> list[torch.Tensor]:
    """The probabilities after one token, two tokens, and so on, of each text."""
    prefix = model.open_prefix(prompt, texts.shape[1])
    return [
        torch.cat(list(prefix.map_next(lambda _, part: part.probabilities(), level, True))).cpu()
        for level in (texts[:, :depth] for depth in range(texts.shape[1] + 1))
    ]


def assert_close(some, others, tolerance=1e-6) -> None:
    for one, other in zip(some, others, strict=True):
        assert (one - other).abs().max() < tolerance


def network(**settings) -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    config = LlamaConfig(**sizes, num_hidden_layers=2, vocab_size=len(word_piece()), **settings)
    return LlamaForCausalLM(config).eval().to("cuda:0")


def test_an_accelerator_computes_the_same_softmax(accelerator):
    """A single pass gives the probabilities, most probable tokens and samples of a processor."""
    found = Distributions.from_logits(LOGITS.to("cuda:0"))[1:]
    exact = LOGITS[1:].double().softmax(1)
    assert torch.allclose(found.probabilities().cpu(), exact, rtol=0, atol=1e-15)
    top, tokens = (column.cpu() for column in found.top_k(5))
    assert torch.allclose(top, exact.topk(5).values, rtol=0, atol=1e-15)
    assert torch.equal(tokens, exact.topk(5).indices)
    numbers = np.linspace(0, 0.999, 50)
    expected = [
        int(torch.searchsorted(exact[2].cumsum(0), number, right=True)) for number in numbers
    ]
    assert found.sample_by_inversion(2, numbers).tolist() == expected


@pytest.mark.parametrize("k", [1, 5, 40])
def test_an_accelerator_orders_equal_probabilities_by_token(accelerator, k):
    """Among equal ones the smallest ids are listed, with as many waits for any number of texts."""
    waits = []
    for texts in (1, 6):
        # few values, and most tokens truncated
        logits = LOGITS[:texts, :300].round().masked_fill(LOGITS[:texts, :300] < 4, -torch.inf)
        expected = logits.sort(dim=1, descending=True, stable=True).indices[:, :k]
        distributions = Distributions.from_logits(logits.to("cuda:0"))
        accelerator.reset()
        assert torch.equal(distributions.top_tokens(k).cpu(), expected)
        waits.append(accelerator.waits.total())
    assert waits[0] == waits[1]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_an_accelerator_finds_invalid_logits(accelerator, value):
    """A row with a logit that is not finite is found, and one without probable tokens too."""
    logits = LOGITS.to("cuda:0")
    logits[3, 8_999] = value
    assert Distributions.from_logits(logits).find_invalid_row() == 3
    logits[2] = -torch.inf
    assert Distributions.from_logits(logits).find_invalid_row() == 2
    logits = LOGITS.to("cuda:0")
    logits[3, 8_999] = -torch.inf
    assert Distributions.from_logits(logits).find_invalid_row() is None


def test_chunks_follow_from_the_memory_of_an_accelerator(accelerator):
    """All rows are one chunk, or as many as fit into half of the free memory."""
    logits = LOGITS.to("cuda:0")
    assert [len(chunk) for _, chunk in batching.iter_chunks(logits, 6)] == [6]
    accelerator.free_bytes = 2 * 5 * 64 * 9_000
    assert [(first, len(chunk)) for first, chunk in batching.iter_chunks(logits, 6)] == [
        (0, 5),
        (5, 1),
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", CAUSAL)
def test_an_accelerator_gives_the_same_distributions(architecture, random_model, request):
    """Batches without padding, growing tables and a shared prompt change rounding at most."""
    prompt = np.random.default_rng(2).integers(5, 100, 40).tolist()
    expected = probabilities(load_model(random_model(architecture)), prompt=prompt)
    accelerator = request.getfixturevalue("accelerator")
    request.getfixturevalue("monkeypatch").setattr(key_values, "_FIRST_ROWS", 4)
    model = load_model(random_model(architecture), threads=3, device="cuda")
    assert (model.executor.threads, model.executor.min_rows, model.shared_from) == (1, 8, 32)
    assert model.devices == {torch.device("cuda:0")}
    assert_close(probabilities(model, prompt=prompt), expected)
    assert not accelerator.nondeterministic


@pytest.mark.long
def test_a_network_on_two_accelerators_gives_the_same_distributions(random_model, accelerator):
    """Layers, keys and values may be on several devices, and no operation mixes them."""
    expected = probabilities(load_model(random_model("llama")))
    parts = {"embed_tokens": 0, "rotary_emb": 0, "layers.0": 0, "layers.1": 1, "norm": 1}
    device_map = {f"model.{part}": f"cuda:{index}" for part, index in parts.items()}
    spread = AutoModelForCausalLM.from_pretrained(
        random_model("llama"), device_map={**device_map, "lm_head": "cuda:1"}
    )
    model = wrap_model(spread, AutoTokenizer.from_pretrained(random_model("llama")))
    assert model.devices == {torch.device("cuda:0"), torch.device("cuda:1")}
    assert not model.is_uncached
    assert_close(probabilities(model), expected)


@pytest.mark.long
def test_an_accelerator_without_float64_gives_the_same_distributions(random_model, accelerator):
    """A GPU of Apple computes logits, and the processor their probabilities."""
    expected = probabilities(load_model(random_model("gpt2")))
    model = load_model(random_model("gpt2"), device="mps")
    assert model.devices == {torch.device("mps:0")}
    assert_close(probabilities(model), expected)


def test_running_sums_have_a_fixed_order(accelerator):
    """They are those of `cumsum`, without it, and a value of 0 changes no sum."""
    random = np.random.default_rng(3)
    for columns in (1, 2, 7, 64, 1000):
        values = random.random((3, columns)) * (random.random((3, columns)) < 0.5)
        sums = compute_running_sums(torch.from_numpy(values).to("cuda:0")).cpu().numpy()
        assert np.allclose(sums, values.cumsum(axis=1), rtol=1e-14, atol=0)
        assert (np.diff(sums, axis=1) >= 0).all()
        assert (np.diff(sums, axis=1)[values[:, 1:] == 0] == 0).all()
    assert not accelerator.nondeterministic


def test_weights_are_read_to_the_device(accelerator, random_model, monkeypatch):
    """transformers places the weights itself, so that they are not copied from the processor."""
    read, maps = AutoModelForCausalLM.from_pretrained, []

    def from_pretrained(*given, **settings):
        maps.append(settings["device_map"])
        return read(*given, **settings)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", from_pretrained)
    load_model(random_model("llama"), device="cuda")
    assert maps == [{"": "cuda"}]


@pytest.mark.long
def test_memory_that_runs_out_makes_batches_smaller(accelerator, monkeypatch):
    """A batch that does not fit is computed in halves, with every row once and in order."""
    monkeypatch.setattr(batch_size, "_measure_seconds", lambda *_: 1.0)
    monkeypatch.setattr(batch_size, "_MAX_ACCELERATOR_ROWS", 4096)
    model = wrap_model(network(), word_piece())
    expected = probabilities(model, TEXTS)
    sizes = []

    def limit(module, given, settings):
        sizes.append(len(settings["input_ids"]))
        if sizes[-1] > 40:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    model.network.base_model.register_forward_pre_hook(limit, with_kwargs=True)
    assert_close(probabilities(model, TEXTS), expected)
    too_large = [size for size in sizes if size > 40]
    assert too_large[0] == 304
    # a size that failed is not tried for the next batch
    assert too_large == sorted(set(too_large), reverse=True)
    assert model.executor.max_rows <= 40
    rows = np.concatenate(list(model.open_prefix((7,)).map_next(lambda rows, _: rows, TEXTS)))
    assert rows.tolist() == list(range(len(TEXTS)))


@pytest.mark.parametrize("min_rows", [1, 5])
def test_a_device_that_is_too_small_is_named(accelerator, min_rows):
    """If not even the smallest batch fits, the error names the device and its free memory."""
    model = wrap_model(network(), word_piece())

    def fail(module, given, settings):
        if len(settings["input_ids"]) >= min_rows:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    model.network.base_model.register_forward_pre_hook(fail, with_kwargs=True)
    accelerator.free_bytes = 3 * 10**8
    with pytest.raises(MachineLimit, match=r"device cuda:0, 0\.3 GB free: too little memory for"):
        probabilities(model)


def test_a_device_that_is_too_small_is_no_fault_of_the_model(accelerator):
    """Memory that runs out in the trial passes does not make a model unusable."""
    tiny = network()

    def fail(module, given, settings):
        if len(settings["input_ids"]) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    tiny.base_model.register_forward_pre_hook(fail, with_kwargs=True)
    with pytest.raises(MachineLimit, match="too little memory"):
        wrap_model(tiny, word_piece())


@pytest.mark.long
@pytest.mark.parametrize(
    ("seconds", "rows"),
    [
        # times that a large model took on a GPU, for 64, 128, … rows
        ([18, 18.5, 19, 22, 33, 64], 1024),
        ([1, 2], 64),
        ([1] * 9, 4096),
    ],
)
def test_the_batch_is_the_one_beyond_which_time_doubles(accelerator, monkeypatch, seconds, rows):
    """Batches double while this costs less than nearly twice the time; the size is recorded."""
    monkeypatch.setattr(batch_size, "_MAX_ACCELERATOR_ROWS", 4096)
    times = iter(seconds)
    monkeypatch.setattr(batch_size, "_measure_seconds", lambda *_: next(times))
    assert wrap_model(network(), word_piece()).executor.max_rows == rows
    # the same shape is not measured again, but another is
    assert wrap_model(network(), word_piece()).executor.max_rows == rows
    monkeypatch.setattr(batch_size, "_measure_seconds", lambda *_: 1.0)
    assert wrap_model(network(rope_theta=5), word_piece()).executor.max_rows == 4096


@pytest.mark.long
def test_batches_that_change_their_bits_are_refused(accelerator):
    """On an accelerator too, equal batches must have equal bits."""
    tiny, calls = network(), []

    def change(module, given, logits):
        calls.append(1)
        return logits * (1 + 1e-6 * len(calls))

    tiny.lm_head.register_forward_hook(change)
    with pytest.raises(UnusableModel, match="returns other bits"):
        wrap_model(tiny, word_piece())


@pytest.mark.long
def test_batches_that_confuse_their_rows_are_not_used(accelerator):
    """A network whose logits in a batch are others than alone reads one text at a time."""
    tiny = network()
    tiny.lm_head.register_forward_hook(lambda module, given, found: found * (1 + len(found) // 2))
    assert wrap_model(tiny, word_piece()).executor.max_rows == 1


def test_invalid_logits_on_an_accelerator_are_refused(accelerator):
    """Weights that are not finite are found as on a processor."""
    tiny = network()
    with torch.no_grad():
        tiny.lm_head.weight[3] = torch.nan
    with pytest.raises(InvalidDistribution):
        wrap_model(tiny, word_piece())
