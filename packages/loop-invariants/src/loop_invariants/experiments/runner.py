"""Experiments on programs: comparisons of prompts, sources and tools by attempts."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from loop_invariants.experiments.attempts import (
    BOTH_ENGINES,
    MODEL_COMBINATIONS,
    MODEL_FREE_COMBINATIONS,
    TOOLS,
    VARIANTS,
    Attempt,
    Invariant,
)
from loop_invariants.frontend.original_text import read_original_text
from loop_invariants.frontend.translation_unit import SV_COMP, read_program
from loop_invariants.ir.expressions import (
    SHIFTS,
    Binary,
    Constant,
    Expression,
    Semantics,
    iter_subexpressions,
)
from loop_invariants.ir.instrumentation import Property
from loop_invariants.ir.statements import Loop, Program, iter_expressions
from loop_invariants.limits import Limit
from loop_invariants.proposals.baselines import sample_atoms
from loop_invariants.proposals.prompt_templates import PromptVariant
from loop_invariants.proposals.proposal_set import ParsedAnswer, ProgramProposals, merge_candidates
from loop_invariants.verification import esbmc
from loop_invariants.verification.esbmc_annotation import annotate
from loop_invariants.verification.portfolio import FileTask, verify_file
from loop_invariants.verification.result import (
    BUILTIN_SOURCES,
    CandidateSource,
    Outcome,
    VerificationResult,
    format_no_assertion,
)
from loop_invariants.verification.verifier import VerificationLimits, Verifier

_OUTCOMES = {
    esbmc.EsbmcAnswer.SUCCESSFUL: Outcome.VERIFIED,
    esbmc.EsbmcAnswer.FAILED: Outcome.FALSE,
    esbmc.EsbmcAnswer.UNKNOWN: Outcome.NOT_PROVEN,
    esbmc.EsbmcAnswer.TIMEOUT: Outcome.ESBMC_TIMEOUT,
    esbmc.EsbmcAnswer.ERROR: Outcome.ESBMC_ERROR,
}


@dataclass(frozen=True)
class ExperimentSettings:
    """Common settings of all attempts on a set of programs.

    Attributes:
        semantics: the semantics of the programs' integers.
        limits: the limits of each verification.
        max_candidates: maximum number of candidates of a source for a loop; variants of the prompt
            have no such limit.
        max_tool_seconds: maximum seconds of ESBMC without invariants.
        seed: the seed of the random atoms.
    """

    semantics: Semantics
    limits: VerificationLimits
    max_candidates: int
    max_tool_seconds: float
    seed: int


class Subject:
    """The subject of attempts: a program, which is read and run on first use.

    Args:
        file: the C file.
        settings: the common settings of all attempts.
        proposals: a model's proposals for the program's loops; empty without a model.
    """

    def __init__(
        self, file: Path, settings: ExperimentSettings, proposals: ProgramProposals
    ) -> None:
        self.file = file
        self.settings = settings
        self.proposals = proposals

    @cached_property
    def program(self) -> Program:
        """The program; raises UnreadableProgram or UnsupportedProgram."""
        return read_program(self.file)

    @cached_property
    def verifier(self) -> Verifier:
        """The program's verifier; raises as `program` does."""
        settings = self.settings
        text = read_original_text(self.file, Property.ASSERT, SV_COMP)
        return Verifier(self.program, settings.semantics, settings.limits, text)

    @property
    def iterations(self) -> int:
        """Number of a model's answers to each kind of prompt."""
        return max((proposals.iterations for proposals in self.proposals.values()), default=0)

    def sampling_seconds(self, variant: PromptVariant, iterations: int) -> float:
        """Return the seconds of a variant's first iterations, for all loops together."""
        return sum(p.sampling_seconds(variant, iterations) for p in self.proposals.values())

    def build_attempt(
        self, strategy: str, result: VerificationResult, **extra_fields: Any
    ) -> Attempt:
        """Build the attempt with the result of a verification.

        Args:
            strategy: name of the strategy.
            result: the result.
            extra_fields: further fields of the attempt.
        """
        return Attempt(
            self.file.stem,
            self.settings.semantics,
            strategy,
            result.outcome,
            result.seconds,
            tuple(
                Invariant(invariant.line, invariant.text, invariant.sources)
                for invariant in result.invariants
            ),
            message=result.message,
            limits=result.limits,
            **extra_fields,
        )


