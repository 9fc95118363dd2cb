"""Continuations that a server samples: requests, lists, and servers that sample otherwise."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from helpers.fake_server import FakeServer, running
from helpers.random_tables import END, START
from helpers.served_models import DIALECTS, QUICK, TOLD, connected, continue_texts, fake

import llmchecker as lc
from llmchecker.checking.anytime.answer_process import AnswerProcess
from llmchecker.checking.anytime.anytime_run import AnytimeRun
from llmchecker.checking.anytime.prompt_reader import answer_step
from llmchecker.checking.anytime.step_request import ContinuationRequest
from llmchecker.checking.budget import Budget
from llmchecker.errors import InterruptedCheck, InvalidDistribution, LLMCheckerError
from llmchecker.models.continuation import Continuation, ContinuationTask
from llmchecker.models.servers.sampling_test import SamplingTest
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern


def check_continuation(
    server: FakeServer, task: ContinuationTask, continuation: Continuation
) -> None:
    """Demand that a continuation may be that of a task, with the table's lists."""
    tokens, text = continuation.tokens.tolist(), [*server.model.encode(START), *task.tokens]
    assert 1 <= len(tokens) <= task.max_tokens
    assert len(continuation.listed_tokens) == len(tokens) - bool(task.excluded)
    assert not task.excluded or tokens[0] not in task.excluded
    for position, (listed, probabilities) in enumerate(
        zip(continuation.listed_tokens, continuation.probabilities, strict=True),
        start=len(tokens) - len(continuation.listed_tokens),
    ):
        chances = list(server.model.distribution((*text, *tokens[:position])))
        assert [chances[t] for t in listed] == pytest.approx(probabilities.tolist(), abs=1e-12)
        assert probabilities.tolist() == pytest.approx(sorted(chances)[::-1][:TOLD], abs=1e-12)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("partial", [(), ("b", "d")])
def test_continuations_have_the_lists_of_their_positions(tmp_path, dialect, partial):
    """Each task gets a continuation of its text with the table's lists, in order; also where
    llama.cpp lists nothing for parts of characters."""
    server = fake(tmp_path, dialect)
    server.partial = set(partial)
    tasks = [
        *[ContinuationTask((), 4, seed) for seed in range(100, 106)],
        ContinuationTask((1, 0), 2, 106),
        ContinuationTask((1,), 3, 107, (0, 2), 207),
        ContinuationTask((1,), 1, 108, (0, 2), 208),
    ]
    random.Random(0).shuffle(tasks)
    with running(server) as address:
        model = connected(tmp_path, server, address, seconds=5)
        found = list(continue_texts(model.open_prefix(model.encode(START)), tasks))
    for task, continuation in zip(tasks, found, strict=True):
        check_continuation(server, task, continuation)
    texts = {tuple(c.tokens) for t, c in zip(tasks, found, strict=True) if t.max_tokens == 4}
    assert len(texts) > 3
    # vLLM continues one text several times in one request
    requests = [each for each in server.drawn if each.get("n", 1) > 1]
    assert [each["n"] for each in requests] == ([6] if dialect == "vllm" else [])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_seed_determines_a_continuation_and_another_does_not(tmp_path, dialect):
    """The same tasks give the same tokens whatever they are requested with, other seeds others."""
    server = fake(tmp_path, dialect)
    with running(server) as address:
        model = connected(tmp_path, server, address, seconds=5)
        prefix = model.open_prefix(model.encode(START))

        def sample(seeds) -> list[list[int]]:
            tasks = [ContinuationTask((), 8, seed) for seed in seeds]
            return [each.tokens.tolist() for each in continue_texts(prefix, tasks)]

        together = sample(range(40, 60))
        assert sample([59, 47]) == [together[19], together[7]]
        assert sample(range(140, 160)) != together


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("temperature", [0.1, 0.6, 2.0])
def test_a_server_that_samples_at_another_temperature_is_noticed(tmp_path, dialect, temperature):
    """A check by a server whose tokens do not follow its probabilities ends with an error."""
    server = fake(tmp_path, dialect)
    server.temperature = temperature
    with running(server) as address:
        model = connected(tmp_path, server, address, seconds=5)
        tasks = [ContinuationTask((), 12, seed) for seed in range(2000)]
        answers = continue_texts(model.open_prefix(model.encode(START)), tasks)
        # the server is left as soon as it is noticed
        with pytest.raises(InvalidDistribution, match="do not follow") as caught:
            list(answers)
    assert address in str(caught.value)


def test_a_check_ends_where_sampling_is_wrong(tmp_path):
    """The error reaches the caller of a check, with the answer so far."""
    server = fake(tmp_path, "vllm")
    server.temperature = 0.05
    with running(server) as address:
        model = connected(tmp_path, server, address, seconds=5)
        with pytest.raises(InterruptedCheck, match="do not follow"):
            lc.ask("P=? [ F b > 1 ]", model, START, length=8, passes=4000, b=count_b)


def count_b(start: str, continuation: str) -> int:
    return continuation.count("b")


def draw(generator: np.random.Generator, cells: np.ndarray, count: int) -> Continuation:
    """Return tokens of one distribution, whose last cell is not listed, with its list."""
    tokens = generator.choice(len(cells), size=count, p=cells)
    listed = np.tile(np.arange(len(cells) - 1), (count, 1))
    return Continuation(tokens, listed, np.tile(TRUE_CELLS[:-1], (count, 1)))


