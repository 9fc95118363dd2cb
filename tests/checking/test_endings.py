"""Answers state how much of the texts had ended, and warn where longer texts may change them."""

from dataclasses import replace
from fractions import Fraction

import pytest

import llmchecker as lc
from llmchecker.checking.endings import Endings, describe_endings
from llmchecker.checking.figures import format_rows
from llmchecker.checking.formatting import build_rows
from llmchecker.utils.interval import Interval

TOKENS = ["Q", " dragon", " cat", ""]
END = 3
DRAGON, CAT, STOP = Fraction(1, 8), Fraction(5, 8), Fraction(1, 4)
CUT = CAT**2 * (1 - STOP)
"""The probability of two cats and a third token that does not end the text."""


def model(stop: Fraction = STOP) -> lc.TableModel:
    """A model whose tokens are independent, and which ends with a probability."""
    rest = (1 - stop) / (1 - STOP)
    row = [0.0, float(DRAGON * rest), float(CAT * rest), float(stop)]
    return lc.TableModel(TOKENS, lambda tokens: row, frozenset([END]) if stop else frozenset())


def check(query: str, length: int | str = 3, stop: Fraction = STOP) -> lc.Answer:
    """The answer to a query in which `x` is whether the text has a dragon."""
    return lc.check(
        query,
        model(stop),
        "Q",
        length=length,
        passes=1000,
        x=lambda start, text: int("dragon" in text),
    )


def test_the_share_of_ended_texts_is_within_its_bounds():
    """The bounds contain the exact share of a model whose ends are independent."""
    answer = check("P=? [ G x = 0 ]")
    ended = answer.endings.ended
    # a dragon ends the exploration, so that its texts may end or not
    assert ended.lower == pytest.approx(float(STOP * (1 + CAT + CAT**2)))
    assert ended.upper == pytest.approx(float(1 - CUT))
    assert ended.lower < 1 - float((1 - STOP) ** 3) < ended.upper
    assert answer.endings.cut == pytest.approx(float(CUT))


def test_a_tree_and_a_check_of_the_model_agree_on_the_ended_texts():
    """A whole tree has the exact share."""
    tree = lc.grow(model(), "Q", alpha=1, k=3, length=3)
    answer = lc.check("P=? [ G x = 0 ]", tree, x=lambda start, text: int("dragon" in text))
    share = float(1 - (1 - STOP) ** 3)
    assert answer.endings.ended.lower == pytest.approx(share)
    assert answer.endings.ended.upper == pytest.approx(share)
    assert answer.about == "within 3 tokens; 0.57 to 0.58 of the answers had ended"


def test_a_model_without_an_end_ends_no_text():
    """Without a token that ends a text, exactly none of the answers had ended."""
    answer = check("P=? [ F x = 1 ]", stop=Fraction(0))
    assert answer.endings.ended == Interval(0.0, 0.0)
    assert answer.about == "within 3 tokens; 0.00 of the answers had ended"


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (Interval(0.0, 0.0), "0.00 of the answers had ended"),
        (Interval(1 - 1e-9, 1.0), "1.00 of the answers had ended"),
        (Interval(0.996, 0.999), "0.99 to 1.00 of the answers had ended"),
        (Interval(0.0, 0.004), "0.00 to 0.01 of the answers had ended"),
        (Interval(0.0, 1.0), "how many of the answers had ended is unknown"),
    ],
)
def test_shares_are_rounded_outwards(ended, text):
    """Two digits contain the share, but for an error of rounding."""
    assert describe_endings(1, Endings(ended)) == f"within 1 token; {text}"


def test_decided_answers_have_no_share_that_counts():
    """Where an early token decides every text, the description says so in place of `unknown`."""
    answer = check("P=? [ F<=1 x = 1 ]")
    assert answer.endings.cut == 0
    assert describe_endings(3, replace(answer.endings, ended=Interval(0.0, 1.0))) == (
        "within 3 tokens; every answer is decided by then, ended or not"
    )


@pytest.mark.parametrize(
    ("ended", "share"),
    [(Interval(0.0, 0.276), "0.00 to 0.28"), (Interval(0.0, 1.0), "an unknown share")],
)
def test_a_conversation_ended_if_all_of_its_answers_did(ended, share):
    """The share of conversations is that of those whose every answer ended by itself."""
    assert describe_endings(8, Endings(ended), turns=2) == (
        f"in 2 turns of at most 8 tokens; in {share} of the conversations every answer ended by "
        "itself"
    )


