"""Models that return texts alone: the speed of requests, and the answers of a suite.

    python benchmarks/texts_alone.py

A stub on this machine answers after a fixed time. The suite is decided by answers of a random
number generator. Writes the figures to texts_alone.json.
"""

import argparse
import asyncio
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from llmchecker.checking.budget import Budget
from llmchecker.checking.runs import answer_side_by_side
from llmchecker.config.question import build_model_budget, resolve_query
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.servers.text_client import TextClient
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.models.text_answer import Finish, TextAnswer, TextStream
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.utils.atomic_files import write_json

LATENCY_SECONDS, CONNECTIONS, ANSWERS = 0.05, 64, 6_000
CASES, PASS_RATE, CONFIDENCE = 40, 0.95, 0.99
THRESHOLDS = (0.9, 0.85, 0.8)
RUNS = 5
_POWER = 0.9

DEFINITIONS = {
    "speed.answers_per_second": "answers a second of a client of 64 connections, of a stub that "
    "answers after 50 ms, on 40 prompts, from the first request to the last stored answer",
    "speed.bare_per_second": "the same of sockets that send one prepared request and count bytes",
    "speed.ratio_to_limit": "answers a second over the stub's limit of 64 / 0.05",
    "speed.ratio_to_bare": "answers a second over those of the sockets",
    "suite.{threshold}.answers": "requested answers until all of 40 cases with a pass rate of 0.95 "
    "and this threshold are decided, the mean of five runs",
    "suite.{threshold}.fixed_answers": "the least equal numbers for all cases with which exact "
    "binomial intervals of the same joint confidence decide all of them with probability 0.9",
    "suite.{threshold}.ratio": "the first over the second",
}

