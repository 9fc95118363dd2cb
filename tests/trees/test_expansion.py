"""TOP(alpha, k) and the growth of a tree, against the paper's definitions written literally."""

from fractions import Fraction

import numpy as np
import pytest
from helpers import reference
from helpers.anytime_checks import TableServer, refine
from helpers.byte_texts import TOKENIZERS, expected_text, random_table
from helpers.marks import long
from helpers.random_models import CAUSAL

from llmchecker.checking.anytime.answer_process import AnswerProcess
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.tree_export import build_scored_tree
from llmchecker.models.end_of_sequence import apply_end_of_sequence
from llmchecker.models.table_model import TableModel
from llmchecker.models.transformers.load import load_model
from llmchecker.properties.logic.monitor import HorizonMonitor
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import StateKind, TextTree, Truncation


def drifting(tokens: tuple[int, ...]) -> list[Fraction]:
    """A distribution over four tokens that depends on the text; token 3 ends it."""
    shift = sum(tokens) % 3
    weights = [8, 4, 3, 1]
    weights = weights[shift:3] + weights[:shift] + weights[3:]
    return [Fraction(weight, 16) for weight in weights]


def table_model() -> TableModel:
    return TableModel(["a", "b", "c", "."], drifting, frozenset({3}), name="drifting")


def test_tree_small_enough_to_draw():
    """alpha = 3/4, k = 2, L = 1 after "a": two texts and a rest, with exact probabilities."""
    tree = build_tree(table_model(), "a", Truncation(0.75, 2, 1))
    assert tree.parent.tolist() == [-1, 0, 0, 0]
    assert tree.token.tolist() == [-1, 0, 1, -1]
    assert tree.probability.tolist() == [1, 8 / 16, 4 / 16, 4 / 16]
    assert tree.kind.tolist() == [StateKind.TEXT, StateKind.TEXT, StateKind.TEXT, StateKind.REST]
    assert tree.text.tolist() == ["a", "aa", "ab", None]


def test_end_of_sequence_ends_a_text():
    """A text that ended has no children, and decodes to the text without the end token."""
    tree = build_tree(table_model(), "a", Truncation(1.0, 4, 3))
    ends = np.flatnonzero(tree.kind == StateKind.END)
    assert len(ends) == 1 + 3 + 9
    assert not tree.internal[ends].any()
    assert all(tree.text[uid] == tree.text[tree.parent[uid]] for uid in ends)


def test_end_of_sequence_as_an_ordinary_token():
    """With `ordinary` the end token is a token like any other: the full 4-ary tree of depth 3."""
    model = apply_end_of_sequence(table_model(), "ordinary")
    tree = build_tree(model, "a", Truncation(1.0, 4, 3))
    assert len(tree) == 1 + 4 + 16 + 64
    assert not np.any(tree.kind == StateKind.END)


def test_no_rest_where_everything_is_selected():
    """When alpha = 1 and k covers the vocabulary there is no rest state."""
    tree = build_tree(table_model(), "a", Truncation(1.0, 4, 2))
    assert not np.any(tree.kind == StateKind.REST)


def test_full_tree_has_911_states():
    """alpha = 1, k = 9, L = 3 without end: 1 + 10 + 90 + 810 states and 1730 transitions."""
    model = TableModel([chr(97 + t) for t in range(12)], lambda tokens: [Fraction(1, 12)] * 12)
    tree = build_tree(model, "a", Truncation(1.0, 9, 3))
    assert (len(tree), tree.transitions, int(tree.internal.sum())) == (911, 1730, 91)


def test_growth_stops_where_every_text_has_ended():
    """When all texts end at the first step, a long horizon adds nothing."""
    model = TableModel(["a", "."], lambda tokens: [0, 1], frozenset({1}))
    tree = build_tree(model, "a", Truncation(1.0, 2, 50))
    assert tree.kind.tolist() == [StateKind.TEXT, StateKind.END]


def test_progress_counts_every_node_once():
    """Progress reports end at all nodes of each step, and add up to the internal states."""
    heard = []
    tree = build_tree(
        table_model(), "a", Truncation(0.75, 3, 3), progress=lambda *report: heard.append(report)
    )
    finished = [total for step, done, total in heard if done == total]
    assert sum(finished) == tree.internal.sum()


