"""What is decided of texts whose continuations are many, or have many truth values."""

import numpy as np
import pytest
from helpers.random_tables import Balance

from llmchecker.properties.logic.monitor import Monitor
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

UNLIMITED = {"g": (None, None), "h": (None, None)}


def truth_after(query: str, length: int, scores: int, ranges=UNLIMITED) -> bool | None:
    """The truth that a text of one state decides, whose quantifiers all have one score."""
    reading = Monitor(parse(query).root.path, length, ranges)
    columns = {"step": np.array([0]), "g": np.array([scores]), "h": np.array([scores])}
    (word,) = reading.compute_letters(columns, np.array([False])).tolist()
    return reading.decide(reading.progress(reading.initial_obligation, word), 1, word)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("query", "truth"),
    [
        ("P=? [ F g > 9 ]", None),
        ("P=? [ F g > 3 ]", False),
        ("P=? [ G g <= 3 ]", True),
        ("P=? [ F<=4990 g > 3 ]", False),
        ("P=? [ (g <= 3) U (step = 5000) ]", None),
    ],
)
def test_a_horizon_of_thousands_of_tokens_is_read(query, truth):
    """A horizon of 5,000 tokens is read to its end, whatever depth of calls Python allows."""
    limit = 3 if truth is not None else None
    assert truth_after(query, 5000, 0, {"g": (None, limit)}) is truth


def coupled(atoms: int) -> str:
    """A query with atoms that no enumeration separates."""
    return " | ".join(f"g * h > {number}" for number in range(atoms))


def test_too_many_coupled_atoms_leave_a_text_undecided():
    """Coupled atoms with too many truth values leave a text undecided, unless it is decided."""
    assert truth_after(f"P=? [ F ({coupled(17)}) ]", 3, 0) is None
    assert truth_after(f"P=? [ F ({coupled(17)}) ]", 3, 9) is True
    assert truth_after(f"P=? [ !(F ({coupled(17)})) ]", 3, 9) is False


def test_more_atoms_than_can_be_read_leave_the_query_open():
    """A query of 53 comparisons is refined as one that no text decides, and not estimated."""
    query = parse(f"P=? [ F ({coupled(53)}) ]")
    unlimited = {"g": Balance("a", "b"), "h": Balance("b", "a")}
    asked = Property(query, unlimited, 3)
    (reading,) = asked.monitors
    assert reading.decide(reading.initial_obligation, 1, 0) is None
    assert "52 comparisons, not 53" in asked.estimation_obstacle
