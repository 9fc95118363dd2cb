"""Questions as users write them: the query, the budget, and the second side of a comparison."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmchecker.checking.budget import Budget, build_budget
from llmchecker.checking.conversations.turn_query import (
    TURN,
    ask_about_whole_answers,
    check_turn_query,
)
from llmchecker.checking.measurement import list_vacuous_thresholds
from llmchecker.checking.question import Question
from llmchecker.config.prompt import change_prompt
from llmchecker.errors import ConfigError, name_arguments
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.properties.logic.continuation import ask_about_whole_texts
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import create_quantifier, find_quantifiers
from llmchecker.utils.section import EndOrLength, Section, parse_end, parse_section

DEFAULT_LENGTH = 40
"""Default horizon in tokens."""


class HorizonKeys(Section):
    """The key of the horizon."""

    length: EndOrLength = DEFAULT_LENGTH
    """The horizon in tokens. `end` asks about whole answers: 1,000 tokens, or 400 with `end:400`.
    An answer that has not ended there counts against a requirement that its end could violate."""


def read_length(length: int | str) -> tuple[int, bool]:
    """Return the horizon of a length in tokens, and whether it is about whole texts.

    Raises:
        ConfigError: the length is out of range, or another text than `end` or `end:400`.
    """
    return parse_end(parse_section(HorizonKeys, {"length": length}).length)


def resolve_query(
    query: str | Query,
    length: int | str,
    quantifiers: Mapping[str, Quantifier],
    create: Callable[[str], Quantifier] = create_quantifier,
    turn_count: int | None = None,
) -> Property:
    """Parse a query, and find its quantifiers.

    Args:
        query: a text, or a parsed query.
        length: the horizon in tokens; `end` or `end:400` asks about whole answers.
        quantifiers: defined quantifiers by name; standard ones may be absent.
        create: creates an absent quantifier.
        turn_count: the number of turns of a conversation; None for a query about one text.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        ConfigError: a quantifier needs settings, or the length is no horizon.
    """
    # a monitor of a negative horizon would never end
    horizon, is_whole = read_length(length)
    query = parse(query) if isinstance(query, str) else query
    notes = tuple(list_vacuous_thresholds(query.root))
    if turn_count is not None:
        # the variable of turns is no quantifier
        defined = find_quantifiers(query, horizon, quantifiers, create, {TURN})
        check_turn_query(query, defined, turn_count)
        query = ask_about_whole_answers(query) if is_whole else query
        return Property(query, defined, horizon, notes)
    if is_whole:
        query = ask_about_whole_texts(query, horizon)
    defined = find_quantifiers(query, horizon, quantifiers, create)
    return Property(query, defined, horizon, notes)


def build_model_budget(
    models: Sequence[tuple[str, bool]], *, has_paid_judge: bool = False, **keys: Any
) -> Budget:
    """Build the budget of a question to a model, or of a comparison of two.

    Args:
        models: the name of each model, and whether it returns texts alone.
        has_paid_judge: whether a judge returns texts alone, which tokens and dollars limit too.
        keys: keys of `Budget`; None for the default.

    Raises:
        ConfigError: a limit has no effect on the models, or a value is out of its range.
    """
    budget = build_budget(**keys)
    text_models = [name for name, is_text_only in models if is_text_only]
    if not text_models:
        for name in ("answers",) if has_paid_judge else ("answers", "tokens", "dollars"):
            if keys.get(name) is not None:
                raise ConfigError(
                    f"{name}: {models[0][0]} has probabilities; limit passes or seconds"
                )
        return budget
    if budget.certain:
        raise ConfigError(
            f"certain: {text_models[0]} returns texts alone, which prove nothing; leave it out"
        )
    if len(text_models) < len(models):
        return budget
    if keys.get("passes") is not None:
        raise ConfigError(f"passes: {text_models[0]} returns texts alone; limit answers")
    # an answer is a pass of such a model
    return budget.model_copy(update={"passes": budget.answers})


def vary_question(
    question: Question, model: Any, changes: Mapping[str, object], place: str
) -> Question:
    """Return the question to the second side of a comparison.

    Args:
        question: the question to the first side.
        model: the model of the second side, with its decoding.
        changes: changes of the prompt, as in `change_prompt`.
        place: the beginning of the names of that side's arguments, for messages.

    Raises:
        ConfigError: both sides are the same, or the prompt is invalid.
    """
    with name_arguments(place):
        prompt = change_prompt(question.prompt, changes)
    if (model, prompt) == (question.model, question.prompt):
        raise ConfigError(
            "compare: both sides are the same; change the model, the prompt or the decoding"
        )
    conversation = question.conversation
    if conversation is not None:
        if not isinstance(prompt, Chat):
            raise ConfigError(f"{place}start: a text has no turns; give {place}user in its place")
        conversation = replace(conversation, chat=prompt)
    return replace(question, model=model, prompt=prompt, conversation=conversation)
