"""Chats as start strings: messages, and the chat template that encodes them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from llmchecker.errors import ConfigError, UnusableText

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ROLES = ("system", "user", "assistant")
"""Roles of messages."""

_FIXED_DATE = date(2024, 7, 26)
"""Fixed date for chat templates with the current date, so that answers do not change.

It is the default of Llama's own templates.
"""

_DATE_CALL = "strftime_now("
_DATE_PATTERN = re.compile(r"""strftime_now\(\s*(["'])([^"'\\]*)\1\s*\)""")

_SANITIZER_MARKS = re.compile("[\U000f0000\U000f0001]")
"""Private-use characters with which transformers marks literal text."""


@dataclass(frozen=True)
class Chat:
    """Messages for a model to answer.

    Attributes:
        messages: (role, content) pairs in order; the last role is `user`.

    Raises:
        ConfigError: no messages, an unknown role, a content that is not text, or a last message
            that is not the user's.
    """

    messages: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for number, (role, content) in enumerate(self.messages):
            if role not in _ROLES:
                raise ConfigError(
                    f"[{number}]: the role {role!r} is unknown; use {', '.join(_ROLES)}"
                )
            if not isinstance(content, str):
                raise ConfigError(f"[{number}].{role}: {content!r} is not a text")
            if role == "system" and number > 0:
                raise ConfigError(
                    f"[{number}]: a system prompt follows another message; put it first"
                )
        if not self.messages or self.messages[-1][0] != "user":
            raise ConfigError("last message: not the user's; end with a user message")

    @classmethod
    def from_messages(cls, messages: "Sequence[Mapping[str, str]] | Chat") -> "Chat":
        """Parse messages: `{"role": …, "content": …}` or, shorter, `{"user": …}`.

        Raises:
            ConfigError: a message has another form, or `Chat` rejects the messages.
        """
        if isinstance(messages, Chat):
            return messages
        return cls(tuple(_parse_message(number, entry) for number, entry in enumerate(messages)))

    @property
    def as_json(self) -> list[dict[str, str]]:
        """Messages as chat templates receive them."""
        return [{"role": role, "content": content} for role, content in self.messages]

    def __str__(self) -> str:
        return "\n".join(f"{role}: {content}" for role, content in self.messages)


Start = str | Chat
"""Start of a text: a string to continue, or messages to answer."""


def start_as_json(start: Start) -> Any:
    """Return a start string as JSON; a text and a chat are always different."""
    return start if isinstance(start, str) else start.as_json


def encode_chat(tokenizer: "PreTrainedTokenizerBase", chat: Chat, name: str) -> tuple[int, ...]:
    """Return the tokens of a chat, up to the beginning of the model's answer.

    The tokenizer's template formats the chat. Only the template's special tokens are special: a
    string that looks like one in a message is encoded as plain text.

    Args:
        tokenizer: the model's tokenizer.
        chat: the messages.
        name: name of the model, for error messages.

    Raises:
        UnusableText: the template is absent or rejects the messages, or a part of a message cannot
            be encoded as text.
    """
    template = _build_template(tokenizer, name)
    for role, content in chat.messages:
        # transformers would take these characters for its own marks
        if _SANITIZER_MARKS.search(content):
            raise UnusableText(
                f"{role} message: it contains U+F0000 or U+F0001; remove the character"
            )

    def apply_template(messages: list[dict[str, str]]) -> list[int]:
        try:
            return tokenizer.apply_chat_template(
                messages,
                chat_template=template,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
                sanitize_control_tokens=True,
            )
        except Exception as error:  # a template is a program, which may raise any error
            raise UnusableText(
                f"chat template of {name}: it rejects these messages: {error}"
            ) from error

    tokens = apply_template(chat.as_json)
    special_tokens = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    # reference: harmless contents show the special tokens of the template alone
    reference_tokens = apply_template([{"role": role, "content": "x"} for role, _ in chat.messages])
    actual, expected = (
        [t for t in sequence if t in special_tokens] for sequence in (tokens, reference_tokens)
    )
    if actual != expected:
        raise UnusableText(
            f"{name}: a message's content adds special tokens: {actual} instead of "
            f"{expected}; rewrite the message"
        )
    return tuple(tokens)


def _parse_message(number: int, entry: Mapping[str, str]) -> tuple[str, str]:
    if isinstance(entry, Mapping) and entry.keys() == {"role", "content"}:
        return entry["role"], entry["content"]
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((role, content),) = entry.items()
        return role, content
    raise ConfigError(
        f"[{number}]: {entry!r} is not a message; write it as {{'user': 'Is it so?'}}"
    )


def _build_template(tokenizer: "PreTrainedTokenizerBase", name: str) -> str:
    """Return the chat template of a tokenizer, with `_FIXED_DATE` as the current date.

    Raises:
        UnusableText: the template is absent, or requests the date in an unknown way.
    """
    if not tokenizer.chat_template:
        raise UnusableText(f"{name}: no chat template; use a start string, or choose a chat model")
    try:
        template = tokenizer.get_chat_template()
    except ValueError as error:
        raise UnusableText(f"chat template of {name}: {error}") from error
    if _DATE_CALL not in template:
        return template
    formats = [match[2] for match in _DATE_PATTERN.finditer(template)]
    # a format that is not a literal cannot be evaluated beforehand
    if len(formats) < template.count(_DATE_CALL):
        raise UnusableText(
            f"{name}: its chat template computes the format of the date; choose a model "
            "whose template has a literal format"
        )
    cases = (
        f"{{%- if f == {f!r} -%}}{_FIXED_DATE.strftime(f)}{{%- endif -%}}" for f in set(formats)
    )
    branches = "".join(sorted(cases))
    # transformers' Jinja environment removes the line break after the macro
    return f"{{%- macro strftime_now(f) -%}}{branches}{{%- endmacro %}}\n{template}"