_BODY = json.dumps(
    {
        "model": "stub-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "yes"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2},
        "data": [{"id": "stub-1"}],
    }
).encode()
_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(prog="texts_alone.py", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--answers", type=int, default=ANSWERS, help="answers of the stub")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each suite")
    parser.add_argument("--stub", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stub:
        asyncio.run(_serve())
        return
    figures = measure_speed(options.answers)
    for threshold in THRESHOLDS:
        figures |= measure_suite(threshold, options.runs)
    options.output.mkdir(parents=True, exist_ok=True)
    write_json(
        {"definitions": DEFINITIONS, "figures": figures}, options.output / "texts_alone.json"
    )
    for name, value in figures.items():
        print(f"{name}: {value:.4g}")


def measure_speed(answers: int) -> dict[str, float]:
    """Measure answers a second of a client, and of bare sockets, next to the stub's limit."""
    command = [sys.executable, __file__, "--stub"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stub:
        try:
            assert stub.stdout is not None
            port = int(stub.stdout.readline())
            bare = asyncio.run(_measure_sockets(port, answers))
            speed = _measure_client(port, answers)
        finally:
            stub.kill()
    limit = CONNECTIONS / LATENCY_SECONDS
    return {
        "speed.answers_per_second": speed,
        "speed.bare_per_second": bare,
        "speed.ratio_to_limit": speed / limit,
        "speed.ratio_to_bare": speed / bare,
    }


def measure_suite(threshold: float, runs: int) -> dict[str, float]:
    """Measure the answers of a suite with a threshold, and those of tests of a fixed number."""
    error_probability = (1 - CONFIDENCE) / CASES
    budget = build_model_budget([("m", True)], answers=10_000, confidence=1 - error_probability)
    questions = [_Case(f"case {number}", threshold, budget) for number in range(CASES)]
    requested = 0
    for seed in range(runs):
        model = _Sampler(PASS_RATE, seed)
        outcomes = [outcome for _, outcome in answer_side_by_side(model, questions)]
        # a wrong or an open verdict would be no decision
        assert sum(getattr(outcome, "holds", None) is True for outcome in outcomes) == CASES
        requested += model.requested
    fixed = CASES * find_fixed_number(threshold, error_probability)
    name = f"suite.{threshold:g}"
    return {
        f"{name}.answers": requested / runs,
        f"{name}.fixed_answers": fixed,
        f"{name}.ratio": requested / runs / fixed,
    }


def find_fixed_number(threshold: float, error_probability: float) -> int:
    """Return the answers of a case with which exact intervals decide all cases, mostly."""
    for count in range(10, 20_000):
        passed = np.arange(1, count + 1)
        # Clopper and Pearson 1934: the lower end of the interval for each number of passes
        lower = stats.beta.ppf(error_probability / 2, passed, count - passed + 1)
        enough = passed[lower >= threshold]
        if len(enough) and stats.binom.sf(enough[0] - 1, count, PASS_RATE) ** CASES >= _POWER:
            return count
    raise AssertionError("the threshold is too near to the pass rate")


@dataclass(frozen=True)
class _Case:
    """A question of a suite."""

    prompt: Start
    threshold: float
    budget: Budget
    conversation: None = None

    @property
    def asked(self) -> Property:
        """The requirement."""
        query = f"P>={self.threshold} [ F (G yes = 1) ]"
        return resolve_query(query, 5, {"yes": Pattern("yes")})


class _Sampler:
    """A model whose answers are `yes` with a probability."""

    name = description = "sampler"

    def __init__(self, probability: float, seed: int) -> None:
        self._random, self._probability = random.Random(seed), probability
        self.requested = 0

    def check_prompt(self, prompt: Start) -> None:
        """Accept every prompt."""

    def find_spent_limit(self, stream: TextStream, number: int) -> str | None:
        """Return no limit."""
        return None

    def iter_answers(
        self,
        next_request: Callable[[], tuple[TextStream, int] | None],
        must_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[TextStream, TextAnswer]]:
        """Yield answers, of which as many are under way as of a client with 16 connections."""
        under_way: deque[TextStream] = deque()
        while True:
            while len(under_way) < 32 and (item := next_request()) is not None:
                under_way.append(item[0])
                self.requested += 1
            if not under_way:
                return
            text = "yes" if self._random.random() < self._probability else "no"
            yield under_way.popleft(), TextAnswer(text, Finish.ENDED)


def _measure_client(port: int, answers: int) -> float:
    """Return the answers a second of the client of this package."""
    streams = [TextStream(f"case {number}", 5, 0) for number in range(CASES)]
    items = iter([(streams[n % CASES], n // CASES) for n in range(answers)])
    source = ServerSource(
        parse_source(f"server:http://127.0.0.1:{port}"),
        api="openai-chat",
        served_as="stub-1",
        requests=CONNECTIONS,
    )
    with tempfile.TemporaryDirectory() as folder:
        client = TextClient("stub", source, Path(folder))
        start = time.monotonic()
        count = sum(1 for _ in client.iter_answers(lambda: next(items, None)))
        return count / (time.monotonic() - start)


async def _measure_sockets(port: int, answers: int) -> float:
    """Return the requests a second of sockets that only count bytes."""
    body = json.dumps({"model": "stub-1", "messages": [{"role": "user", "content": "case"}]})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    request = (head + body).encode()

    async def exchange(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count):
            writer.write(request)
            await reader.readexactly(len(_RESPONSE))
        writer.close()

    start, share = time.monotonic(), math.ceil(answers / CONNECTIONS)
    await asyncio.gather(*(exchange(share) for _ in range(CONNECTIONS)))
    return share * CONNECTIONS / (time.monotonic() - start)


class _Stub(asyncio.Protocol):
    """A connection to the stub, which answers each request after the same time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection."""
        self._transport, self._content = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer a whole request."""
        self._content += data
        head, separator, body = self._content.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        if separator and len(body) >= length:
            self._content = b""
            transport = self._transport
            assert isinstance(transport, asyncio.WriteTransport)
            asyncio.get_running_loop().call_later(LATENCY_SECONDS, transport.write, _RESPONSE)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Stub, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