def states_of(tree: TextTree) -> dict[tuple[int, ...], tuple[float, str]]:
    """Every state of a tree by its tokens, with its probability and kind."""
    tokens = [()]
    for parent, token in zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True):
        tokens.append((*tokens[parent], token))
    kinds = [StateKind(kind).name.lower() for kind in tree.kind]
    return dict(zip(tokens, zip(tree.probability.tolist(), kinds, strict=True), strict=True))


def assert_same_tree(tree: TextTree, expected: dict, tolerance: float) -> None:
    found = states_of(tree)
    assert found.keys() == expected.keys()
    for tokens, (probability, kind) in expected.items():
        assert found[tokens][1] == kind
        assert found[tokens][0] == pytest.approx(probability, abs=tolerance)


@pytest.mark.few(4)
@pytest.mark.parametrize("architecture", CAUSAL)
@pytest.mark.parametrize(
    "truncation",
    [
        *(Truncation(0.6, 6, 3), Truncation(1.0, 3, 4), Truncation(0.9, 1000, 1)),
        *long(Truncation(1.0, 6, 4)),
    ],
)
def test_same_tree_as_algorithm_1_on_random_models(architecture, truncation, random_model):
    """Batches and kept prefixes grow the tree that Algorithm 1 grows one node at a time."""
    model = load_model(random_model(architecture))
    tree = build_tree(model, "The player won because", truncation)
    root = reference.expand(
        model.network,
        model.encode("The player won because"),
        truncation.alpha,
        truncation.k,
        truncation.length,
        model.end_tokens,
    )
    assert_same_tree(tree, reference.states(root), 1e-5)


@pytest.mark.long
def test_same_tree_as_algorithm_1_on_smollm2(loaded_smollm2):
    """On the real SmolLM2 the fast expansion grows the tree of Algorithm 1."""
    model, truncation = loaded_smollm2, Truncation(0.8, 5, 3)
    start = "The player won because"
    tree = build_tree(model, start, truncation)
    root = reference.expand(
        model.network,
        model.encode(start),
        truncation.alpha,
        truncation.k,
        truncation.length,
        model.end_tokens,
    )
    assert_same_tree(tree, reference.states(root), 1e-5)


def test_text_is_decoded_as_a_whole(random_model):
    """A character of several byte tokens appears in the text once its last byte is there."""
    model = load_model(random_model("gpt2"))
    tokens = model.encode("🙂")
    assert len(tokens) > 1
    following = dict(zip(tokens, [*tokens[1:], tokens[0]], strict=True))

    def distribution(text: tuple[int, ...]) -> list[float]:
        row = [0.0] * model.vocabulary_size
        row[following[text[-1]]] = 1.0
        return row

    table = TableModel([""] * model.vocabulary_size, distribution)
    table.encode, table.decode = lambda text: tokens[:1], model.decode
    tree = build_tree(table, "", Truncation(1.0, 1, len(tokens) - 1))
    assert tree.text[-1] == "🙂"
    assert "🙂" not in tree.text[-2]


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("end_of_sequence", ["terminal", "ordinary"])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_text_has_half_a_character_only_where_it_ended(name, end_of_sequence, seed):
    """Every state's text is that of its tokens: without the bytes that are no character yet, or, if
    it ended, as the tokenizer decodes them; in a grown and in a refined tree."""
    tokenizer = TOKENIZERS[name]()
    model, length = random_table(tokenizer, seed), 4
    model, prompt = apply_end_of_sequence(model, end_of_sequence), model.encode("s😀")
    grown = build_tree(model, "s😀", Truncation(1.0, 4, length))
    estimand = Estimand((HorizonMonitor(length),))
    refined = ExploredTree(AnswerProcess(model, "s😀", length), estimand, {}, min_share=0.0)
    server = TableServer(model, prompt)
    while refine(refined, server):
        pass
    refined_tree = build_scored_tree(refined)[0].tree
    assert states_of(refined_tree) == states_of(grown)
    sequences = [tuple(prompt)]
    for parent, token in zip(grown.parent[1:].tolist(), grown.token[1:].tolist(), strict=True):
        sequences.append((*sequences[parent], token))
    expected = [
        expected_text(tokenizer, tokens, is_ended=kind == StateKind.END)
        for tokens, kind in zip(sequences, grown.kind, strict=True)
    ]
    assert grown.text.tolist() == expected
    assert refined_tree.text.tolist() == expected
    assert sum(map(len, expected)) > len(grown)
