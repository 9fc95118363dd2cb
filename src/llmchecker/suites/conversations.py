"""Conversations in suites: the turns of a case, and requirements over turns.

turns: [{ user: Name a city. }, { user: "Is {answer 1} in France?" }]
require:
  - "P>=0.99 [ G leaks = 0 ]"
  - { contains: "Yes", at_least: 0.9 }                      the last answer
  - { not_contains: sorry, at_least: 0.9, turn: every }     also 1, 2 and any
"""

from collections.abc import Mapping, Sequence
from typing import Any

from llmchecker.checking.conversations.conversation import Conversation, ScriptedTurn
from llmchecker.config.models import ModelConfig, check_prompt_form
from llmchecker.config.section import format_value
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.models.decoding.chat_template import Chat, Start
from llmchecker.models.servers.settings import ServerSource
from llmchecker.properties.logic.ast import Formula, Probability, Temporal, format_for_storm
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.suites.assertions import parse_assertion
from llmchecker.suites.templates import Row, insert_columns

_TURN_KEY = "turn"
_LAST, _EVERY, _ANY = "last", "every", "any"


def build_conversation(
    place: str, texts: Sequence[str], first: Start, row: Row | None
) -> Conversation:
    """Build the conversation of a case.

    Args:
        place: the key of the turns.
        texts: the messages of the user, of which the first is in `first`.
        first: the chat before the first answer.
        row: the row for columns; None if the texts are no templates.

    Raises:
        ConfigError: a turn refers to an answer that does not precede it, or is empty.
    """
    assert isinstance(first, Chat)
    turns = []
    for index, text in enumerate(texts):
        turn = ScriptedTurn.parse(text)
        if index == 0 and turn.references:
            raise ConfigError(f"{place}[0].user: no answer precedes the first turn; remove {turn}")
        turns.append(turn if row is None else _insert(f"{place}[{index}].user", turn, row))
        if not text.strip():
            raise ConfigError(f"{place}[{index}].user: the text is empty; write a message")
    try:
        return Conversation(first, tuple(turns[1:]))
    except ConfigError as error:
        raise ConfigError(f"{place.removesuffix('turns')}{error}") from error


def _insert(place: str, turn: ScriptedTurn, row: Row) -> ScriptedTurn:
    """Insert columns into the texts of a turn; a cell is data, and refers to no answer."""
    parts = []
    for part in turn.parts:
        try:
            parts.append(part if isinstance(part, int) else insert_columns(part, row))
        except ConfigError as error:
            raise type(error)(f"{place}: {error}") from error
    return ScriptedTurn(tuple(parts))


def check_can_converse(place: str, model: ModelConfig) -> None:
    """Check that a model can hold a conversation, before it is loaded.

    Raises:
        ConfigError: a server returns its probabilities, or its API has no messages.
    """
    if model.has_distributions and isinstance(model.source, ServerSource):
        raise ConfigError(
            f"{place}: a server returns the probabilities of {model.name}, which conversations do "
            "not support; use a model in this process, or texts alone"
        )
    if not model.has_distributions:
        with prefix_errors(place):
            check_prompt_form(model, Chat((("user", ""),)))


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
            f"{_TURN_KEY}: {format_value(turn)} is no turn; write 1 to {turn_count}, {_LAST}, "
            f"{_EVERY} or {_ANY}"
        )
    return f"{text[: text.index('[')]}[ {path} ]", assertion.properties


def ask_about_whole_answers(query: Query, comparison: str) -> Query:
    """Return a query to which a conversation with a cut answer counts as the worse case.

    Args:
        query: the query.
        comparison: the comparison of the probability with its threshold.
    """
    if not isinstance(query.root, Probability):
        return query
    beginning, _, rest = query.text.partition("[")
    path = rest[: rest.rindex("]")].strip()
    limit = '& (G "end")' if comparison in (">=", ">") else '| (F !"end")'
    return parse(f"{beginning}[ ({path}) {limit} ]")


def _find_state_formula(path: Formula) -> Formula:
    """Return the formula over states of an assertion, as of `F (G words > 3)`."""
    while isinstance(path, Temporal):
        path = path.operands[-1]
    return path
