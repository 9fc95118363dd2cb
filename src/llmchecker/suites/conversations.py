"""Conversations in suites: the turns of a case, and requirements over turns.

turns:
  - { user: Name a city. }
  - { user: "Is {answer 1} in France?" }
  - { tool: { name: search, content: "No." } }
  - { simulated_user: { model: smollm2-135m, system: You are a tourist., length: 20 } }
require:
  - "P>=0.99 [ G leaks = 0 ]"
  - { contains: "Yes", at_least: 0.9 }                      the last answer
  - { not_contains: sorry, at_least: 0.9, turn: every }     also 1, 2 and any
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmchecker.config.deployment import Deployment
from llmchecker.config.models import ModelConfig, check_prompt_form
from llmchecker.errors import ConfigError, name_arguments, prefix_errors
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.processes.conversation import (
    Conversation,
    ScriptedTurn,
    SimulatedUser,
    Turn,
)
from llmchecker.properties.assertions import parse_assertion
from llmchecker.properties.logic.ast import Formula, Probability, Temporal, format_for_storm
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.suites.suite_file import SimulatedUserKeys, TurnKeys
from llmchecker.suites.templates import Row, insert_columns
from llmchecker.utils.number_format import format_count
from llmchecker.utils.printable_text import quote_value

_TURN_KEY = "turn"
_LAST, _EVERY, _ANY = "last", "every", "any"


def build_conversation(
    place: str,
    entries: Sequence[TurnKeys],
    first: Start,
    row: Row | None,
    model: ModelConfig,
    find_deployment: Callable[..., Deployment],
) -> Conversation:
    """Build the conversation of a case, and check that its models can hold it.

    Args:
        place: the key of the turns.
        entries: the turns, of which the first is in `first`.
        first: the chat before the first answer.
        row: the row for columns; None if the texts are no templates.
        model: the model.
        find_deployment: finds the model of a simulated user, as `QuantifierPool.find_deployment`.

    Raises:
        ConfigError: a turn refers to an answer that does not precede it, is empty, or names an
            unknown tool or model; or a model cannot hold a conversation.
    """
    assert isinstance(first, Chat)
    _check_can_converse(place, model, first)
    turns: list[Turn] = []
    for index, entry in enumerate(entries):
        if entry.simulated_user is not None:
            key = f"{place}[{index}].simulated_user"
            user = _build_user(key, entry.simulated_user, row, find_deployment)
            _check_access(key, user.model.model, model)
            turns.append(user)
            continue
        key = f"{place}[{index}].{'user' if entry.tool is None else 'tool.content'}"
        text = entry.text or ""
        turn = ScriptedTurn.parse(text, "" if entry.tool is None else entry.tool.name)
        if index == 0 and turn.references:
            raise ConfigError(f"{key}: no answer precedes the first turn; remove {turn}")
        turns.append(_insert(key, turn, row))
        # a tool may return nothing
        if entry.tool is None and not text.strip():
            raise ConfigError(f"{key}: the text is empty; write a message")
    with name_arguments(place.removesuffix("turns")):
        return Conversation(first, tuple(turns[1:]))


def _build_user(
    place: str, keys: SimulatedUserKeys, row: Row | None, find_deployment: Callable[..., Deployment]
) -> SimulatedUser:
    """Build a simulated user, whose model is a deployment."""
    with prefix_errors(place):
        system = insert_columns(keys.system, row)
        if not system.strip():
            raise ConfigError("system: the text is empty; describe the user")
        deployment = find_deployment(keys.model, system=system, decoding=keys.explicit_keys)
    _check_can_converse(place, deployment.model, Chat((("system", system), ("user", ""))))
    name = f"{deployment.model.label}, {deployment.describe_decoding()}"
    return SimulatedUser(name, system, keys.length, deployment)


def describe_turns(conversation: Conversation) -> list[Any]:
    """Return the later turns as JSON, with all that determines simulated messages but files."""
    turns: list[Any] = []
    for turn in conversation.later_turns:
        if isinstance(turn, SimulatedUser):
            turns.append({"simulated_user": turn.model.describe(), "length": turn.length})
        else:
            turns.append({"tool": str(turn)} if turn.tool else str(turn))
    return turns


def add_user_notes(asked: Property, conversation: Conversation | None) -> Property:
    """Return a query whose answers name the simulated users."""
    if conversation is None:
        return asked
    turns: dict[SimulatedUser, list[int]] = {}
    for number, turn in enumerate(conversation.later_turns, start=2):
        if isinstance(turn, SimulatedUser):
            turns.setdefault(turn, []).append(number)
    notes = [
        f"{user} writes {'turn' if len(numbers) == 1 else 'turns'} "
        f"{', '.join(map(str, numbers))} in up to {format_count(user.length, 'token')}"
        for user, numbers in turns.items()
    ]
    return replace(asked, notes=(*asked.notes, *notes)) if notes else asked


def _insert(place: str, turn: ScriptedTurn, row: Row | None) -> ScriptedTurn:
    """Insert columns into the texts of a turn; a cell is data, and refers to no answer."""
    with prefix_errors(place):
        parts = tuple(
            part if isinstance(part, int) else insert_columns(part, row) for part in turn.parts
        )
    return ScriptedTurn(parts, turn.tool)


def _check_can_converse(place: str, model: ModelConfig, chat: Chat) -> None:
    """Check that a model can hold the conversation of a chat, before it is loaded.

    Raises:
        ConfigError: its API has no messages, or it is masked.
    """
    if model.kind == "masked":
        raise ConfigError(f"{place}: {model.name} is a masked model; use a chat model")
    if model.is_text_only:
        with prefix_errors(place):
            check_prompt_form(model, chat)


def _check_access(place: str, user: ModelConfig, model: ModelConfig) -> None:
    """Check that a simulated user has the same access as the model.

    Raises:
        ConfigError: one returns texts alone, and the other its probabilities.
    """
    if user.is_text_only != model.is_text_only:
        one, other = (model, user) if model.is_text_only else (user, model)
        raise ConfigError(
            f"{place}: {one.label} returns texts alone, and {other.label} its probabilities; use "
            "two of one kind"
        )


def parse_turn_assertion(
    entry: Mapping[str, Any], turn_count: int
) -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Parse an assertion about the answers of a conversation.

    It is about the last answer, or that of the key `turn`: a number, `last`, `every` or `any`.

    Returns:
        The query with a threshold, and the settings of its quantifiers by name.

    Raises:
        ConfigError: the assertion is invalid, or the conversation has no such turn.
    """
    turn = entry.get(_TURN_KEY, _LAST)
    text, assertion = parse_assertion({k: v for k, v in entry.items() if k != _TURN_KEY})
    root = parse(text).root
    assert isinstance(root, Probability)
    # the states of a conversation are whole answers
    state = format_for_storm(_find_state_formula(root.path), str)
    if turn == _LAST:
        path = f"F (G ({state}))"
    elif turn == _EVERY:
        path = f"G ({state})"
    elif turn == _ANY:
        path = f"F ({state})"
    elif type(turn) is int and 1 <= turn <= turn_count:
        path = f"F (turn = {turn} & ({state}))"
    else:
        raise ConfigError(
            f"{_TURN_KEY}: {quote_value(turn)} is no turn; write 1 to {turn_count}, {_LAST}, "
            f"{_EVERY} or {_ANY}"
        )
    return f"{text[: text.index('[')]}[ {path} ]", assertion.properties


def _find_state_formula(path: Formula) -> Formula:
    """Return the formula over states of an assertion, as of `F (G words > 3)`."""
    while isinstance(path, Temporal):
        path = path.operands[-1]
    return path
