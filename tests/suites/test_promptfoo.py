"""A promptfoo configuration becomes a suite, and the rest is listed with its lines."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from llmchecker.errors import ConfigError
from llmchecker.suites.cases import Suite
from llmchecker.suites.load import load_suite
from llmchecker.suites.promptfoo import Conversion, convert_promptfoo

CONFIG = r"""
description: Translations
prompts:
  - 'Translate to {{language}}: {{ text }}'
  - file://chat.json
  - file://program.js
providers:
  - id: openai:gpt-4
    config: { temperature: 0.2, max_tokens: 20 }
defaultTest:
  vars: { language: French }
  assert:
    - { type: not-icontains, value: sorry }
tests:
  - description: greeting
    vars: { text: ["Hello.*", "Bye"] }
    assert:
      - { type: contains, value: "{{text}}" }
      - { type: contains-any, value: "Bonjour, Salut" }
      - { type: contains-all, value: [a, b] }
      - { type: not-regex, value: '^\d{2}$' }
      - { type: starts-with, value: "B" }
      - { type: equals, value: 42 }
      - { type: equals, value: { key: value } }
      - { type: is-json }
      - { type: is-json, value: { type: object } }
      - { type: word-count, value: { min: 2, max: 5 } }
      - { type: not-word-count, value: 3 }
      - { type: llm-rubric, value: polite }
      - { type: javascript, value: output.length > 3 }
  - vars: { text: "{% raw %}" }
    options: { prefix: x }
    assert: [{ type: latency, threshold: 5 }]
  - file://more.yaml
"""


def convert(folder: Path, text: str = CONFIG, **files: str) -> tuple[Conversion, Suite]:
    """The conversion, and the suite that it becomes."""
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content, encoding="utf-8")
    (folder / "promptfooconfig.yaml").write_text(text, encoding="utf-8")
    conversion = convert_promptfoo(folder / "promptfooconfig.yaml", Decimal("0.95"), "m")
    (folder / "m").mkdir(exist_ok=True)
    (folder / "m/config.json").write_text("{}")
    (folder / "suite.yaml").write_text(yaml.safe_dump(dict(conversion.suite), sort_keys=False))
    return conversion, load_suite(folder / "suite.yaml")


@pytest.fixture
def converted(tmp_path):
    chat = json.dumps(
        [
            {"role": "system", "content": "Translate to {{language}}."},
            {"role": "user", "content": "{{text}}"},
        ]
    )
    return convert(tmp_path, chat_json=chat)


def test_prompts_and_variables_become_cases(converted):
    """Each prompt with each combination of variables is an entry, chats with all turns."""
    _, suite = converted
    starts = list(dict.fromkeys(case.start for case in suite.cases))
    assert [start.messages for start in starts[:3]] == [
        (("user", "Translate to French: Hello.*"),),
        (("system", "Translate to French."), ("user", "Hello.*")),
        (("user", "Translate to French: Bye"),),
    ]
    assert len(starts) == 6
    assert list(dict.fromkeys(case.entry for case in suite.cases))[:2] == [
        "greeting",
        "greeting, 2",
    ]


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        ("Bonjour Hello.* ab", {"contains": 1, "contains_any": 1, "contains_all": 1}),
        ("Hello xx", {"contains": 0, "contains_any": 0, "contains_all": 0}),
        ("Sorry", {"not_icontains": 1}),
        ("12", {"not_matches": 1}),
        ("123", {"not_matches": 0}),
        ("Bx", {"starts_with": 1}),
        ("xB", {"starts_with": 0}),
        ("42", {"equals": 1}),
        ("42 ", {"equals": 0}),
    ],
)
def test_assertions_keep_their_meaning(converted, text, verdicts):
    """Quantifiers score a text as the assertion of promptfoo would."""
    _, suite = converted
    first = [case for case in suite.cases if case.entry == "greeting"]
    for kind, score in verdicts.items():
        label = re.compile(rf"{kind.replace('_', ' ')} [\"\[]")
        (case,) = [case for case in first if label.match(case.label)]
        ((_, quantifier),) = suite.build_query(case).quantifiers.items()
        assert quantifier("", text) == score


def test_json_and_words_keep_their_meaning(converted):
    """JSON is compared as JSON, and words are separated by spaces."""
    conversion, suite = converted
    require = conversion.suite["cases"][0]["require"]
    assert {"json": {"const": {"key": "value"}}, "at_least": 0.95} in require
    assert {"json": True, "at_least": 0.95} in require
    assert {"json": {"type": "object"}, "at_least": 0.95} in require
    assert "P>=0.95 [ F (G (spaced_words >= 2 & spaced_words <= 5)) ]" in require
    assert "P>=0.95 [ F (G !(spaced_words >= 3 & spaced_words <= 3)) ]" in require
    words = suite.quantifiers.create("spaced_words", conversion.suite["properties"]["spaced_words"])
    assert words("", "well-known, isn't it ?") == 4


def test_the_rest_is_listed_with_its_line(converted):
    """Parts without a counterpart are listed once, with the line and the reason."""
    conversion, _ = converted
    lines = dict(omission.split(": ", 1) for omission in conversion.omissions)
    assert "program.js" in lines["line 6"]
    assert "providers are not converted" in lines["line 7"]
    assert lines["line 29"] == "llm-rubric has no counterpart"
    assert lines["line 30"] == "javascript has no counterpart"
    assert "options" in lines["line 32"]
    assert "a test in a file" in lines["line 34"]
    assert len(set(conversion.omissions)) == len(conversion.omissions)


def test_settings_of_the_provider_become_decoding_and_length(converted):
    """Temperature and the number of tokens of the first provider are those of the suite."""
    conversion, _ = converted
    assert conversion.suite["decoding"] == {"temperature": 0.2}
    assert conversion.suite["length"] == 20


def test_a_table_of_tests_stays_a_table(tmp_path):
    """Tests in a CSV file become prompts with columns."""
    text = """
