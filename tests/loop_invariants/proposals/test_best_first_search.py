"""The most probable conditions, against every text that a small model can write."""

import itertools
import random
from collections import defaultdict
from fractions import Fraction
from functools import cache

import pytest
import torch
from helpers.invariant_programs import ARRAY, COUNTER, is_condition

from llmchecker.errors import UnsupportedProgram
from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.load import load_model
from loop_invariants.frontend.expressions import parse_condition
from loop_invariants.ir.expressions import format_c, variables
from loop_invariants.proposals.best_first_search import find_most_probable
from loop_invariants.proposals.prompt_templates import PromptVariant, build_prompt

VOCABULARY = (">", "x", "n", " < ", "= ", "=", "(", ");", " ", "1", "x <", "0) ", "!")
END = len(VOCABULARY)
LONGEST = 3


@cache
def drawn(tokens: tuple[int, ...]) -> list[Fraction]:
    """A distribution in 64ths that depends on the whole text; after some tokens `);` is certain."""
    weights = [0] * (END + 1)
    if len(tokens) > LONGEST:
        weights[VOCABULARY.index(");")] = 64
        return [Fraction(weight, 64) for weight in weights]
    generator = random.Random(repr(tokens))
    for token in generator.choices(range(END + 1), k=64):
        weights[token] += 1
    return [Fraction(weight, 64) for weight in weights]


MODEL = TableModel([*VOCABULARY, "$"], drawn, frozenset({END}))


def closing(written: str) -> int:
    """Where the parenthesis closes that was opened before a text; -1 if it does not."""
    depths = itertools.accumulate((c == "(") - (c == ")") for c in written)
    return next((place for place, depth in enumerate(depths) if depth < 0), -1)


def condition(written: str):
    """The condition over x, n and y that a text is, or None."""
    if not (set("xn") & set(written) and set("<=>") & set(written)):
        return None  # the parser is slow
    try:
        expression = parse_condition(written, COUNTER.loops[0].scope)
    except UnsupportedProgram:
        return None
    if is_condition(expression, COUNTER.types) and variables(expression):
        return expression
    return None


def exhaustive() -> dict:
    """Every condition that the model can write after `(`: the probabilities of all ways."""
    start = MODEL.encode("(")
    ways = defaultdict(lambda: defaultdict(Fraction))
    front = [((), "", Fraction(1))]
    while front:
        tokens, before, probability = front.pop()
        for token, share in enumerate(drawn((*start, *tokens))):
            if share == 0 or token == END:
                continue
            written = before + VOCABULARY[token]
            end = closing(written)
            if end < 0:
                front.append(((*tokens, token), written, probability * share))
            else:
                ways[written[:end]][tokens] += probability * share
    found = defaultdict(list)
    for written, by_tokens in ways.items():
        expression = condition(written)
        if expression is not None:
            found[expression] += by_tokens.values()
    return found


@pytest.fixture(scope="module")
def everything():
    return exhaustive()


@pytest.mark.long
@pytest.mark.parametrize("batch", [1, 3, 16])
def test_all_that_a_model_can_write(everything, batch):
    """Expanded to the end, the search finds every condition with its exact probabilities."""
    found = find_most_probable(MODEL, "(", COUNTER, COUNTER.loops[0], 10**6, batch)
    assert len(found) > 20
    assert {e.expression: (e.probability, e.total_probability) for e in found} == {
        expression: (max(ways), sum(ways)) for expression, ways in everything.items()
    }
    assert all(e.is_final for e in found)
    order = [e.probability for e in found]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("nodes", [1, 5, 20, 60, 150])
def test_what_is_settled_is_the_exact_order(everything, batch, nodes):
    """However few nodes are expanded, what is settled begins the list of all conditions."""
    found = find_most_probable(MODEL, "(", COUNTER, COUNTER.loops[0], nodes, batch)
    settled = [e for e in found if e.is_final]
    assert found[: len(settled)] == tuple(settled)
    best = sorted((max(ways) for ways in everything.values()), reverse=True)
    assert [e.probability for e in settled] == best[: len(settled)]
    assert all(e.probability == max(everything[e.expression]) for e in settled)
    assert all(e.total_probability <= sum(everything[e.expression]) for e in found)


def test_the_budget_bounds_the_distributions_computed():
    """No more distributions are computed than nodes are allowed, and none without."""
    asked = []
    model = TableModel(
        [*VOCABULARY, "$"], lambda tokens: asked.append(tokens) or drawn(tokens), frozenset({END})
    )
    for nodes in (0, 1, 7, 40):
        asked.clear()
        find_most_probable(model, "(", COUNTER, COUNTER.loops[0], nodes)
        assert len(asked) == nodes
        assert len(set(asked)) == nodes


def test_elements_of_an_array_in_scope():
    """Where an array is in scope its elements are enumerated, and the bare name is not."""
    vocabulary = ["(", "a", "[", "i", "]", " >", " 0", ")"]
    model = TableModel(vocabulary, lambda tokens: [Fraction(1, 8)] * 8)
    found = find_most_probable(model, "(", ARRAY, ARRAY.loops[0], 3000)
    texts = {format_c(e.expression) for e in found}
    assert {"i > 0", "a[i] > 0", "a[0] > i"} <= texts
    assert not any(written.startswith("a >") for written in texts)


@pytest.mark.long
def test_smollm2_against_plain_forward_passes(smollm2):
    """The probability of SmolLM2's first condition is what plain calls of the network say."""
    model = load_model(smollm2)
    asked = build_prompt(COUNTER, COUNTER.loops[0], PromptVariant.CONSTRAINED)
    best = find_most_probable(model, asked, COUNTER, COUNTER.loops[0], 100)[0]
    assert best.is_final
    tokenizer = model.tokenizer
    before = tokenizer(asked)["input_ids"]
    after = tokenizer(format_c(best.expression))["input_ids"]
    assert tokenizer.decode(before + after) == asked + format_c(best.expression)
    with torch.inference_mode():
        logits = model.network(torch.tensor([before + after])).logits[0].double()
    chances = logits.softmax(dim=1)
    expected = 1.0
    for place, token in enumerate(after):
        expected *= chances[len(before) - 1 + place, token].item()
    closers = [t for t in range(len(tokenizer)) if tokenizer.decode([t])[:1] == ")"]
    expected *= sum(chances[-1, closer].item() for closer in closers)
    assert best.probability == pytest.approx(expected, rel=1e-3)
