"""Repair rounds: prompts with counterexamples, verification of new answers.

A prompt contains the failed obligation with the values of a counterexample, as in LaM4Inv (Wu et
al., ASE 2024) and Loopy (Kamath et al., 2023). A round processes the loops on the path of the
counterexample.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from llmchecker.errors import UnusableText
from llmchecker.utils.atomic_files import write_json_with_digest
from loop_invariants.experiments.attempts import REPAIR_COMBINATIONS, Attempt
from loop_invariants.experiments.runner import ExperimentSettings, Subject, run_attempt
from loop_invariants.ir.expressions import Expression, format_c
from loop_invariants.ir.statements import Loop
from loop_invariants.proposals.prompt_templates import (
    PromptVariant,
    build_prompt,
    select_variant,
)
from loop_invariants.proposals.proposal_set import (
    ParsedAnswer,
    ProgramProposals,
    merge_candidates,
    parse_answer,
)
from loop_invariants.proposals.proposers import Proposer
from loop_invariants.proposals.settings import RepairSettings
from loop_invariants.repair.counterexamples import (
    CounterexampleFinder,
    FailedObligation,
    Obligation,
)
from loop_invariants.verification.houdini import Candidate
from loop_invariants.verification.result import (
    CandidateSource,
    Limit,
    Outcome,
    VerificationResult,
)

_MAX_INVARIANTS = 4
"""Maximum number of proven invariants in a prompt."""

_MAX_FAILURES = 3
"""Maximum number of refuted candidates in a prompt."""

_REPAIRABLE_OUTCOMES = (Outcome.NOT_PROVEN, Outcome.NO_CANDIDATE)
"""The outcomes after which another invariant may help."""


@dataclass(frozen=True)
class _RepairRound:
    """The prompt and the answers for a loop in a repair round.

    Attributes:
        program: the program's name.
        way: the strategy of the attempt.
        number: number of the round, from 1.
        line: line of the loop.
        failed: the failed obligations in the prompt, one line each.
        answers: the texts of every answer.
        seconds: wall-clock seconds of the answers.
    """

    program: str
    way: str
    number: int
    line: int
    failed: Sequence[str]
    answers: Sequence[Sequence[str]]
    seconds: float


@dataclass
class _LoopCandidates:
    """The candidates proposed for a loop so far.

    Attributes:
        initial_candidates: the candidates of the first answers.
        repair_candidates: the candidates of repair rounds.
        latest_candidates: the candidates of the last answers.
    """

    initial_candidates: dict[Expression, None]
    repair_candidates: dict[Expression, None] = field(default_factory=dict)
    latest_candidates: tuple[Expression, ...] = ()

    @property
    def count(self) -> int:
        """Number of distinct candidates."""
        return len(self.initial_candidates | self.repair_candidates)


def iter_repairs(
    proposer: Proposer,
    files: Sequence[Path],
    settings: ExperimentSettings,
    repair_settings: RepairSettings,
    proposals: Mapping[str, ProgramProposals],
) -> Iterator[tuple[Attempt, tuple[_RepairRound, ...]]]:
    """Yield an attempt with its repair rounds for every program and repair strategy.

    Args:
        proposer: the proposer.
        files: the C files.
        settings: the common settings of all attempts.
        repair_settings: the settings of repair.
        proposals: the first proposals, by program name.

    Raises:
        MissingTool: ESBMC is not installed.
    """
    for file in files:
        subject = Subject(file, settings, proposals.get(file.stem, {}))
        # Each strategy starts again from the first proposals, with rounds of its own.
        for name in REPAIR_COMBINATIONS:
            rounds: list[_RepairRound] = []

            # The default argument binds the list of this iteration, not that of the last one.
            def repair(way: str, subject: Subject, rounds: list[_RepairRound] = rounds) -> Attempt:
                return _RepairAttempt(proposer, subject, way, repair_settings, rounds).run()

            attempt = run_attempt(name, repair, subject)
            number = max((repair_round.number for repair_round in rounds), default=0)
            logging.info("%s: %s after %d rounds, %s", file.stem, attempt.outcome, number, name)
            yield attempt, tuple(rounds)


class _RepairAttempt:
    """An attempt with repair rounds."""

    def __init__(
        self,
        proposer: Proposer,
        subject: Subject,
        strategy: str,
        repair_settings: RepairSettings,
        rounds: list[_RepairRound],
    ) -> None:
        self._proposer = proposer
        self._subject = subject
        self._strategy = strategy
        self._repair_settings = repair_settings
        self._rounds = rounds
        self._loops = subject.program.loops
        self._parse_error_count = 0
        self._first_iteration = subject.iterations
        self._candidates = {loop.number: self._build_loop_candidates(loop) for loop in self._loops}

    def run(self) -> Attempt:
        """Alternate verification and repair rounds until a proof or a limit."""
        subject, settings = self._subject, self._subject.settings
        seconds = subject.sampling_seconds(PromptVariant.COMBINED, subject.iterations)
        used_seconds = 0.0
        limits: set[Limit] = set()
        number = 0
        while True:
            start_time = time.process_time()
            result = subject.verifier.verify(
                self._build_proposals(), REPAIR_COMBINATIONS[self._strategy]
            )
            used_seconds += time.process_time() - start_time
            seconds += result.seconds
            # Other outcomes, such as a violation, cannot change with further candidates.
            if result.outcome not in _REPAIRABLE_OUTCOMES:
                break
            if number == self._repair_settings.rounds:
                limits.add(Limit.ANSWERS)
                break
            # The limit includes the verifications of all rounds, but not the model's time.
            if used_seconds > settings.limits.seconds:
                limits.add(Limit.PROVER_TIME)
                break
            open_loops = [
                n for n in self._candidates if self._candidates[n].count < settings.max_candidates
            ]
            # Every loop has its maximum of candidates, so new answers would be dropped.
            if not open_loops:
                limits.add(Limit.CANDIDATES)
                break
            try:
                for repair_round in self._run_round(result, number + 1, open_loops):
                    self._rounds.append(repair_round)
                    seconds += repair_round.seconds
            except UnusableText as error:
                # The model cannot process the prompt, so further rounds are useless.
                result = replace(result, message=str(error))
                break
            number += 1
        result = replace(
            result,
            seconds=seconds,
            limits=tuple(x for x in Limit if x in limits or x in result.limits),
        )
        answers = self._first_iteration + number * self._repair_settings.answers
        return subject.build_attempt(
            self._strategy, result, iterations=answers, parse_errors=self._parse_error_count
        )

    def _build_loop_candidates(self, loop: Loop) -> _LoopCandidates:
        loop_proposals = self._subject.proposals.get(loop.number)
        # The loop has no first proposals; only repair rounds add candidates.
        if loop_proposals is None:
            return _LoopCandidates({})
        answers = loop_proposals.parse_answers(
            PromptVariant.COMBINED, False, self._subject.program, loop
        )
        candidates = self._merge_candidates(answers)[: self._subject.settings.max_candidates]
        return _LoopCandidates(dict.fromkeys(candidates), latest_candidates=candidates)

    def _merge_candidates(self, answers: Sequence[ParsedAnswer]) -> tuple[Expression, ...]:
        """Return the distinct candidates of answers, and count other texts as errors."""
        self._parse_error_count += sum(answer.error_count for answer in answers)
        return merge_candidates(answers)

    def _build_proposals(self) -> dict[CandidateSource, dict[int, Sequence[Expression]]]:
        return {
            CandidateSource.SAMPLED: {
                n: tuple(f.initial_candidates) for n, f in self._candidates.items()
            },
            CandidateSource.REPAIRED: {
                n: tuple(f.repair_candidates) for n, f in self._candidates.items()
            },
        }

    def _run_round(
        self, result: VerificationResult, number: int, open_loops: Sequence[int]
    ) -> Iterator[_RepairRound]:
        """Run a repair round on the loops of a counterexample, and yield its records."""
        program, settings = self._subject.program, self._subject.settings
        proven_invariants = [
            Candidate(invariant.loop, invariant.expression)
            for invariant in result.partial_invariants
        ]
        finder = CounterexampleFinder(
            program, settings.semantics, self._subject.verifier.runs.head_states
        )
        violations = {
            violation.loop: violation for violation in finder.find_violation(proven_invariants)
        }
        # Without a path to a violation from Z3, every loop may lack an invariant.
        loop_numbers = [n for n in open_loops if n in violations] or open_loops
        for loop in self._loops:
            if loop.number not in loop_numbers:
                continue
            failures = self._find_failures(finder, loop, proven_invariants)
            failures += [violations[loop.number]] if loop.number in violations else []
            failure_texts = [failure.describe() for failure in failures] or [_UNKNOWN_FAILURE]
            shortest_invariants = _format_shortest(
                [c.expression for c in proven_invariants if c.loop == loop.number]
            )
            start_time = time.monotonic()
            answers = self._generate_answers(loop, number, shortest_invariants, failure_texts)
            repair_round = _RepairRound(
                program.name,
                self._strategy,
                number,
                loop.line,
                failure_texts,
                answers,
                time.monotonic() - start_time,
            )
            loop_candidates = self._candidates[loop.number]
            parsed_answers = (parse_answer(0, texts, program, loop, False) for texts in answers)
            loop_candidates.latest_candidates = self._merge_candidates(tuple(parsed_answers))
            # The maximum includes the first candidates and the candidates of all rounds.
            capacity = settings.max_candidates - loop_candidates.count
            new_candidates = [
                c
                for c in loop_candidates.latest_candidates
                if c not in loop_candidates.initial_candidates | loop_candidates.repair_candidates
            ]
            # Candidates above the maximum are dropped.
            loop_candidates.repair_candidates |= dict.fromkeys(new_candidates[:capacity])
            yield repair_round

    def _find_failures(
        self, diagnosis: CounterexampleFinder, loop: Loop, invariants: Sequence[Candidate]
    ) -> list[FailedObligation]:
        """Find the failed obligations of the last candidates that are not invariants."""
        failures: list[FailedObligation] = []
        for expression in self._candidates[loop.number].latest_candidates:
            candidate = Candidate(loop.number, expression)
            if candidate not in invariants and len(failures) < _MAX_FAILURES:
                failure = diagnosis.find_failed_obligation(candidate, invariants)
                failures += [failure] if failure is not None else []
        # A candidate that only the step refutes is the nearest to an invariant, so it comes last.
        return sorted(failures, key=lambda failed: list(Obligation).index(failed.obligation))

    def _generate_answers(
        self, loop: Loop, number: int, invariants: Sequence[str], failures: Sequence[str]
    ) -> list[tuple[str, ...]]:
        """Return the answers of a round; their iterations continue the earlier rounds."""
        count = self._repair_settings.answers
        first = self._first_iteration + (number - 1) * count
        # Iterations with the same prompt form a single batch.
        iterations_by_variant: dict[PromptVariant, list[int]] = {}
        for iteration in range(first, first + count):
            iterations_by_variant.setdefault(
                select_variant(PromptVariant.COMBINED, iteration), []
            ).append(iteration)
        answers: list[tuple[str, ...]] = []
        for variant, iterations in iterations_by_variant.items():
            prompt = build_prompt(self._subject.program, loop, variant, invariants, failures)
            answers += self._proposer.generate_answers(prompt, iterations)
        return answers


_UNKNOWN_FAILURE = "the invariants so far do not imply what is asserted"


def _format_shortest(expressions: Sequence[Expression]) -> list[str]:
    """Format the shortest conditions as C."""
    return sorted(map(format_c, expressions), key=lambda text: (len(text), text))[:_MAX_INVARIANTS]


def write_rounds(rounds: Sequence[_RepairRound], path: str | Path) -> None:
    """Write the prompts and answers of repair rounds as JSON."""
    write_json_with_digest({"rounds": [vars(repair_round) for repair_round in rounds]}, path)
