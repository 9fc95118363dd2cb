"""A class in a person's own file is a quantifier, and one message says what is wrong with it."""

from pathlib import Path

import pytest
from helpers import own_checks, trees
from helpers.transducer_law import assert_law
from hypothesis import given
from hypothesis import strategies as st

from llmchecker.errors import ConfigError
from llmchecker.properties.custom_class import OwnClass
from llmchecker.properties.quantifiers.interface import BatchQuantifier
from llmchecker.properties.registry import create_quantifier, find_quantifier_files
from llmchecker.properties.scores import score_texts, score_tree
from llmchecker.trees.text_tree import StateKind

ROOT = Path(__file__).parents[2]
FILE = Path(own_checks.__file__)


def make(name: str, file: str | Path = FILE) -> OwnClass:
    """The quantifier that a config makes."""
    return create_quantifier("mine", {"type": "python", "file": str(file), "class": name})


def test_the_class_scores() -> None:
    """The scores and the range are those of the class; its file is what they depend on."""
    rude = make("Rude")
    assert (rude.minimum, rude.maximum) == (0, 9)
    assert [rude("Hi!", text) for text in ("", " you!", "!" * 12)] == [0, 1, 9]
    assert find_quantifier_files(rude) == [FILE]
    tree = trees.by_hand([(0, 0.5, StateKind.TEXT), (0, 0.5, StateKind.REST)])
    assert score_tree(rude, tree)[0] == 0


def test_a_class_that_scores_batches_gets_all_texts_at_once() -> None:
    """Only a class with `score_batch` has the method, and its scores are those of its call."""
    assert not isinstance(make("Rude"), BatchQuantifier)
    batched = make("Batched")
    assert isinstance(batched, BatchQuantifier)
    scores = score_texts(batched, "Hi!", ["Hi!", "Hi! you!", "Hi!!!", "Hi!"])
    assert scores.tolist() == [0, 1, 2, 0]
    assert batched.instance.sizes == [3]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Short", "score_batch: it returned 1 scores for 2 texts; return one for each"),
        ("BatchBreaks", "BatchBreaks of .*: score_batch raised ValueError: no network"),
        ("BatchBeyond", "score of 'Hi!': 10 is outside the range 0 to 9"),
    ],
)
def test_a_batch_that_fails_is_named(name: str, message: str) -> None:
    """One message names the problem, and class and file of an error in the class."""
    with pytest.raises(ConfigError, match=message):
        score_texts(make(name), "Hi", ["Hi!", "Hi"])


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    """The file is run as it is now, however fast it changed."""
    file = tmp_path / "checks.py"
    for score in (1, 2):
        file.write_text(
            "class Mine:\n    minimum, maximum = 0, 9\n"
            f"    def __call__(self, start, continuation): return {score}\n"
        )
        assert make("Mine", file)("", "") == score
    assert [path.name for path in tmp_path.iterdir()] == ["checks.py"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Rud", r"class: 'Rud' is not in .*own_checks\.py, did you mean 'Rude'\?"),
        ("zzz", r"class: 'zzz' is not in .*own_checks\.py; it has Rude, Breaks"),
        ("dataclass", r"class: 'dataclass' is not in"),
        (7, "class: 7 is not the name of a class"),
        ("Silent", r"class: Silent of .* lacks __call__\(self, start, continuation\)"),
        ("Demanding", r"class: Demanding of .*: creating it without arguments raised TypeError"),
        ("Unranged", "Unranged: minimum is missing; declare"),
        ("Inverted", "Inverted: minimum 10 is above maximum 9"),
        ("Worded", "Worded: maximum is 'nine', neither an integer nor None"),
    ],
)
def test_a_class_that_cannot_score_is_refused(name: str, message: str) -> None:
    """What is wrong with the class is said when it is made: before any job starts."""
    with pytest.raises(ConfigError, match=message) as error:
        make(name)
    assert "quantifier 'mine'" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"file: '.*checks\.py' cannot be read"),
        (b"import nowhere_at_all\n", "raised ModuleNotFoundError: No module named 'nowhere_at"),
        (b"class Mine\n", "raised SyntaxError"),
        (b"x = '\xff'\n", "raised SyntaxError"),
        (b"raise ValueError\n", r"raised ValueError \(line 1\)$"),
        (b"import sys\nsys.exit('bye')\n", "raised SystemExit: bye"),
        (b"", "'Mine' is not in .*; it has none"),
    ],
)
def test_a_file_that_does_not_run_is_refused(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    """A file that is missing or raises is refused by its path and its error."""
    file = tmp_path / "checks.py"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as error:
        make("Mine", file)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Breaks", r"raised ZeroDivisionError: .* \(line [0-9]+\) on the text 'The player'"),
        ("Leaves", r"raised SystemExit: gone \(line [0-9]+\) on the text 'The player'"),
    ],
)
def test_a_class_that_fails_at_a_text_names_it(name: str, message: str) -> None:
    """One message names class, file and text."""
    with pytest.raises(ConfigError, match=message) as error:
        make(name)("The player", "")
    assert str(error.value).startswith(f"{name} of {FILE}: ")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Half", "score of 'Hi': 0.0 is not an integer"),
        ("Beyond", "score of 'Hi': 10 is outside the range 0 to 9; correct either"),
    ],
)
def test_a_score_that_is_none_is_refused(name: str, message: str) -> None:
    """A score that is not an integer within the declared range is an error with its text."""
    with pytest.raises(ConfigError, match=message):
        score_texts(make(name), "Hi", ["Hi"])


