"""Chats in the cells of data sets: OpenAI's, also for evaluation and fine-tuning, and ShareGPT's.

[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}]
[{"from": "human", "value": "Is it so?"}, {"from": "gpt", "value": "Yes."}]
"""

from collections.abc import Mapping
from typing import Any

from llmchecker.errors import ConfigError
from llmchecker.utils.printable_text import quote_value

_ROLES = {
    **{"system": "system", "developer": "system", "user": "user", "human": "user"},
    **dict.fromkeys(("assistant", "gpt", "bing", "chatgpt", "model", "bot"), "assistant"),
}
"""The roles of data sets, each with that of a chat."""
_KEYS = (("role", "content"), ("from", "value"))
"""The keys of messages: their role and text."""
_UNREAD_KEYS = ("weight",)
"""Keys that no model reads: the weight of a message in training."""


def read_chat(value: Any) -> list[dict[str, str]]:
    """Return the messages of a cell up to the last of the user; a text is one message.

    The answer after them, which a data set for training has, is no part of a prompt.

    Raises:
        ConfigError: the cell is no chat.
    """
    if isinstance(value, str):
        return [{"user": value}]
    messages = _list_messages(value)
    while messages and "assistant" in messages[-1]:
        messages.pop()
    return messages


def find_reference(value: Any) -> str | None:
    """Return the answer that a chat of a data set ends with; None without one."""
    try:
        messages = _list_messages(value)
    # other lists are no chats
    except ConfigError:
        return None
    return messages[-1].get("assistant") if messages else None


def _list_messages(value: Any) -> list[dict[str, str]]:
    if not isinstance(value, list) or not value:
        raise ConfigError(
            f"chat: {quote_value(value)} is no chat; name a column of lists of messages"
        )
    return [_read_message(number, message) for number, message in enumerate(value)]


def _read_message(number: int, message: Any) -> dict[str, str]:
    for role_key, text_key in _KEYS:
        if isinstance(message, Mapping) and {role_key, text_key} <= message.keys():
            break
    else:
        raise ConfigError(
            f"message {number}: {quote_value(message)} has no role and text; write "
            '{"role": "user", "content": "…"}'
        )
    # a name or a call changes what a model reads
    others = [
        key
        for key, each in message.items()
        if each is not None and key not in (role_key, text_key, *_UNREAD_KEYS)
    ]
    if others:
        raise ConfigError(f"message {number}: the key {others[0]!r} is not read; remove it")
    role = message[role_key]
    if not isinstance(role, str) or role not in _ROLES:
        raise ConfigError(
            f"message {number}: the role {quote_value(role)} is unknown; use {', '.join(_ROLES)}"
        )
    return {_ROLES[role]: _read_text(number, message[text_key])}


def _read_text(number: int, content: Any) -> str:
    """Return the text of a message, which may be a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else None for part in parts]
    types = [part.get("type") if isinstance(part, Mapping) else None for part in parts]
    if not texts or any(type_ not in ("text", "input_text") for type_ in types):
        raise ConfigError(f"message {number}: {quote_value(content)} is no text; use texts alone")
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"message {number}: a part has no text; add it")
    return "".join(map(str, texts))
