"""Checks of conversations."""

from collections.abc import Callable, Mapping
from typing import Any

from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.anytime.anytime_run import check_process
from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.anytime.checked_query import CheckedQuery
from llmchecker.checking.conversations.conversation import Conversation, SimulatedUser
from llmchecker.checking.conversations.conversation_process import ConversationProcess
from llmchecker.checking.conversations.text_conversations import check_text_conversation
from llmchecker.models.interface import LanguageModel
from llmchecker.models.text_answer import TextModel


def check_conversation(
    model: LanguageModel | TextModel,
    conversation: Conversation,
    asked: CheckedQuery,
    budget: Budget,
    *,
    user_models: Mapping[SimulatedUser, Any] | None = None,
    watch: Callable[[Progress], bool | None] = lambda progress: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Answer:
    """Check a query about the turns of a conversation, as narrowly as the budget allows.

    The answer is right whenever the work stops. Without a limit of seconds it depends on the seed
    alone.

    Args:
        model: the language model, or one that returns texts alone.
        conversation: the conversation.
        asked: the query, its quantifiers, and the largest number of tokens of an answer.
        budget: the limits on the costs, and the confidence.
        user_models: the models of the simulated users, which have the access of the model.
        watch: called with the intervals after each round; the work ends when it returns true.
        is_cancelled: called between batches; the work ends when it returns true.

    Raises:
        InvalidQuery: the query is not about the turns of a conversation.
        UnusableText: the model cannot read the conversation.
        ConfigError: the model does not list all tokens of a distribution.
        InterruptedCheck: a model failed after texts had been evaluated.
    """
    user_models = user_models or {}
    if isinstance(model, TextModel):
        return check_text_conversation(
            model, conversation, asked, budget, user_models, watch=watch, is_cancelled=is_cancelled
        )
    process = ConversationProcess(model, conversation, asked.length, user_models)
    return check_process(process, asked, budget, watch=watch, is_cancelled=is_cancelled)
