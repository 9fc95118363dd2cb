"""Installed packages add types of quantifiers by entry points, and break nothing."""

import sys
from pathlib import Path

import pytest
from helpers.installed import install

from llmchecker.errors import ConfigError, UnknownName
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifiers.interface import _collect_range
from llmchecker.properties.quantifiers.polarity import Polarity
from llmchecker.properties.registry import (
    create_quantifier,
    find_quantifier_files,
    find_quantifier_modules,
    find_quantifiers,
    name_class,
)

MODULE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Shouting:
    least: int = 2
    minimum = 0
    maximum = None
    final = frozenset({7})

    def __call__(self, start, continuation):
        return sum(word.isupper() and len(word) >= self.least for word in continuation.split())

class Bare:
    def __call__(self, start, continuation):
        return 0

class Angry(Bare):
    minimum = maximum = 0
    def __init__(self):
        raise RuntimeError("no")

class Sure(Bare):
    minimum, maximum, final = 0, 1, "0"

number = 3
"""
ENTRIES = """
[llmchecker.quantifiers]
shouting = shouts_of_test:Shouting
bare = shouts_of_test:Bare
angry = shouts_of_test:Angry
sure = shouts_of_test:Sure
number = shouts_of_test:number
lost = shouts_of_test:Lost
absent = module_that_is_not_there:Lost
polarity = shouts_of_test:Bare
"""


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """A directory on the path with a package that adds types."""
    (tmp_path / "shouts_of_test.py").write_text(MODULE)
    install(tmp_path, "shouts", ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("shouts_of_test", None)


def test_a_type_of_an_installed_package_is_made(installed):
    """Its fields are its settings, its name a type, and its module a file scores depend on."""
    assert create_quantifier("shouting")("I", " AM not OK") == 2
    loud = create_quantifier("loud", {"type": "shouting", "least": 3})
    assert loud("I", " AM not OKAY") == 1
    assert _collect_range(loud) == (0, None, 7)
    assert find_quantifier_files(loud) == [installed / "shouts_of_test.py"]


def test_a_query_names_an_installed_type_without_a_definition(installed):
    """An installed type without required settings is a standard quantifier, as `gender` is."""
    query = parse("P=? [ F shouting > 1 ]")
    assert find_quantifiers(query, 3, {})["shouting"]("I", " AM not OK") == 2
    assert name_class("shouting") == "shouts_of_test.Shouting"


def test_the_code_of_an_installed_type_is_its_module(installed):
    """The module of an installed type is listed, as that of a type of this package is."""
    quantifiers = [create_quantifier(name) for name in ("shouting", "polarity")]
    polarity = "llmchecker.properties.quantifiers.polarity"
    assert find_quantifier_modules(quantifiers) == [polarity, "shouts_of_test"]


def test_no_package_replaces_a_type(installed):
    """The types of this package stay what they are, and nobody's code is loaded for them."""
    assert create_quantifier("polarity") == Polarity()
    assert "shouts_of_test" not in sys.modules


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"type": "bare"}, "Bare: minimum is missing"),
        ({"type": "bare", "x": 1}, "unknown setting 'x'; it has none"),
        ({"type": "angry"}, "Angry: creating it raised RuntimeError: no"),
        ({"type": "sure"}, "Sure: final is '0', not a set of integers"),
        ({"type": "number"}, "'number' of the installed package shouts: 3 is not a class"),
        (
            {"type": "lost"},
            "'lost' of the installed package shouts: loading it raised",
        ),
        ({"type": "absent"}, "loading it raised ModuleNotFoundError"),
        ({"type": "shouting", "leest": 1}, "unknown setting 'leest', did you mean 'least'"),
    ],
)
def test_an_installed_type_that_does_not_work_is_refused(installed, settings, message):
    """One message names type and package."""
    with pytest.raises(ConfigError, match=message):
        create_quantifier("mine", settings)


def test_installed_types_are_suggested(installed):
    """A slip in the name of an installed type gets a suggestion."""
    with pytest.raises(UnknownName, match="'shoutin' is unknown, did you mean 'shouting'"):
        create_quantifier("mine", {"type": "shoutin"})


def test_two_packages_with_one_type_are_refused(installed):
    """Which of two packages a config means is not guessed."""
    install(installed, "others", "[llmchecker.quantifiers]\nshouting = json:loads\n")
    with pytest.raises(ConfigError, match="quantifier type 'shouting': both"):
        create_quantifier("mine", {"type": "shouting"})
