"""Prompts: a text to continue or a chat to answer, parsed from any of their forms."""

from collections.abc import Mapping, Sequence

from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.models.decoding.tools import Tool, parse_tools
from llmchecker.utils.printable_text import quote_value

_PROMPT_KEYS = {"start", "user", "system", "messages", "tools", "columns"}


def parse_prompt(entry: object) -> Start:
    """Parse a prompt: a text to continue, or a chat to answer.

    Args:
        entry: a text; messages as in `Chat.from_messages`; or a mapping with the keys `start` for
            a text, or `user` or `messages` for a chat, with or without `system`, `tools` and, for
            an application, `columns`. A key with None is absent.

    Raises:
        ConfigError: the entry is no prompt; the message begins with the key.
    """
    if isinstance(entry, Chat):
        return entry
    if isinstance(entry, str):
        with prefix_errors("start"):
            _check_text(entry)
        return entry
    if isinstance(entry, list | tuple):
        entry = {"messages": entry}
    if not isinstance(entry, Mapping) or not entry.keys() <= _PROMPT_KEYS:
        raise ConfigError(
            f"start: {quote_value(entry)} is neither a text nor messages; give a string or a list "
            "of messages"
        )
    keys = {key: value for key, value in entry.items() if value is not None}
    if not keys:
        raise ConfigError("start: a start string is missing; give start, user or messages")
    columns = keys.pop("columns", None)
    if columns is not None:
        if not isinstance(columns, Mapping) or not all(isinstance(each, str) for each in columns):
            raise ConfigError(f"columns: {quote_value(columns)} is no mapping; give names")
        prompt = parse_prompt(keys)
        if isinstance(prompt, str):
            raise ConfigError("columns: they belong to a chat, not to a start string; give user")
        return prompt.add_columns(columns)
    prompts = [key for key in keys if key not in ("system", "tools")]
    if len(prompts) > 1:
        raise ConfigError(f"{prompts[0]}: {prompts[1]} is given too; keep one prompt")
    # a start string is continued without a chat template
    for key in ("system", "tools"):
        if key in keys and not {"user", "messages"} & keys.keys():
            raise ConfigError(f"{key}: it belongs to a chat, not to a start string; give user")
    if "start" in keys:
        return parse_prompt(keys["start"])
    for key, check in (("system", _check_text), ("user", check_content)):
        if key in keys:
            with prefix_errors(key):
                check(keys[key])
    system = {"system": keys["system"]} if "system" in keys else {}
    tools = parse_tools("tools", keys["tools"]) if "tools" in keys else ()
    if "user" in keys:
        return Chat(tuple({**system, "user": keys["user"]}.items()), tools)
    with prefix_errors("messages"):
        messages = keys["messages"]
        if not isinstance(messages, list | tuple):
            raise ConfigError(f"{quote_value(messages)} is not a list; give a list of messages")
        return parse_messages([*([system] if system else []), *messages], tools)


def change_prompt(prompt: Start, changes: Mapping[str, object]) -> Start:
    """Return a prompt with other keys: a text replaces a chat, and a chat replaces a text.

    Args:
        prompt: the prompt.
        changes: keys as in `parse_prompt`; those with None change nothing.

    Raises:
        ConfigError: as in `parse_prompt`.
    """
    changes = {key: value for key, value in changes.items() if value is not None}
    if not changes:
        return prompt
    kept: dict[str, object] = {}
    if isinstance(prompt, Chat) and "start" not in changes:
        system = [content for role, content in prompt.messages if role == "system"]
        turns = [(role, content) for role, content in prompt.messages if role != "system"]
        kept["system"] = system[0] if system else None
        kept["tools"] = [tool.description for tool in prompt.tools] or None
        kept["columns"] = prompt.column_values or None
        # another message of the user replaces all turns
        if not {"user", "messages"} & changes.keys():
            kept["messages"] = [{role: content} for role, content in turns]
    return parse_prompt(kept | changes)


def parse_messages(messages: Sequence[Mapping[str, str]], tools: tuple[Tool, ...] = ()) -> Chat:
    """Parse the messages of a chat, as in `Chat.from_messages`.

    Args:
        messages: the messages.
        tools: the functions that the model may call.

    Raises:
        ConfigError: a message has another form, or their order is one that models do not accept;
            an error about one message begins with its index, such as `[1]: `.
    """
    chat = Chat.from_messages(messages, tools)
    for _, text in chat.messages:
        _check_text(text)
    return chat


def check_content(text: object) -> None:
    """Check that a value is a text as of `_check_text` with more than white space.

    Raises:
        ConfigError: it is not.
    """
    _check_text(text)
    if not str(text).strip():
        raise ConfigError("the text is empty; write a prompt")


def _check_text(text: object) -> None:
    """Check that a value is a text and can be encoded.

    Raises:
        ConfigError: it is not.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{quote_value(text)} is not a text; give a string")
    # a shell's arguments that are not UTF-8 become lone surrogates
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{text!r} is not valid UTF-8; encode it again") from error
