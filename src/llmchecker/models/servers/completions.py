"""Completions: texts from any server with OpenAI's completions or chat API.

These servers return no usable probabilities, so their text is only used as proposals. Every answer
is stored with its request, because most servers answer differently the next time, whatever the
seed.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmchecker.errors import RequestRefused
from llmchecker.models.servers.http_client import ServerClient, ServerSession
from llmchecker.models.servers.schema import ChatResponse, CompletionResponse
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest

_MAX_TEXT_CHARACTERS = 100_000
"""Largest number of characters of an answer; the rest is dropped."""

_API_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "vllm": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "llama.cpp": {"samplers": ["temperature"]},
    "openai": {},
    "openai-chat": {},
}
"""Further settings of each API for untruncated sampling at temperature 1."""

_COMMON_SETTINGS = {"temperature": 1.0, "top_p": 1.0, "n": 1, "stream": False}

_SEED_MODULUS = 2**31
"""Upper bound of seeds: some servers read them as signed 32-bit numbers."""


@dataclass(frozen=True)
class CompletionRequest:
    """A request for a text.

    Attributes:
        prompt: text to continue, or the message to answer.
        max_tokens: largest number of tokens of the text.
        seed: tuple of numbers; the server gets a small number derived from it.
    """

    prompt: str
    max_tokens: int
    seed: tuple[int, ...]


class CompletionClient:
    """A language model on a server that generates texts.

    Args:
        name: name of the model.
        client: HTTP client of the server.
        served_as: the server's name for the model.
        api: name of the API.
        max_tokens: largest number of tokens of an answer to a message. Continuations of a prompt
            have the number in their request.
    """

    def __init__(
        self, name: str, client: ServerClient, served_as: str, api: str, max_tokens: int
    ) -> None:
        self.name = name
        self.client = client
        self._served_as = served_as
        self._api = api
        self._max_tokens = max_tokens

    @property
    def is_chat(self) -> bool:
        """Whether the server answers messages instead of continuing texts."""
        return self._api == "openai-chat"

    def complete(self, requests: Sequence[CompletionRequest], cache_directory: Path) -> list[str]:
        """Return the server's text for every request, by concurrent HTTP requests.

        Args:
            requests: the requests.
            cache_directory: directory of stored answers, to which new ones are added. Delete an
                answer's file to repeat its request.

        Raises:
            RequestRefused: the server rejects a request.
            SourceUnavailable: the server does not answer, or its response does not match OpenAI's
                schema.
            DamagedFile: a stored answer is damaged.
        """

        async def complete_one(session: ServerSession, request: CompletionRequest) -> str:
            return await self._read_or_request(session, request, cache_directory)

        return list(self.client.map_concurrently(complete_one, requests))

    async def _read_or_request(
        self, session: ServerSession, request: CompletionRequest, cache_directory: Path
    ) -> str:
        path, payload = self._build_payload(request)
        record = {"address": self.client.address, "path": path, "question": payload}
        # the address is part of the digest: another server may answer differently
        digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
        file = cache_directory / f"{digest[:32]}.json"
        # stored answers make results reproducible, because servers may ignore the seed
        if file.exists():
            return str(read_json_with_digest(file)["text"])
        answer = await self._send_payload(session, path, payload)
        text = _extract_text(answer)[:_MAX_TEXT_CHARACTERS]
        write_json_with_digest({**record, "text": text}, file)
        return text

    def _build_payload(self, request: CompletionRequest) -> tuple[str, dict[str, Any]]:
        """Return the path and the JSON body of a request."""
        digest = hashlib.sha256(repr(request.seed).encode()).digest()
        settings = {
            "model": self._served_as,
            "seed": int.from_bytes(digest[:4], "big") % _SEED_MODULUS,
            **_COMMON_SETTINGS,
            **_API_SETTINGS[self._api],
        }
        if self.is_chat:
            messages = [{"role": "user", "content": request.prompt}]
            return "/v1/chat/completions", {
                **settings,
                "messages": messages,
                "max_tokens": self._max_tokens,
            }
        return "/v1/completions", {
            **settings,
            "prompt": request.prompt,
            "max_tokens": request.max_tokens,
        }

    async def _send_payload(
        self, session: ServerSession, path: str, payload: dict[str, Any]
    ) -> ChatResponse | CompletionResponse:
        schema = ChatResponse if self.is_chat else CompletionResponse
        try:
            return await session.request(schema, path, payload)
        except RequestRefused as error:
            # newer OpenAI models accept this limit only under another name
            if "max_completion_tokens" not in str(error):
                raise
            renamed_payload = {key: value for key, value in payload.items() if key != "max_tokens"}
            renamed_payload["max_completion_tokens"] = payload["max_tokens"]
            return await session.request(schema, path, renamed_payload)


def _extract_text(answer: ChatResponse | CompletionResponse) -> str:
    """Return the text of the only choice; empty if the model was cut while it thought."""
    # the schema allows exactly one choice
    if isinstance(answer, CompletionResponse):
        return answer.choices[0].text or ""
    return answer.choices[0].message.content or ""
