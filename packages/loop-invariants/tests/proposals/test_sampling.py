"""Proposals by sampling, on models that write a given text, random ones and a real one."""

import random
import string
from collections import Counter

import pytest
from helpers.invariant_programs import ARRAY, COUNTER, is_condition
from helpers.random_models import CAUSAL

from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.load import load_model
from loop_invariants.ir.expressions import format_c
from loop_invariants.proposals.prompt_templates import PromptVariant, max_invariants, select_variant
from loop_invariants.proposals.proposal_set import parse_answer
from loop_invariants.proposals.proposers import propose_for_program
from loop_invariants.proposals.sampling import _MAX_TOKENS, sample_answers
from loop_invariants.proposals.settings import ProposalSettings

CHARACTERS = string.printable
FOR_ONE, FOR_TWO, FOR_THREE = 0, 5, 10


def writer(script: str, end: str = "\t") -> TableModel:
    """A model that writes the script after the last `@` of a text, character by character."""
    places = {character: place for place, character in enumerate(CHARACTERS)}

    def certain(tokens: tuple[int, ...]) -> list[float]:
        written = len(tokens) - 1 - max(i for i, t in enumerate(tokens) if t == places["@"])
        following = (script + end * 100)[written]
        return [float(character == following) for character in CHARACTERS]

    return TableModel(CHARACTERS, certain, frozenset({places[end]}))


@pytest.mark.parametrize(
    ("script", "iteration", "expected"),
    [
        ("x <= n);\ninvariant(y", FOR_ONE, ("x <= n",)),
        ("(x)<=n && (y>0));", FOR_ONE, ("(x)<=n && (y>0)",)),
        ("x>n);\ninvariant(y==5);\nint", FOR_TWO, ("x>n", "y==5")),
        ("x>n) ; invariant ( y==5);int", FOR_TWO, ("x>n", "y==5")),
        ("x>n);\nint main", FOR_TWO, ("x>n",)),
        ("x>n) && (y>0);", FOR_TWO, ("x>n",)),
        ("x>n);\ninvariant(y", FOR_TWO, ("x>n", "y")),
        ("x>n);\ninvariant(y==5);\ninvariant(0<x);", FOR_THREE, ("x>n", "y==5", "0<x")),
        ("x; y", FOR_ONE, ("x;",)),
        ("x", FOR_ONE, ("x",)),
        ("", FOR_ONE, ("",)),
        ("x" * 99, FOR_ONE, ("x" * _MAX_TOKENS,)),
    ],
)
def test_as_many_invariants_are_read_as_are_asked_for(script, iteration, expected):
    """An answer ends with the last invariant asked for, or where no further one can come."""
    assert len(expected) <= max_invariants(iteration)
    found = sample_answers(writer(script), "@", [iteration], seed=0)
    assert found == [expected]


def test_frequencies_are_the_distribution():
    """Each token is drawn as often as its probability says, an impossible one never."""
    chances = {"x": 0.5, "y": 0.25, "n": 0.125, "1": 0.125, "2": 0.0}
    vocabulary = [*chances, ")"]

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        return [*chances.values(), 0.0] if len(tokens) == 1 else [0.0] * len(chances) + [1.0]

    count = 4000
    model = TableModel(vocabulary, distribution)
    drawn = Counter(found[0] for found in sample_answers(model, "2", range(count), seed=3))
    for character, chance in chances.items():
        spread = (count * chance * (1 - chance)) ** 0.5
        assert abs(drawn[character] - count * chance) <= 5 * spread


@pytest.mark.few(1)
@pytest.mark.parametrize("architecture", CAUSAL)
def test_an_answer_depends_on_its_iteration_alone(architecture, random_model):
    """Drawn together, in another order or one by one, with any memory: answers are the same."""
    model = load_model(random_model(architecture))
    together = sample_answers(model, "invariant(", range(4, 7), seed=1)
    assert sample_answers(model, "invariant(", [6, 4], seed=1) == [together[2], together[0]]
    small = load_model(random_model(architecture), memory_bytes=1)
    assert [sample_answers(small, "invariant(", [i], seed=1)[0] for i in range(4, 7)] == together
    assert sample_answers(model, "invariant(", range(4, 7), seed=2) != together


