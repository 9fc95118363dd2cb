"""The quantifier that tells proven invariants of a program, and those that prove the program."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from llmchecker.errors import ConfigError, ProgramError

_QUESTION_SECONDS = 5.0
"""The most time for one question to the prover."""


@dataclass(frozen=True)
class Provable:
    """The worth of the continuation, up to its closing parenthesis, as an invariant of a loop.

    The score is 2 for a proven invariant from which every assertion of the program follows, 1 for
    another proven invariant, and 0 for any other text. A text that is no condition over the loop's
    variables, or that is not closed yet, scores 0 too. Proven means that base and step case hold
    without any other invariant. The text after the closing parenthesis does not matter, so the
    score of a closed text is final. If the prover has not answered a question after 5 seconds, the
    text counts as not proven.

    Attributes:
        program: the path of the C file.
        loop: the number of the loop, counted from 0 in the order of the text.
        semantics: what the program's integers are: `integers` or `int32`.
        judge: the `proving.judging.Judge` of the loop.

    Raises:
        ConfigError: the program cannot be read or is not supported, it has no such loop, or the
            semantics are unknown.
    """

    program: Path
    loop: int = 0
    semantics: str = "integers"
    judge: object = field(init=False, repr=False, compare=False)

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
