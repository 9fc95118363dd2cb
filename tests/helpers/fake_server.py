"""A small server that answers as vLLM and as llama.cpp do, from a table, and wrongly when told to.

It listens on a free port of the loopback. What it answers comes from a table model of
`random_tables` and from a tokenizer with the table's letters, which `save_tokenizer` writes.
"""

import json
import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from llmchecker.models.table_model import TableModel

LEAST = {"vllm": -9999.0, "llama.cpp": -3.4028234663852886e38}
"""What each server writes for the logarithm of 0."""

Fault = Callable[["FakeServer", Any], Any]
"""Gets the server and a right answer; returns a wrong one, or raises `Status` or `Cut`."""


class Status(Exception):
    """Answer with a status, headers and a body instead."""

    def __init__(self, status: int, body: Any = None, **headers: str) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers


class Cut(Exception):
    """Close the connection in the middle of the answer."""


class Raw(Exception):
    """Send these bytes, one part after the other, as the whole reply, and hang up."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        super().__init__("raw")
        self.parts = parts


class FakeServer:
    """What the server is asked, and how it answers.

    Attributes:
        model: the table.
        tokenizer: a tokenizer whose ids are the table's.
        dialect: `vllm` or `llama.cpp`.
        fault: of answers about next tokens; None for right ones.
        most: how many tokens vLLM tells at most.
        key: without which nothing is answered; None for no key.
        version: of the server's program.
        asked: the texts about which next tokens were told, in the order of their answers.
        drawn: the requests to draw a token.
        temperature: at which tokens are drawn; other than 1 for a server that says something else.
        partial: letters that llama.cpp takes for parts of characters, without probabilities.
        under_way, most_under_way: requests about next tokens, now and at most so far.
    """

    def __init__(self, model: TableModel, tokenizer: Any, dialect: str) -> None:
        self.model, self.tokenizer, self.dialect = model, tokenizer, dialect
        self.fault: Fault | None = None
        self.most = 20
        self.key: str | None = None
        self.version = "1.2.3"
        self.asked: list[tuple[int, ...]] = []
        self.drawn: list[dict[str, Any]] = []
        self.temperature = 1.0
        self.partial: set[str] = set()
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()

    def got(self, path: str) -> Any:
        """The answer to a GET request."""
        meta = {"n_vocab": self.model.vocabulary_size} if self.dialect == "llama.cpp" else None
        entry = {"id": "table", "max_model_len": 64, "meta": meta}
        answers = {"/v1/models": {"data": [entry]}}
        if self.dialect == "vllm":
            answers["/version"] = {"version": self.version}
        else:
            settings = {"n_ctx": 64}
            answers["/props"] = {
                "build_info": self.version,
                "default_generation_settings": settings,
            }
        return self._of(answers, path)

    def posted(self, path: str, question: dict[str, Any]) -> Any:
        """The answer to a POST request."""
        if path == "/tokenize":
            text = question["prompt" if self.dialect == "vllm" else "content"]
            return {"tokens": self.tokenizer(text, add_special_tokens=False)["input_ids"]}
        route = {"vllm": "/v1/completions", "llama.cpp": "/completion"}[self.dialect]
        if path != route:
            raise Status(404)
        if "seed" in question:
            self.drawn.append(question)
        with self.lock:
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            right = (self._vllm if self.dialect == "vllm" else self._llama_cpp)(question)
            answer = right if self.fault is None else self.fault(self, right)
        finally:
            with self.lock:
                self.under_way -= 1
        if "seed" not in question:
            self.asked += map(tuple, _texts(question["prompt"]))
        return answer

    def _vllm(self, question: dict[str, Any]) -> dict[str, Any]:
        if question["logprobs"] > self.most:
            said = f"Requested sample logprobs of {question['logprobs']}, which is greater than max"
            raise Status(400, {"error": {"message": f"{said} allowed: {self.most}"}})
        assert question["temperature"] == question["top_p"] == 1
        choices = []
        for text in _texts(question["prompt"]):
            bias = {int(token): value for token, value in question.get("logit_bias", {}).items()}
            for number in range(question["n"]):
                seed = question.get("seed")
                tokens = self._continue(
                    text, question["max_tokens"], None if seed is None else seed + number, set(bias)
                )
                heads = []
                for position, token in enumerate(tokens):
                    before = [*text, *tokens[:position]]
                    told = {token: self._logprob(before, token)} | dict(
                        self._told(before, question["logprobs"])
                    )
                    heads.append({f"token_id:{t}": value for t, value in told.items()})
                logprobs = {"tokens": [f"token_id:{t}" for t in tokens], "top_logprobs": heads}
                choices.append({"index": len(choices), "logprobs": logprobs})
        read = sum(len(text) for text in _texts(question["prompt"]))
        return {"choices": choices, "usage": {"prompt_tokens": read}}

    def _llama_cpp(self, question: dict[str, Any]) -> Any:
        assert question["samplers"] == ["temperature"]
        assert question["temperature"] == 1
        results = []
        for index, text in enumerate(_texts(question["prompt"])):
            bias = dict(map(tuple, question.get("logit_bias", [])))
            forced = [token for token, value in bias.items() if value is not False]
            tokens = forced or self._continue(
                text, question["n_predict"], question.get("seed"), set(bias)
            )
            result = {"index": index, "tokens_evaluated": len(text), "truncated": False}
            if question.get("return_tokens"):
                result["tokens"] = tokens
            if "n_probs" in question:
                result["completion_probabilities"] = [
                    {"id": token, "top_logprobs": self._list([*text, *tokens[:i]], question)}
                    for i, token in enumerate(tokens)
                    if self.model.vocabulary[token] not in self.partial
                ]
            results.append(result)
        return results if len(results) > 1 else results[0]

    def _told(self, text: list[int], n: int) -> list[tuple[int, float]]:
        tokens = range(self.model.vocabulary_size)
        told = sorted(
            ((token, self._logprob(text, token)) for token in tokens), key=lambda t: -t[1]
        )
        return told[:n]

    def _logprob(self, text: list[int], token: int) -> float:
        probability = self.model.distribution(tuple(text))[token]
        return math.log(probability) if probability > 0 else LEAST[self.dialect]

    def _list(self, text: list[int], question: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"id": t, "logprob": v} for t, v in self._told(text, question["n_probs"])]

    def _continue(
        self, text: list[int], most: int, seed: int | None, without: set[int]
    ) -> list[int]:
        """Draw tokens until one ends the text; `temperature` is that of a server that lies."""
        chance, tokens = random.Random(seed), []
        while len(tokens) < most and not (tokens and tokens[-1] in self.model.end_tokens):
            weights = [
                p ** (1 / self.temperature) if p else 0.0
                for p in self.model.distribution((*text, *tokens))
            ]
            for token in without:
                weights[token] = 0.0
            tokens += chance.choices(range(len(weights)), weights)
        return tokens

    @staticmethod
    def _of(answers: dict[str, Any], path: str) -> Any:
        if path not in answers:
            raise Status(404)
        return answers[path]


@contextmanager
def running(server: FakeServer) -> Iterator[str]:
    """Run a server, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 2**16  # an answer in two pieces waits for the first to be acknowledged

        def do_GET(self) -> None:
            self._answer(lambda: server.got(self.path))

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            question = json.loads(self.rfile.read(length))
            self._answer(lambda: server.posted(self.path, question))

        def _answer(self, work: Callable[[], Any]) -> None:
            status, headers = 200, {}
            if check := getattr(server, "check_headers", None):
                check(self.headers)
            try:
                if server.key and self.headers["Authorization"] != f"Bearer {server.key}":
                    raise Status(
                        401, {"error": {"message": f"not {self.headers['Authorization']}"}}
                    )
                body = work()
            except Status as told:
                status, body, headers = told.status, told.body, told.headers
            except Raw as reply:
                self.close_connection = True
                with suppress(OSError):
                    for part in reply.parts:
                        self.wfile.write(part)
                        self.wfile.flush()
                return
            except Cut:
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"choices": [')
                self.close_connection = True
                return
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}"
        finally:
            http.shutdown()
            thread.join()


