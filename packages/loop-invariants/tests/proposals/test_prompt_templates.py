"""Prompts for invariants."""

import pytest
from helpers.invariant_programs import ARRAY, COUNTER, TWO_LOOPS

from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.ir.expressions import Semantics
from loop_invariants.proposals.prompt_templates import (
    _EXAMPLES,
    INVARIANT_KEYWORD,
    PromptVariant,
    build_prompt,
    max_invariants,
    select_variant,
)
from loop_invariants.verification.houdini import Candidate, Prover

ITERATIONS = 30
"""Answers that the paper asks for, at most."""


@pytest.mark.parametrize("example", _EXAMPLES, ids=range(len(_EXAMPLES)))
@pytest.mark.parametrize("semantics", Semantics)
def test_what_the_examples_show_is_proven(example, semantics):
    """Every invariant of a worked example is inductive, and together they prove its assertion."""
    program = parse_program(example.source, "example")
    scope = program.loops[0].scope
    candidates = [Candidate(0, parse_condition(text, scope)) for text in example.invariants]
    prover = Prover(program, semantics)
    proven = prover.find_inductive_subset(candidates)
    assert list(proven) == candidates
    assert prover.entails_assertions(proven)


@pytest.mark.parametrize("shown", [PromptVariant.FULL, PromptVariant.CONSTRAINED])
@pytest.mark.parametrize("program", [COUNTER, ARRAY, TWO_LOOPS], ids=lambda p: p.name)
def test_a_prompt_ends_where_an_invariant_stands(program, shown):
    """A prompt shows the whole `main` and ends with the opening parenthesis of an invariant."""
    for loop in program.loops:
        text = build_prompt(program, loop, shown)
        assert text.endswith(f"\n{INVARIANT_KEYWORD}(")
        assert text.count("int main()") == len(_EXAMPLES) + 1
        assert "__" not in text


def test_explanations_are_what_full_adds():
    """Without its comments a `full` prompt is the `constrained` one."""
    full, constrained = (
        build_prompt(COUNTER, COUNTER.loops[0], shown)
        for shown in (PromptVariant.FULL, PromptVariant.CONSTRAINED)
    )
    lines = [line for line in full.split("\n") if line and not line.startswith("//")]
    assert lines == [line for line in constrained.split("\n") if line]
    assert all(example.reason in full for example in _EXAMPLES)


def test_the_loop_in_question_is_marked_among_several():
    """Prompts for two loops of a program differ in the place of the mark alone."""
    mark = "// the loop of the invariants:"
    texts = [build_prompt(TWO_LOOPS, loop, PromptVariant.CONSTRAINED) for loop in TWO_LOOPS.loops]
    assert [text.count(mark) for text in texts] == [1, 1]
    first, second = (text.index("while (i < 8)") - text.index(mark) for text in texts)
    assert first > 0 > second


def test_iterations_ask_for_one_more_every_five_up_to_three():
    """Thirty iterations ask five times for one, five times for two, then for three invariants."""
    assert [max_invariants(i) for i in range(ITERATIONS)] == [1] * 5 + [2] * 5 + [3] * 20


def test_combined_takes_turns_of_five():
    """`combined` is `full` and `constrained` by turns of five; the others are themselves."""
    turns = [PromptVariant.FULL] * 5 + [PromptVariant.CONSTRAINED] * 5
    assert [select_variant(PromptVariant.COMBINED, i) for i in range(ITERATIONS)] == turns * 3
    for variant in (PromptVariant.FULL, PromptVariant.CONSTRAINED):
        assert {select_variant(variant, i) for i in range(ITERATIONS)} == {variant}
