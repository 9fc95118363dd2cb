"""Answers to questions about one text, or about the turns of a conversation."""

from collections.abc import Mapping
from typing import Any

from llmchecker.checking.answer import Answer
from llmchecker.checking.budget import Budget
from llmchecker.checking.question import Question
from llmchecker.checking.runs import answer_question
from llmchecker.models.decoding.chat_template import Start
from llmchecker.processes.conversation import Conversation, SimulatedUser
from llmchecker.properties.property import Property


def check_anytime(
    model: Any, start: Start, asked: Property, budget: Budget, **options: Any
) -> Answer:
    """Check a query about the tokens of one answer."""
    return answer_question(Question(model, start, asked, budget), **options)


def check_conversation(
    model: Any,
    conversation: Conversation,
    asked: Property,
    budget: Budget,
    user_models: Mapping[SimulatedUser, Any] | None = None,
    **options: Any,
) -> Answer:
    """Check a query about the turns of a conversation."""
    question = Question(model, conversation.chat, asked, budget, conversation)
    return answer_question(question, (user_models or {}).__getitem__, **options)
