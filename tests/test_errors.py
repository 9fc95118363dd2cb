"""What messages have in common."""

import pickle

import pytest

from llmchecker.errors import (
    DamagedFile,
    InterruptedCheck,
    LLMCheckerError,
    RefusedPart,
    RequestRefused,
    UnknownName,
    did_you_mean,
    prefix_errors,
)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("gendr", ", did you mean 'gender'?"), ("polarity", ", did you mean 'polarity'?"), ("x", "")],
)
def test_the_closest_known_name_is_asked_for(name: str, hint: str) -> None:
    """A name that resembles a known one gets a question, and any other gets none."""
    assert did_you_mean(name, iter(("gender", "polarity"))) == hint


@pytest.mark.parametrize(
    ("place", "message", "expected"),
    [
        ("cases[0].user", "user: it is empty", "cases[0].user: it is empty"),
        ("cases[0].user[1]", "user: it is empty", "cases[0].user[1]: it is empty"),
        ("--top-p", "top_p: 2 is too large", "--top-p: 2 is too large"),
        ("decoding", "top_p: 2 is too large", "decoding: top_p: 2 is too large"),
        ("cases[0].user", "users: unknown", "cases[0].user: users: unknown"),
        ("", "user: it is empty", ": user: it is empty"),
    ],
)
def test_a_place_and_a_message_name_a_key_once(place: str, message: str, expected: str) -> None:
    """A key that ends the place and begins the message is written once, and no other is lost."""
    with pytest.raises(UnknownName) as error, prefix_errors(place):
        raise UnknownName(message)
    assert str(error.value) == expected


@pytest.mark.parametrize(
    "error",
    [
        DamagedFile("a.json: cut", "a.json", "; delete it"),
        RequestRefused("status 400", frozenset({RefusedPart.SEED})),
        InterruptedCheck("it failed", 7),
        UnknownName("x is unknown"),
    ],
)
def test_an_error_with_a_place_keeps_its_class_and_fields(error: LLMCheckerError) -> None:
    """A place is put before the message alone, also of an error that was pickled."""
    with pytest.raises(type(error)) as caught, prefix_errors("here"):
        raise pickle.loads(pickle.dumps(error))
    assert str(caught.value) == f"here: {error}"
    fields = {name: value for name, value in vars(error).items() if name != "problem"}
    assert vars(caught.value).items() >= fields.items()