_Strategy = Callable[[str, Subject], Attempt]
"""A strategy: makes an attempt on a subject under the given name."""


def iter_attempts(
    files: Sequence[Path],
    strategies: Mapping[str, _Strategy],
    settings: ExperimentSettings,
    proposals: Mapping[str, ProgramProposals],
) -> Iterator[Attempt]:
    """Yield an attempt for every program and strategy.

    Args:
        files: the C files.
        strategies: the strategies by name.
        settings: the common settings of all attempts.
        proposals: a model's proposals, by program name.

    Raises:
        MissingTool: ESBMC is not installed.
    """
    for file in files:
        # All strategies share the subject, so the program is read and run only once.
        subject = Subject(file, settings, proposals.get(file.stem, {}))
        # Errors of a program become outcomes, so every program has an attempt per strategy.
        attempts = [_run_attempt(name, strategy, subject) for name, strategy in strategies.items()]
        solved_count = sum(attempt.solved for attempt in attempts)
        logging.info("%s: verified %d of %d ways", file.stem, solved_count, len(attempts))
        yield from attempts


def _run_attempt(name: str, strategy: _Strategy, subject: Subject) -> Attempt:
    """Run a strategy; errors of the program become the outcome of the attempt."""
    # Every table contains every program, so errors of a program become outcomes.
    try:
        return strategy(name, subject)
    except UnsupportedProgram as error:
        result = VerificationResult(Outcome.UNSUPPORTED, message=str(error))
    except UnreadableProgram as error:
        result = VerificationResult(Outcome.UNREADABLE, message=str(error))
    except MemoryError:
        message = "verifying it takes more memory than there is"
        result = VerificationResult(Outcome.KILLED, message=message, limits=(Limit.MEMORY,))
    return subject.build_attempt(name, result)


def _attempt_variant(name: str, subject: Subject) -> Attempt:
    """Attempt a variant of the prompt, with the fewest iterations that suffice.

    More iterations only add candidates, so a binary search finds the fewest.
    """
    variant, is_filtered = VARIANTS[name]
    loops = subject.program.loops
    answers = {
        loop.number: loop_proposals.parse_answers(variant, is_filtered, subject.program, loop)
        for loop in loops
        if (loop_proposals := subject.proposals.get(loop.number)) is not None
    }
    verify = partial(_verify_with_iterations, subject, answers)
    result, iterations = verify(subject.iterations), subject.iterations
    # Without a proof from all answers, no smaller number of answers has a proof.
    if result.outcome is Outcome.VERIFIED:
        low = 0
        while low < iterations:
            middle = (low + iterations) // 2
            # Each smaller number with a proof replaces the result.
            trial = verify(middle)
            if trial.outcome is Outcome.VERIFIED:
                result, iterations = trial, middle
            else:
                low = middle + 1
    # Answers after the last used iteration count neither as time nor as errors.
    used_answers = [
        answer for loop_answers in answers.values() for answer in loop_answers[:iterations]
    ]
    seconds = result.seconds + subject.sampling_seconds(variant, iterations)
    return subject.build_attempt(
        name,
        _add_limits(replace(result, seconds=seconds), {Limit.ANSWERS}),
        iterations=iterations,
        parse_errors=sum(answer.error_count for answer in used_answers),
    )


def _verify_with_iterations(
    subject: Subject, answers: Mapping[int, Sequence[ParsedAnswer]], iterations: int
) -> VerificationResult:
    """Verify a program with the candidates of its first iterations alone."""
    candidates = {
        number: merge_candidates(loop_answers[:iterations])
        for number, loop_answers in answers.items()
    }
    return subject.verifier.verify({CandidateSource.SAMPLED: candidates}, builtin_sources=())


