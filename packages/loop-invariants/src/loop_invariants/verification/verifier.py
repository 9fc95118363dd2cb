"""The verifier: from the candidates of a program to an outcome.

Concrete runs refute candidates, Houdini proves the remaining candidates, and unsatisfiable cores
select the invariants that the assertions need. ESBMC then checks the program annotated with these
invariants. The outcome is VERIFIED only if both agree: every assertion follows from proven
invariants, and ESBMC reports that the annotated program is correct. The outcome of a program
without an assertion is NO_ASSERTION, unless a run reads or writes outside an array: then it is
FALSE.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from loop_invariants.frontend.original_text import OriginalText
from loop_invariants.generation.array_templates import instantiate_templates
from loop_invariants.generation.dynamic import candidates_from_runs, tracked_variables
from loop_invariants.generation.polynomials import find_polynomial_equalities
from loop_invariants.generation.syntactic import (
    build_congruences,
    build_disjunctions,
    collect_atoms,
    nontermination_guards,
)
from loop_invariants.interpreter.simulation import filter_unrefuted, run_program
from loop_invariants.ir.expressions import Binary, Constant, Expression, Semantics, bound_variables
from loop_invariants.ir.statements import Loop, Program
from loop_invariants.limits import Limit
from loop_invariants.verification import esbmc
from loop_invariants.verification.bounded_search import BoundedSearch, SearchResult
from loop_invariants.verification.candidate_pool import CandidatePool
from loop_invariants.verification.esbmc_annotation import annotate
from loop_invariants.verification.houdini import Candidate, Prover, ProverTimeout, has_products
from loop_invariants.verification.result import (
    BUILTIN_SOURCES,
    CandidateSource,
    Outcome,
    VerificationResult,
    check_seconds,
    format_no_assertion,
)
from loop_invariants.verification.spacer import solve_horn_clauses
from loop_invariants.verification.violations import (
    confirm_violation,
    find_violation,
    format_failure,
)


@dataclass(frozen=True)
class VerificationLimits:
    """The limits of the verification of a program.

    Attributes:
        seconds: processor time in seconds of the proof and ESBMC together; ESBMC gets at least 5.
        max_disjunctions: maximum number of disjunctions for each loop.
        runs: number of concrete runs.

    Raises:
        ValueError: the seconds are not a number, not positive, or too many.
    """

    seconds: float = 60.0
    max_disjunctions: int = 1000
    runs: int = 400

    def __post_init__(self) -> None:
        check_seconds(self.seconds)

    @property
    def query_seconds(self) -> float:
        """Seconds for each query of the prover: a twentieth, so that many queries fit."""
        return self.seconds / 20


_CandidatesByLoop = Mapping[int, Sequence[Expression]]
"""Candidates by loop number."""


_DEFAULT_LIMITS = VerificationLimits()

# Concrete runs suggest the candidates of these sources; disjunctions of pairs leave them out.
_RUN_SOURCES = (CandidateSource.RELATIONS, CandidateSource.POLYNOMIALS)

# With products, the bounds of RELATIONS slow every query, so POLYNOMIALS comes before it.
_NONLINEAR_ORDER = (
    CandidateSource.ATOMS,
    CandidateSource.POLYNOMIALS,
    CandidateSource.RELATIONS,
    CandidateSource.CONGRUENCES,
    CandidateSource.TEMPLATES,
    CandidateSource.SPACER,
    CandidateSource.DISJUNCTIONS,
)

_INDIVIDUAL_SOURCES = (CandidateSource.TEMPLATES, CandidateSource.DISJUNCTIONS)
"""The sources whose candidates are first queried one at a time."""

_COMPILED_RUNS_SECONDS = 0.5
"""Maximum processor seconds of compiled runs before the proof."""

_SOURCE_TIME_SHARE = 0.4
"""Share of the remaining time for the candidates of each further source."""

_CROSS_CHECK_DEPTH = 8
"""Maximum depth of the search for violations of the original text of a proven program."""

_MIN_ESBMC_SECONDS = 5.0
"""Minimum seconds for ESBMC, regardless of the time of the proof."""


class Verifier:
    """A verifier of one program for any number of sets of candidates.

    The verifier caches the concrete runs and ESBMC's verdicts. A verification that uses a cached
    verdict counts the seconds that ESBMC originally needed.

    Args:
        program: the program.
        semantics: the semantics of the program's integers.
        limits: the limits of each verification.
        original_text: the C text, for compiled runs and for the cross-check of a lowered program;
            None without one.

    Attributes:
        runs: the concrete runs.
    """

    def __init__(
        self,
        program: Program,
        semantics: Semantics,
        limits: VerificationLimits = _DEFAULT_LIMITS,
        original_text: OriginalText | None = None,
    ) -> None:
        self._program = program
        self._original_text = original_text
        self._search_result: SearchResult | None = None
        self._semantics = semantics
        self._is_int32 = semantics is Semantics.INT32
        self._limits = limits
        self.runs = run_program(program, semantics, runs=limits.runs)
        self._esbmc_verdicts: dict[str, esbmc.EsbmcVerdict] = {}
        self._unrefuted_cache: dict[Candidate, bool] = {}  # whether no run refutes a candidate
        # by the known invariants
        self._spacer_solutions: dict[tuple[tuple[int, Expression], ...], _CandidatesByLoop] = {}
        self._has_products = has_products(program)
        # Where variables are multiplied, many bounds make every query slow.
        is_nonlinear = self._has_products
        self._source_order = (
            sorted(BUILTIN_SOURCES, key=_NONLINEAR_ORDER.index) if is_nonlinear else BUILTIN_SOURCES
        )

    @cached_property
    def _violation(self) -> VerificationResult | None:
        """The violation of a run, of the interpreter or of the compiled text; None without one."""
        failure = self.runs.failure
        if failure is not None:
            message = format_failure(self._program, failure)
            return VerificationResult(Outcome.FALSE, failure=failure, message=message)
        # Only a loop makes a run longer than those of the interpreter.
        if self._original_text is None or not self._program.loops:
            return None
        seconds = min(_COMPILED_RUNS_SECONDS, self._limits.seconds)
        return find_violation(self._original_text, self._semantics, self._program, seconds)

    @cached_property
    def _templates(self) -> _CandidatesByLoop:
        return instantiate_templates(self._program)

    def verify(
        self,
        proposals: Mapping[CandidateSource, _CandidatesByLoop],
        builtin_sources: Sequence[CandidateSource] = BUILTIN_SOURCES,
    ) -> VerificationResult:
        """Verify the program with proposed candidates and with built-in sources.

        Args:
            proposals: candidates of a language model or a baseline, by source and loop number.
            builtin_sources: the enabled sources within this package.

        Raises:
            MissingTool: ESBMC is not installed.
        """
        start_time = time.monotonic()
        deadline = time.process_time() + self._limits.seconds
        try:
            result = self._prove(proposals, builtin_sources, deadline)
        except ProverTimeout:
            message = f"no proof within {self._limits.seconds:g} s"
            limits = (Limit.PROVER_TIME,)
            result = VerificationResult(Outcome.PROVER_TIMEOUT, message=message, limits=limits)
        if result.outcome is Outcome.VERIFIED:
            result = self._confirm(result, deadline)
        # ESBMC confirmed a text that the frontend wrote, so that the reading is unconfirmed.
        if result.outcome is Outcome.VERIFIED and result.is_lowered:
            result = self._cross_check(result, deadline)
        return replace(result, seconds=result.seconds + time.monotonic() - start_time)

    def _prove(
        self,
        proposals: Mapping[CandidateSource, _CandidatesByLoop],
        builtin_sources: Sequence[CandidateSource],
        deadline: float,
    ) -> VerificationResult:
        """Return the result of the proof; here, VERIFIED excludes ESBMC's verdict."""
        # A failing run settles the outcome without any proof.
        if self._violation is not None:
            return self._violation
        # Without an assertion every set of invariants would suffice, so VERIFIED would be empty.
        if not self._program.has_property:
            return VerificationResult(
                Outcome.NO_ASSERTION, message=format_no_assertion(self._program.name)
            )
        prover = Prover(self._program, self._semantics, self._limits.query_seconds, deadline)
        pool = CandidatePool()
        for loop in self._program.loops:
            for proposer, candidates in proposals.items():
                pool.add(proposer, loop, candidates.get(loop.number, ()))
        proven_invariants: tuple[Candidate, ...] = ()
        has_timeout = is_sufficient = False
        # Slow sources come last and are tried only if the others do not suffice. The first round,
        # for None, uses the proposals alone.
        for source in (None, *(s for s in self._source_order if s in builtin_sources)):
            # An empty set of templates adds nothing, so a round for it would only repeat queries.
            if source is CandidateSource.TEMPLATES and not self._templates:
                continue
            if source is not None:
                # Half of the share is for finding the candidates, so that time is left to prove
                # them.
                self._add_candidates(
                    pool,
                    source,
                    proven_invariants,
                    _SOURCE_TIME_SHARE / 2 * (deadline - time.process_time()),
                )
            try:
                with prover.time_share(_SOURCE_TIME_SHARE):
                    proven_invariants, is_sufficient = self._prove_with_source(
                        prover, pool, source, proven_invariants
                    )
            except ProverTimeout:
                # A later source may still suffice: the outcome is a timeout only if all of them
                # fail.
                has_timeout = True
                continue
            finally:
                if source is not None:
                    pool.tried_sources.add(source)
            if is_sufficient:
                minimal_invariants = prover.minimize(proven_invariants)
                invariants = tuple(
                    pool.to_proven_invariant(candidate) for candidate in minimal_invariants
                )
                is_lowered = self._program.is_lowered
                return VerificationResult(Outcome.VERIFIED, invariants, is_lowered=is_lowered)
        if has_timeout:
            raise ProverTimeout
        # NO_CANDIDATE describes only programs with loops: without a loop none is needed.
        lacks_candidates = self._program.loops and not pool.sources
        return VerificationResult(
            Outcome.NO_CANDIDATE if lacks_candidates else Outcome.NOT_PROVEN,
            limits=tuple(limit for limit in Limit if limit in prover.limits | pool.limits),
        )

    def _prove_with_source(
        self,
        prover: Prover,
        pool: CandidatePool,
        source: CandidateSource | None,
        invariants: tuple[Candidate, ...],
    ) -> tuple[tuple[Candidate, ...], bool]:
        """Return the invariants proven with a further source, and whether they suffice."""
        if source is CandidateSource.DISJUNCTIONS:
            # One query per candidate stays small, even for very many disjunctions.
            invariants = prover.prove_individually(
                self._select_candidates(pool, invariants), invariants
            )
        elif source is CandidateSource.TEMPLATES:
            candidates = [c for c in self._select_unrefuted(pool, source) if c not in invariants]
            invariants = prover.prove_individually(candidates, invariants)
            # Marked here, so that the selection below omits unproven templates.
            pool.tried_sources.add(source)
        if source in _INDIVIDUAL_SOURCES and prover.entails_assertions(invariants):
            return invariants, True
        # Candidates that support each other are proven only together.
        proven_invariants = prover.find_inductive_subset(self._select_candidates(pool, invariants))
        is_sufficient = prover.entails_assertions(proven_invariants)
        if (
            is_sufficient
            or source is not CandidateSource.TEMPLATES
            or len(proven_invariants) <= len(invariants)
        ):
            return proven_invariants, is_sufficient
        # A condition on elements may need a condition on their sum, and the other way round.
        return self._prove_with_source(prover, pool, source, proven_invariants)

    def _add_candidates(
        self,
        pool: CandidatePool,
        source: CandidateSource,
        invariants: Sequence[Candidate],
        seconds: float,
    ) -> None:
        """Add the candidates of a source within this package.

        Args:
            pool: the pool that receives the candidates.
            source: the source.
            invariants: the invariants proven up to this source.
            seconds: maximum seconds for finding the candidates.
        """
        if source is CandidateSource.SPACER:
            key = tuple((candidate.loop, candidate.expression) for candidate in invariants)
            # A repeated verification with the same known invariants reuses Spacer's solution.
            if key not in self._spacer_solutions:
                self._spacer_solutions[key] = solve_horn_clauses(
                    self._program, self._semantics, seconds, key
                )
            for loop in self._program.loops:
                pool.add(source, loop, self._spacer_solutions[key].get(loop.number, ()))
            return
        for loop in self._program.loops:
            states = self.runs.head_states[loop.number]
            match source:
                case CandidateSource.ATOMS:
                    pool.add(source, loop, collect_atoms(self._program, loop))
                case CandidateSource.RELATIONS:
                    candidates = candidates_from_runs(self._program, loop, states, self._semantics)
                    pool.add(source, loop, candidates)
                case CandidateSource.POLYNOMIALS:
                    tracked = tracked_variables(self._program, loop)
                    pool.add(source, loop, find_polynomial_equalities(tracked, states))
                case CandidateSource.TEMPLATES:
                    pool.add(source, loop, self._templates.get(loop.number, ()))
                case CandidateSource.CONGRUENCES:
                    pool.add(source, loop, build_congruences(self._program, loop))
                case CandidateSource.DISJUNCTIONS:
                    self._add_disjunctions(pool, loop, invariants)

    def _add_disjunctions(
        self, pool: CandidatePool, loop: Loop, invariants: Sequence[Candidate]
    ) -> None:
        """Add disjunctions of the unproven candidates.

        The relations that runs suggest are excluded: they are many, and hold in too many states to
        separate cases. Over machine integers, these relations too are joined with the conditions
        under which the loop may not terminate.
        """
        proven_expressions = {c.expression for c in invariants if c.loop == loop.number}
        max_disjunctions = self._limits.max_disjunctions
        # Only machine integers wrap around, so that a guard may hold for ever.
        if self._is_int32:
            parts = [
                expression
                for expression in pool.select_candidates(loop)
                if expression not in proven_expressions
            ]
            for guard in nontermination_guards(self._program, loop):
                joined = (Binary("||", guard, part) for part in parts[:max_disjunctions])
                pool.add(CandidateSource.DISJUNCTIONS, loop, joined)
        candidates = pool.select_candidates(loop, excluded_sources=_RUN_SOURCES)
        unproven_expressions = [
            expression for expression in candidates if expression not in proven_expressions
        ]
        disjunctions = build_disjunctions(unproven_expressions, max_disjunctions)
        pool.add(CandidateSource.DISJUNCTIONS, loop, disjunctions)
        # A full list means that further disjunctions were possible.
        if len(disjunctions) == max_disjunctions:
            pool.limits.add(Limit.CANDIDATES)

    def _select_candidates(
        self, pool: CandidatePool, invariants: Sequence[Candidate]
    ) -> list[Candidate]:
        """Select the candidates to prove that no concrete run refutes.

        Args:
            pool: the candidates.
            invariants: the already proven candidates. Unproven disjunctions, and bounds among
                products, are excluded once tried: they are many, and queries on them are slow.
        """
        slow_sources = {*_INDIVIDUAL_SOURCES}
        if self._has_products:
            slow_sources.add(CandidateSource.RELATIONS)
        slow_sources &= pool.tried_sources
        proven_candidates = set(invariants)
        return [
            candidate
            for candidate in self._select_unrefuted(pool)
            if candidate in proven_candidates or not set(pool.sources[candidate]) <= slow_sources
        ]

    def _select_unrefuted(
        self, pool: CandidatePool, source: CandidateSource | None = None
    ) -> list[Candidate]:
        """Select the candidates that no concrete run refutes, optionally of one source."""
        for loop in self._program.loops:
            # Only new candidates are evaluated: the runs never change.
            new_expressions = [
                e
                for e in pool.select_candidates(loop)
                if Candidate(loop.number, e) not in self._unrefuted_cache
            ]
            states = self.runs.head_states[loop.number]
            unrefuted_expressions = set(filter_unrefuted(new_expressions, states, self._semantics))
            self._unrefuted_cache |= {
                Candidate(loop.number, e): e in unrefuted_expressions for e in new_expressions
            }
        return [
            candidate
            for candidate, sources in pool.sources.items()
            if self._unrefuted_cache[candidate] and (source is None or source in sources)
        ]

    def _confirm(self, result: VerificationResult, deadline: float) -> VerificationResult:
        """Combine the result of a proof with ESBMC's verdict on the annotated program.

        The seconds of the result are those of a cached verdict, else 0: the caller measures the
        time of a new verdict.
        """
        invariants: dict[int, list[Expression]] = {loop.number: [] for loop in self._program.loops}
        for invariant in result.invariants:
            invariants[invariant.loop].append(invariant.expression)
        # ESBMC may unroll a loop without invariants for ever, so each loop has at least `1`.
        annotated_source = annotate(
            self._program, {n: e or [Constant(1)] for n, e in invariants.items()}
        )
        is_cached = annotated_source in self._esbmc_verdicts
        difficulty = esbmc.Difficulty.PRODUCTS if self._has_products else esbmc.Difficulty.NONE
        # Quantifiers take precedence over products: Boolector does not support them at all.
        if bound_variables(*(invariant.expression for invariant in result.invariants)):
            difficulty = esbmc.Difficulty.QUANTIFIERS
        remaining_seconds = max(_MIN_ESBMC_SECONDS, deadline - time.process_time())
        verdict = self._run_esbmc(annotated_source, remaining_seconds, difficulty)
        result = replace(result, seconds=verdict.seconds if is_cached else 0.0)
        if verdict.answer is esbmc.EsbmcAnswer.SUCCESSFUL:
            return result
        if verdict.answer is esbmc.EsbmcAnswer.TIMEOUT:
            message = f"ESBMC said nothing within {verdict.seconds:.0f} s"
            outcome = Outcome.ESBMC_TIMEOUT
        else:
            message = f"ESBMC says: {verdict.message}"
            is_error = verdict.answer is esbmc.EsbmcAnswer.ERROR
            outcome = Outcome.ESBMC_ERROR if is_error else Outcome.ESBMC_DISAGREES
        return replace(result, outcome=outcome, message=message, limits=verdict.limits)

    def _cross_check(self, result: VerificationResult, deadline: float) -> VerificationResult:
        """Search a violation of the original text to a small depth, once for each program."""
        text = self._original_text
        # No C verifier reads annotations of ACSL.
        if text is None or text.is_annotated:
            return result
        if self._search_result is None:
            seconds = max(_MIN_ESBMC_SECONDS, deadline - time.process_time())
            search = BoundedSearch(text, self._semantics)
            self._search_result = search.search(seconds, _CROSS_CHECK_DEPTH)
        found = self._search_result
        if found.violation:
            return replace(
                confirm_violation(text, found, self._semantics, self._program),
                seconds=result.seconds,
            )
        if found.depth == 0:
            message = f"ESBMC cannot search the original text: {found.problem}"
            outcome = Outcome.ESBMC_TIMEOUT if found.limits else Outcome.ESBMC_ERROR
            return replace(result, outcome=outcome, message=message, limits=found.limits)
        return replace(result, searched_depth=found.depth)

    def _run_esbmc(
        self, annotated: str, seconds: float, difficulty: esbmc.Difficulty
    ) -> esbmc.EsbmcVerdict:
        if annotated in self._esbmc_verdicts:
            return self._esbmc_verdicts[annotated]
        verdict = esbmc.run_esbmc(
            annotated, esbmc.Mode.INVARIANTS, self._semantics, seconds, difficulty
        )
        # A timeout is not cached: another verification may have more time left for ESBMC.
        if verdict.answer is not esbmc.EsbmcAnswer.TIMEOUT:
            self._esbmc_verdicts[annotated] = verdict
        return verdict
