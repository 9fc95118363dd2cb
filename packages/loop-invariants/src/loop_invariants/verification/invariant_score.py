"""The score of a text as an invariant of a loop."""

from pathlib import Path

from llmchecker.errors import ConfigError, UnsupportedProgram
from loop_invariants.frontend.expressions import find_closing_parenthesis, parse_candidate
from loop_invariants.frontend.translation_unit import read_program
from loop_invariants.ir.expressions import Expression, Semantics
from loop_invariants.ir.statements import Program
from loop_invariants.verification.houdini import Candidate, Prover


class InvariantScorer:
    """A scorer of texts as invariants of one loop, with a cache of conditions.

    Args:
        program: the program.
        loop: the loop number.
        semantics: the semantics of the program's integers.
        seconds: maximum seconds of each query of the prover.

    Raises:
        ConfigError: the program has no such loop.
        UnsupportedProgram: the semantics do not cover the program.
    """

    def __init__(self, program: Program, loop: int, semantics: Semantics, seconds: float) -> None:
        loops = {loop.number: loop for loop in program.loops}
        if loop not in loops:
            raise ConfigError(
                f"{program.name}: there is no loop {loop!r}; choose from {sorted(loops)}"
            )
        self._program = program
        self._loop = loops[loop]
        self._prover = Prover(program, semantics, seconds)
        self._scores: dict[Expression, int] = {}

    @classmethod
    def from_file(cls, file: Path, loop: int, semantics: str, seconds: float) -> "InvariantScorer":
        """Build the scorer of a loop of a C file.

        Raises:
            ConfigError: the semantics or the loop are not known.
            ProgramError: the file cannot be read or is not supported.
        """
        if semantics not in list(Semantics):
            raise ConfigError(
                f"semantics: {semantics!r} is unknown; it must be {' or '.join(Semantics)}"
            )
        return cls(read_program(file), loop, Semantics(semantics), seconds)

    def score(self, text: str) -> int:
        """Score a text up to the first closing parenthesis that the text does not open.

        Returns:
            2 for a proven invariant from which every assertion follows, if the program has an
            assertion; 1 for any other proven invariant; 0 otherwise.
        """
        end = find_closing_parenthesis(text)
        if end is None:
            # Without its closing parenthesis, the condition is incomplete.
            return 0
        try:
            expression = parse_candidate(text[:end], self._loop.scope, self._program.types)
        except UnsupportedProgram:
            # The text is no condition over the variables in the loop's scope.
            return 0
        if expression not in self._scores:
            self._scores[expression] = self._compute_score(expression)
        return self._scores[expression]

    def _compute_score(self, expression: Expression) -> int:
        invariants = self._prover.find_inductive_subset([Candidate(self._loop.number, expression)])
        if not invariants:
            return 0
        # A program without an assertion would score 2 for every invariant.
        return (
            2 if self._program.has_property and self._prover.entails_assertions(invariants) else 1
        )