TRUE_CELLS = np.array([0.5, 0.25, 0.1, 0.05, 0.04, 0.06])


def test_a_server_that_samples_rightly_passes():
    """Of 100 honest servers with 2,000 tokens each, none is refused."""
    for seed in range(100):
        test = SamplingTest()
        test.add([draw(np.random.default_rng(seed), TRUE_CELLS, 2000)])


@pytest.mark.parametrize(
    "cells",
    [
        np.array([0.5, 0.25, 0.1, 0.05, 0.04, 0.0]) / 0.94,
        np.array([0.5, 0.25, 0.1, 0.05, 0.0, 0.0]) / 0.9,
        TRUE_CELLS**1.25 / (TRUE_CELLS**1.25).sum(),
        np.array([1.0, 0, 0, 0, 0, 0]),
    ],
    ids=["top-k", "top-p", "temperature 0.8", "greedy"],
)
def test_other_sampling_settings_are_noticed(cells):
    """Truncation, a temperature and the most probable token alone are noticed in 4,000 tokens."""
    test = SamplingTest()
    with pytest.raises(InvalidDistribution):
        test.add([draw(np.random.default_rng(0), cells, 4000)])


def _longer(server: FakeServer, answer):
    """An answer with more tokens than were requested."""
    entries = answer["choices"] if server.dialect == "vllm" else [answer]
    for entry in entries:
        holder = entry.get("logprobs", entry)
        lists = "top_logprobs" if server.dialect == "vllm" else "completion_probabilities"
        holder["tokens"] = holder["tokens"] * 9
        holder[lists] = holder[lists] * 9
    return answer


def _unlisted(server: FakeServer, answer):
    """An answer of vLLM without the list of the last position."""
    for choice in answer["choices"]:
        choice["logprobs"]["top_logprobs"].pop()
    return answer


def _silent(server: FakeServer, answer):
    """An answer without tokens."""
    for entry in answer["choices"] if server.dialect == "vllm" else [answer]:
        entry.get("logprobs", entry)["tokens"] = []
    return answer


def _unknown(server: FakeServer, answer):
    """An answer with a token outside the vocabulary."""
    for entry in answer["choices"] if server.dialect == "vllm" else [answer]:
        holder = entry.get("logprobs", entry)
        holder["tokens"][0] = f"token_id:{END + 1}" if server.dialect == "vllm" else END + 1
    return answer


def _fewer(server: FakeServer, answer):
    """An answer of vLLM with a choice less than requested."""
    return answer | {"choices": answer["choices"][:-1]}


@pytest.mark.parametrize(
    ("dialect", "fault"),
    [(dialect, fault) for dialect in DIALECTS for fault in (_longer, _silent, _unknown)]
    + [("vllm", _unlisted), ("vllm", _fewer)],
)
def test_a_wrong_continuation_is_refused(tmp_path, dialect, fault):
    """An answer with too many, no or unknown tokens, or without a list, names the server."""
    server = fake(tmp_path, dialect)
    with running(server) as address:
        model = connected(tmp_path, server, address, replace(QUICK, attempts=1), seconds=5)
        server.fault = fault
        prefix = model.open_prefix(model.encode(START))
        with pytest.raises(LLMCheckerError, match=address):
            list(continue_texts(prefix, [ContinuationTask((), 4, seed) for seed in (1, 2)]))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_expected_continuations_are_requested_once_and_in_advance(tmp_path, dialect):
    """A stream begins with the tasks of a later call, and that call requests them no second time;
    the continuations are those of a stream without expectations."""
    server = fake(tmp_path, dialect)
    now = [ContinuationTask((), 4, seed) for seed in range(100, 106)]
    later = [ContinuationTask((1,), 3, seed) for seed in range(200, 206)]
    with running(server) as address:
        model = connected(tmp_path, server, address, seconds=5)
        prefix = model.open_prefix(model.encode(START))
        with prefix.open_stream() as stream:
            first = list(stream.continue_texts(now, later))
            second = list(stream.continue_texts(later))
        requests = len(server.drawn)
        alone = [*continue_texts(prefix, now), *continue_texts(prefix, later)]
    assert len(server.drawn) == 2 * requests
    for found, expected in zip([*first, *second], alone, strict=True):
        assert found.tokens.tolist() == expected.tokens.tolist()


def test_a_check_requests_a_round_before_the_last_one_is_processed(tmp_path):
    """A check passes the tasks of the next round with those of the current one."""
    server, seen = fake(tmp_path, "vllm"), []
    asked = Property(parse("P=? [ F b > 2 ]"), {"b": Pattern("b", match="count")}, 8)
    with running(server) as address:
        model = connected(tmp_path, server, address, seconds=5)
        run = AnytimeRun(AnswerProcess(model, START, asked.length), asked, Budget(passes=600))
        requests, answer = run.check.run(), None
        with model.open_prefix(()).open_stream() as stream:
            while True:
                try:
                    request = requests.send(answer)
                except StopIteration:
                    break
                if isinstance(request, ContinuationRequest):
                    seen.append(request)
                    answer = list(
                        stream.continue_texts(request.prompted, request.expected_prompted)
                    )
                else:
                    prefix = model.open_prefix(model.encode(START))
                    answer = answer_step(prefix, request, np.arange(len(request.continuations)))
    followed = [
        a.expected.continuations == b.continuations
        for a, b in itertools.pairwise(seen)
        if a.expected
    ]
    assert sum(followed) >= 3
