"""A provider of texts with any of the four APIs, which samples from a table or misbehaves."""

import random
import threading
from collections.abc import Callable
from typing import Any

from helpers.fake_server import Status
from helpers.fake_writer import FakeWriter

from llmchecker.models.table_model import TableModel

MODEL = "provider-1"
KEY_HEADERS = {"anthropic": "x-api-key"}

Writer = Callable[[random.Random], tuple[str, bool]]
"""Writes a text from random numbers, and returns whether it ended."""


class FakeProvider(FakeWriter):
    """Answers by a function of random numbers, of which each request has its own.

    Attributes:
        api: the API.
        answered_as: the name of the model in replies.
        fault: changes the right reply, or raises `Status` or `Cut`.
    """

    def __init__(self, api: str, write: Writer) -> None:
        super().__init__(lambda prompt: "")
        self.api, self.sample = api, write
        self.serves = [MODEL]
        self.answered_as = f"{MODEL}-2026"
        self.random = random.Random(0)
        self.lock = threading.Lock()

    def got(self, path: str) -> Any:
        if path == "/api/tags":
            return {"models": [{"name": name} for name in self.serves]}
        return super().got(path)

    def posted(self, path: str, question: dict[str, Any]) -> Any:
        with self.lock:
            self.questions.append((path, question))
            drawn = random.Random(self.random.random())
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            text, ended = self.sample(drawn)
            right = self._reply(path, text, ended)
            return right if self.fault is None else self.fault(self, right)
        finally:
            with self.lock:
                self.under_way -= 1

    def _reply(self, path: str, text: str, ended: bool) -> Any:
        reason = "stop" if ended else "length"
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        head = {"model": self.answered_as, "usage": usage}
        message = {"role": "assistant", "content": text}
        replies = {
            "/v1/chat/completions": head
            | {"choices": [{"index": 0, "message": message, "finish_reason": reason}]},
            "/v1/completions": head
            | {"choices": [{"index": 0, "text": text, "finish_reason": reason}]},
            "/v1/messages": {
                "model": self.answered_as,
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn" if ended else "max_tokens",
                "usage": {"input_tokens": 10, "output_tokens": 2},
            },
            "/api/chat": {
                "model": self.answered_as,
                "message": message,
                "done": True,
                "done_reason": reason,
                "prompt_eval_count": 10,
                "eval_count": 2,
            },
        }
        if path == "/ask":
            return {"reply": {"text": text, "end": reason}}
        if path not in replies:
            raise Status(404)
        return replies[path]


def sample_table(model: TableModel, prompt: tuple[int, ...], length: int) -> Writer:
    """A writer of the texts of a table model."""

    def write(drawn: random.Random) -> tuple[str, bool]:
        tokens: list[int] = []
        while len(tokens) < length:
            weights = model.distribution((*prompt, *tokens))
            token = drawn.choices(range(len(weights)), weights)[0]
            if token in model.end_tokens:
                return "".join(model.vocabulary[each] for each in tokens), True
            tokens.append(token)
        return "".join(model.vocabulary[each] for each in tokens), False

    return write


def share(yes: float, text: str = "yes", other: str = "no") -> Writer:
    """A writer of one text with a probability, else of another one."""
    return lambda drawn: (text if drawn.random() < yes else other, True)