prompts: "Translate {{text}}"
tests: file://tests.csv
defaultTest: { assert: [{ type: icontains, value: "{{answer}}" }] }
"""
    conversion, suite = convert(tmp_path, text, tests_csv="text,answer\na,b.c\nd,e\n")
    assert conversion.omissions == ()
    assert [case.prompt for case in suite.cases] == ["Translate a", "Translate d"]
    assert suite.cases[0].settings["contains"]["pattern"] == r"(?i)b\.c"


def test_a_classifier_needs_its_files(tmp_path):
    """A classifier becomes a query over a directory, and the listing names the directory."""
    assertion = (
        "{ type: classifier, provider: 'huggingface:text-classification:a/b', value: toxic, "
        "threshold: 0.7 }"
    )
    (tmp_path / "promptfooconfig.yaml").write_text(
        f"prompts: [hi]\ntests: [{{ assert: [{assertion}] }}]\n"
    )
    conversion = convert_promptfoo(tmp_path / "promptfooconfig.yaml", Decimal("0.9"))
    (requirement,) = conversion.suite["cases"][0]["require"]
    assert requirement["classifier"] == {"directory": "models/a_b", "label": "toxic", "percent": 70}
    assert any("models/a_b" in omission for omission in conversion.omissions)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prompts: [hi]\ntests: []\n", "no test with an assertion"),
        ("prompts: [hi]\ntests: [{ assert: [{ type: cost }] }]\n", "no test with an assertion"),
        ("prompts: ['{{x}}']\ntests: [{ assert: [{ type: is-json }] }]\n", "no test"),
        ("[]", "the file is not a mapping; write keys and values"),
    ],
)
def test_a_file_without_convertible_tests_is_refused(tmp_path, text, reason):
    """If nothing can be converted, no suite is written."""
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ConfigError, match=reason):
        convert_promptfoo(tmp_path / "p.yaml", Decimal("0.95"))