def _attempt_combination(name: str, subject: Subject) -> Attempt:
    """Attempt a combination of sources."""
    sources = (MODEL_FREE_COMBINATIONS | MODEL_COMBINATIONS)[name]
    proposals = {
        source: {
            loop.number: _collect_candidates(source, loop, subject)
            for loop in subject.program.loops
        }
        for source in sources
        if source not in BUILTIN_SOURCES
    }
    # The verifier finds the candidates of sources within this package itself.
    builtin_sources = tuple(source for source in sources if source in BUILTIN_SOURCES)
    result = subject.verifier.verify(proposals, builtin_sources)
    max_candidates = subject.settings.max_candidates
    # A model could give answers for ever.
    has_answers = any(proposals.get(CandidateSource.SAMPLED, {}).values())
    limits = {Limit.ANSWERS} if has_answers else set()
    # A source at its maximum may have had further candidates.
    if any(
        len(loop_candidates) >= max_candidates
        for source_candidates in proposals.values()
        for loop_candidates in source_candidates.values()
    ):
        limits.add(Limit.CANDIDATES)
    seconds = result.seconds
    if CandidateSource.SAMPLED in sources:
        seconds += subject.sampling_seconds(PromptVariant.COMBINED, subject.iterations)
    return subject.build_attempt(name, _add_limits(replace(result, seconds=seconds), limits))


def _add_limits(result: VerificationResult, limits: Collection[Limit]) -> VerificationResult:
    """Add the limits of the proposals, where further proposals might help."""
    # Only an unproven program could benefit from further proposals.
    if result.outcome not in (Outcome.NOT_PROVEN, Outcome.NO_CANDIDATE):
        return result
    return replace(result, limits=tuple(x for x in Limit if x in limits or x in result.limits))


def _collect_candidates(
    source: CandidateSource, loop: Loop, subject: Subject
) -> Sequence[Expression]:
    """Return the candidates of a source for a loop, up to the maximum of the settings."""
    program, settings = subject.program, subject.settings
    if source is CandidateSource.RANDOM:
        return sample_atoms(program, loop, settings.max_candidates, settings.seed)
    loop_proposals = subject.proposals.get(loop.number)
    # The model has no proposals for this loop, such as for a program that it cannot process.
    if loop_proposals is None:
        return ()
    return loop_proposals.collect_candidates(program, loop)[: settings.max_candidates]


def _attempt_tool(name: str, subject: Subject) -> Attempt:
    """Attempt a program with ESBMC alone, without any invariant."""
    source = annotate(subject.program, {})
    settings = subject.settings
    verdict = esbmc.run_esbmc(source, TOOLS[name], settings.semantics, settings.max_tool_seconds)
    outcome = _OUTCOMES[verdict.answer]
    # A verified program needs no message, and other verdicts are described by ESBMC.
    message = "" if outcome is Outcome.VERIFIED else verdict.message
    # ESBMC also reports success for a program without any assertion.
    if outcome is Outcome.VERIFIED and not subject.program.has_property:
        outcome, message = Outcome.NO_ASSERTION, format_no_assertion(subject.program.name)
    if outcome is Outcome.VERIFIED and _has_unchecked_operation(subject):
        outcome, message = Outcome.NOT_PROVEN, "ESBMC does not check shifts and quotients here"
    result = VerificationResult(
        outcome, seconds=verdict.seconds, message=message, limits=verdict.limits
    )
    return subject.build_attempt(name, result)


def _has_unchecked_operation(subject: Subject) -> bool:
    """Return whether a program has shifts or quotients that ESBMC alone may treat differently.

    It checks no width of a shift, and no overflow of a quotient. Its mathematical integers divide
    differently from C.
    """
    is_machine = subject.settings.semantics is Semantics.INT32
    for part in iter_subexpressions(*iter_expressions(subject.program.body)):
        match part:
            case Binary(operator="/" | "%", right=Constant(value=value)) if is_machine:
                # Only a quotient by -1 can overflow.
                if value < 0:
                    return True
            case Binary(operator=operator) if operator in ("/", "%", *SHIFTS):
                return True
    return False


def _attempt_both_engines(name: str, subject: Subject) -> Attempt:
    """Attempt a program as the command `verify` does."""
    settings = subject.settings
    task = FileTask(settings.semantics, seconds=settings.limits.seconds)
    return subject.build_attempt(name, verify_file(subject.file, task))


EXPERIMENTS: dict[str, dict[str, _Strategy]] = {
    "variants": dict.fromkeys(VARIANTS, _attempt_variant),
    "baselines": dict.fromkeys(MODEL_FREE_COMBINATIONS, _attempt_combination),
    "sources": dict.fromkeys(MODEL_COMBINATIONS, _attempt_combination),
    "tools": {**dict.fromkeys(TOOLS, _attempt_tool), BOTH_ENGINES: _attempt_both_engines},
}
"""The strategies by experiment; `variants` and `sources` need proposals."""
