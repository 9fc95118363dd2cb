"""A conversation as a picture: its turns, answers, probabilities and scores; texts stay texts."""

from xml.etree import ElementTree

import pytest

from llmchecker.checking.conversations.answer_tree import GivenAnswer, Path, build_answer_tree
from llmchecker.reporting.conversation_drawing import ConversationDrawing
from llmchecker.reporting.tree_drawing import format_dot, format_svg

SVG = "{http://www.w3.org/2000/svg}"
GREETING = GivenAnswer("<b>Hi</b>\n", True, (0,))
PATHS = [
    Path((GREETING, GivenAnswer("The word is x", True, (1,))), 0.5, False),
    Path((GREETING, GivenAnswer("no", False, (0,))), 0.25, True),
    Path((GivenAnswer("x, I", None, (1,)),), 0.125, False),
    Path((), 0.125, None),
]


def draw(paths=PATHS, **limits) -> ConversationDrawing:
    turns = ("Hello & goodbye", "You said {answer 1}. <i>Why</i>?")
    return ConversationDrawing.from_answers(
        build_answer_tree("m", turns, ("leaks",), paths, **limits)
    )


def read_texts(drawing: ConversationDrawing) -> list[str]:
    root = ElementTree.fromstring(format_svg(drawing))
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def test_each_answer_has_its_probability_its_scores_and_a_sign_if_it_decides():
    """Boxes have answers and scores, edges the probability given the messages before."""
    texts = read_texts(draw())
    assert "Hello & goodbye" in texts
    # three quarters begin with the greeting, two thirds of which end with the word
    for label, chance in [
        ("<b>Hi</b>\\n  leaks 0", "0.75"),
        ("✗ The word is x  leaks 1", "0.67"),
        ("✓ no…  leaks 0", "0.33"),
        ("✗ x, I…  leaks 1", "0.12"),
        ("not explored", "0.12"),
    ]:
        assert label in texts
        assert chance in texts
    assert "turn 2: You said {answer 1}. <i>Why</i>?" in texts
    assert "<i>" not in format_svg(draw())


@pytest.mark.parametrize(
    ("paths", "label"),
    [(PATHS, "at least 1 other answer"), (PATHS[:3], "1 other answer")],
    ids=["partly explored", "explored"],
)
def test_other_answers_are_counted(paths, label):
    """A small drawing counts the answers that it leaves out, of each turn by itself."""
    whole = sum(path.mass for path in paths)
    scaled = [path._replace(mass=path.mass / whole) for path in paths]
    texts = read_texts(draw(scaled, max_answers=2))
    assert label in texts
    assert "1 other answer" in texts
    assert not any("no…" in text for text in texts)


def test_similar_answers_differ_by_their_ends():
    """A long answer is cut in its middle."""
    start = "one two three four five six seven eight nine "
    paths = [Path((GivenAnswer(start + end, True, (0,)),), 0.5, True) for end in ("ten", "eleven")]
    labels = [text for text in read_texts(draw(paths)) if "one two" in text]
    assert len(set(labels)) == 2


def test_the_message_of_a_simulated_user_is_before_its_answer():
    """Each message that a simulated user may write has the answers to it."""
    paths = [
        Path((GREETING, GivenAnswer("Fine.", True, (0,), message)), 0.5, True)
        for message in ("<How> are you?", "And you?")
    ]
    texts = read_texts(draw(paths))
    assert "✓ <How> are you? → Fine.  leaks 0" in texts
    assert "✓ And you? → Fine.  leaks 0" in texts


def test_a_conversation_is_drawn_in_dot_too():
    """DOT has the same labels."""
    assert "The word is x" in format_dot(draw())
