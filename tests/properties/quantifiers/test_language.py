"""The language of a text is that of lingua, an optional package."""

import sys

import pytest
from helpers.marks import long

from llmchecker.errors import ConfigError, MissingTool
from llmchecker.properties.registry import create_quantifier


def test_without_lingua_the_message_names_the_command(monkeypatch):
    """Without the optional package, the error names the command that installs it."""
    monkeypatch.setitem(sys.modules, "lingua", None)
    with pytest.raises(MissingTool, match="pip install 'llmchecker\\[language\\]'"):
        create_quantifier("language", {"code": "en"})


# without `among`, lingua reads the models of all its languages, which takes ten seconds
@pytest.mark.parametrize("settings", [{"among": ["en", "es", "de"]}, *long({})])
@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("The capital of Spain is Madrid, and it has many museums.", 1),
        ("La capital de España es Madrid y tiene muchos museos.", 0),
        ("Die Hauptstadt von Spanien ist Madrid.", 0),
        ("", 0),
        ("123 !?", 0),
    ],
)
def test_the_language_of_whole_sentences_is_recognised(text, score, settings):
    """English sentences score 1, other sentences and texts without letters 0."""
    pytest.importorskip("lingua")
    quantifier = create_quantifier("language", {"code": "en", **settings})
    assert quantifier("Hola: ", text) == score
    assert (quantifier.minimum, quantifier.maximum) == (0, 1)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"code": "english"}, "is unknown"),
        ({"code": "en", "among": ["en"]}, "another code"),
        ({"code": "en", "among": ["es", "de"]}, "another code"),
        ({"code": "en", "among": "en"}, "list of codes"),
        ({"code": "en", "among": ["en", "xx"]}, "is unknown"),
    ],
)
def test_unusable_settings_are_refused(settings, reason):
    """An unknown code or a list without a choice is refused."""
    pytest.importorskip("lingua")
    with pytest.raises(ConfigError, match=reason):
        create_quantifier("language", settings)
