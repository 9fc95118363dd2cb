"""Answers depend on the text alone: not on batches, threads, memory or what was asked before."""

import numpy as np
import pytest
import torch
from helpers.random_models import ARCHITECTURES, CAUSAL

from llmchecker.errors import UnusableText
from llmchecker.models.transformers.batching import MAX_ROWS, MIN_ROWS, BatchExecutor
from llmchecker.models.transformers.load import load_model

KIND = {"bert": "masked"}


def answers(continuations, suffixes, extended=False) -> torch.Tensor:
    return torch.cat(
        list(
            continuations.map_next(
                lambda _, part: part.probabilities(), np.array(suffixes), extended
            )
        )
    )


def opened(directory, architecture="llama", **settings):
    model = load_model(directory, KIND.get(architecture, "causal"), **settings)
    return model.open_prefix(model.encode("The player"))


def levels(vocabulary: int) -> list[np.ndarray]:
    """Suffixes of one, two and three tokens, each level longer than a batch but the first."""
    random = np.random.default_rng(0)
    first = np.arange(5, 25)[:, np.newaxis]
    second = np.column_stack([np.repeat(first, 20, axis=0), random.integers(0, vocabulary, 400)])
    third = np.column_stack([np.repeat(second, 2, axis=0), random.integers(0, vocabulary, 800)])
    return [first, second, third]


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_company_changes_no_bit(architecture, random_model):
    """A text's answer is the same bits alone and among any number of others, wherever it stands."""
    continuations = opened(random_model(architecture), architecture)
    many = np.random.default_rng(0).integers(0, 100, (2 * MAX_ROWS + 3, 2))
    together = answers(continuations, many)
    for rows in ([0], [len(many) - 1], range(40, 57), range(100, 230), range(5, 200)):
        alone = answers(continuations, many[list(rows)])
        assert torch.equal(alone, together[list(rows)])


@pytest.mark.parametrize("rows", [1, 20, 2 * MIN_ROWS + 3])
def test_threads_that_share_a_batch_change_only_rounding(rows, random_model):
    """Small batches of all threads have equal bits in each run, and the values of one thread."""
    model = load_model(random_model("llama"), threads=2)
    prompt = model.encode("The player")
    suffixes = np.random.default_rng(0).integers(5, 100, (rows, 3))
    expected = answers(model.open_prefix(prompt), suffixes)
    found, repeated = (
        answers(model.open_prefix(prompt, batch_invariant=False), suffixes, extended)
        for extended in (False, True)
    )
    assert torch.equal(found, repeated)
    assert found.numpy() == pytest.approx(expected.numpy(), abs=1e-6)


def test_a_renamed_cache_argument_changes_no_bit(random_model):
    """A network whose argument is named `cache`, as in later versions, gives the same answers."""
    suffixes = levels(100)[1]
    model = load_model(random_model("llama"))
    expected = answers(model.open_prefix(model.encode("The player")), suffixes, True)
    renamed = load_model(random_model("llama"))
    original = renamed.network.forward

    def forward(input_ids, cache=None, logits_to_keep=0, **settings):
        return original(input_ids, past_key_values=cache, logits_to_keep=logits_to_keep, **settings)

    renamed.network.forward = forward
    found = answers(renamed.open_prefix(renamed.encode("The player")), suffixes, True)
    assert torch.equal(found, expected)


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_threads_change_no_bit(architecture, random_model):
    """One thread and three give the same bits in the same order."""
    one, three = (
        [answers(opened(random_model(architecture), architecture, threads=threads), level, True)]
        for threads in (1, 3)
        for level in levels(100)[1:2]
    )
    assert torch.equal(one[0], three[0])


@pytest.mark.few(1)
@pytest.mark.parametrize("architecture", CAUSAL)
@pytest.mark.parametrize("memory_bytes", [0, 100_000, 3_000_000])
def test_memory_changes_no_bit(architecture, memory_bytes, random_model):
    """With no memory but for a batch of the smallest shape, or with some, the bits are the same."""
    directory = random_model(architecture)

    def grown(memory):
        continuations = opened(directory, memory_bytes=memory, threads=2)
        return [answers(continuations, level, extended=True) for level in levels(100)]

    for one, other in zip(grown(memory_bytes), grown(10**9), strict=True):
        assert torch.equal(one, other)


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", CAUSAL)
def test_beginnings_that_were_never_asked_for(architecture, random_model):
    """Long suffixes asked for at once have the bits of those that were reached step by step."""
    directory = random_model(architecture)
    step_by_step = opened(directory)
    for level in levels(100):
        expected = answers(step_by_step, level, extended=True)
    last = levels(100)[-1]
    chosen = np.arange(0, len(last), 7)
    assert torch.equal(answers(opened(directory), last[chosen]), expected[chosen])


