"""Applications behind HTTP, which answer a JSON body of their own form with JSON."""

import json
from typing import Any

from jsonpointer import JsonPointer, JsonPointerException

from llmchecker.errors import SourceUnavailable
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.servers.event_stream import EventStream
from llmchecker.models.servers.http_client import ServerSession, parse_json
from llmchecker.models.servers.json_body import check_columns, fill_body
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


class JsonApi(TextApi[Any]):
    """The API of an application: a body with placeholders, and a pointer to the answer.

        body: { question: "{prompt}", options: { limit: "{max_tokens}" } }
        answer: /reply/text

    A text that is `{messages}` is replaced by a list. `{prompt}`, the last message, `{system}`,
    `{max_tokens}`, `{seed}` and the columns of the prompt may be parts of a text. Without a pointer
    to the reason of its end, an answer has ended. Of a stream of events, the texts at the pointer
    are joined; of plain text, the whole is at the empty pointer.

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
        columns = request.prompt.column_values if isinstance(request.prompt, Chat) else {}
        # the chats of judges and simulated users have no columns
        check_columns(self._body, columns, "the application")
        values |= columns
        return fill_body(self._body, values)

    def read_answer(
        self, response: Any, max_tokens: int, *, reads_calls: bool = False
    ) -> TextAnswer:
        """Return the text at the pointer, and why it ends.

        Raises:
            SourceUnavailable: the response has no text there, or may have been cut.
        """
        if isinstance(response, EventStream):
            return self._read_stream(response)
        text, finish = _resolve(self._answer, response, "answer"), Finish.ENDED
        if self._finish is not None:
            finish = parse_finish(_resolve(self._finish, response, "finish"))
        return TextAnswer(text, finish)

    def _read_stream(self, stream: EventStream) -> TextAnswer:
        """Return the joined texts of a stream, with the last reason of an end."""
        # the data of an event is a text itself if the whole of it is the answer
        is_json = bool(self._answer.path) or self._finish is not None
        events = [parse_json(event) if is_json else event for event in stream.events]
        texts = [each for event in events if (each := _find(self._answer, event)) is not None]
        if not texts:
            raise _build_absence(self._answer, "answer")
        text = "".join(_check_text(self._answer, each, "answer") for each in texts)
        if self._finish is None:
            if not stream.is_whole:
                raise SourceUnavailable("answer: the stream may be cut; end it by [DONE]")
            return TextAnswer(text, Finish.ENDED)
        reasons = [each for event in events if (each := _find(self._finish, event)) is not None]
        if not reasons:
            raise _build_absence(self._finish, "finish")
        # one reason in the last event shows the end, but not one in each event
        is_ended = len(reasons) == 1 and _find(self._finish, events[-1]) is not None
        if not (stream.is_whole or is_ended):
            raise SourceUnavailable("finish: the stream may be cut; end it by [DONE]")
        return TextAnswer(text, parse_finish(_check_text(self._finish, reasons[-1], "finish")))

    async def find_model(self, session: ServerSession, name: str | None) -> ListedModel:
        """Return a model without a name: an application lists none."""
        return ListedModel("")


def _find(pointer: JsonPointer, value: Any) -> Any:
    """Return what a pointer leads to; None for nothing."""
    try:
        return pointer.resolve(value)
    except JsonPointerException:
        return None


def _resolve(pointer: JsonPointer, response: Any, key: str) -> str:
    found = _find(pointer, response)
    if found is None:
        raise _build_absence(pointer, key)
    return _check_text(pointer, found, key)


def _build_absence(pointer: JsonPointer, key: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"{key}: the response has nothing at {pointer.path!r}; correct the pointer"
    )


def _check_text(pointer: JsonPointer, found: Any, key: str) -> str:
    if not isinstance(found, str):
        raise SourceUnavailable(
            f"{key}: {quote(json.dumps(found))} at {pointer.path!r} is no text; correct the pointer"
        )
    return found
