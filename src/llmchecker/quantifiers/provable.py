"""Whether a text is a proven invariant of a program, and whether it proves the program."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from llmchecker.errors import ConfigError, ProgramError

_QUESTION_SECONDS = 5.0


@dataclass(frozen=True)
class Provable:
    """What the continuation, up to its closing parenthesis, is worth as an invariant of a loop.

    2 when it is a proven invariant from which every assertion of the program follows, 1 when it is
    a proven invariant, 0 when it is not, or is no condition over the loop's variables, or has not
    been closed yet. Proven means base and step case, without any other invariant. What follows the
    closing parenthesis does not matter, so the score of a closed text is final. A question that
    the prover leaves open for 5 seconds counts as not proven.

    Args:
        program: path of the C file.
        loop: the number of the loop, in the order of the text from 0 on.
        semantics: `integers` or `int32`: what the program's integers are.

    Raises:
        ConfigError: the program cannot be read or is not supported, has no such loop, or the
            semantics are unknown.
    """

    program: Path
    loop: int = 0
    semantics: str = "integers"
    judge: object = field(init=False, repr=False, compare=False)
    """The invariants.judging.Judge of the loop."""

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        # Imported here: most runs use no prover, and loading it takes half a second.
        from llmchecker.proving.judging import Judge

        object.__setattr__(self, "program", Path(self.program))
        try:
            judge = Judge.of_file(self.program, self.loop, self.semantics, _QUESTION_SECONDS)
        except ProgramError as error:
            raise ConfigError(f"program: {error}") from error
        object.__setattr__(self, "judge", judge)

    def __call__(self, start: str, continuation: str) -> int:
        return self.judge.worth(continuation)
