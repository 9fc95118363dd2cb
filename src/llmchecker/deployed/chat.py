"""Start strings that are chats: messages, which a model's own template makes into tokens."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from llmchecker.errors import ConfigError, UnusableText

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROLES = ("system", "user", "assistant")
"""Who may have written a message."""

TODAY = date(2024, 7, 26)
"""The day that templates are told which ask for the date, so that no answer depends on it.

Llama's own templates take it where they are told none.
"""

_ASKS_THE_DATE = "strftime_now("
_DATE = re.compile(r"""strftime_now\(\s*(["'])([^"'\\]*)\1\s*\)""")

_MARKS = re.compile("[\U000f0000\U000f0001]")
"""Characters of no script, with which transformers marks what it reads as text."""


@dataclass(frozen=True)
class Chat:
    """Messages that a model is to answer.

    Attributes:
        messages: who wrote what, in order; the last one is the user's.

    Raises:
        ConfigError: no messages, a role that is not known, no text, or nothing to answer.
    """

    messages: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for number, (role, content) in enumerate(self.messages):
            if role not in ROLES:
                raise ConfigError(f"[{number}]: the role {role!r} is none of {', '.join(ROLES)}")
            if not isinstance(content, str):
                raise ConfigError(f"[{number}].{role}: {content!r} is no text")
            if role == "system" and number > 0:
                raise ConfigError(f"[{number}]: a system prompt stands before all other messages")
        if not self.messages or self.messages[-1][0] != "user":
            raise ConfigError("the last message must be the user's, which the model answers")

    @classmethod
    def of(cls, messages: "Sequence[Mapping[str, str]] | Chat") -> "Chat":
        """Read messages, `{"role": …, "content": …}` each or shorter `{"user": …}`.

        Raises:
            ConfigError: messages of another form, or as `Chat` raises it.
        """
        if isinstance(messages, Chat):
            return messages
        return cls(tuple(_message(number, entry) for number, entry in enumerate(messages)))

    @property
    def as_json(self) -> list[dict[str, str]]:
        """The messages as templates get them."""
        return [{"role": role, "content": content} for role, content in self.messages]

    def __str__(self) -> str:
        return "\n".join(f"{role}: {content}" for role, content in self.messages)


Start = str | Chat
"""What a model goes on from: a text, or messages that it answers."""


def start_as_json(start: Start) -> Any:
    """A start string as JSON has it; no text is like any messages."""
    return start if isinstance(start, str) else start.as_json


def chat_tokens(tokenizer: "PreTrainedTokenizerBase", chat: Chat, name: str) -> tuple[int, ...]:
    """The tokens of a chat, up to where the model's answer begins.

    The template of the tokenizer writes the chat, and its special tokens alone are special ones:
    what looks like one in a message is read as text.

    Args:
        tokenizer: of the model.
        chat: the messages.
        name: of the model, for messages.

    Raises:
        UnusableText: there is no template, it does not take these messages, or a part of a message
            cannot be read as text.
    """
    template = _template(tokenizer, name)
    for role, content in chat.messages:
        if _MARKS.search(content):
            raise UnusableText(f"the message of the {role} holds U+F0000 or U+F0001; leave it out")

    def tokens(messages: list[dict[str, str]]) -> list[int]:
        try:
            return tokenizer.apply_chat_template(
                messages,
                chat_template=template,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
                sanitize_control_tokens=True,
            )
        except Exception as error:  # a template is a program, and may fail in any way
            raise UnusableText(
                f"the chat template of {name} does not take these messages: {error}"
            ) from error

    found = tokens(chat.as_json)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    plain = tokens([{"role": role, "content": "x"} for role, _ in chat.messages])
    written, meant = ([t for t in each if t in special] for each in (found, plain))
    if written != meant:
        raise UnusableText(
            f"the template or the tokenizer of {name} makes other special tokens of a message "
            f"because of what it says: {written} instead of {meant}; write it differently"
        )
    return tuple(found)


def _message(number: int, entry: Mapping[str, str]) -> tuple[str, str]:
    if isinstance(entry, Mapping) and entry.keys() == {"role", "content"}:
        return entry["role"], entry["content"]
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((role, content),) = entry.items()
        return role, content
    raise ConfigError(f"[{number}]: {entry!r} is no message such as {{'user': 'Is it so?'}}")


def _template(tokenizer: "PreTrainedTokenizerBase", name: str) -> str:
    """The chat template of a tokenizer, which knows no date but `TODAY`.

    Raises:
        UnusableText: there is none, or it asks for the date in a way that is not known.
    """
    if not tokenizer.chat_template:
        raise UnusableText(
            f"{name} has no chat template, so that nobody knows how it reads messages; ask it with "
            "a text that it is to go on from, or take a model that was made for chats"
        )
    try:
        template = tokenizer.get_chat_template()
    except ValueError as error:
        raise UnusableText(f"the chat template of {name}: {error}") from error
    if _ASKS_THE_DATE not in template:
        return template
    formats = [match[2] for match in _DATE.finditer(template)]
    if len(formats) < template.count(_ASKS_THE_DATE):
        raise UnusableText(
            f"the chat template of {name} puts the day's date into the chat in a way that is not "
            "known here, so that the answer would be another one every day"
        )
    cases = (f"{{%- if f == {f!r} -%}}{TODAY.strftime(f)}{{%- endif -%}}" for f in set(formats))
    known = "".join(sorted(cases))
    # the environment of transformers takes away the line break behind the macro
    return f"{{%- macro strftime_now(f) -%}}{known}{{%- endmacro %}}\n{template}"
