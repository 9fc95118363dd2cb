"""What messages have in common."""

import pytest

from llmchecker.errors import did_you_mean


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gendr", ", did you mean 'gender'?"), ("polarity", ", did you mean 'polarity'?"), ("x", "")],
)
def test_the_closest_known_name_is_asked_for(name: str, hint: str) -> None:
    """A name that resembles a known one gets a question, and any other gets none."""
    assert did_you_mean(name, iter(("gender", "polarity"))) == hint
