"""Quantifiers are made from their settings, and one message says what cannot be."""

import pytest
import yaml
from helpers.settings import APART, SETTINGS

from llmchecker.errors import ConfigError, MissingTool, UnknownName
from llmchecker.properties import registry
from llmchecker.properties.logic.ast import is_variable_name
from llmchecker.properties.plugins import find_installed_types
from llmchecker.properties.quantifiers.polarity import Polarity
from llmchecker.properties.quantifiers.similarity import Similarity
from llmchecker.properties.registry import BUILTIN_TYPES, create_quantifier
from llmchecker.utils import optional_packages


def test_every_name_can_be_a_variable() -> None:
    """A registered name is an identifier that no column of a tree and no PRISM keyword has."""
    for name in BUILTIN_TYPES:
        assert is_variable_name(name)


@pytest.mark.parametrize("name", ["step", "rest", "module", "a-b", "2nd", "größe"])
def test_a_name_that_cannot_be_a_variable_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quantifier cannot be registered under a name that the chain could not use."""
    monkeypatch.setitem(registry.BUILTIN_TYPES, name, BUILTIN_TYPES["polarity"])
    with pytest.raises(ConfigError, match=name):
        create_quantifier(name)


@pytest.mark.parametrize("name", ["step", "uid", "rest", "module", "a-b", "2nd", "größe", "", 7])
def test_a_name_of_its_own_must_be_a_variable(name: object) -> None:
    """No type makes a name possible that queries and PRISM files could not have."""
    with pytest.raises(ConfigError, match="not letters, digits and _") as error:
        create_quantifier(name, {"type": "polarity"})
    assert repr(name) in str(error.value)


def test_a_word_that_yaml_takes_for_a_truth_value_needs_quotes() -> None:
    """YAML reads the name yes as true; the message says how to write it."""
    settings = yaml.safe_load("yes: {type: polarity}")
    with pytest.raises(ConfigError, match="write such a name in quotes"):
        [create_quantifier(name, settings[name]) for name in settings]
    assert create_quantifier("yes", {"type": "polarity"}) == Polarity()


def test_several_quantifiers_have_one_type() -> None:
    """A name of its own with a type makes the quantifier that the type's name makes."""
    for name in BUILTIN_TYPES.keys() - APART:
        made = create_quantifier("mine", {"type": name, **SETTINGS.get(name, {})})
        assert type(made) is BUILTIN_TYPES[name].load()
    assert create_quantifier("first", {"type": "similarity", "protected": ["a"]}) == Similarity(
        ("a",)
    )
    assert create_quantifier("similarity", {"type": "polarity"}) == Polarity()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("similarty", "type: 'similarty' is unknown, did you mean 'similarity'?"),
        ("regex", "type: 'regex' is unknown, did you mean 'pattern'?"),
        (3, "type: 3 is unknown; known are "),
        (["polarity"], r"type: \['polarity'\] is unknown"),
        (None, "type: null is unknown"),
    ],
)
def test_an_unknown_type_gets_a_suggestion(kind: object, message: str) -> None:
    """An unknown type is named, with the nearest known one and the list of all."""
    with pytest.raises(UnknownName, match=message) as error:
        create_quantifier("mine", {"type": kind})
    assert ", ".join(sorted({*BUILTIN_TYPES, *find_installed_types()})) in str(error.value)


def test_create_makes_the_quantifier_of_that_name() -> None:
    """The settings of a config become the fields of the quantifier."""
    assert create_quantifier("similarity", {"protected": ["a", "b"]}) == Similarity(("a", "b"))
    assert create_quantifier("polarity", {}) == create_quantifier("polarity", None) == Polarity()


@pytest.mark.parametrize(
    ("name", "package"),
    [("polarity", "textblob"), ("readability", "textstat"), ("readability", "pkg_resources")],
)
def test_a_package_that_is_not_there_is_named(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quantifier whose package is missing is refused when it is made, not when it scores."""
    monkeypatch.setattr(
        optional_packages, "find_spec", lambda asked: None if asked == package else asked
    )
    with pytest.raises(MissingTool) as error:
        create_quantifier(name)
    fix = f"run pip install 'llmchecker[{name}]'"
    assert str(error.value) == f"{package}: the package is missing; {fix}"


def test_an_unknown_name_gets_a_suggestion() -> None:
    """An unknown quantifier is named, with the nearest known one and the list of all."""
    with pytest.raises(
        UnknownName, match="'simlarity': unknown, did you mean 'similarity'"
    ) as error:
        create_quantifier("simlarity", {})
    assert ", ".join(sorted({*BUILTIN_TYPES, *find_installed_types()})) in str(error.value)
