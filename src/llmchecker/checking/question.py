"""A question: one property of the texts that one model writes after one prompt.

    Question(
        model=load("resources/models/smollm2-135m"),
        prompt=parse_prompt({"user": "Is it so?"}),
        asked=resolve_query("P=? [ F gender > 0 ]", 5, {}),
        budget=build_budget(passes=1000),
    )

The command line, the library, suites and the workflow build this value; `runs` answers it.
"""

from dataclasses import dataclass
from typing import Any

from llmchecker.checking.budget import Budget
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.text_answer import TextModel
from llmchecker.processes.conversation import Conversation
from llmchecker.properties.logic.query import Query
from llmchecker.properties.property import Property
from llmchecker.trees.text_tree import Truncation


@dataclass(frozen=True)
class Question:
    """One property of the texts of one process.

    Attributes:
        model: the model with its decoding: a `ModelConfig`, or a loaded `LanguageModel` or
            `TextModel`.
        prompt: the start string, or the messages to answer. They are data and never become part
            of a path.
        asked: the query with its quantifiers, and the horizon.
        budget: the limits, the confidence and the seed of the answer for the whole model.
        conversation: the conversation that begins with the prompt, about whose turns the query is;
            None for a query about the tokens of one answer.
        truncation: alpha, k and L of the tree on which the query is checked; None for an answer
            for the whole model.
    """

    model: Any
    prompt: Start
    asked: Property
    budget: Budget
    conversation: Conversation | None = None
    truncation: Truncation | None = None

    @property
    def query(self) -> Query:
        """The parsed query."""
        return self.asked.query

    @property
    def length(self) -> int:
        """The horizon L in tokens."""
        return self.asked.length

    @property
    def is_text_only(self) -> bool:
        """Whether the model, loaded or not, returns texts alone."""
        return isinstance(self.model, TextModel) or getattr(self.model, "is_text_only", False)
