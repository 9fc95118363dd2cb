"""Answers to queries, on a tree or on a model within a budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from llmchecker.checking import formatting
from llmchecker.checking.answer import Answer, Progress
from llmchecker.checking.budget import DEFAULT_CONFIDENCE, DEFAULT_SEED, Budget
from llmchecker.checking.question import Question
from llmchecker.config.judges import add_judge_notes
from llmchecker.config.prompt import parse_prompt
from llmchecker.config.question import (
    DEFAULT_LENGTH,
    build_model_budget,
)
from llmchecker.errors import ConfigError
from llmchecker.interfaces.python.scorers import QueryForm, Scorer, merge_scorers, resolve_scorers
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.end_of_sequence import apply_end_of_sequence
from llmchecker.models.text_answer import TextModel
from llmchecker.processes.conversation import Conversation, ScriptedTurn
from llmchecker.properties.property import Property
from llmchecker.trees.text_tree import TextTree
from llmchecker.utils.section import collect_changes

if TYPE_CHECKING:
    from llmchecker.models.decoding.chat_template import Start
    from llmchecker.models.interface import LanguageModel


def check(
    query: QueryForm,
    tree_or_model: "TextTree | LanguageModel | TextModel",
    start: str | Sequence[Mapping[str, str]] | None = None,
    /,
    *,
    quantifiers: Mapping[str, Scorer] | None = None,
    **options: Any,
) -> Answer:
    """Answer a query on a tree, or on a model within a budget.

    On a tree the answer has the value of the bounded process, bounds for the whole model, and
    witnesses. On a model it is that of `ask`.

    Args:
        query: a text such as `P=? [ F gender > 0 ]`, a query that `parse` returned, or an assertion
            of suites such as `{"contains": "Paris", "at_least": 0.9}`; with =? without a
            probability.
        tree_or_model: a tree that `grow` returned, or a model that `load` returned.
        start: on a model, the start string or messages, as in `ask`.
        quantifiers: quantifiers by their names in the query. A standard quantifier, which has no
            required settings, is optional: gender, json, length, polarity, readability, refuses.
        options: on a tree, further quantifiers by their names. On a model, the options of `ask`,
            and further quantifiers whose names no option has.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        ConfigError: an argument is no quantifier, or a score is no integer or out of its range.
        InterruptedCheck: as in `ask`.
        CheckFailed: the query has no answer; the message contains the reason.
    """
    if _is_model(tree_or_model):
        return ask(query, tree_or_model, start, quantifiers=quantifiers, **options)
    # `score` has the tree as its first argument, `check` as its second.
    if not isinstance(tree_or_model, TextTree):
        raise ConfigError(
            f"tree: {tree_or_model!r} is not a tree or a model; the order of arguments is "
            "check(query, tree)"
        )
    if start is not None:
        raise ConfigError(f"start: {start!r}; a tree has its own start string, leave it out")
    return _check_tree(query, tree_or_model, merge_scorers(quantifiers, options))


def _check_tree(query: QueryForm, tree: TextTree, quantifiers: Mapping[str, Scorer]) -> Answer:
    asked = resolve_scorers(query, tree.truncation.length, quantifiers)
    # the tree does not have its model
    asked = add_judge_notes(asked, None)
    # Imported after the checks of the arguments, because Storm takes a second to load.
    from llmchecker.checking.check import check_query
    from llmchecker.checking.markov.scored_tree import ScoredTree

    scored = ScoredTree.from_quantifiers(tree, asked.quantifiers)
    found = check_query(scored, asked.query, notes=asked.notes)
    return found.with_property(asked)


def ask(
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
) -> Answer:
    """Answer a query for the whole model within a budget of passes or seconds.

    Samples of the model estimate the undecided probability, and their texts narrow the certain
    bounds. The same seed and passes give the same answer on the same machine.

    Args:
        query: a text such as `P=? [ F gender > 0 ]`, a query that `parse` returned, or an assertion
            of suites such as `{"contains": "Paris", "at_least": 0.9}`; with =? without a
            probability.
        model: a model that `load` returned.
        start: the start string or messages, as in `grow`; None with `user`.
        user: what a user says to a chat model.
        system: the system prompt of that chat.
        messages: several messages of the chat, in place of `user`.
        tools: functions that the chat model may call, as in suites.
        turns: what the user says after each answer, in which `{answer 1}` is the first answer. The
            query is then about turns.
        columns: for an application, values that it gets besides the messages, by name.
        length: the horizon in tokens; `end` asks about whole answers of up to 1,000 tokens, and
            `end:400` of up to 400, as in suites.
        width: width of the interval at which the work ends.
        passes: maximum number of texts to evaluate; 2,000 if passes and seconds are both absent.
        answers: for a model that returns texts alone, maximum number of answers; by default 500.
        seconds: time limit in seconds; by default none.
        confidence: confidence of the estimate, in [0, 1].
        seed: seed of the samples.
        certain: whether to compute certain bounds only, without an estimate.
        end_of_sequence: as in `grow`.
        progress: a function that receives a line about the progress after each round.
        watch: a function that receives both intervals after each round, as `Progress`; the
            work ends when it returns true.
        quantifiers: as in `check`.
        keywords: further quantifiers, whose names no option has.

    Raises:
        InvalidQuery: the query does not parse, or contains an unknown quantifier.
        ConfigError: an argument has the wrong type, or a score is no integer or out of its range.
        InterruptedCheck: the model failed; its `result` is the `Answer` so far.
        CheckFailed: the query has no answer; the message contains the reason.
    """
    check_model(model)
    options: dict[str, object] = {"passes": passes, "answers": answers, "seconds": seconds}
    options |= {"width": width, "confidence": confidence, "seed": seed, "certain": certain}
    budget = collect_changes(Budget, options)
    chat: dict[str, object] = {"user": user, "system": system, "messages": messages}
    chat |= {"tools": tools, "columns": columns}
    options |= {"length": length, **chat, "turns": turns}
    scorers = merge_scorers(quantifiers, keywords, options)
    prompt = parse_prompt({"start": start, **chat})
    conversation = build_conversation(prompt, turns)
    turn_count = None if conversation is None else conversation.turn_count
    question = build_question(
        resolve_scorers(query, length, scorers, turn_count),
        [model],
        prompt,
        conversation,
        **budget,
    )
    question = replace(question, model=apply_end_of_sequence(model, end_of_sequence))
    format_line = partial(formatting.format_progress, is_text_only=question.is_text_only)
    # imported here, because Storm takes a second to load
    from llmchecker.checking.runs import answer_question

    return answer_question(question, watch=combine_watches(progress, watch, format_line))


def build_question(
    asked: Property,
    models: "Sequence[LanguageModel | TextModel]",
    prompt: "Start",
    conversation: Conversation | None = None,
    **limits: Any,
) -> Question:
    """Build the question to a model, or to the first of two, with `build_model_budget`."""
    return Question(
        model=models[0],
        prompt=prompt,
        conversation=conversation,
        asked=add_judge_notes(asked, models[0]),
        budget=build_model_budget(
            [(each.name, isinstance(each, TextModel)) for each in models], **limits
        ),
    )


def build_conversation(prompt: "Start", turns: Sequence[str]) -> Conversation | None:
    """Build the conversation that begins with a prompt; None without turns.

    Raises:
        ConfigError: the prompt is no chat, a turn is no text, or refers to a later answer.
    """
    if not turns:
        return None
    if not isinstance(prompt, Chat):
        raise ConfigError(f"turns: they follow messages, not {prompt!r}; give user in its place")
    if isinstance(turns, str) or not all(isinstance(text, str) for text in turns):
        raise ConfigError(f"turns: {turns!r} is no list of texts; write turns=['And why?']")
    return Conversation(prompt, tuple(map(ScriptedTurn.parse, turns)))


def check_model(model: object) -> None:
    """Check that an object is a language model, or one that returns texts alone.

    Raises:
        ConfigError: it is not.
    """
    if not _is_model(model):
        raise ConfigError(f"model: {model!r} is not a language model; load(…) returns one")


def _is_model(model: object) -> TypeGuard["LanguageModel | TextModel"]:
    # A model is recognised by its method, so that a caller's own class is accepted.
    if isinstance(model, str):
        return False
    return hasattr(model, "open_prefix") or isinstance(model, TextModel)


def combine_watches(
    progress: Callable[[str], None] | None,
    watch: Callable[[Progress], bool | None] | None,
    format_line: Callable[[Progress], str] = formatting.format_progress,
) -> Callable[[Progress], bool]:
    """Return a function that passes intervals to both functions.

    Args:
        progress: receives a line; None for nothing.
        watch: receives the intervals, and returns whether the work ends; None for nothing.
        format_line: formats the intervals as a line.
    """

    def report(now: Progress) -> bool:
        if progress is not None:
            progress(format_line(now))
        return watch is not None and bool(watch(now))

    return report
