"""Prompts for invariants, which end where an invariant begins.

The three kinds follow Pirzada, Bhayat, Cordeiro and Reger (ASE 2024): worked examples with an
explanation, examples only, and both in alternation. The intended models are small and only continue
text. A prompt therefore contains short programs, each followed by invariants of a loop, and
then the program in question. Verification functions get short names, which use fewer tokens.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import INT, Identifier
from loop_invariants.ir.statements import Loop, Program
from loop_invariants.verification.esbmc_annotation import INVARIANT_FUNCTION, annotate

INVARIANT_KEYWORD = "invariant"
"""The keyword that states an invariant in a prompt."""

_ITERATIONS_PER_TURN = 5
"""Number of iterations until `combined` changes the prompt and the maximum rises."""


class PromptVariant(StrEnum):
    """The part of a prompt before the program."""

    FULL = "full"
    """Worked examples with an explanation."""
    CONSTRAINED = "constrained"
    """The examples only."""
    COMBINED = "combined"
    """Five answers to `full`, then five to `constrained`, and so on."""


def select_variant(variant: PromptVariant, iteration: int) -> PromptVariant:
    """Return the prompt of an iteration, counted from 0: `full` or `constrained`."""
    # `combined` has no prompt of its own: it alternates between the other two.
    if variant is PromptVariant.COMBINED:
        return (PromptVariant.FULL, PromptVariant.CONSTRAINED)[
            iteration // _ITERATIONS_PER_TURN % 2
        ]
    return variant


def max_invariants(iteration: int) -> int:
    """Return the number of requested invariants: one more per 5 iterations, at most 3."""
    return min(3, 1 + iteration // _ITERATIONS_PER_TURN)


def build_prompt(program: Program, loop: Loop, variant: PromptVariant) -> str:
    """Build the prompt before an invariant of the loop; it ends with `(`.

    Args:
        program: the program.
        loop: the loop.
        variant: the part before the program: `full` or `constrained`.
    """
    is_full = variant is PromptVariant.FULL
    parts = [example.format_example(is_full) for example in _EXAMPLES]
    parts.append(f"{_format_main(program, loop)}\n{INVARIANT_KEYWORD}(")
    return "\n".join([_EXPLANATION, *parts] if is_full else parts)


def build_message(text: str, limit: int) -> str:
    """Convert a prompt to a message for a chat model.

    Args:
        text: the prompt.
        limit: maximum number of invariants in the answer.
    """
    # A message is not continued, so the open invariant at the end of the prompt is removed.
    return f"{_REQUEST.format(most=limit)}\n{text.removesuffix(f'{INVARIANT_KEYWORD}(')}"


@dataclass(frozen=True)
class _Example:
    """An example: a program with one loop and invariants that prove its assertion.

    Attributes:
        source: the program.
        invariants: the invariants of its loop.
        reason: the reason why they prove it.
    """

    source: str
    invariants: tuple[str, ...]
    reason: str

    def format_example(self, has_reason: bool) -> str:
        """Format the program and its invariants, followed by the reason if `has_reason`."""
        program = parse_program(self.source, "example")
        lines = [_format_main(program, program.loops[0])]
        lines += [f"{INVARIANT_KEYWORD}({invariant});" for invariant in self.invariants]
        lines += [f"// {self.reason}"] if has_reason else []
        return "\n".join(lines) + "\n"


def _format_main(program: Program, loop: Loop) -> str:
    """Format the program's `main`, with a mark of the loop if it has several."""
    # The mark has the form of an invariant, and is then replaced by a comment.
    marks = {loop.number: [Identifier(_LOOP_MARK, INT)]} if len(program.loops) > 1 else {}
    text = annotate(program, marks)
    match = re.search(r"^[^\n]*\bmain\(.*?^\}", text, re.DOTALL | re.MULTILINE)
    assert match is not None, "a program has a main"
    main = match.group().replace(
        f"{INVARIANT_FUNCTION}({_LOOP_MARK});", "// the loop of the invariants:"
    )
    for pattern, replacement in _ABBREVIATIONS.items():
        main = re.sub(pattern, replacement, main)
    return main


_LOOP_MARK = "mark"

_ABBREVIATIONS = {
    r"\b__VERIFIER_nondet_\w+": "any",
    r"\b(?:__VERIFIER_assume|__ESBMC_assume|assume_abort_if_not)\b": "assume",
    r"\b(?:__VERIFIER_assert|__ESBMC_assert)\b": "assert",
    r"\(void\)": "()",
}

_EXPLANATION = """\
// An invariant is true before a loop and after each of its rounds, and implies what is asserted.
"""

_REQUEST = f"""\
The last program below has a loop with an invariant to be found. Write at most {{most}} of its
invariants, each on a line of its own as `{INVARIANT_KEYWORD}(CONDITION);` where CONDITION is one
condition of C over the variables in scope, without calls and assignments. Write nothing else.
"""

_EXAMPLES = (
    _Example(
        """int main() {
            int full = __VERIFIER_nondet_int(); int left = full; int right = 0;
            __VERIFIER_assume(full >= 0);
            while (left > 0) { left = left - 1; right = right + 1; }
            assert(right == full);
        }""",
        ("left + right == full", "left >= 0", "right >= 0"),
        "What leaves one side comes to the other; at the end left is 0.",
    ),
    _Example(
        """int main() {
            int n = __VERIFIER_nondet_int(); int k = 0; int best = 0;
            while (k < n) { if (__VERIFIER_nondet_int()) best = k; k = k + 1; }
            if (n > 0) assert(best < n);
        }""",
        ("best < n || k == 0", "best <= k", "k >= 0"),
        "best is a number before n, or no round was made.",
    ),
)
