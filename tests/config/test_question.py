"""A question: prompts of every form, the default limit, and the second side of a comparison."""

from dataclasses import FrozenInstanceError

import pytest

from llmchecker.checking.budget import DEFAULT_PASSES, build_budget
from llmchecker.checking.question import Question
from llmchecker.config.prompt import change_prompt, parse_prompt
from llmchecker.config.question import (
    resolve_query,
    vary_question,
)
from llmchecker.errors import ConfigError
from llmchecker.models.decoding.chat_template import Chat

CHAT = Chat((("system", "Be kind."), ("user", "Is it so?")))
TURNS = Chat((("user", "Hi"), ("assistant", "Hello"), ("user", "Is it so?")))
USER = {"role": "user", "content": "Is it so?"}


@pytest.mark.parametrize(
    ("entry", "prompt"),
    [
        ("The player won", "The player won"),
        ("", ""),
        ({"start": "The player won", "user": None}, "The player won"),
        ({"start": [USER]}, Chat((("user", "Is it so?"),))),
        ({"user": "Is it so?", "system": "Be kind."}, CHAT),
        ({"messages": [USER], "system": "Be kind."}, CHAT),
        ([{"system": "Be kind."}, {"user": "Is it so?"}], CHAT),
        (CHAT, CHAT),
    ],
)
def test_every_form_of_a_prompt_is_one_value(entry, prompt):
    """Texts, messages and their keys become a start string or a chat."""
    assert parse_prompt(entry) == prompt


@pytest.mark.parametrize(
    ("prompt", "changes", "changed"),
    [
        ("a", {"start": None}, "a"),
        ("a", {"start": "b"}, "b"),
        (CHAT, {"start": "b"}, "b"),
        ("a", {"user": "b"}, Chat((("user", "b"),))),
        (CHAT, {"user": "b"}, Chat((("system", "Be kind."), ("user", "b")))),
        (CHAT, {"system": "Be brief."}, Chat((("system", "Be brief."), ("user", "Is it so?")))),
        (TURNS, {"system": "Be kind."}, Chat((("system", "Be kind."), *TURNS.messages))),
        (TURNS, {"user": "b"}, Chat((("user", "b"),))),
    ],
)
def test_a_change_replaces_what_it_names(prompt, changes, changed):
    """A text replaces a chat, a user all turns, and a system prompt only that of the chat."""
    assert change_prompt(prompt, changes) == changed


def test_a_budget_without_passes_and_seconds_has_the_default_seconds():
    """An interval may never become as narrow as a width, which alone would not end the work."""
    assert build_budget().passes == DEFAULT_PASSES
    assert build_budget(passes=3).seconds is None
    assert build_budget(width=0.1).passes == DEFAULT_PASSES
    assert build_budget(seconds=1.0).passes is None


def test_a_question_is_frozen_and_varies_by_a_copy():
    """The second side keeps query, horizon and budget; a side like the first is refused."""
    question = Question(
        model="one",
        prompt="a",
        asked=resolve_query("P=? [ F step = 1 ]", 3, {}),
        budget=build_budget(passes=3),
    )
    with pytest.raises(FrozenInstanceError):
        question.prompt = "b"
    versus = vary_question(question, "two", {"user": "b"}, "versus_")
    assert (versus.model, versus.prompt) == ("two", Chat((("user", "b"),)))
    assert (versus.query, versus.budget) == (question.query, question.budget)
    with pytest.raises(ConfigError, match="both sides are the same"):
        vary_question(question, "one", {"start": "a"}, "versus_")
    with pytest.raises(ConfigError, match=r"^versus_system: "):
        vary_question(question, "two", {"system": "b"}, "versus_")
