"""A language model's proposals for a set of programs, stored as JSON."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from llmchecker.errors import UnsupportedProgram
from llmchecker.utils.atomic_files import read_json_with_digest, write_json_with_digest
from loop_invariants.frontend.expressions import parse_candidate
from loop_invariants.ir.expressions import Expression
from loop_invariants.ir.statements import Loop, Program
from loop_invariants.proposals.prompt_templates import PromptVariant, select_variant

_SYNTAX_FILTER = re.compile(
    r"(?:[A-Za-z_]\w*+|\d++|\s|<=?|>=?|==|!=?|&&|\|\||[-+*()])++", flags=re.ASCII
)


_MAX_CHARACTERS = 1000
"""Maximum number of characters of a text that is parsed as a condition."""


@dataclass(frozen=True)
class ParsedAnswer:
    """The conditions of a single answer.

    Attributes:
        iteration: the index of the answer, from 0.
        candidates: the distinct conditions with at least one variable, in the order of the text.
        rejected_texts: the texts that the syntactic filter rejects.
        unparsable_texts: the texts that are not such conditions, including an unfinished text.
    """

    iteration: int
    candidates: tuple[Expression, ...]
    rejected_texts: tuple[str, ...]
    unparsable_texts: tuple[str, ...]

    @property
    def error_count(self) -> int:
        """Number of texts without a condition."""
        return len(self.rejected_texts) + len(self.unparsable_texts)


def merge_candidates(answers: Iterable[ParsedAnswer]) -> tuple[Expression, ...]:
    """Return the distinct candidates of answers, in their order."""
    return tuple(dict.fromkeys(c for answer in answers for c in answer.candidates))


@dataclass(frozen=True)
class LoopProposals:
    """The proposals of a model for a loop.

    Attributes:
        answers: for `full` and `constrained`, the texts of every iteration's answer.
        seconds: wall-clock seconds of all answers to each kind of prompt.
    """

    answers: Mapping[PromptVariant, Sequence[Sequence[str]]]
    seconds: Mapping[PromptVariant, float]

    @property
    def iterations(self) -> int:
        """The number of answers to each kind of prompt."""
        return len(self.answers[PromptVariant.FULL])

    def parse_answers(
        self, variant: PromptVariant, is_filtered: bool, program: Program, loop: Loop
    ) -> tuple[ParsedAnswer, ...]:
        """Parse the answers of a variant, with a result for every iteration."""
        texts = (self.answers[select_variant(variant, i)][i] for i in range(self.iterations))
        return tuple(parse_answer(i, t, program, loop, is_filtered) for i, t in enumerate(texts))

    def collect_candidates(self, program: Program, loop: Loop) -> tuple[Expression, ...]:
        """Return the distinct conditions of all answers, without the syntactic filter."""
        return merge_candidates(self.parse_answers(PromptVariant.COMBINED, False, program, loop))

    def sampling_seconds(self, variant: PromptVariant, iterations: int) -> float:
        """Return the seconds of a variant's first iterations.

        All answers are generated together, so each counts an equal share of their time.
        """
        shares = (
            self.seconds[select_variant(variant, i)] / self.iterations for i in range(iterations)
        )
        return sum(shares)


ProgramProposals = Mapping[int, LoopProposals]
"""The proposals for a program, by loop number."""


def parse_answer(
    iteration: int, texts: Sequence[str], program: Program, loop: Loop, is_filtered: bool
) -> ParsedAnswer:
    """Parse the texts of an answer as conditions over the loop's variables.

    Args:
        iteration: the index of the answer, from 0.
        texts: the texts of the answer.
        program: the program with the types of the variables.
        loop: the loop with the variables.
        is_filtered: whether the syntactic filter is enabled.
    """
    candidates: dict[Expression, None] = {}
    rejected_texts, unparsed_texts = [], []
    for text in texts:
        # The filter comes first, so that rejected texts do not count as unparsable.
        if is_filtered and not _SYNTAX_FILTER.fullmatch(text):
            rejected_texts.append(text)
            continue
        if len(text) > _MAX_CHARACTERS:
            unparsed_texts.append(text)
            continue
        try:
            candidates.setdefault(parse_candidate(text, loop.scope, program.types))
        # The text is no condition over the loop's variables, which is a result to report.
        except UnsupportedProgram:
            unparsed_texts.append(text)
    return ParsedAnswer(iteration, tuple(candidates), tuple(rejected_texts), tuple(unparsed_texts))


_PROPOSALS = TypeAdapter(dict[str, dict[int, LoopProposals]])


def write_proposals(proposals: Mapping[str, ProgramProposals], path: str | Path) -> None:
    """Write the proposals for programs as JSON, by program name."""
    content = {name: dict(loops) for name, loops in proposals.items()}
    write_json_with_digest(_PROPOSALS.dump_python(content, mode="json"), path)


def read_proposals(path: str | Path) -> dict[str, dict[int, LoopProposals]]:
    """Read the proposals of a file from `write_proposals`."""
    return _PROPOSALS.validate_python(read_json_with_digest(path))