@pytest.mark.few(1)
@pytest.mark.parametrize("architecture", CAUSAL)
def test_reading_ahead_changes_no_bit_and_saves_passes(architecture, random_model):
    """Texts of several lengths that were read ahead have the bits of others, in fewer passes."""
    directory = random_model(architecture)
    texts = np.random.default_rng(2).integers(5, 100, (40, 7))
    lengths = np.arange(40) % 6 + 1
    found, passes = [], []
    for is_ahead in (False, True):
        continuations = opened(directory, threads=2)
        calls = []
        # each pass, with logits or without, runs the base model
        continuations._network.base_model.register_forward_hook(
            lambda *_, calls=calls: calls.append(1)
        )
        if is_ahead:
            continuations.read_ahead(
                [text[: n - 1].tolist() for text, n in zip(texts, lengths, strict=True)]
            )
        found.append(
            [answers(continuations, [text[:n]]) for text, n in zip(texts, lengths, strict=True)]
        )
        passes.append(len(calls))
    assert all(map(torch.equal, *found))
    # one pass for each length and text, and not for each token of each text
    assert passes[1] < 0.75 * passes[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("memory_bytes", [0, 100_000, 3_000_000])
def test_reading_ahead_without_memory_changes_no_bit(memory_bytes, random_model):
    """Texts that do not fit into memory are not stored, and have the same bits."""
    directory = random_model("llama")
    texts = np.random.default_rng(3).integers(5, 100, (300, 6))
    expected = answers(opened(directory), texts)
    continuations = opened(directory, memory_bytes=memory_bytes, threads=2)
    continuations.read_ahead([text[: i % 6].tolist() for i, text in enumerate(texts)])
    assert torch.equal(answers(continuations, texts), expected)


def test_reading_ahead_skips_texts_that_are_too_long(random_model):
    """A text beyond the model's positions is left out, and refused when it is asked about."""
    continuations = opened(random_model("gpt2"))
    continuations.read_ahead([[5, 6], [7] * 100_000])
    assert answers(continuations, [[5, 6]]).shape[0] == 1
    with pytest.raises(UnusableText):
        answers(continuations, [[7] * 100_000])


@pytest.mark.long
def test_bits_on_smollm2(smollm2):
    """On the real SmolLM2 batches, threads and memory change no bit either."""
    suffixes = np.random.default_rng(1).integers(0, 49_000, (MAX_ROWS + MIN_ROWS + 5, 1))
    many = answers(opened(smollm2, threads=2), suffixes)
    few = np.array([0, 3, 200, MAX_ROWS + 1, len(suffixes) - 1])
    assert torch.equal(answers(opened(smollm2, memory_bytes=0), suffixes[few]), many[few])
    assert torch.equal(answers(opened(smollm2), suffixes[:MAX_ROWS]), many[:MAX_ROWS])


@pytest.mark.parametrize("n", [1, 15, 16, 17, 100, 1000])
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("most", [0, 16, 70, 10**6])
def test_batches_hold_every_row_once(n, threads, most):
    """Batches follow one another, have room for their rows, and leave little of it empty."""
    executor = BatchExecutor(threads)
    cut = list(executor.split_rows(n, most))
    assert [first for first, _, _ in cut] == [0, *(behind for _, behind, _ in cut[:-1])]
    assert cut[-1][1] == n
    for first, behind, rows in cut:
        assert behind - first <= rows <= max(most, MIN_ROWS)
        assert MIN_ROWS <= rows <= MAX_ROWS
        assert rows % executor.row_step == 0
    assert sum(rows for _, _, rows in cut) - n < MIN_ROWS


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("n", [1000, 2724, 30_000])
def test_threads_are_done_together(n, threads):
    """Each thread has as many batches to compute, and all batches are about as large."""
    executor = BatchExecutor(threads)
    sizes = [rows for _, _, rows in executor.split_rows(n, 10**6)]
    assert len(sizes) % threads == 0
    assert max(sizes) - min(sizes) <= executor.row_step


def test_an_accelerator_pads_little():
    """An accelerator's batches have about the rows of their texts, and one thread starts them."""
    batches = BatchExecutor(8, "meta", max_rows=1024)
    assert list(batches.split_rows(1000, 10**6)) == [(0, 1000, 1000)]
    assert list(batches.split_rows(3, 10**6)) == [(0, 3, 8)]
    assert [rows for _, _, rows in batches.split_rows(3000, 10**6)] == [1000, 1000, 1000]
    assert batches.threads == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_batches_of_one_shape_answer_alike(dtype, random_model):
    """Computed as on a device that needs one shape, in either dtype, answers are what they were."""
    many = levels(100)
    usual = opened(random_model("llama"), dtype=dtype)
    fixed = opened(random_model("llama"), dtype=dtype)
    fixed._executor.min_rows = fixed._executor.row_step = MAX_ROWS
    for level in many:
        difference = answers(usual, level, True) - answers(fixed, level, True)
        assert difference.abs().max() < (1e-12 if dtype == "float32" else 1e-2)


@pytest.mark.parametrize("architecture", ["llama", "bert"])
def test_rows_are_the_positions_of_the_distributions(architecture, random_model):
    """A function gets each position once, in order, with the distribution of its continuation."""
    continuations = opened(random_model(architecture), architecture, threads=2)
    texts = np.random.default_rng(0).integers(0, 100, (2 * MAX_ROWS + 3, 2))
    parts = continuations.map_next(lambda rows, part: (rows, part.probabilities()), texts)
    rows, found = zip(*parts, strict=True)
    assert np.concatenate(rows).tolist() == list(range(len(texts)))
    assert all(len(part_rows) == len(part) for part_rows, part in zip(rows, found, strict=True))
    assert torch.equal(torch.cat(found), answers(continuations, texts))


def test_an_error_in_a_thread_reaches_the_caller(random_model):
    """What a function raises in a thread is raised where its results are asked for."""

    def failing(_, __):
        raise ZeroDivisionError

    continuations = opened(random_model("llama"))
    with pytest.raises(ZeroDivisionError):
        list(continuations.map_next(failing, np.array([[5]])))


def test_the_memory_that_is_kept_is_bounded(random_model):
    """Of a level much wider than memory allows, no more is kept than fits."""
    continuations = opened(random_model("llama"), memory_bytes=200_000)
    for level in levels(100):
        answers(continuations, level, extended=True)
    kept = continuations._key_value_store
    assert kept.nbytes <= 100_000
    assert len(kept) <= kept.capacity < len(levels(100)[-1])
