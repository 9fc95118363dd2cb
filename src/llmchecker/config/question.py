"""A question: one query about the texts that one model writes after one prompt.

    Question(
        model=load("resources/models/smollm2-135m"),
        prompt=parse_prompt({"user": "Is it so?"}),
        asked=resolve_query("P=? [ F gender > 0 ]", 5, {}),
        truncation=Horizon(5),
        budget=build_budget(passes=1000),
    )

The command line, the library, suites and the workflow build this value, so that each part has one
check and one default.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, InstanceOf, PlainValidator

from llmchecker.checking.anytime.budget import Budget
from llmchecker.checking.conversations.conversation import Conversation
from llmchecker.checking.conversations.turn_query import TURN, check_turn_query
from llmchecker.checking.formatting import format_answer_progress, format_progress, format_start
from llmchecker.checking.measurement import list_vacuous_thresholds
from llmchecker.config.prompt import change_prompt, parse_prompt
from llmchecker.config.section import parse_end
from llmchecker.errors import ConfigError, name_arguments
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.text_answer import TextModel
from llmchecker.properties.logic.continuation import ask_about_whole_texts
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.logic.query import Query
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.registry import create_quantifier, find_quantifiers
from llmchecker.trees.text_tree import Horizon, Truncation, check_length

if TYPE_CHECKING:
    from llmchecker.checking.answer import Answer, Progress
    from llmchecker.checking.anytime.checked_process import CheckedProcess
    from llmchecker.checking.conversations.conversation import SimulatedUser
    from llmchecker.models.interface import LanguageModel

DEFAULT_LENGTH = 40
"""Default horizon in tokens."""
DEFAULT_PASSES = 2_000
"""Default limit of passes, for a budget without passes and seconds."""
DEFAULT_CONFIDENCE = Budget.confidence
DEFAULT_SEED = Budget.seed


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
        ConfigError: a quantifier needs settings, or the length is another text.
        InvalidBound: the horizon is out of range.
    """
    horizon, is_whole = parse_end(length)
    # a monitor of a negative horizon would never end
    check_length(horizon)
    query = parse(query) if isinstance(query, str) else query
    notes = tuple(list_vacuous_thresholds(query.root))
    if turn_count is not None:
        # the variable of turns is no quantifier
        defined = find_quantifiers(query, horizon, quantifiers, create, {TURN})
        check_turn_query(query, defined, turn_count)
        return Property(query, defined, horizon, notes)
    if is_whole:
        query = ask_about_whole_texts(query, horizon)
    defined = find_quantifiers(query, horizon, quantifiers, create)
    return Property(query, defined, horizon, notes)


def build_budget(
    width: float = 0.0,
    passes: int | None = None,
    seconds: float | None = None,
    **options: Any,
) -> Budget:
    """Build a budget, with the default limit of passes unless passes or seconds are given.

    Args:
        width, passes, seconds, options: as in `Budget`.

    Raises:
        InvalidEstimate: a value is out of its range.
    """
    # an answer may never become as narrow as its width
    if passes is None and seconds is None:
        passes = DEFAULT_PASSES
    return Budget(width, passes, seconds, **options)


def build_model_budget(
    models: Sequence[tuple[str, bool]],
    width: float = 0.0,
    passes: int | None = None,
    seconds: float | None = None,
    answers: int | None = None,
    **options: Any,
) -> Budget:
    """Build the budget of a question to a model, or of a comparison of two.

    Args:
        models: the name of each model, and whether it returns texts alone.
        width, passes, seconds, answers, options: as in `Budget`; None for the default.

    Raises:
        ConfigError: a limit has no effect on the models.
        InvalidEstimate: a value is out of its range.
    """
    text_models = [name for name, is_text_only in models if is_text_only]
    if not text_models:
        if answers is not None:
            raise ConfigError(f"answers: {models[0][0]} has probabilities; limit passes or seconds")
        return build_budget(width, passes, seconds, **options)
    if options.get("certain"):
        raise ConfigError(
            f"certain: {text_models[0]} returns texts alone, which prove nothing; leave it out"
        )
    limit = Budget.answers if answers is None else answers
    if len(text_models) < len(models):
        return build_budget(width, passes, seconds, answers=limit, **options)
    if passes is not None:
        raise ConfigError(f"passes: {text_models[0]} returns texts alone; limit answers")
    # an answer is a pass of such a model
    return Budget(width, limit, seconds, answers=limit, **options)


