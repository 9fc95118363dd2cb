"""Responses that are not JSON: plain text, and streams of server-sent events."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from llmchecker.errors import SourceUnavailable

EVENT_STREAM = "text/event-stream"
"""The content type of server-sent events."""

_DONE = "[DONE]"
"""The data of an event that ends the streams of many servers."""
_CHARSET = re.compile(r";\s*charset=\"?([^\s;\"]+)", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class EventStream:
    """A stream of server-sent events.

    Attributes:
        events: the data of its events in order, without the event that ends it.
        is_whole: whether the connection, or an event, shows that no event is missing.
    """

    events: tuple[str, ...]
    is_whole: bool


def read_text_body(headers: Mapping[str, str], body: bytes) -> str | EventStream:
    """Return the text or the events of a response that is not JSON.

    Raises:
        SourceUnavailable: it is not UTF-8, its end is unknown, or an event reports an error.
    """
    content_type = headers.get("content-type", "")
    charset = _CHARSET.search(content_type)
    if charset is not None and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise SourceUnavailable(f"answer: the charset is {charset[1]!r}; send UTF-8")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise SourceUnavailable(f"answer: not UTF-8 ({error.reason}); send UTF-8") from error
    # a response that ends with its connection may have been cut anywhere
    is_delimited = (
        "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()
    )
    if content_type.strip().lower().startswith(EVENT_STREAM):
        return _parse_events(text, is_delimited)
    if not is_delimited:
        raise SourceUnavailable("answer: a text without a length may be cut; send Content-Length")
    return text


def _parse_events(text: str, is_delimited: bool) -> EventStream:
    """Parse events as the HTML standard defines them, but for an event that is cut."""
    events: list[str] = []
    data: list[str] = []
    name = ""
    # the end of the text also ends an event, whose JSON shows whether it is whole
    for line in [*_LINE_END.split(text.removeprefix("\ufeff")), ""]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif not line:
            if name == "error":
                raise SourceUnavailable("answer: the stream reports an error; check the server")
            if data == [_DONE]:
                return EventStream(tuple(events), is_whole=True)
            if data:
                events.append("\n".join(data))
            data, name = [], ""
    return EventStream(tuple(events), is_delimited)
