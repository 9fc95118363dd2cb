"""Checks of one conversation, with any access to its models."""

from collections.abc import Mapping
from typing import Any

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.anytime_run import check_process
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.text_run import answer_alone
from llmchecker.checking.conversations.conversation import Conversation, SimulatedUser
from llmchecker.checking.conversations.conversation_process import ConversationProcess
from llmchecker.checking.conversations.text_conversations import ConversationRun
from llmchecker.models.text_answer import TextModel
from llmchecker.properties.property import Property


def check_conversation(
    model: Any,
    conversation: Conversation,
    asked: Property,
    budget: Budget,
    user_models: Mapping[SimulatedUser, Any] | None = None,
    **options: Any,
) -> Answer:
    """Check a query about the turns of a conversation."""
    users = user_models or {}
    if isinstance(model, TextModel):
        return answer_alone(ConversationRun(model, conversation, asked, budget, users, **options))
    process = ConversationProcess(model, conversation, asked.length, users)
    return check_process(process, asked, budget, **options)
