"""`ask` with turns: a query about a conversation, its answers drawn, and its files."""

import base64
import re
from xml.etree import ElementTree

import pytest
from helpers.conversations import chat_table, enumerate_conversations
from helpers.random_tables import Balance

import llmchecker as lc
from llmchecker.checking import storm
from llmchecker.errors import ConfigError, InvalidQuery

BALANCE = Balance("a", "b")
TURNS = ["c{answer 1}a"]


def ask(query: str, **options):
    options = {"turns": TURNS, "length": 2, "passes": 1000, "balance": BALANCE, **options}
    return lc.ask(query, chat_table(3, is_truncated=True), user="ab", **options)


def test_the_answer_is_that_of_all_conversations():
    """With enough passes both bounds are the probability of an enumeration."""
    query = "P=? [ F (turn = 2 & balance > 0) ]"
    truth = enumerate_conversations(
        chat_table(3, is_truncated=True), ("ab", "c{1}a"), 2, {"balance": BALANCE}
    ).probability_of(("X", ("X", ("atom", "balance", ">", 0))))
    answer = ask(query)
    assert (answer.lower, answer.upper) == pytest.approx((float(truth), float(truth)))
    assert answer.turns == 2


@pytest.mark.parametrize(
    ("query", "limit"),
    [("P=? [ F balance > 0 ]", ' & (G "end")'), ("P<=0.5 [ F balance > 0 ]", ' | (F !"end")')],
)
def test_whole_answers_count_cut_ones_as_the_worse_case(query, limit):
    """With `length="end:2"` a conversation with a cut answer counts as in a suite."""
    whole = ask(query, length="end:2")
    spelled = ask(f"{query.split('[')[0]}[ (F balance > 0){limit} ]")
    assert (whole.lower, whole.upper) == (spelled.lower, spelled.upper)
    assert whole.query == spelled.query


def test_a_comparison_is_about_the_same_turns():
    """The difference of two models over one conversation is that of both enumerations."""
    tables = [chat_table(seed, is_truncated=True) for seed in (3, 7)]
    event = ("X", ("X", ("atom", "balance", ">", 0)))
    truths = [
        enumerate_conversations(each, ("ab", "c{1}a"), 2, {"balance": BALANCE}).probability_of(
            event
        )
        for each in tables
    ]
    found = lc.compare(
        "P=? [ F (turn = 2 & balance > 0) ]",
        tables[0],
        versus_model=tables[1],
        **{"user": "ab", "turns": TURNS, "length": 2, "passes": 2000, "balance": BALANCE},
    )
    difference = pytest.approx(float(truths[0] - truths[1]))
    assert (found.lower, found.upper) == (difference, difference)
    assert "in 2 turns of at most 2 tokens" in str(found)


def test_a_comparison_with_a_text_has_no_turns():
    """The second side of a conversation is a chat too."""
    with pytest.raises(ConfigError, match="versus_start: a text has no turns; give versus_user"):
        lc.compare(
            "P=? [ F (turn = 2 & balance > 0) ]",
            chat_table(3),
            user="ab",
            versus_start="ab",
            turns=TURNS,
            balance=BALANCE,
        )


def test_a_notebook_shows_the_answers_of_each_turn():
    """The view is a drawing with an edge for each answer, and the sign of those that decide."""
    tree = lc.find_tree(ask("P=? [ G balance > 0 ]"))
    assert repr(tree) == f"AnswerTree(model='{tree.answers.model}', 2 turns, states={len(tree)})"
    (image,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', tree._repr_html_())
    drawing = ElementTree.fromstring(base64.b64decode(image))
    svg = "{http://www.w3.org/2000/svg}"
    assert len(drawing.findall(f"{svg}path")) == len(tree) - 1
    texts = ["".join(element.itertext()) for element in drawing.iter(f"{svg}text")]
    assert any(re.match(r"✗ [abc()no tex…]*  balance ", text) for text in texts)


def test_an_answer_is_printed_with_its_conversations():
    """The text has the verdict, the passes and the messages of violating conversations."""
    answer = ask("P>=0.99 [ G balance > 0 ]")
    assert "in 2 turns of at most 2 tokens" in str(answer)
    assert re.search(r"^passes +\d+$", str(answer), re.MULTILINE)
    assert "Conversations that violate it, most probable first:" in str(answer)
    assert re.search(r'0\.\d+ +assistant: "[abc]*"', str(answer))
    assert "start" not in str(answer)
    for text in (repr(answer), answer._repr_html_()):
        assert "VIOLATED" in text


@pytest.mark.parametrize("language", ["prism", "jani"])
def test_files_have_all_conversations(language, tmp_path):
    """Storm answers also another query than that of the check, which ended early."""
    answer = ask("P>=0.99 [ G balance > 5 ]")
    path = tmp_path / f"c.{language}"
    getattr(lc.find_tree(answer), f"write_{language}")(path)
    found = getattr(storm, f"check_{language}")(
        path, lc.parse("P=? [ X (F (turn = 2 & balance > 0)) ]")
    )
    other = ask("P=? [ F (turn = 2 & balance > 0) ]")
    assert found.value == pytest.approx(other.estimate, abs=1e-11)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"turns": "c"}, "turns: 'c' is no list of texts"),
        ({"turns": [{"user": "c"}]}, "is no list of texts"),
        ({"turns": ["{answer 2}"]}, r"turns\[1\]: \{answer 2\} does not precede"),
    ],
    ids=str,
)
def test_wrong_turns_are_named(options, problem):
    """A text in place of a list and a later answer are errors."""
    with pytest.raises(ConfigError, match=problem):
        ask("P=? [ F balance > 0 ]", **options)


def test_a_query_about_tokens_is_refused():
    """`step` counts tokens, and a start string is no message."""
    with pytest.raises(InvalidQuery, match="step counts tokens"):
        ask("P=? [ F step = 1 ]")
    with pytest.raises(ConfigError, match="turns: they follow messages, not 'ab'"):
        lc.ask("P=? [ F balance > 0 ]", chat_table(3), "ab", turns=TURNS, balance=BALANCE)
