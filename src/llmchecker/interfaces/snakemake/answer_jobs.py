"""The job of computing a model's answers for the whole model."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmchecker.checking.answer import Answer, Costs, Progress
from llmchecker.checking.budget import Budget
from llmchecker.checking.formatting import FEW_DIGITS, format_interval, format_value
from llmchecker.checking.question import Question
from llmchecker.checking.runs import answer_question
from llmchecker.config.judges import add_judge_notes, list_judge_notes
from llmchecker.config.plan import Check, quantifiers_in
from llmchecker.config.question import resolve_query
from llmchecker.models.decoding.chat_template import Start, start_as_json
from llmchecker.models.fingerprint import hash_inputs
from llmchecker.models.lazy_model import LazyModel
from llmchecker.properties.property import Property
from llmchecker.properties.quantifier_state import check_quantifiers
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.utils.job_logging import Stopwatch, build_status_log
from llmchecker.utils.number_format import format_count, format_number
from llmchecker.utils.result_cache import ResultCache

_log = logging.getLogger(__name__)

_TIME_NOTE = "The limit of seconds makes this answer depend on the machine's speed."
_NO_SAMPLE_NOTE = "There is no estimate: the limits allow no sample."


def compute_answers(
    lazy_model: LazyModel,
    answers: Iterable[tuple[Check, Budget]],
    starts: Mapping[str, Start],
    quantifiers: Mapping[str, Quantifier],
    states: Mapping[str, str],
    codes: Iterable[str],
    outputs: Sequence[str],
    cache: ResultCache,
    work: Stopwatch,
) -> None:
    """Compute answers for the whole model and write them, with how they were made.

    An answer whose inputs are unchanged is taken from the cache. A new one is added to it at once.

    A file is an answer's, and has further keys: `check`, the name of model, start string, tree and
    query; `limits`, those of the budget, null for no limit; `making`, the fields of a
    `run_metadata.RunMetadata`. If passes or the width ended the work, the answer depends on model,
    check and seed alone, but for its seconds.

    Args:
        lazy_model: the model.
        answers: the checks with their budgets.
        starts: the start strings, by name.
        quantifiers: the quantifiers, by name.
        states: the state of each quantifier at the start of the run, by name.
        codes: the digest of the code behind each answer.
        outputs: the file of each answer.
        cache: the cache of answers.
        work: the stopwatch of the job.

    Raises:
        ChecksumMismatch: a file of the model or of a quantifier changed during the run.
    """
    for (check, budget), code, output in zip(answers, codes, outputs, strict=True):
        decoded, start = lazy_model.with_decoding(check.tree.decoding), starts[check.tree.start]
        used = {name: quantifiers[name] for name in quantifiers_in(check.query)}
        used_states = {name: states[name] for name in used}
        # all but the model
        inputs = [
            *(str(check), check.query.text, start_as_json(start), vars(budget)),
            *(used_states, list_judge_notes(used.values(), None), code),
        ]
        if cache.restore(_compute_fingerprint(decoded, inputs), [output]):
            _log.info("%s: kept", check)
            continue
        model, length = decoded.model, check.tree.truncation.length
        asked = resolve_query(check.query, length, quantifiers)
        question = Question(
            model=model,
            prompt=start,
            asked=add_judge_notes(asked, model),
            budget=budget,
        )
        # the number of cores of a run may not change its results
        answer = answer_question(question, batch_invariant=True, watch=_build_watch(str(check)))
        stored = _select_stored_part(answer, question.asked, question.budget)
        # the answer of a check's tree has the witnesses
        if check.is_bounded:
            stored = replace(stored, witnesses=())
        details = {
            "check": str(check),
            "limits": {
                "passes": question.budget.passes,
                "width": question.budget.width or None,
                "seconds": question.budget.seconds,
                "seed": question.budget.seed,
            },
            "making": decoded.current_metadata(),
        }
        # a network or a judge may have been loaded only now
        check_quantifiers(used_states, used)
        stored.write(output, details)
        # of the files that were loaded
        cache.add(_compute_fingerprint(decoded, inputs), [output])
        # The answer measures its own seconds, without the time to load the model.
        work.seconds += answer.seconds or 0.0
        _log.info("%s: %s", check, _format_answer(answer))


def _compute_fingerprint(model: LazyModel, inputs: Sequence[Any]) -> str:
    """Return the hash of all inputs that determine an answer.

    The machine does not enter, as in the fingerprint of a tree.
    """
    return hash_inputs(
        dict(model.files),
        model.text_settings,
        inputs,
        # the digest of the code is one of the inputs
        modules=(),
    )


def _select_stored_part(answer: Answer, asked: Property, budget: Budget) -> Answer:
    """Return an answer with all notes and without figures that only its own run can use."""
    notes, history = list(answer.notes), answer.history
    if asked.estimation_obstacle is not None:
        notes.append(f"There is no estimate: {asked.estimation_obstacle}.")
        # bounds by Storm change at few rounds
        history = ()
    # where everything is decided, no sample is missing
    elif not (budget.certain or answer.sampled or answer.certain.is_exact):
        notes.append(_NO_SAMPLE_NOTE)
    if budget.seconds is not None:
        notes.append(_TIME_NOTE)
    # the refined tree has no size of an alpha and k, and a forecast depends on the speed
    costs = Costs(passes=answer.passes, seconds=answer.seconds)
    return replace(answer, notes=tuple(notes), history=history, costs=costs, forecast=None)


def _format_answer(answer: Answer) -> str:
    """Format an answer for the log."""
    lower, upper = (format_value(end, FEW_DIGITS) for end in (answer.lower, answer.upper))
    parts = [f"certain {lower} to {upper}"]
    # without samples there is no interval
    if (sampled := answer.sampled) is not None:
        parts.append(
            f"{format_value(sampled.estimate, FEW_DIGITS)} in "
            f"{format_interval(sampled.interval, FEW_DIGITS)} with confidence "
            f"{format_number(sampled.confidence)}, {format_count(sampled.samples, 'sample')}"
        )
    passes = format_count(answer.passes or 0, "pass")
    return f"{', '.join(parts)}, {passes}, {answer.seconds:.1f} s"


def _build_watch(name: str) -> Any:
    """Build a callback that logs the progress of an answer."""
    report = build_status_log(name)

    def watch(progress: Progress) -> None:
        passes = format_count(progress.passes, "pass")
        report(f"{passes}, {format_count(progress.samples, 'sample')}, width {progress.width:.4f}")

    return watch