def test_a_class_may_offer_an_incremental_form() -> None:
    """The form obeys the law; a class without one, or with None, has none."""
    marks = make("Marks")
    assert_law(marks, marks.build_transducer(), "Hi!", ["", " you!", "!" * 12])
    assert make("Rude").build_transducer() is None
    assert make("Plain").build_transducer() is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Unbuilt",
            r"Unbuilt of .*: build_transducer raised ValueError: not today \(line [0-9]+\)",
        ),
        ("Stuck", r"Stuck of .*: effect\('he'\) raised ZeroDivisionError: .* \(line [0-9]+\)"),
        ("Listed", r"Listed of .*: start returned \[0\], which is not hashable; use a tuple"),
        ("Bare", "Bare of .*: advance returned 0, not a pair of a state and a count"),
        ("Halved", "Halved of .*: score returned 0.0, not an integer"),
        ("Ranged", "Ranged of .*: find_range returned 0, not two limits"),
        ("Unlimited", "Unlimited of .*: find_range returned 9.5, not an integer"),
    ],
)
def test_an_incremental_form_that_fails_is_named(name: str, message: str) -> None:
    """One message names class, file, method and problem."""
    quantifier = make(name)

    def read() -> None:
        transducer = quantifier.build_transducer()
        state, _ = transducer.start("The player")
        state, _ = transducer.advance(state, transducer.effect("he"))
        transducer.score(state)
        transducer.find_range(state)

    with pytest.raises(ConfigError, match=message):
        read()


def test_a_range_that_a_longer_text_leaves_breaks_the_law() -> None:
    """The law covers the range of each beginning; without one a score has no limits."""
    narrow, marks = make("Narrow"), make("Marks")
    assert marks.build_transducer().find_range(0) == (None, None)
    with pytest.raises(AssertionError, match="'Hi!': 1, not 0 to 0"):
        assert_law(narrow, narrow.build_transducer(), "Hi", ["!"])


def test_the_incremental_form_on_the_page_obeys_the_law(tmp_path: Path) -> None:
    """The class of docs/how-to/add_a_quantifier.md scores however a text is cut into pieces."""
    page = (ROOT / "docs/how-to/add_a_quantifier.md").read_text(encoding="utf-8")
    file = tmp_path / "my_checks.py"
    file.write_text(page.split("## An incremental form")[1].split("```")[1].removeprefix("python"))
    doubts = make("Doubts", file)
    transducer = doubts.build_transducer()

    @given(st.text("?!a"), st.lists(st.text("?!a", max_size=4)))
    def holds(start: str, pieces: list[str]) -> None:
        assert_law(doubts, transducer, start, pieces)

    holds()