class TextProcess(BaseModel):
    """A text generation process: the texts that one model writes after one prompt.

    Attributes:
        model: the model with its decoding: a `ModelConfig`, or a loaded `LanguageModel`.
        prompt: the start string, or the messages to answer. They are data and never become part
            of a path.
        truncation: the truncation of the process; the horizon of one without a truncation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Any
    prompt: Annotated[Start, PlainValidator(parse_prompt)]
    truncation: InstanceOf[Truncation] | InstanceOf[Horizon]

    @property
    def formatted_start(self) -> str:
        """The start string in quotes, or each message of a chat, on one line."""
        return format_start(self.prompt)


class Question(TextProcess):
    """One query about a text generation process.

    Attributes:
        asked: the query with its quantifiers.
        conversation: the conversation that begins with the prompt, about whose turns the query is;
            None for a query about the tokens of one answer.
        budget: the limits, the confidence and the seed of the answer for the whole model.
    """

    asked: InstanceOf[Property]
    conversation: InstanceOf[Conversation] | None = None
    budget: InstanceOf[Budget] = build_budget()

    @property
    def query(self) -> Query:
        """The parsed query."""
        return self.asked.query

    @property
    def is_text_only(self) -> bool:
        """Whether the model, loaded or not, returns texts alone."""
        return isinstance(self.model, TextModel) or getattr(self.model, "is_text_only", False)

    def open_process(
        self,
        model: "LanguageModel",
        asked: Property,
        user_models: "Mapping[SimulatedUser, LanguageModel]",
    ) -> "CheckedProcess":
        """Open the process that the query is about.

        Args:
            model: the loaded model.
            asked: the query with its quantifiers.
            user_models: the models of the simulated users.

        Raises:
            UnusableText: a model cannot read the prompt or later turns.
            ConfigError: a model does not list all tokens of a distribution.
        """
        if self.conversation is None:
            # imported here, as in `answer`
            from llmchecker.checking.anytime.answer_process import AnswerProcess

            return AnswerProcess(model, self.prompt, asked.length)
        from llmchecker.checking.conversations.conversation_process import ConversationProcess

        return ConversationProcess(model, self.conversation, asked.length, user_models)

    def answer(
        self, *, user_models: "Mapping[SimulatedUser, Any] | None" = None, **options: Any
    ) -> "Answer":
        """Answer the question to a loaded model, as narrowly as the budget allows.

        Args:
            user_models: the models of the simulated users, which have the access of the model.
            options: `watch`, `is_cancelled`, and about tokens `batch_invariant`, as in
                `AnytimeRun`.

        Raises:
            InterruptedCheck: the model failed after it had evaluated texts.
            LLMCheckerError: it failed before, or the query has no answer.
        """
        users = user_models or {}
        if self.is_text_only:
            # imported here: torch and Storm take seconds to load, which would delay --help and the
            # checks of arguments
            from llmchecker.checking.anytime.text_run import answer_alone
            from llmchecker.checking.conversations.text_conversations import create_run

            return answer_alone(create_run(self.model, self, users.__getitem__, **options))
        from llmchecker.checking.anytime.anytime_run import check_process

        process = self.open_process(self.model, self.asked, users)
        return check_process(process, self.asked, self.budget, **options)

    def format_progress(self, progress: "Progress") -> str:
        """Format the intervals of an answer at one time."""
        if self.is_text_only:
            return format_answer_progress(progress)
        return format_progress(progress)

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
