"""Prompts for invariants. A prompt ends where an invariant begins, so what follows is a proposal.

As in Pirzada, Bhayat, Cordeiro and Reger (ASE 2024) there are three kinds: worked examples with an
explanation, examples only, and the two by turns. The models in view are small and only continue
text. A prompt therefore consists of a few short programs, each followed by invariants of one loop,
and then the program in question. The functions of verification get short names, which cost fewer
tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from llmchecker.programs.expressions import Identifier
from llmchecker.programs.statements import Loop, Program
from llmchecker.proving.annotation import INVARIANT, annotate
from llmchecker.reading.parsing import parse_program

STATEMENT = "invariant"
"""The word that states an invariant in a prompt."""

_TURN = 5
"""Iterations after which `combined` changes the prompt, and after which more is asked for."""


class Variant(StrEnum):
    """What a prompt shows before the program."""

    FULL = "full"
    """Worked examples with an explanation."""
    CONSTRAINED = "constrained"
    """The examples only."""
    COMBINED = "combined"
    """Five answers to `full`, then five to `constrained`, and so on."""


def variant_of(variant: Variant, iteration: int) -> Variant:
    """The prompt of an iteration, from 0 on: `full` or `constrained`."""
    if variant is Variant.COMBINED:
        return (Variant.FULL, Variant.CONSTRAINED)[iteration // _TURN % 2]
    return variant


def asked(iteration: int) -> int:
    """How many invariants an iteration asks for, from 0 on: one more every five, up to 3."""
    return min(3, 1 + iteration // _TURN)


def prompt(
    program: Program,
    loop: Loop,
    shown: Variant,
    known: Sequence[str] = (),
    failed: Sequence[str] = (),
) -> str:
    """The text that a model is to continue with an invariant of the loop; it ends with `(`.

    Args:
        program: the program in question.
        loop: the loop in question.
        shown: what comes before the program: `full` or `constrained`.
        known: invariants that are proven already.
        failed: what failed before, a line each; the examples then show such lines too.
    """
    full = shown is Variant.FULL
    shown = [example.worked(full, bool(failed)) for example in EXAMPLES]
    lines = [_shown(program, loop), *(f"{STATEMENT}({text});" for text in known)]
    lines += [f"// {line}" for line in failed]
    shown.append("\n".join([*lines, f"{STATEMENT}("]))
    return "\n".join([_EXPLANATION, *shown] if full else shown)


def message(text: str, most: int) -> str:
    """A prompt as a message to a model that answers messages.

    Args:
        text: the prompt.
        most: how many invariants it may answer with.
    """
    return f"{_REQUEST.format(most=most)}\n{text.removesuffix(f'{STATEMENT}(')}"


@dataclass(frozen=True)
class Example:
    """A program with one loop, invariants that prove its assertion, and why they do.

    Attributes:
        source: the program.
        invariants: those of its loop.
        reason: why they prove it.
        failed: what failed of other conditions, as a counterexample shows.
    """

    source: str
    invariants: tuple[str, ...]
    reason: str
    failed: str

    def worked(self, explained: bool, repaired: bool = False) -> str:
        """The program and its invariants, followed by the reason if `explained`.

        With `repaired` they are preceded by what failed of other conditions.
        """
        program = parse_program(self.source, "example")
        lines = [_shown(program, program.loops[0])]
        lines += [f"// {self.failed}"] if repaired else []
        lines += [f"{STATEMENT}({invariant});" for invariant in self.invariants]
        lines += [f"// {self.reason}"] if explained else []
        return "\n".join(lines) + "\n"


def _shown(program: Program, loop: Loop) -> str:
    """The program's `main`; if it has several loops, the one in question is marked."""
    # The mark is placed as an invariant would be, and then replaced by a comment.
    marks = {loop.number: [Identifier(_MARK)]} if len(program.loops) > 1 else {}
    text = annotate(program, marks)
    main = re.search(r"^[^\n]*\bmain\(.*?^\}", text, re.DOTALL | re.MULTILINE).group()
    main = main.replace(f"{INVARIANT}({_MARK});", "// the loop of the invariants:")
    for pattern, short in _SHORT.items():
        main = re.sub(pattern, short, main)
    return main


_MARK = "mark"

_SHORT = {
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
invariants, each on a line of its own as `{STATEMENT}(CONDITION);` where CONDITION is one condition
of C over the variables in scope, without calls and assignments. Write nothing else.
"""

EXAMPLES = (
    Example(
        """int main() {
            int full = __VERIFIER_nondet_int(); int left = full; int right = 0;
            __VERIFIER_assume(full >= 0);
            while (left > 0) { left = left - 1; right = right + 1; }
            assert(right == full);
        }""",
        ("left + right == full", "left >= 0", "right >= 0"),
        "What leaves one side comes to the other; at the end left is 0.",
        "right == full is no invariant: it is false where the loop begins, with full = 1, "
        "left = 1, right = 0",
    ),
    Example(
        """int main() {
            int n = __VERIFIER_nondet_int(); int k = 0; int best = 0;
            while (k < n) { if (__VERIFIER_nondet_int()) best = k; k = k + 1; }
            if (n > 0) assert(best < n);
        }""",
        ("best < n || k == 0", "best <= k", "k >= 0"),
        "best is a number before n, or no round was made.",
        "best < n is no invariant: it is false where the loop begins, with n = 0, k = 0, best = 0",
    ),
)
