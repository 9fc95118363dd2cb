"""The job of computing a model's answers for the whole model."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmchecker.checking.answer import Progress
from llmchecker.checking.anytime.answer import check_anytime
from llmchecker.checking.anytime.answer_record import build_record
from llmchecker.checking.anytime.budget import Budget
from llmchecker.config.judges import add_judge_notes
from llmchecker.config.prompt import parse_prompt
from llmchecker.config.question import Question, resolve_query
from llmchecker.interfaces.snakemake.check_params import parse_check
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.trees.builder import TreeBuilder
from llmchecker.utils.job_logging import Stopwatch, build_status_log
from llmchecker.utils.number_format import format_count

_log = logging.getLogger(__name__)


def compute_answers(
    grower: TreeBuilder,
    answers: Iterable[Mapping[str, Any]],
    quantifiers: Mapping[str, Quantifier],
    outputs: Sequence[str],
    work: Stopwatch,
) -> None:
    """Compute answers for the whole model and write their records.

    Args:
        grower: the tree builder of the model, whose stored distributions are used.
        answers: checks in the form of `describe_check`, each with the `text` of its start string
            and the fields of its `budget`.
        quantifiers: the quantifiers, by name.
        outputs: the file of each record.
        work: the stopwatch of the job.
    """
    for params, output in zip(answers, outputs, strict=True):
        check = parse_check(params)
        builder = grower.with_decoding(check.tree.decoding)
        model, length = builder.model, check.tree.truncation.length
        asked = resolve_query(check.query, length, quantifiers)
        question = Question(
            model=model,
            prompt=parse_prompt(params["text"]),
            truncation=check.tree.truncation,
            checked_query=add_judge_notes(asked, model),
            budget=Budget(**params["budget"]),
        )
        answer = check_anytime(
            question.model,
            question.prompt,
            question.checked_query,
            question.budget,
            end_of_sequence=builder.end_of_sequence,
            watch=_build_watch(str(check)),
        )
        record = build_record(
            str(check),
            question.checked_query,
            question.budget,
            answer,
            builder.current_metadata(),
            check.is_bounded,
        )
        record.write(output)
        # The answer measures its own seconds, without the time to load the model.
        work.seconds += answer.seconds or 0.0
        _log.info("%s: %s", check, record)


def _build_watch(name: str) -> Any:
    """Build a callback that logs the progress of an answer."""
    report = build_status_log(name)

    def watch(progress: Progress) -> None:
        passes = format_count(progress.passes, "pass")
        report(f"{passes}, {format_count(progress.samples, 'sample')}, width {progress.width:.4f}")

    return watch
