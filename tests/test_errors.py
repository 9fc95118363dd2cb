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
    name_arguments,
    prefix_errors,
)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("stop", ""),
        ("--polartiy=3", ", did you mean 'polarity'?"),
        ("gendr", ", did you mean 'gender'?"),
        ("polarity", ", did you mean 'polarity'?"),
        ("x", ""),
    ],
)
def test_the_closest_known_name_is_asked_for(name: str, hint: str) -> None:
    """A name that resembles a known one gets a question, and any other gets none."""
    assert did_you_mean(name, iter(("gender", "polarity"))) == hint


KEYS = ("temperature", "top_k", "top_p", "min_p", "length", "matches", "not_matches", "refuses")


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        *((name, KEYS, None) for name in ("stop", "--stop", "seed", "user", "k")),
        ("topp", KEYS, "top_p"),
        ("regex", KEYS, "matches"),
        ("not-regex", KEYS, "not_matches"),
        ("regex", ("pattern", "words"), "pattern"),
        ("--regex=^a", [f"--{key}" for key in KEYS], "--matches"),
        ("is-refusal", KEYS, "refuses"),
        ("max_tokens", KEYS, "length"),
        ("regex", ("temperature", "top_p"), None),
        ("--lenght", [f"--{key}" for key in KEYS], "--length"),
        ("Temperature", KEYS, "temperature"),
    ],
)
def test_a_hint_is_a_near_miss_or_the_same_thing(name, known, hint) -> None:
    """A hint is a name that differs by little, or that of the same thing in other programs."""
    assert did_you_mean(name, known) == ("" if hint is None else f", did you mean {hint!r}?")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("it is empty", "user: it is empty"),
        ("user: it is empty", "user: user: it is empty"),
        ("[1].user: it is empty", "user[1].user: it is empty"),
        ("[1]: it is empty", "user[1]: it is empty"),
        ("[1] is no text", "user: [1] is no text"),
    ],
)
def test_a_place_is_added_to_a_message_as_it_is(message: str, expected: str) -> None:
    """A message is not changed, and an index at its beginning extends the place."""
    with pytest.raises(UnknownName) as error, prefix_errors("user"):
        raise UnknownName(message)
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("prefix", "message", "expected"),
    [
        ("--", "top_p: 2 is too_large", "--top-p: 2 is too_large"),
        ("--versus-", "user: it is empty", "--versus-user: it is empty"),
        ("versus_", "top_p: 2 is too large", "versus_top_p: 2 is too large"),
    ],
)
def test_the_key_of_a_message_becomes_an_argument(prefix: str, message: str, expected: str) -> None:
    """A key is an option of the command line with hyphens, or an argument of Python."""
    with pytest.raises(UnknownName) as error, name_arguments(prefix):
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
