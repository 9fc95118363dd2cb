"""Trees as a caller holds them: grown, as a frame, and in a notebook."""

import base64
from fractions import Fraction
from xml.etree import ElementTree

import pytest
from helpers.trees import by_hand

import llmchecker as lc
from llmchecker.errors import ConfigError, InvalidBound
from llmchecker.interfaces.python.tree import Tree
from llmchecker.trees.text_tree import StateKind

TEXT, REST, END = StateKind.TEXT, StateKind.REST, StateKind.END
SMALL = [(0, 0.5, TEXT), (0, 0.25, END), (0, 0.25, REST), (1, 0.75, TEXT), (1, 0.25, REST)]


def coin() -> lc.TableModel:
    """A model that writes `<he>` or `& she` with equal probability, for ever."""
    return lc.TableModel(["w", "<he>", "& she"], lambda tokens: [0, 0.5, 0.5])


def test_a_frame_has_the_columns_that_are_documented():
    """A row a state; what a state does not have is missing, never a number that stands for it."""
    frame = Tree.from_text_tree(by_hand(SMALL)).frame()
    assert list(frame.columns) == [
        *("parent", "step", "token", "probability", "path_probability", "kind", "text")
    ]
    assert frame.index.name == "uid"
    assert frame["parent"].isna().tolist() == [True] + 5 * [False]
    assert frame["parent"].tolist()[1:] == [0, 0, 0, 1, 1]
    assert frame["token"].isna().tolist() == [True, False, False, True, False, True]
    assert frame["text"].isna().tolist() == [False, False, False, True, False, True]
    assert frame["kind"].tolist() == ["text", "text", "end", "rest", "text", "rest"]
    paths = [Fraction(1), *map(Fraction, ("1/2", "1/4", "1/4", "3/8", "1/8"))]
    assert frame["path_probability"].tolist() == [float(path) for path in paths]


def test_a_frame_has_scores_by_name():
    """Each quantifier is a column of integers under the name it is given, missing for `rest`."""
    tree = Tree.from_text_tree(by_hand(SMALL))
    scored = tree.frame(letters=lambda start, continuation: len(continuation))["letters"]
    assert scored.tolist()[:3] == [0, 1, 1]
    assert scored.isna().tolist() == [False, False, False, True, False, True]
    with pytest.raises(ConfigError, match="text: every tree has a column"):
        tree.frame(text=lc.Gender())


def test_a_tree_is_what_its_truncation_says():
    """alpha, k and length by name are the same truncation as one that is made beforehand."""
    named = lc.grow(coin(), "w", alpha=1, k=9, length=3)
    made = lc.grow(coin(), "w", lc.Truncation(alpha=1, k=9, length=3))
    assert len(named) == len(made) == 1 + 2 + 4 + 8
    assert named.truncation == made.truncation
    assert repr(named) == "Tree(model='table', start='w', alpha=1, k=9, L=3, states=15)"


def test_a_file_is_read_back_as_a_tree_of_the_library(tmp_path):
    """What is written is read again with all that a notebook needs."""
    tree = lc.grow(coin(), "w", alpha=1, k=9, length=2)
    tree.write(tmp_path / "tree.parquet")
    read = lc.Tree.read(tmp_path / "tree.parquet")
    assert isinstance(read, lc.Tree)
    assert read.frame().equals(tree.frame())


@pytest.mark.parametrize(
    ("error", "said", "arguments", "named"),
    [
        (ConfigError, "call load(…)", ("gpt2", "w"), {"alpha": 1, "k": 1, "length": 1}),
        (
            ConfigError,
            "neither a text nor messages",
            (coin(), b"w"),
            {"alpha": 1, "k": 1, "length": 1},
        ),
        (ConfigError, "k and length missing", (coin(), "w"), {"alpha": 1}),
        (ConfigError, "contradict", (coin(), "w", lc.Truncation(1, 1, 1)), {"k": 2}),
        (ConfigError, r"Truncation\(alpha=…", (coin(), "w", (1, 1, 1)), {}),
        (ConfigError, "'no'", (coin(), "w", lc.Truncation(1, 1, 1)), {"end_of_sequence": "no"}),
    ],
)
def test_a_mistake_is_explained(error, said, arguments, named):
    """What cannot be grown is refused with what was given and what would be right."""
    with pytest.raises(error, match=said.replace("(…)", r"\(…\)")):
        lc.grow(*arguments, **named)


def read_boxes(page: str) -> list[ElementTree.Element]:
    """The boxes of the drawing in an HTML image."""
    image = ElementTree.fromstring(page).find("img")
    svg = base64.b64decode(image.get("src").removeprefix("data:image/svg+xml;base64,"))
    return ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}g")


def test_a_tree_is_a_picture_in_a_notebook():
    """The picture has every state, its texts as data, and styles that stay inside of it."""
    tree = lc.grow(coin(), "w", alpha=1, k=9, length=2)
    boxes = read_boxes(tree._repr_html_())
    assert len(boxes) == len(tree)
    assert "<he>" in "".join(boxes[1].itertext())


def test_a_drawing_has_the_most_probable_states_and_marks_deciding_texts(tmp_path):
    """The drawing has as many states as asked for, in a notebook and in a file."""
    tree = lc.grow(coin(), "w", alpha=1, k=9, length=3)
    answer = lc.check("P=? [ F words > 0 ]", tree, words=lambda start, text: int("<he>" in text))
    drawing = tree.draw(answer, max_states=4)
    assert len(read_boxes(drawing._repr_html_())) == 4
    assert f"the 4 most probable of {len(tree)} states" in drawing._repr_html_()
    drawing.write(tmp_path / "tree.svg")
    written = (tmp_path / "tree.svg").read_text(encoding="utf-8")
    assert "✓ &lt;he&gt;" in written


@pytest.mark.parametrize("max_states", [0, 401])
def test_a_drawing_without_a_readable_size_is_refused(max_states):
    """Neither an empty nor an unreadable drawing of a tree exists."""
    tree = lc.grow(coin(), "w", alpha=1, k=9, length=1)
    with pytest.raises(InvalidBound, match=f"max_states: {max_states} is not from 1 to 400"):
        tree.draw(max_states=max_states)