FILTERED = [
    ("x <= n", ["x <= n"], [], []),
    ("x<=n&&(y*2>0||!(x==1))", ["(x <= n) && (((y * 2) > 0) || !(x == 1))"], [], []),
    ("x % 2 == 0", [], ["x % 2 == 0"], []),
    ("x <= ", [], [], ["x <= "]),
    ("z > 0", [], [], ["z > 0"]),
    ("f(x) > 0", [], [], ["f(x) > 0"]),
    ("x = 1", [], ["x = 1"], []),
    ("0 < 1", [], [], ["0 < 1"]),
    ("x + 1", [], [], ["x + 1"]),
    ("x > 0; abort()", [], ["x > 0; abort()"], []),
    ("", [], [""], []),
    ("é > 0", [], ["é > 0"], []),
]


@pytest.mark.parametrize(("written", "candidates", "filtered", "unparsed"), FILTERED)
def test_the_filter_and_the_parser_reject_apart(written, candidates, filtered, unparsed):
    """With the filter, what its expression does not match is not parsed and counted by itself."""
    found = parse_answer(0, [written], COUNTER, COUNTER.loops[0], is_filtered=True)
    assert [format_c(e) for e in found.candidates] == candidates
    assert list(found.rejected_texts) == filtered
    assert list(found.unparsable_texts) == unparsed


def test_without_the_filter_the_parser_decides():
    """Without the filter, whatever else is a condition counts, and all the rest is unparsed."""
    written = [case[0] for case in FILTERED]
    found = parse_answer(0, written, COUNTER, COUNTER.loops[0], is_filtered=False)
    assert found.rejected_texts == ()
    wanted = [e for _, candidates, _, _ in FILTERED for e in candidates]
    assert [format_c(e) for e in found.candidates] == [*wanted, "(x % 2) == 0"]
    assert len(found.unparsable_texts) == len(written) - 3


def test_a_long_answer_is_filtered_at_once():
    """No answer takes the filter more steps than it has characters."""
    written = "x" * 5000 + "#"
    assert parse_answer(0, [written], COUNTER, COUNTER.loops[0], True).rejected_texts == (written,)


def test_arrays_are_only_indexed():
    """An array counts with an index alone, a number without one."""
    written = ["a[i] == 7", "a == 7", "i[0] == 7", "__ESBMC_forall(&k, k < 0 || a[k] == 7)"]
    found = parse_answer(0, written, ARRAY, ARRAY.loops[0], is_filtered=False)
    quantified = "__ESBMC_forall(&k, (k < 0) || (a[k] == 7))"
    assert [format_c(e) for e in found.candidates] == [written[0], quantified]
    assert list(found.unparsable_texts) == written[1:3]


def proposer(model):
    """A proposer with the seed of the settings below."""
    return lambda prompt, iterations: sample_answers(model, prompt, iterations, 7)


def test_combined_answers_as_its_parts():
    """The proposals of `combined` are those of `full` and of `constrained`, turn by turn."""

    def hashed(tokens: tuple[int, ...]) -> list[float]:
        weights = random.Random(repr(tokens)).choices([0, 1, 5], k=len(CHARACTERS))
        return [weight / sum(weights) for weight in weights]

    model = TableModel(CHARACTERS, hashed)
    loop = COUNTER.loops[0]
    asking = ProposalSettings(iterations=12, seed=7)
    made = propose_for_program(proposer(model), COUNTER, asking)[0]
    drawn = {variant: made.parse_answers(variant, True, COUNTER, loop) for variant in PromptVariant}
    for iteration in range(12):
        part = select_variant(PromptVariant.COMBINED, iteration)
        assert drawn[PromptVariant.COMBINED][iteration] == drawn[part][iteration]
    assert drawn[PromptVariant.FULL] != drawn[PromptVariant.CONSTRAINED]


@pytest.mark.long
def test_smollm2_proposes_conditions(smollm2):
    """Some of SmolLM2's answers are conditions over the program's variables."""
    asking = ProposalSettings(iterations=5, seed=7)
    made = propose_for_program(proposer(load_model(smollm2)), COUNTER, asking)[0]
    drawn = made.parse_answers(PromptVariant.CONSTRAINED, True, COUNTER, COUNTER.loops[0])
    assert [one.iteration for one in drawn] == list(range(5))
    found = {condition for one in drawn for condition in one.candidates}
    assert found
    assert all(is_condition(condition, COUNTER.types) for condition in found)
