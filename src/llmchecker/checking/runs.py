"""Answers to questions, one by one or side by side, whatever the access to the model is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.anytime.answer_process import AnswerProcess
from llmchecker.checking.anytime.anytime_run import AnytimeRun
from llmchecker.checking.anytime.checked_process import CheckedProcess
from llmchecker.checking.anytime.run import CheckOutcome, Run
from llmchecker.checking.anytime.side_by_side import check_side_by_side
from llmchecker.checking.anytime.text_run import AnswerRun, TextRun, check_texts
from llmchecker.checking.conversations.conversation_process import ConversationProcess
from llmchecker.checking.conversations.text_conversations import ConversationRun
from llmchecker.checking.question import Question
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.interface import LanguageModel
from llmchecker.models.text_answer import TextModel
from llmchecker.processes.conversation import SimulatedUser

OpenUser = Callable[[SimulatedUser], Any]
"""Opens the model of a simulated user, which has the access of the answering model."""


def take_given_model(user: SimulatedUser) -> Any:
    """Return the model that a simulated user has, which is loaded."""
    return user.model


def answer_question(
    question: Question, open_user: OpenUser = take_given_model, **options: Any
) -> Answer:
    """Answer a question to a loaded model, as narrowly as its budget allows.

    The answer is right whenever the work stops. Without a limit of seconds the same machine gives
    the same answer for the same seed.

    If single texts do not decide the query (see `Property`), every text counts as undecided until
    it ends, and only certain bounds are computed.

    Args:
        question, open_user, options: as in `open_run`.

    Raises:
        InterruptedCheck: the model failed after it had evaluated texts.
        LLMCheckerError: it failed before, or the query has no answer.
    """
    run = open_run(question, open_user, **options)
    run.complete()
    return run.conclude()


def open_run(
    question: Question,
    open_user: OpenUser = take_given_model,
    *,
    batch_invariant: bool = False,
    is_cancelled: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], bool | None] = lambda progress: None,
) -> Run:
    """Open the run of a question to a loaded model.

    Args:
        question: the question.
        open_user: opens the model of a simulated user.
        batch_invariant: as in `LanguageModel.open_prefix`.
        is_cancelled: called while the model works; the work ends when it returns true.
        watch: called with the intervals after each round; the work ends when it returns true.

    Raises:
        UnusableText: a model cannot read the prompt or later turns.
        InvalidQuery: the query has no answer for this access.
        ConfigError: a model does not accept the form of the prompt.
    """
    if isinstance(question.model, TextModel):
        return _open_text_run(question.model, question, open_user, is_cancelled, watch)
    return AnytimeRun(
        _open_process(question.model, question, open_user),
        question.asked,
        question.budget,
        batch_invariant=batch_invariant,
        is_cancelled=is_cancelled,
        watch=watch,
    )


def answer_side_by_side(
    model: LanguageModel | TextModel,
    questions: Sequence[Question],
    open_user: OpenUser = take_given_model,
    *,
    prompts: Iterable[Start] = (),
    is_wanted: Callable[[int], bool] = lambda index: True,
) -> Iterator[tuple[int, CheckOutcome]]:
    """Yield the number of each question to one model and its outcome, as soon as it is known.

    Questions share batches, or texts. An exception of a question is its outcome, and the others go
    on.

    Args:
        model: the loaded model of all questions.
        questions: the questions.
        open_user: opens the model of a simulated user.
        prompts, is_wanted: as in `check_side_by_side`.
    """
    if isinstance(model, TextModel):
        opened = model

        def open_text_run(question: Question) -> TextRun:
            return _open_text_run(opened, question, open_user)

        return check_texts(questions, open_text_run, is_wanted)

    def open_process(question: Question) -> CheckedProcess:
        return _open_process(model, question, open_user)

    return check_side_by_side(
        model, questions, prompts=prompts, is_wanted=is_wanted, open_process=open_process
    )


def _open_process(model: LanguageModel, question: Question, open_user: OpenUser) -> CheckedProcess:
    conversation, length = question.conversation, question.length
    if conversation is None:
        return AnswerProcess(model, question.prompt, length)
    users = {user: open_user(user) for user in conversation.simulated_users}
    return ConversationProcess(model, conversation, length, users)


def _open_text_run(
    model: TextModel, question: Question, open_user: OpenUser, *options: Any
) -> TextRun:
    # the quantifiers of a suite are created once for each run
    asked, conversation = question.asked.create_quantifiers(), question.conversation
    if conversation is None:
        return AnswerRun(model, question.prompt, asked, question.budget, *options)
    users = {user: open_user(user) for user in conversation.simulated_users}
    return ConversationRun(model, conversation, asked, question.budget, users, *options)