def save_tokenizer(model: TableModel, directory: Path) -> Path:
    """Write a tokenizer of the letters of a table; its last token ends a text, all else is a."""
    letters = {text: number for number, text in enumerate(model.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token=model.vocabulary[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    end = model.vocabulary[max(model.end_tokens)]
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end).save_pretrained(directory)
    return directory


def slow(seconds: float) -> Fault:
    """Answers after a while."""

    def fault(server: FakeServer, answer: Any) -> Any:
        time.sleep(seconds)
        return answer

    return fault


def times(count: int, fault: Fault) -> Fault:
    """A fault of the first answers alone."""
    left = [count]

    def some(server: FakeServer, answer: Any) -> Any:
        with server.lock:
            left[0] -= 1
            wrong = left[0] >= 0
        return fault(server, answer) if wrong else answer

    return some


def raising(make: Callable[[], Exception]) -> Fault:
    """Answers by a status or a cut."""

    def fault(server: FakeServer, answer: Any) -> Any:
        raise make()

    return fault


def heads_changed(change: Callable[[list[list[Any]]], list[list[Any]]]) -> Fault:
    """Answers in which every head, a list of [token, logprob], is another."""

    def fault(server: FakeServer, answer: Any) -> Any:
        if server.dialect == "vllm":
            for choice in answer["choices"]:
                heads = []
                for told in choice["logprobs"]["top_logprobs"]:
                    head = change([[int(t.removeprefix("token_id:")), p] for t, p in told.items()])
                    # written by hand, since a dict has no key twice
                    pairs = ", ".join(f'"token_id:{t}": {json.dumps(p)}' for t, p in head)
                    heads.append(f"@{pairs}@")
                choice["logprobs"]["top_logprobs"] = heads
            text = json.dumps(answer).replace('\\"', '"')
            return text.replace('"@', "{").replace('@"', "}").encode()
        for result in answer if isinstance(answer, list) else [answer]:
            for told in result["completion_probabilities"]:
                head = change([[t["id"], t["logprob"]] for t in told["top_logprobs"]])
                told["top_logprobs"] = [{"id": t, "logprob": p} for t, p in head]
        return answer

    return fault


def _texts(prompt: list[Any]) -> list[list[int]]:
    return prompt if isinstance(prompt[0], list) else [prompt]
