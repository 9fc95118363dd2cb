"""Elements at constant indices become integers, and nothing is lost by it."""

import pytest

from loop_invariants.frontend.expressions import parse_candidate
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import Semantics, format_c
from loop_invariants.verification.result import CandidateSource, Outcome
from loop_invariants.verification.verifier import VerificationLimits, Verifier

DECLARED = "int __VERIFIER_nondet_int(void); void __VERIFIER_assert(int);\n"


def read(body):
    return parse_program(f"{DECLARED} int main(void) {{ {body} }}", "scalars")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("int s[3]; s[0] = 1; s[2] = s[0];", {"s[0]", "s[2]"}),
        ("short s[2] = {4, 5}; s[1]++;", {"s[0]", "s[1]"}),
        ("int s[3], i = 0; s[0] = 1; s[i] = 2;", {"s", "i"}),
        ("int s[3]; s[0] = 1; s[3] = 2;", {"s"}),
        ("int s[2], t[2]; t[s[0] & 1] = s[1];", {"s[0]", "s[1]", "t"}),
    ],
)
def test_an_array_is_split_if_every_index_is_a_constant_in_its_range(body, names):
    """One variable index, or one out of range, leaves the array as it is."""
    assert set(read(body).types) == names


def test_an_index_out_of_range_violates_the_program_as_before():
    """An array that is not split has its range checked."""
    result = Verifier(read("int s[2]; s[1] = 1; s[2] = 1;"), Semantics.INTEGERS).verify({})
    assert result.outcome is Outcome.FALSE


LOOP = "int s[2]; s[0] = 0; s[1] = 3; for (int i = 0; i < 9; i++) s[0] = s[0] + s[1];"


def test_candidates_name_elements_as_the_text_does():
    """A condition on an element is one on its integer, and an element without one is refused."""
    program = read(LOOP)
    (loop,) = program.loops
    wanted = parse_candidate("s[0] == 3 * i && s[1] == 3", loop.scope, program.types)
    assert format_c(wanted) == "(s[0] == (3 * i)) && (s[1] == 3)"
    proposals = {CandidateSource.SAMPLED: {0: [wanted]}}
    program = read(f"{LOOP} __VERIFIER_assert(s[0] == 27);")
    assert Verifier(program, Semantics.INTEGERS).verify(proposals, ()).outcome is Outcome.NOT_PROVEN


@pytest.mark.few(1)
@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("text", "lowered"),
    [(LOOP, True), ("int s[1]; s[0] = 0; for (int i = 0; i < 9; i++) s[0] = s[0] + 3;", False)],
)
def test_esbmc_gets_the_array_or_its_elements(text, lowered, semantics):
    """A sum in an element is verified in the text itself, and anew where others keep still."""
    program = read(f"{text} __VERIFIER_assert(s[0] == 27);")
    assert program.is_lowered == lowered
    result = Verifier(program, semantics, VerificationLimits(seconds=30)).verify({})
    assert result.outcome is Outcome.VERIFIED
