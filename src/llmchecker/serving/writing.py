"""Texts that a server writes: any that speaks OpenAI's completions, or its chats, over HTTP.

Such a server tells no distribution that could be relied on, so nothing is decided by what it says.
What it writes is data for whoever asked. Every answer is kept with its question, since most servers
give another one the next time, whatever the seed.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmchecker.errors import RequestRefused, SourceUnavailable
from llmchecker.files import read_sealed_json, write_sealed_json
from llmchecker.serving.client import ServerClient
from llmchecker.serving.dialects import GivenUp

LONGEST_TEXT = 100_000
"""Characters of an answer that are read; what comes after them is left out."""

PLAIN: Mapping[str, Mapping[str, Any]] = {
    "vllm": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "llama.cpp": {"samplers": ["temperature"]},
    "openai": {},
    "openai-chat": {},
}
"""What must be asked of each kind of server for text at temperature 1 from the whole distribution,
beside what is asked of all of them."""

_OF_ALL = {"temperature": 1.0, "top_p": 1.0, "n": 1, "stream": False}

_SEEDS = 2**31
"""Seeds are below this: some servers read them as signed numbers of 32 bits."""


@dataclass(frozen=True)
class Request:
    """What a server is to write.

    Attributes:
        prompt: what it goes on from, or the message that it answers.
        tokens: the most tokens of its text.
        seed: as any tuple of numbers; the server is sent a small one that is made of it.
    """

    prompt: str
    tokens: int
    seed: tuple[int, ...]


class ServedWriter:
    """A language model behind a server that writes texts.

    Args:
        name: of the model.
        client: of the server.
        served_as: the server's name for the model.
        api: how it is asked.
        tokens: the most tokens of an answer to a message; texts that go on from a prompt have the
            number that is asked for.
    """

    def __init__(
        self, name: str, client: ServerClient, served_as: str, api: str, tokens: int
    ) -> None:
        self.name = name
        self.client = client
        self._served_as = served_as
        self._api = api
        self._tokens = tokens

    @property
    def chats(self) -> bool:
        """Whether it answers messages, instead of going on from a text."""
        return self._api == "openai-chat"

    def written(self, requests: Sequence[Request], kept: Path) -> list[str]:
        """The server's text for every request, several at once.

        Args:
            requests: what is to be written.
            kept: the directory of answers that were given before; new ones are added. A question
                is asked again only if its file is deleted.

        Raises:
            RequestRefused: the server will not answer.
            SourceUnavailable: it did not answer, or not as OpenAI's interface says.
            DamagedFile: a kept answer is not as it was written.
        """

        def write(request: Request, given_up: GivenUp) -> str:
            return self._kept_or_asked(request, kept, given_up)

        return list(self.client.concurrently(write, requests))

    def _kept_or_asked(self, request: Request, kept: Path, given_up: GivenUp) -> str:
        path, question = self._question(request)
        asked = {"address": self.client.address, "path": path, "question": question}
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        file = kept / f"{digest[:32]}.json"
        if file.exists():
            return read_sealed_json(file)["text"]
        text = self._text(self._asked(path, question, given_up))[:LONGEST_TEXT]
        write_sealed_json({**asked, "text": text}, file)
        return text

    def _question(self, request: Request) -> tuple[str, dict[str, Any]]:
        """The path that is asked, and what it is asked."""
        digest = hashlib.sha256(repr(request.seed).encode()).digest()
        about = {
            "model": self._served_as,
            "seed": int.from_bytes(digest[:4], "big") % _SEEDS,
            **_OF_ALL,
            **PLAIN[self._api],
        }
        if self.chats:
            messages = [{"role": "user", "content": request.prompt}]
            return "/v1/chat/completions", {
                **about,
                "messages": messages,
                "max_tokens": self._tokens,
            }
        return "/v1/completions", {
            **about,
            "prompt": request.prompt,
            "max_tokens": request.tokens,
        }

    def _asked(self, path: str, question: dict[str, Any], given_up: GivenUp) -> Any:
        try:
            return self.client.ask(path, question, given_up)
        except RequestRefused as error:
            # newer models of OpenAI know the same limit by another name only
            if "max_completion_tokens" not in str(error):
                raise
            renamed = {key: value for key, value in question.items() if key != "max_tokens"}
            renamed["max_completion_tokens"] = question["max_tokens"]
            return self.client.ask(path, renamed, given_up)

    def _text(self, answer: Any) -> str:
        try:
            choice = answer["choices"][0]
            text = choice["message"]["content"] if self.chats else choice["text"]
        except (KeyError, IndexError, TypeError) as error:
            raise SourceUnavailable(
                f"{self.client.address} answers otherwise than OpenAI's interface says: {error!r}"
            ) from error
        if text is None:  # a message that was cut while the model still thought
            return ""
        if not isinstance(text, str):
            raise SourceUnavailable(
                f"{self.client.address} answers with {type(text).__name__} in the place of a text"
            )
        return text