def test_answers_of_texts_alone_are_counted():
    """The count of cut answers takes the place of a share that nothing proves."""
    assert (
        describe_endings(9, Endings(counted=(3, 64)))
        == "within 9 tokens, which cut 3 of 64 answers"
    )


WITHOUT = 1 - sum(DRAGON * CAT**n for n in range(3))
"""The probability of no dragon within three tokens."""


@pytest.mark.parametrize(
    ("query", "outcome", "warns"),
    [
        # a dragon may follow what is cut, so that the probability may fall
        (f"P>={float(WITHOUT - CUT) - 0.01} [ G x = 0 ]", "HOLDS", False),
        (f"P>={float(WITHOUT - CUT) + 0.01} [ G x = 0 ]", "HOLDS", True),
        ("P>=0.9 [ G x = 0 ]", "VIOLATED", False),
        # a dragon stays, and more may follow
        ("P>=0.1 [ F x = 1 ]", "HOLDS", False),
        (f"P<={float(1 - WITHOUT) + 0.01} [ F x = 1 ]", "HOLDS", True),
        ("P<=0.1 [ F x = 1 ]", "VIOLATED", False),
        ("P>=0.5 [ F<=3 x = 1 ]", "VIOLATED", False),
        ("P>=0.9 [ F (G x = 0) ]", "VIOLATED", True),
        ('P>=0.6 [ F "end" ]', "VIOLATED", False),
        ('P>=0.4 [ (G x = 0) & (F "end") ]', "HOLDS", False),
        ("A [ G step <= 3 ]", "HOLDS", False),
        ("E [ F x = 1 ]", "HOLDS", False),
        ("A [ F x = 1 ]", "VIOLATED", True),
    ],
)
def test_a_verdict_warns_where_longer_texts_may_change_it(query, outcome, warns):
    """A warning comes if the mass that the horizon cuts is enough to change the verdict."""
    answer = check(query)
    assert answer.decision.outcome == outcome
    assert (answer.warning is not None) == warns
    assert (answer.warning in format_rows(build_rows(answer))) if warns else True


@pytest.mark.parametrize(
    ("query", "exact"),
    [
        # without a dragon, and ended
        ("P=? [ G x = 0 ]", STOP * (1 + CAT + CAT**2)),
        # a dragon is one whatever follows
        ("P=? [ F x = 1 ]", 1 - WITHOUT),
    ],
)
def test_the_length_end_asks_about_whole_answers(query, exact):
    """A text that the limit of `end` cuts is none that satisfies `G`; `F` keeps its probability."""
    answer = check(query, length="end:3")
    assert answer.horizon == 3
    assert answer.certain.lower <= exact <= answer.certain.upper
    assert answer.certain.width < 1e-6


def test_a_verdict_about_whole_answers_advises_a_greater_limit():
    """What `end` violates may hold of longer answers, which needs a number, not `end`."""
    beginning, whole = (check("P>=0.6 [ G x = 0 ]", length=n) for n in (3, "end:3"))
    assert beginning.decision.outcome == "HOLDS"
    assert beginning.warning.endswith(" `length: end` asks about whole answers.")
    assert whole.decision.outcome == "VIOLATED"
    assert whole.warning.endswith(" A greater length lets more of them end.")


def test_every_form_of_an_answer_states_its_horizon(tmp_path):
    """Text, repr, notebook and JSON state the horizon, and a file keeps it."""
    answer = check("P>=0.9 [ F (G x = 0) ]")
    about = "within 3 tokens; "
    assert about in str(answer)
    assert about in repr(answer)
    assert about in answer._repr_html_()
    assert "certain (proven for the whole model)" in str(answer)
    content = answer.as_json()
    assert content["ended"]["lower"] == answer.endings.ended.lower
    assert content["warning"] == answer.warning
    answer.write(tmp_path / "answer.json")
    stored = lc.Answer.read(tmp_path / "answer.json")
    assert (stored.about, stored.warning) == (answer.about, answer.warning)


def test_an_improbable_text_that_goes_on_is_warned_of():
    """A threshold of 1 depends on texts of any probability, which a longer horizon refutes."""
    row = [1e-10, 1 - 1e-10]
    rare = lc.TableModel(["a", "."], lambda tokens: row, frozenset([1]))

    def ask(length: int) -> lc.Answer:
        return lc.ask(
            "P>=1 [ G x = 0 ]",
            rare,
            "",
            length=length,
            passes=9,
            x=lambda start, text: int(len(text) > 1),
        )

    assert (ask(1).holds, ask(2).holds) == (True, False)
    assert ask(1).warning.startswith("After 1 token up to 2e-10 of the answers go on: ")
