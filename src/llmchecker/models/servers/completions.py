"""Completions: single texts from servers that return texts alone, for proposals.

Every answer is stored with its request, because most servers answer differently the next time,
whatever the seed.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmchecker.errors import SourceUnavailable
from llmchecker.models.servers.http_client import ServerClient, ServerSession
from llmchecker.models.servers.settings import ApiName
from llmchecker.models.servers.text_apis import TEXT_APIS, TextRequest
from llmchecker.models.servers.text_client import SEED_MODULUS, send_text_request
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest

_MAX_TEXT_CHARACTERS = 100_000
"""Largest number of characters of an answer; the rest is dropped."""


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
        self, name: str, client: ServerClient, served_as: str, api: ApiName, max_tokens: int
    ) -> None:
        self.name = name
        self.client = client
        self._served_as = served_as
        self._api = TEXT_APIS[api]
        self._max_tokens = max_tokens

    @property
    def is_chat(self) -> bool:
        """Whether the server answers messages instead of continuing texts."""
        return self._api.is_chat

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
        reply = await send_text_request(session, self._api, payload)
        # one of several answers may not be the one with this seed
        if reply.choice_count != 1:
            raise SourceUnavailable(
                f"{self.client.address}{path}: choices: {reply.choice_count} answers in place of "
                "1; check the server"
            )
        text = reply.text[:_MAX_TEXT_CHARACTERS]
        write_json_with_digest({**record, "text": text}, file)
        return text

    def _build_payload(self, request: CompletionRequest) -> tuple[str, dict[str, Any]]:
        """Return the path and the JSON body of a request."""
        digest = hashlib.sha256(repr(request.seed).encode()).digest()
        text_request = TextRequest(
            prompt=request.prompt,
            # an answer to a message has a limit of its own
            max_tokens=self._max_tokens if self.is_chat else request.max_tokens,
            seed=int.from_bytes(digest[:4], "big") % SEED_MODULUS,
        )
        return self._api.path, self._api.build_payload(self._served_as, text_request)
