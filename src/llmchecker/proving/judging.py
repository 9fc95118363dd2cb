"""The worth of a single text as an invariant of a loop."""

from pathlib import Path

from llmchecker.errors import ConfigError, UnsupportedProgram
from llmchecker.programs.expressions import Expression, Semantics
from llmchecker.programs.statements import Program
from llmchecker.proving.houdini import Candidate, Prover
from llmchecker.reading.c_expressions import closing, parse_candidate
from llmchecker.reading.parsing import read_program


class Judge:
    """Judges texts as invariants of one loop; each distinct condition is judged once.

    Args:
        program: the program.
        loop: the number of the loop.
        semantics: what the program's integers are.
        seconds: the most time for one question to the prover.

    Raises:
        ConfigError: the program has no such loop.
        UnsupportedProgram: the semantics do not cover the program.
    """

    def __init__(self, program: Program, loop: int, semantics: Semantics, seconds: float) -> None:
        loops = {loop.number: loop for loop in program.loops}
        if loop not in loops:
            raise ConfigError(f"{program.name} has no loop {loop!r}, but {sorted(loops)}")
        self._program = program
        self._loop = loops[loop]
        self._prover = Prover(program, semantics, seconds)
        self._worth: dict[Expression, int] = {}

    @classmethod
    def of_file(cls, file: Path, loop: int, semantics: str, seconds: float) -> "Judge":
        """The judge of a loop of a C file.

        Raises:
            ConfigError: there are no such semantics, or no such loop.
            ProgramError: the file cannot be read or is not supported.
        """
        if semantics not in list(Semantics):
            raise ConfigError(f"semantics is {semantics!r}; it must be {' or '.join(Semantics)}")
        return cls(read_program(file), loop, Semantics(semantics), seconds)

    def worth(self, text: str) -> int:
        """Judge a text up to the parenthesis that closes one opened before the text.

        Returns:
            2 for a proven invariant from which every assertion follows, 1 for another proven
            invariant, 0 for anything else.
        """
        end = closing(text)
        if end is None:
            return 0
        try:
            expression = parse_candidate(text[:end], self._loop.scope, self._program.types)
        except UnsupportedProgram:
            return 0
        if expression not in self._worth:
            self._worth[expression] = self._judged(expression)
        return self._worth[expression]

    def _judged(self, expression: Expression) -> int:
        invariants = self._prover.inductive([Candidate(self._loop.number, expression)])
        if not invariants:
            return 0
        return 2 if self._prover.follows(invariants) else 1
