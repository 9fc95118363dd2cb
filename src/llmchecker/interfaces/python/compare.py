"""Comparison of two models, start strings or decodings by one query."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from llmchecker.checking.answer import Progress
from llmchecker.checking.budget import DEFAULT_CONFIDENCE, DEFAULT_SEED, Budget
from llmchecker.checking.comparison import Comparison, SideLabel
from llmchecker.checking.comparison_run import compare_answers
from llmchecker.checking.question import Question
from llmchecker.config.models import read_decoding
from llmchecker.config.prompt import parse_prompt
from llmchecker.config.question import (
    DEFAULT_LENGTH,
    vary_question,
)
from llmchecker.errors import ConfigError, InterruptedCheck, prefix_errors
from llmchecker.interfaces.python.ask import (
    build_conversation,
    build_question,
    check_model,
    combine_watches,
)
from llmchecker.interfaces.python.scorers import QueryForm, Scorer, merge_scorers, resolve_scorers
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.end_of_sequence import apply_end_of_sequence
from llmchecker.models.text_answer import TextModel
from llmchecker.models.transformers.load import apply_decoding, describe_decoding
from llmchecker.utils.section import collect_changes

if TYPE_CHECKING:
    from llmchecker.models.interface import LanguageModel


def compare(
    query: QueryForm,
    model: "LanguageModel | TextModel",
    start: str | Sequence[Mapping[str, str]] | None = None,
    /,
    *,
    user: str | None = None,
    system: str | None = None,
    messages: Sequence[Mapping[str, str]] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    turns: Sequence[str] = (),
    columns: Mapping[str, Any] | None = None,
    versus_model: "LanguageModel | TextModel | None" = None,
    versus_start: str | Sequence[Mapping[str, str]] | None = None,
    versus_user: str | None = None,
    versus_system: str | None = None,
    versus_decoding: str | Mapping[str, Any] | Decoding | None = None,
    length: int | str = DEFAULT_LENGTH,
    width: float = 0.0,
    passes: int | None = None,
    answers: int | None = None,
    seconds: float | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int = DEFAULT_SEED,
    certain: bool = False,
    end_of_sequence: Literal["terminal", "ordinary"] = "terminal",
    progress: Callable[[str], None] | None = None,
    watch: Callable[[Progress], bool | None] | None = None,
    quantifiers: Mapping[str, Scorer] | None = None,
    **keywords: Scorer,
) -> Comparison:
    """Compare the answers to one query of two models, start strings or decodings.

    The second side has the values of the first, except for those that begin with `versus_`. Both
    sides share the limits. The difference is that of the first side minus the second.

    Args:
        query: a query with =?, as a text or parsed, or an assertion without a probability.
        model: a model that `load` returned.
        start, user, system, messages, tools, turns, columns: the prompt and what follows it, as in
            `ask`.
        versus_model, versus_start, versus_user, versus_system: those of the second side.
        versus_decoding: the decoding of the second side, as in `load`.
        length: the horizon in tokens, as in `ask`.
        width: width of the interval of the difference at which the work ends.
        passes, seconds: limits of both sides together, as in `ask`.
        answers: the limit of each side that returns texts alone, as in `ask`.
        confidence: confidence of the interval of the difference.
        seed, certain, end_of_sequence: as in `ask`.
        progress, watch: as in `ask`, for the difference.
        quantifiers, keywords: as in `ask`.

    Raises:
        InvalidQuery: the query does not parse, or has a threshold.
        ConfigError: both sides are the same, or an argument has the wrong type.
        InterruptedCheck: a model failed; its `result` is the `Comparison` so far.
        CheckFailed: the query has no answer; the message contains the reason.
    """
    options: dict[str, object] = {"passes": passes, "answers": answers, "seconds": seconds}
    options |= {"width": width, "confidence": confidence, "seed": seed, "certain": certain}
    budget = collect_changes(Budget, options)
    chat: dict[str, object] = {"user": user, "system": system, "messages": messages}
    chat |= {"tools": tools, "columns": columns}
    options |= {"length": length, **chat, "turns": turns}
    scorers = merge_scorers(quantifiers, keywords, options)
    second_model = model if versus_model is None else versus_model
    for each in (model, second_model):
        check_model(each)
    if versus_decoding is not None:
        if isinstance(second_model, TextModel):
            raise ConfigError(
                f"versus_decoding: {second_model.name} returns texts alone; load it with a decoding"
            )
        with prefix_errors("versus_decoding"):
            parsed_decoding = read_decoding(versus_decoding)
        second_model = apply_decoding(second_model, parsed_decoding)
    prompt = parse_prompt({"start": start, **chat})
    conversation = build_conversation(prompt, turns)
    turn_count = None if conversation is None else conversation.turn_count
    question = build_question(
        resolve_scorers(query, length, scorers, turn_count),
        [model, second_model],
        prompt,
        conversation,
        **budget,
    )
    changes = {"start": versus_start, "user": versus_user, "system": versus_system}
    versus = vary_question(question, second_model, changes, "versus_")
    first, second = (
        replace(side, model=apply_end_of_sequence(side.model, end_of_sequence))
        for side in (question, versus)
    )
    sides = (_describe(question), _describe(versus))
    watch_both = combine_watches(progress, watch)
    try:
        compared = compare_answers(first, second, watch=watch_both)
    except InterruptedCheck as error:
        so_far = replace(error.result, sides=sides)
        raise InterruptedCheck(error.problem, so_far) from error.__cause__
    return replace(compared, sides=sides)


def _describe(side: Question) -> SideLabel:
    """Return the words of a side: its model, the decoding of a local one, and its prompt."""
    return SideLabel(side.model.name, describe_decoding(side.model), side.prompt)
