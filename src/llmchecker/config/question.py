"""A question: one query about the texts that one model writes after one prompt.

    Question(
        model=load("resources/models/smollm2-135m"),
        prompt={"user": "Is it so?"},
        checked_query=resolve_query("P=? [ F gender > 0 ]", 5, {}),
        truncation=Horizon(5),
        budget=build_budget(passes=1000),
    )

The command line and the library parse their arguments to this value, so that each has one check
and one default.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator

from llmchecker.checking.anytime.budget import AnswerBudget
from llmchecker.checking.anytime.path_formulas import CheckedQuery
from llmchecker.checking.formatting import format_start
from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import create_quantifier, find_quantifiers
from llmchecker.trees.text_tree import Horizon, Truncation, check_length

DEFAULT_LENGTH = 5
"""Default horizon in tokens."""
DEFAULT_SECONDS = 30.0
"""Default time limit in seconds, for a budget without a limit."""
DEFAULT_CONFIDENCE = AnswerBudget.confidence
DEFAULT_SEED = AnswerBudget.seed

_PROMPT_KEYS = {"start", "user", "system", "messages"}


def parse_prompt(entry: object) -> Start:
    """Parse a prompt: a text to continue, or a chat to answer.

    Args:
        entry: a text; messages as in `Chat.from_messages`; or a mapping with the keys `start` for
            a text, or `user` or `messages` for a chat, with or without `system`. A key with None
            is absent.

    Raises:
        ConfigError: the entry is no prompt; the message begins with the key.
    """
    if isinstance(entry, str):
        return _check_text("start", entry)
    if isinstance(entry, Chat):
        return entry
    if isinstance(entry, list | tuple):
        return _parse_messages(entry)
    if not isinstance(entry, Mapping) or not entry.keys() <= _PROMPT_KEYS:
        raise ConfigError(
            f"start: {entry!r} is neither a text nor messages; give a string or a list of messages"
        )
    keys = {key: value for key, value in entry.items() if value is not None}
    if not keys:
        raise ConfigError("start: a start string is missing; give start, user or messages")
    prompts = [key for key in keys if key != "system"]
    if len(prompts) > 1:
        raise ConfigError(f"{prompts[0]}: {prompts[1]} is given too; keep one prompt")
    # a start string is continued without a chat template
    if "system" in keys and not {"user", "messages"} & keys.keys():
        raise ConfigError("system: it belongs to a chat, not to a start string; give user")
    if "start" in keys:
        return parse_prompt(keys["start"])
    system = {"system": keys["system"]} if "system" in keys else {}
    if "messages" in keys:
        messages = keys["messages"]
        if not isinstance(messages, list | tuple):
            raise ConfigError(f"messages: {messages!r} is not a list; give a list of messages")
        return _parse_messages([*([system] if system else []), *messages])
    texts = {**system, "user": keys["user"]}
    return Chat(tuple((role, _check_text(role, text)) for role, text in texts.items()))


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
        # another message of the user replaces all turns
        if not {"user", "messages"} & changes.keys():
            kept["messages"] = [{role: content} for role, content in turns]
    return parse_prompt(kept | changes)


_Prompt = Annotated[Start, PlainValidator(parse_prompt)]
"""A prompt of a question, from any entry of `parse_prompt`."""


def resolve_query(
    query: str | Query,
    length: int,
    quantifiers: Mapping[str, Quantifier],
    create: Callable[[str], Quantifier] = create_quantifier,
) -> CheckedQuery:
    """Parse a query, and find its quantifiers.

    Args:
        query: a text, or a parsed query.
        length: the horizon in tokens.
        quantifiers: defined quantifiers by name; standard ones may be absent.
        create: creates an absent quantifier.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        ConfigError: a quantifier needs settings.
        InvalidBound: the horizon is out of range.
    """
    # a monitor of a negative horizon would never end
    check_length(length)
    query = parse(query) if isinstance(query, str) else query
    return CheckedQuery(query, find_quantifiers(query, length, quantifiers, create), length)


def build_budget(
    width: float = 0.0,
    passes: int | None = None,
    seconds: float | None = None,
    **options: Any,
) -> AnswerBudget:
    """Build a budget, with the default time limit if no other limit is given.

    Args:
        width, passes, seconds, options: as in `AnswerBudget`.

    Raises:
        InvalidEstimate: a value is out of its range.
    """
    # only these three end the work
    if passes is None and seconds is None and width == 0:
        seconds = DEFAULT_SECONDS
    return AnswerBudget(width, passes, seconds, **options)


def _instance_of(*types: type) -> PlainValidator:
    """Return a validator of values that are checked on their construction."""

    def check(value: object) -> object:
        if not isinstance(value, types):
            names = " or ".join(each.__name__ for each in types)
            raise TypeError(f"{value!r} is not a {names}")
        return value

    return PlainValidator(check)


class Question(BaseModel):
    """One query about the texts that one model writes after one prompt.

    Attributes:
        model: the model: a `ModelConfig` of the shell, or a loaded `LanguageModel`; its decoding is
            that of the question.
        prompt: the start string, or the messages to answer. They are data and never become part
            of a path.
        checked_query: the query with its quantifiers; None for a question about the tree only.
        truncation: the truncation of the tree; the horizon of an answer without one.
        budget: the limits, the confidence and the seed of the answer for the whole model; None to
            answer on the tree of the truncation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Any
    prompt: _Prompt
    checked_query: Annotated[CheckedQuery | None, _instance_of(CheckedQuery, NoneType)] = None
    truncation: Annotated[Truncation | Horizon, _instance_of(Truncation, Horizon)]
    budget: Annotated[AnswerBudget | None, _instance_of(AnswerBudget, NoneType)] = None

    @property
    def query(self) -> Query | None:
        """The parsed query."""
        return None if self.checked_query is None else self.checked_query.query

    @property
    def formatted_start(self) -> str:
        """The start string in quotes, or each message of a chat, on one line."""
        return format_start(self.prompt)

    def vary(self, model: Any, changes: Mapping[str, object], place: str) -> "Question":
        """Return the second side of a comparison.

        Args:
            model: the model of that side, with its decoding.
            changes: changes of the prompt, as in `change_prompt`.
            place: the beginning of the names of that side's arguments, for messages.

        Raises:
            ConfigError: both sides are the same, or the prompt is invalid.
        """
        with name_arguments(place):
            prompt = change_prompt(self.prompt, changes)
        if (model, prompt) == (self.model, self.prompt):
            raise ConfigError(
                "compare: both sides are the same; change the model, the prompt or the decoding"
            )
        return self.model_copy(update={"model": model, "prompt": prompt})


@contextlib.contextmanager
def name_arguments(prefix: str) -> Iterator[None]:
    """Prefix messages that begin with a key, so that they begin with the argument's name.

    The key `seed` is the option `--seed` of the command line.
    """
    try:
        yield
    except LLMCheckerError as error:
        raise type(error)(f"{prefix}{error}") from error


def _parse_messages(messages: object) -> Chat:
    try:
        chat = Chat.from_messages(messages)
    except ConfigError as error:
        # a message of an error about one message begins with its index
        raise ConfigError(f"messages{': ' * (str(error)[0] != '[')}{error}") from error
    for _, text in chat.messages:
        _check_text("messages", text)
    return chat


def _check_text(key: str, text: object) -> str:
    """Return a text if it is one and can be encoded."""
    if not isinstance(text, str):
        raise ConfigError(f"{key}: {text!r} is not a text; give a string")
    # a shell's arguments that are not UTF-8 become lone surrogates
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{key}: {text!r} is not valid UTF-8; encode it again") from error
    return text
