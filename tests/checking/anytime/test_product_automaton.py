"""The product automaton knows of each token what scoring its text would show."""

from itertools import product

import numpy as np
import pytest
from helpers.anytime_checks import Kind, plant, refine, spread_model
from helpers.byte_texts import TokenTable, byte_level
from helpers.questions import check_anytime
from helpers.random_tables import LETTERS, READ_QUANTIFIERS, START, ReadSpoilt

from llmchecker.checking.anytime import explored_tree, product_automaton
from llmchecker.checking.budget import Budget
from llmchecker.errors import TooManyStates
from llmchecker.models.table_model import TableModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.pattern import Pattern

MANY_A = ("F", None, ("atom", "gender", ">", 1))


class Exploding(ReadSpoilt):
    """An incremental form with more states than a table holds after two letters."""

    def advance(self, state: int, effect: str) -> tuple:
        if len(effect) and state == 2:
            raise TooManyStates("too many states")
        return super().advance(state, effect)


@pytest.mark.parametrize("seed", range(4))
def test_every_row_knows_the_scores_and_the_truth_of_the_next_texts(seed):
    """For each visited text and token, score and truth are those of the text by the plain call and
    a walk of the monitor."""
    model, kind = spread_model(seed), Kind(MANY_A)
    tree, server = plant(kind.ask(), model)
    while refine(tree, server):
        pass
    monitor = tree.automaton.monitors[0]
    for row in np.flatnonzero(tree.is_visited & ~tree.is_terminal & tree.is_undecided)[:40]:
        rows = np.array([row])
        (found,) = tree.automaton.find_rows(tree.states.select(rows), int(tree.step[row])).rows
        tokens = tree.collect_continuations(rows)[0].tolist()
        for token in range(model.vocabulary_size):
            class_ = tree.automaton.class_of[token]
            has_ended = token in model.end_tokens
            texts = ["".join(LETTERS[t] for t in (*tokens, token)[:n] if t < 4) for n in range(5)]
            gender = [READ_QUANTIFIERS["gender"](START, text) for text in texts]
            last = len(tokens) + 1
            assert found.scores[0, class_] == gender[last]
            held = any(score > 1 for score in gender[: last + 1])
            is_over = has_ended or last == monitor.length
            assert found.truth[0, class_] == (1 if held else 0 if is_over else -1)


def test_an_explosion_of_states_leaves_the_plain_way():
    """Where a transducer gives up, texts are scored by the plain call, and the answer is that of
    the enumeration."""
    quantifiers = {"gender": Exploding("b", "c"), "polarity": Exploding("d", "c")}
    plain = {"gender": ReadSpoilt("b", "c"), "polarity": ReadSpoilt("d", "c")}
    formula = ("F", None, ("&", ("atom", "gender", "=", 2), ("atom", "step", "=", 2)))
    kind, model = Kind(formula, quantifiers=plain), spread_model(3)
    asked = Property(parse(kind.query), quantifiers, 3)
    answer = check_anytime(model, START, asked, Budget(width=1e-9))
    truth = float(kind.find_truth(model))
    assert answer.lower - 1e-12 <= truth <= answer.upper + 1e-12
    assert answer.upper - answer.lower < 1e-9


def test_several_end_tokens_and_tokens_without_text_keep_the_scores():
    """A token that adds no text keeps every score, and each end token ends the text."""
    vocabulary = ["a", "b", "", ".", "!"]
    model = TableModel(vocabulary, lambda text: [0.2] * 5, frozenset([3, 4]))
    asked = Property(parse('P=? [ F (gender = 0 & "end") ]'), READ_QUANTIFIERS, 2)
    answer = check_anytime(model, "", asked, Budget(width=1e-9))
    whole = [
        text
        for text in product(range(5), repeat=2)
        for p in [0.04]
        if text[0] in (3, 4) or (text[0] == 2 and text[1] in (3, 4))
    ]
    assert answer.lower == pytest.approx(len(whole) * 0.04, abs=1e-12)


def test_tokens_beyond_the_tokenizer_add_no_text():
    """A vocabulary larger than the tokenizer has tokens that keep every state."""
    tokenizer = byte_level()
    size, (character,) = len(tokenizer), tokenizer.encode("東")
    weights = {size + 2: 0.5, character: 0.25, tokenizer.eos_token_id: 0.25}
    model = TokenTable(tokenizer, lambda text: [weights.get(token, 0) for token in range(size + 3)])
    model.vocabulary_size = model.listed_tokens = size + 3
    asked = Property(parse("P=? [ F matches > 0 ]"), {"matches": Pattern("^東")}, 2)
    answer = check_anytime(model, "h", asked, Budget(width=1e-9))
    # 東 first, or after a token without text
    assert (answer.lower, answer.upper) == pytest.approx((0.375, 0.375), abs=1e-12)


def test_a_model_without_pieces_is_checked_by_whole_texts(monkeypatch):
    """Where the text of a token depends on its neighbours, the answer is the same without rows."""
    kind, model = Kind(MANY_A), spread_model(1)
    expected = check_anytime(model, START, kind.ask(), Budget(width=1e-9))
    monkeypatch.setattr(TableModel, "token_pieces", None)
    found = check_anytime(model, START, kind.ask(), Budget(width=1e-9))
    assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), abs=1e-9)


def test_rows_that_are_computed_again_change_nothing(monkeypatch):
    """With room for hardly any row the answer has the same bits."""
    kind, model = Kind(MANY_A, length=4), spread_model(2)
    expected = check_anytime(model, START, kind.ask(), Budget(passes=40))
    for module in (product_automaton, explored_tree):
        monkeypatch.setattr(module, "MAX_ROW_ENTRIES", 12)
    found = check_anytime(model, START, kind.ask(), Budget(passes=40))
    assert (found.lower, found.upper) == (expected.lower, expected.upper)
    assert (found.low, found.high) == (expected.low, expected.high)
