"""The quantifier `Provable`: the score of a text as an invariant of a program."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from llmchecker.errors import ConfigError, ProgramError

_QUERY_SECONDS = 5.0
"""Maximum seconds for each query of the prover."""


@dataclass(frozen=True)
class Provable:
    """Score: 2 if an invariant proves the program, 1 for another invariant, else 0.

    A continuation is read up to its closing parenthesis. It scores 2 if it is a proven invariant
    from which every assertion of the program follows, 1 for any other proven invariant, and 0
    otherwise. Without an assertion no text scores 2. A text that is not a condition over the loop's
    variables, or has no closing parenthesis yet, scores 0.

    An invariant is proven if its base and step case hold without any other invariant. A query that
    is undecided after 5 seconds counts as not proven. The text after the closing parenthesis does
    not matter, so the score of a closed text is final.

    Attributes:
        program: path of the C file.
        loop: loop number, counted from 0 in the order of the text.
        semantics: the semantics of the program's integers: `integers` or `int32`.
        headers: paths of the included files in the program's folder.
        scorer: the `InvariantScorer` of the loop.

    Raises:
        ConfigError: the program cannot be read or is not supported, it has no such loop, or the
            semantics are unknown.
    """

    program: Path
    loop: int = 0
    semantics: str = "integers"
    headers: tuple[Path, ...] = field(init=False, repr=False, compare=False)
    scorer: Any = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 2

    def __post_init__(self) -> None:
        # The import takes half a second, and most runs do not use a prover.
        from loop_invariants.c_files import read_included_headers, read_source
        from loop_invariants.verification.invariant_score import InvariantScorer

        # A frozen dataclass allows assignments only in this way.
        object.__setattr__(self, "program", Path(self.program))
        try:
            scorer = InvariantScorer.from_file(
                self.program, self.loop, self.semantics, _QUERY_SECONDS
            )
            headers = read_included_headers(self.program, read_source(self.program))
        # A quantifier is part of a configuration, so its errors are reported as such.
        except ProgramError as error:
            raise ConfigError(f"program: {error}") from error
        object.__setattr__(self, "headers", tuple(self.program.parent / n for n in sorted(headers)))
        object.__setattr__(self, "scorer", scorer)

    def __call__(self, start: str, continuation: str) -> int:
        score: int = self.scorer.score(continuation)
        return score
