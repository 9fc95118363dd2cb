"""Applications behind HTTP, which answer a JSON body of their own form with JSON."""

import json
import re
from collections.abc import Mapping
from typing import Any

from jsonpointer import JsonPointer, JsonPointerException

from llmchecker.errors import SourceUnavailable
from llmchecker.models.servers.http_client import ServerSession
from llmchecker.models.servers.schema import quote
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.servers.text_apis import (
    ListedModel,
    TextApi,
    TextRequest,
    parse_finish,
)
from llmchecker.models.servers.tool_messages import list_openai_messages
from llmchecker.models.text_answer import Finish, TextAnswer

_PLACEHOLDERS = ("messages", "prompt", "system", "max_tokens", "seed")
"""Names in braces in a body: those of a request's values."""
_TEXTS = re.compile(r"\{(prompt|system)\}")
"""Placeholders within a text."""


class JsonApi(TextApi[Any]):
    """The API of an application: a body with placeholders, and a pointer to the answer.

        body: { question: "{prompt}", options: { limit: "{max_tokens}" } }
        answer: /reply/text

    A text that is `{messages}`, `{max_tokens}` or `{seed}` is replaced by a value, of which the
    first is a list. `{prompt}`, the last message, and `{system}` may stand within a text. Without a
    pointer to the reason of its end, an answer has ended.

    Args:
        source: the settings of the application.
    """

    path, shape = "", Any

    def __init__(self, source: ServerSource) -> None:
        # `parse_server_source` has checked them
        assert source.body is not None
        assert source.answer is not None
        self._body = json.loads(source.body)
        self._answer = JsonPointer(source.answer)
        self._finish = None if source.finish is None else JsonPointer(source.finish)

    def build_payload(self, model: str, request: TextRequest) -> Any:
        """Return the body with the values of a request in place of its placeholders."""
        messages = list_openai_messages(request.prompt)
        system = [each["content"] for each in messages if each["role"] == "system"]
        values = {
            "messages": messages,
            "prompt": messages[-1]["content"],
            "system": system[0] if system else "",
            "max_tokens": request.max_tokens,
            "seed": request.seed,
        }
        return _fill(self._body, values)

    def read_answer(
        self, response: Any, max_tokens: int, *, reads_calls: bool = False
    ) -> TextAnswer:
        """Return the text at the pointer, and why it ends.

        Raises:
            SourceUnavailable: the response has no text there.
        """
        text, finish = self._resolve(self._answer, response, "answer"), Finish.ENDED
        if self._finish is not None:
            finish = parse_finish(self._resolve(self._finish, response, "finish"))
        return TextAnswer(text, finish)

    async def find_model(self, session: ServerSession, name: str | None) -> ListedModel:
        """Return a model without a name: an application lists none."""
        return ListedModel("")

    def _resolve(self, pointer: JsonPointer, response: Any, key: str) -> str:
        try:
            found = pointer.resolve(response)
        except JsonPointerException as error:
            raise SourceUnavailable(
                f"{key}: the response has nothing at {pointer.path!r}; correct the pointer"
            ) from error
        if not isinstance(found, str):
            raise SourceUnavailable(
                f"{key}: {quote(json.dumps(found))} at {pointer.path!r} is no text; correct the "
                "pointer"
            )
        return found


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Replace placeholders in all texts of a JSON value, but not in what replaces them."""
    if isinstance(template, dict):
        return {key: _fill(each, values) for key, each in template.items()}
    if isinstance(template, list):
        return [_fill(each, values) for each in template]
    if not isinstance(template, str):
        return template
    if template[1:-1] in _PLACEHOLDERS and template == f"{{{template[1:-1]}}}":
        return values[template[1:-1]]
    return _TEXTS.sub(lambda match: values[match[1]], template)
