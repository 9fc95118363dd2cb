"""A small server that writes texts as OpenAI's interface says, and wrongly when told to."""

import threading
from collections.abc import Callable
from typing import Any

from helpers.fake_server import FakeServer, Status

MODEL = "writer-1"


class FakeWriter(FakeServer):
    """Answers `/v1/completions` and `/v1/chat/completions` by a function of the prompt.

    Attributes:
        write: the text after a prompt, or for a message.
        serves: the names of its models.
        questions: what was asked, with the path.
    """

    def __init__(self, write: Callable[[str], Any]) -> None:
        self.write = write
        self.serves = [MODEL]
        self.questions: list[tuple[str, dict[str, Any]]] = []
        self.dialect = "openai"
        self.fault = None
        self.key: str | None = None
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()

    def got(self, path: str) -> Any:
        """The answer to a GET request."""
        return self._of({"/v1/models": {"data": [{"id": name} for name in self.serves]}}, path)

    def posted(self, path: str, question: dict[str, Any]) -> Any:
        """The answer to a POST request."""
        assert question["model"] == self.serves[0]
        assert (question["temperature"], question["top_p"], question["n"]) == (1, 1, 1)
        assert not question["stream"]
        with self.lock:
            self.questions.append((path, question))
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            right = self._answer(path, question)
            return right if self.fault is None else self.fault(self, right)
        finally:
            with self.lock:
                self.under_way -= 1

    def _answer(self, path: str, question: dict[str, Any]) -> Any:
        if path == "/v1/completions":
            return {"choices": [{"index": 0, "text": self.write(question["prompt"])}]}
        if path == "/v1/chat/completions":
            (message,) = question["messages"]
            assert message["role"] == "user"
            text = self.write(message["content"])
            return {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}
        raise Status(404)
