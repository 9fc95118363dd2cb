"""A promptfoo configuration becomes a suite that loads, and the rest is listed with its lines."""

import itertools
import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from helpers.suites import run

from llmchecker.errors import ConfigError
from llmchecker.suites.cases import Suite
from llmchecker.suites.load import load_suite
from llmchecker.suites.verdicts import Status
from llmchecker_promptfoo.convert import convert_promptfoo

A, B, C = (f"{{type: contains, value: {name}}}" for name in "abc")
HAS_A, HAS_B, HAS_C = ({"contains": name} for name in "abc")


@dataclass(frozen=True)
class Converted:
    """The written suite as plain YAML, as `test` reads it, and the listed places with reasons."""

    content: dict[str, Any]
    suite: Suite
    listed: tuple[str, ...]

    @property
    def prompts(self) -> list[Any]:
        """The prompts of all entries."""
        prompts: list[Any] = []
        for entry in self.content["cases"]:
            user = entry.get("user", [entry.get("messages")])
            user = list(user.values()) if isinstance(user, dict) else user
            prompts += [user] if isinstance(user, str) else user
        return prompts

    @property
    def requirements(self) -> list[Any]:
        """The requirements of each entry, without the probability."""
        return [
            [
                {key: value for key, value in item.items() if key != "at_least"}
                if isinstance(item, dict)
                else item
                for item in entry["require"]
            ]
            for entry in self.content["cases"]
        ]


def convert(folder: Path, text: str, files: dict[str, str] | None = None) -> Converted:
    """Convert a configuration with its files; the suite is loaded as `test` would load it."""
    source = folder / "source"
    for name, content in (files or {}).items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    source.mkdir(exist_ok=True)
    (source / "promptfooconfig.yaml").write_text(dedent(text), encoding="utf-8")
    conversion = convert_promptfoo(source / "promptfooconfig.yaml", Decimal("0.95"), "m")
    # the suite is written to another folder than the configuration
    out = folder / "out"
    (out / "m").mkdir(parents=True)
    (out / "m/config.json").write_text("{}")
    (out / "judge").mkdir()
    (out / "judge/config.json").write_text("{}")
    (out / "suite.yaml").write_text(conversion.text, encoding="utf-8")
    for omission in conversion.omissions:
        assert f"#   {omission}\n" in conversion.text
    return Converted(
        yaml.safe_load(conversion.text), load_suite(out / "suite.yaml"), conversion.omissions
    )


def refuse(folder: Path, text: str, files: dict[str, str] | None = None) -> str:
    """The message of a configuration of which nothing is converted."""
    with pytest.raises(ConfigError) as error:
        convert(folder, text, files)
    return str(error.value)


@pytest.mark.parametrize(
    ("given", "keys", "chosen", "listed"),
    [
        (None, "", "0.95", ""),
        (None, "env: {PROMPTFOO_PASS_RATE_THRESHOLD: 90}", "0.9", "each requirement has the pro"),
        (None, "env: {PROMPTFOO_PASS_RATE_THRESHOLD: '87.5'}", "0.875", "mean of all tests"),
        ("0.7", "env: {PROMPTFOO_PASS_RATE_THRESHOLD: 90}", "0.7", "the probability 0.7, in"),
        (None, "env: {PROMPTFOO_PASS_RATE_THRESHOLD: many}", "0.95", "no number of percent"),
        (None, "env: {PROMPTFOO_PASS_RATE_THRESHOLD: 0}", "0.95", "no number of percent"),
        (None, "evaluateOptions: {repeat: 5}", "0.9898", "all 5 answers pass"),
        (None, "evaluateOptions: {repeat: 1}", "0.95", ""),
        (None, "evaluateOptions: {repeat: 5000}", "0.95", "too many answers"),
        ("0.9", "evaluateOptions: {repeat: 5}", "0.9", "if one does with 0.9792"),
        (
            None,
            "evaluateOptions: {repeat: 5}\ncommandLineOptions: {repeat: 3}",
            "0.9831",
            "repeat 3: all 3 answers",
        ),
        (
            None,
            "evaluateOptions: {repeat: 5}\nenv: {PROMPTFOO_PASS_RATE_THRESHOLD: 80}",
            "0.8",
            "THRESHOLD 80",
        ),
        (
            None,
            "evaluateOptions: {repeat: 5}\nenv: {PROMPTFOO_PASS_RATE_THRESHOLD: 100}",
            "0.9898",
            "repeat 5",
        ),
    ],
)
def test_a_pass_rate_and_repeated_tests_become_probabilities(given, keys, chosen, listed, tmp_path):
    """A rate is `at_least`; of k answers that must all pass, each has the k-th root, rounded up."""
    path = tmp_path / "p.yaml"
    path.write_text(f"prompts: [x]\ntests: [{{assert: [{A}]}}]\n{keys}\n", encoding="utf-8")
    conversion = convert_promptfoo(path, None if given is None else Decimal(given), "m")
    (requirement,) = yaml.safe_load(conversion.text)["cases"][0]["require"]
    assert requirement["at_least"] == float(chosen)
    assert [listed in each for each in conversion.omissions] == [True] * bool(listed)


PROMPTS = {
    "text": ("prompts: 'Is {{x}} so?'", {}, ["Is this so?"], []),
    "list": ("prompts: ['{{ x }}!', '{{x}}?']", {}, ["this!", "this?"], []),
    "text with a slash": ("prompts: ['yes/no {{x}}']", {}, ["yes/no this"], []),
    "none": ("defaultTest: {vars: {prompt: '{{x}}!'}}", {}, ["this!"], []),
    "null": ("prompts: null\ndefaultTest: {vars: {prompt: '{{x}}!'}}", {}, ["this!"], []),
    "question": ("prompts: ['Is 1/2 * 3 > 1?']", {}, ["Is 1/2 * 3 > 1?"], []),
    "raw with label": ("prompts: [{raw: 'A {{x}}', label: a}]", {}, ["A this"], []),
    "id": ("prompts: [{id: 'file://p.txt', label: a}]", {"p.txt": "B {{x}}"}, ["B this"], []),
    "old mapping": ("prompts: {p.txt: first}", {"p.txt": "B {{x}}"}, ["B this"], []),
    "file": ("prompts: [file://p.txt]", {"p.txt": "B {{x}}\n"}, ["B this"], []),
    "list in a file": (
        "prompts: file://c/p.yaml",
        {"c/p.yaml": "- A {{x}}\n- file://c/p.txt\n- {raw: C, id: c}\n", "c/p.txt": "B"},
        ["A this", "B", "C"],
        [],
    ),
    "program in a list in a file": (
        "prompts: file://p.yaml",
        {"p.yaml": "- ok\n- file://p.py\n"},
        ["ok"],
        ["line 2: file://p.py: prompts of a program"],
    ),
    "file in a folder": ("prompts: [a/p.txt]", {"a/p.txt": "B {{x}}\n"}, ["B this"], []),
    "separator": ("prompts: p.txt", {"p.txt": "A\r\n--- \r\nB\r\nC\r\n---\r\n"}, ["A", "B\nC"], []),
    "pattern": (
        "prompts: [p/*.txt]",
        {"p/b.txt": "B", "p/a.txt": "A"},
        ["A", "B"],
        [],
    ),
    "markdown": ("prompts: [p.md]", {"p.md": "# {{x}}\n\n---\nB"}, ["# this\n\n---\nB"], []),
    "jinja": ("prompts: [p.j2]", {"p.j2": "Is {{x}}\r\nso?"}, ["Is this\r\nso?"], []),
    "CSV": ("prompts: p.csv", {"p.csv": "label,prompt\na,Is {{x}}?\nb,B\n"}, ["Is this?", "B"], []),
    "CSV of one column": (
        "prompts: p.csv",
        {"p.csv": "prompt\nIs {{x}}?\nB\n"},
        ["Is this?", "B"],
        [],
    ),
    "lines of chats": (
        "prompts: p.jsonl",
        {"p.jsonl": '[{"role": "user", "content": "{{x}}"}]\n'},
        ["this"],
        [],
    ),
    "chat in JSON": (
        "prompts: file://p.json",
        {
            "p.json": '[{"role": "system", "content": "S {{x}}"}, '
            '{"role": "user", "content": "say \\"{{x}}\\""}]'
        },
        [[{"system": "S this"}, {"user": 'say "this"'}]],
        [],
    ),
    "chat in YAML": (
        "prompts: p.yaml",
        {
            "p.yaml": "- {role: user, content: 'A {{x}}'}\n- {role: assistant, content: b}\n"
            "- {role: user, content: c}\n"
        },
        [[{"user": "A this"}, {"assistant": "b"}, {"user": "c"}]],
        [],
    ),
    "chat as a text": (
        "prompts:\n  - |\n    - role: system\n      content: S\n"
        "    - role: user\n      content: '{{x}}'",
        {},
        [[{"system": "S"}, {"user": "this"}]],
        [],
    ),
    "chat with a condition": (
        """prompts: ['[{% if x %}{"role": "user", "content": "{{x}}"}{% endif %}]']""",
        {},
        ["this"],
        [],
    ),
    "number": ("prompts: ['42']", {}, ["42"], []),
    "braces": (r"prompts: ['\frac{a}{b} {{x}} {x}']", {}, [r"\frac{a}{b} this {x}"], []),
    "function": (
        "prompts: [ok, 'make.py:build', 'file://make.js']",
        {},
        ["ok"],
        ["line 2: make.py:build: prompts of a program", "line 2: file://make.js: prompts of a"],
    ),
    "program": (
        "prompts: [ok, 'exec:run.sh a']",
        {},
        ["ok"],
        ["line 2: exec:run.sh a: a prompt of"],
    ),
    "service": (
        "prompts: [ok, 'langfuse://a:1']",
        {},
        ["ok"],
        ["line 2: langfuse://a:1: a prompt"],
    ),
    "absent file": (
        "prompts: [ok, 'file://no.txt', no.yaml]",
        {},
        ["ok"],
        ["line 2: file://no.txt: there is no", "line 2: no.yaml: there is no"],
    ),
    "absent pattern": ("prompts: [ok, 'file://p/*.txt']", {}, ["ok"], ["line 2: file://p/*.txt"]),
    "unknown kind": (
        "prompts: [ok, file://p.njk]",
        {"p.njk": "a"},
        ["ok"],
        ["line 2: p.njk: prompts in files of this kind are not read"],
    ),
    "object in JSON": (
        "prompts: [ok, p.json]",
        {"p.json": '{"messages": []}'},
        ["ok"],
        ["line 3: the prompt in line 2: the prompt is JSON, but no chat of messages"],
    ),
    "pictures": (
        "prompts: [ok, p.json]",
        {"p.json": '[{"role": "user", "content": [{"type": "image_url"}]}]'},
        ["ok"],
        ["line 3: the prompt in line 2: a message of the chat is no text"],
    ),
    "other role": (
        "prompts: [ok, p.json]",
        {"p.json": '[{"role": "tool", "content": "a"}]'},
        ["ok"],
        ['line 3: the prompt in line 2: a message of the chat has the role "tool"'],
    ),
    "answer last": (
        "prompts: [ok, p.json]",
        {"p.json": '[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]'},
        ["ok"],
        ["line 3: the prompt in line 2: the chat: last message: not the user's"],
    ),
    "damaged chat": (
        'prompts: [ok, \'[{"role": "user", {{x}}\']',
        {},
        ["ok"],
        ["line 3: the prompt in line 2: the prompt begins as JSON, but is none"],
    ),
    "name of a file": ("prompts: [notes]", {"notes": "B"}, ["notes"], []),
    "configuration": (
        "prompts: [{raw: 'A', config: {temperature: 1}}]",
        {},
        ["A"],
        ["line 2: config of a prompt has no counterpart"],
    ),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("form", PROMPTS)
def test_prompts_have_the_texts_and_turns_of_promptfoo(tmp_path, form):
    """Each form of a prompt becomes its texts or turns, or is listed with its line."""
    prompts, files, expected, listed = PROMPTS[form]
    text = f"""
{prompts}
tests: [{{vars: {{x: this}}, assert: [{{type: contains, value: a}}]}}]
"""
    converted = convert(tmp_path, text, files)
    assert converted.prompts == expected
    assert len(converted.listed) == len(listed)
    for reason in listed:
        assert any(line.startswith(reason) for line in converted.listed), converted.listed


VARIABLES = {
    "text": ("{x: a}", {}, ["a"], []),
    "number": ("{x: 1.0}", {}, ["1"], []),
    "truth": ("{x: true}", {}, ["true"], []),
    "plain words": ("{x: yes}", {}, ["yes"], []),
    "list": ("{x: [a, b]}", {}, ["a", "b"], []),
    "list of numbers": ("{x: [1, 2]}", {}, ["1,2"], []),
    "last line end": ('{x: "a\\n"}', {}, ["a"], []),
    "variable in a variable": ("{x: 'in {{y}}', y: '{{ z }}!', z: Rome}", {}, ["in Rome!"], []),
    "filter in a variable": ("{x: '{{y | upper}}', y: a}", {}, ["A"], []),
    "file": ("{x: file://v.txt}", {"v.txt": " a\nb \n"}, ["a\nb"], []),
    "files": ("{x: file://v/*.txt}", {"v/2.txt": "b", "v/1.txt": "a"}, ["a", "b"], []),
    "file of YAML": (
        "{x: 'Say {{y}}', y: file://v.yaml}",
        {"v.yaml": "a: [1, b]"},
        ['Say {"a":[1,"b"]}'],
        [],
    ),
    "all in a file": ("file://v.yaml", {"v.yaml": "x: a"}, ["a"], []),
    "program": ("{x: file://v.py}", {"v.py": ""}, None, "the variable x is in v.py, which is a"),
    "absent file": ("{x: file://v.txt}", {}, None, "the variable x: v.txt: cannot be read"),
    "absent": ("{y: a}", {}, None, "line 3: the variable x has no value"),
    "absent in a variable": (
        "{x: '{{y}}'}",
        {},
        None,
        "the variable x: the variable y has no value",
    ),
    "mapping": ("{x: {a: 1}}", {}, None, "the variable x: a mapping is inserted, as [object"),
    "date": ("{x: 2024-01-31}", {}, None, "2024-01-31 is a date; put it in quotes"),
    "environment": ("{x: '{{env.HOME}}'}", {}, None, "env is the environment of promptfoo"),
    "conversation": (
        "{x: '{{_conversation}}'}",
        {},
        None,
        "_conversation contains earlier answers",
    ),
}


@pytest.mark.parametrize("form", VARIABLES)
def test_variables_have_the_values_of_promptfoo(tmp_path, form):
    """Each form of a variable has its texts, or the test is listed with the reason."""
    variables, files, expected, reason = VARIABLES[form]
    text = f"""
prompts: ['{{{{x}}}}']
tests: [{{vars: {variables}, assert: [{{type: contains, value: a}}]}}]
"""
    if expected is None:
        assert reason in refuse(tmp_path, text, files)
    else:
        converted = convert(tmp_path, text, files)
        assert converted.prompts == expected
        assert converted.listed == ()


ASSERTIONS = {
    "contains": ("{type: contains, value: 'a.{b}'}", {"contains": "a.{b}"}),
    "number": ("{type: contains, value: 1.0}", {"contains": "1"}),
    "large number": ("{type: equals, value: 1e21}", {"equals": "1e+21"}),
    "nought": ("{type: equals, value: 0}", {"equals": "0"}),
    "truth": ("{type: equals, value: true}", {"equals": "true"}),
    "variable": ("{type: contains, value: '{{x}}'}", {"contains": "this"}),
    "variable in a variable": ("{type: contains, value: '{{y}}'}", {"contains": "this too"}),
    "negation": ("{type: not-icontains, value: a}", {"not_icontains": "a"}),
    "starts": ("{type: starts-with, value: a}", {"starts_with": "a"}),
    "ends": ("{type: not-ends-with, value: a}", {"not_ends_with": "a"}),
    "list": ("{type: contains-any, value: [a, 1.5, 'b,c']}", {"contains_any": ["a", "1.5", "b,c"]}),
    "commas": ("{type: contains-all, value: ' a,, b c,'}", {"contains_all": ["a", "b c"]}),
    "quotes": (
        r'''{type: contains-all, value: '"1,000", in stock, "say ""hi""", "a\"b"'}''',
        {"contains_all": ["1,000", "in stock", 'say "hi"', 'a"b']},
    ),
    "negated list": ("{type: not-icontains-any, value: a}", {"not_icontains_any": ["a"]}),
    "empty item of all": ("{type: icontains-all, value: ['', a]}", {"icontains_all": ["a"]}),
    "regex": (r"{type: regex, value: '^\d+$'}", {"matches": r"^[0-9]+$(?!\n)"}),
    "slashes": ("{type: not-regex, value: /a/i}", {"not_matches": "/a/i"}),
    "equal object": ("{type: equals, value: {a: [1]}}", {"json": {"const": {"a": [1]}}}),
    "equal null": ("{type: not-equals, value: null}", {"not_json": {"const": None}}),
    "JSON": ("{type: is-json}", {"json": True}),
    "any JSON": ("{type: is-json, value: 'true'}", {"json": True}),
    "no JSON": ("{type: not-is-json}", {"not_json": True}),
    "refusal": ("{type: not-is-refusal}", {"not_refuses": True}),
    "file": ("{type: contains, value: file://v.txt}", {"contains": "from a file"}),
    "words": (
        "{type: word-count, value: {min: 2, max: 5}}",
        "P>=0.95 [ F (G (spaced_words >= 2 & spaced_words <= 5)) ]",
    ),
    "number of words": (
        "{type: not-word-count, value: '3'}",
        "P>=0.95 [ F (G !(spaced_words >= 3 & spaced_words <= 3)) ]",
    ),
    "characters": (
        "{type: character-count, value: {max: 280}}",
        "P>=0.95 [ F (G (characters <= 280)) ]",
    ),
    "metric": ("{type: contains, value: a, metric: m, weight: 2}", {"contains": "a"}),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("form", ASSERTIONS)
def test_assertions_have_counterparts(tmp_path, form):
    """Each assertion becomes one requirement with the given probability, which `test` accepts."""
    assertion, expected = ASSERTIONS[form]
    text = f"""
prompts: ['{{{{x}}}}']
tests:
  - vars: {{x: this, y: '{{{{x}}}} too'}}
    assert: [{assertion}]
"""
    converted = convert(tmp_path, text, {"v.txt": "from a file\n"})
    assert converted.requirements == [[expected]]
    (entry,) = converted.content["cases"][0]["require"]
    assert isinstance(entry, str) or entry["at_least"] == 0.95


@pytest.mark.parametrize(
    ("assertion", "true", "false"),
    [
        ("{type: contains-all, value: 'a.b, c'}", "c a.b", "c axb"),
        ("{type: equals, value: {a: 1}}", ' {"a": 1.0} ', '{"a": true}'),
        (r"{type: regex, value: '^\d{2}$'}", "12", "12\n"),
        (r"{type: regex, value: '^\w+\b'}", "a", "\u00e9"),
        ("{type: not-starts-with, value: B}", "xB", "Bx"),
        ("{type: ends-with, value: B}", "xB", "B\n"),
    ],
)
def test_requirements_have_the_truth_of_the_assertion(tmp_path, assertion, true, false):
    """The quantifier of a requirement tells answers apart as the assertion does."""
    converted = convert(tmp_path, f"prompts: [hi]\ntests: [{{assert: [{assertion}]}}]\n")
    (case,) = converted.suite.cases
    ((_, quantifier),) = case.question.asked.quantifiers.items()
    scores = [quantifier("", text) for text in (true, false)]
    assert scores in ([1, 0], [2, 0], [2, 1]) or ("not" in assertion and scores == [0, 1])


SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    "value",
    [
        json.dumps(SCHEMA),
        repr(json.dumps(SCHEMA)),
        "|\n" + "".join(f"          {line}\n" for line in yaml.safe_dump(SCHEMA).splitlines()),
        "file://schema.json",
        "file://schema.yaml",
    ],
    ids=["mapping", "JSON text", "YAML text", "JSON file", "YAML file"],
)
def test_a_schema_has_any_form(tmp_path, value):
    """A schema as a mapping, text or file is one mapping of the draft that promptfoo implements."""
    text = f"""
prompts: [hi]
tests:
  - assert:
      - type: is-json
        value: {value}
"""
    files = {"schema.json": json.dumps(SCHEMA), "schema.yaml": yaml.safe_dump(SCHEMA)}
    converted = convert(tmp_path, text, files)
    ((requirement,),) = converted.requirements
    assert requirement == {"json": {"$schema": "http://json-schema.org/draft-07/schema#", **SCHEMA}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"format": {"type": "string"}}},
        {"properties": {"properties": {"properties": {"format": {}}}}},
        {"const": {"format": "email"}},
        {"enum": [{"format": "email"}]},
        {"required": ["format"]},
    ],
)
def test_a_property_may_be_called_format(tmp_path, schema):
    """Only the keyword `format` has another meaning in promptfoo."""
    text = f"prompts: [hi]\ntests: [{{assert: [{{type: is-json, value: {json.dumps(schema)}}}]}}]\n"
    ((requirement,),) = convert(tmp_path, text).requirements
    assert requirement["json"].items() >= schema.items()


LISTED = {
    "rubric": ("{type: agent-rubric, value: polite}", "agent-rubric has no counterpart"),
    "prompt of a rubric": (
        "{type: llm-rubric, value: polite, rubricPrompt: hi}",
        "llm-rubric: the rubricPrompt has no counterpart",
    ),
    "score of a rubric": (
        "{type: llm-rubric, value: polite, threshold: 0.8}",
        "llm-rubric: the threshold of the grader's score has no counterpart",
    ),
    "rubric with keys": ("{type: llm-rubric, value: {a: b}}", "llm-rubric: the value is no text"),
    "threshold of criteria": (
        "{type: g-eval, value: polite, threshold: 2}",
        "g-eval: the threshold is not above 0 and at most 1",
    ),
    "program": ("{type: javascript, value: output.length}", "javascript has no counterpart"),
    "part of JSON": ("{type: contains-json}", "contains-json has no counterpart"),
    "negated": ("{type: not-similar, value: a}", "not-similar has no counterpart"),
    "latency": ("{type: latency, threshold: 5}", "latency has no counterpart"),
    "transform": ("{type: contains, value: a, transform: x}", "contains with transform has no"),
    "normalization": ("{type: equals, value: a, normalizeUnicode: true}", "equals with normalize"),
    "no type": ("{value: a}", "the assertion has no type"),
    "text": ("contains", "'contains' is no assertion"),
    "no value": ("{type: contains}", "contains has no value"),
    "empty": ("{type: not-contains, value: ''}", "not-contains: the value is an empty text"),
    "number": ("{type: starts-with, value: 5}", "starts-with: the value 5 is no text"),
    "truth": ("{type: contains, value: true}", "contains: the value true is no text"),
    "empty item of any": (
        "{type: contains-any, value: [a, '']}",
        "an empty text is in every answer",
    ),
    "open quote": (
        """{type: contains-any, value: '"a, b'}""",
        "a quote of the value is not closed",
    ),
    "absent variable": ("{type: contains, value: '{{y}}'}", "the variable y has no value"),
    "template in an object": ("{type: equals, value: {a: '{{x}}'}}", "a mapping has a template"),
    "format": ("{type: is-json, value: {format: email}}", "is-json: the schema has `format`"),
    "format of a property": (
        "{type: is-json, value: {properties: {a: {items: [{format: email}]}}}}",
        "is-json: the schema has `format`",
    ),
    "draft": (
        "{type: is-json, value: {$schema: 'https://json-schema.org/draft/2020-12/schema'}}",
        "is-json: promptfoo does not read schemas of https://json-schema.org/draft/2020-12",
    ),
    "never": ("{type: is-json, value: 'false'}", "is-json: the value is no schema that an answer"),
    "keyword": ("{type: is-json, value: {requird: [a]}}", "a suite does not accept the test"),
    "Python's flag": ("{type: regex, value: '(?i)a'}", "is no JavaScript"),
    "Python's anchor": (r"{type: regex, value: 'a\Z'}", r"\Z is not the same in other languages"),
    "backreference": (r"{type: regex, value: '(a)\1'}", r"\1 is not the same in other languages"),
    "words with another key": (
        "{type: word-count, value: {min: 1, maximum: 5}}",
        "word-count: the value has neither min nor max, or other keys than these",
    ),
    "schema of no draft": (
        "{type: is-json, value: {$schema: 3}}",
        "is-json: promptfoo does not read schemas of 3",
    ),
    "fraction of words": ("{type: word-count, value: 2.5}", "word-count: 2.5 is no whole number"),
    "value of a program": ("{type: contains, value: file://v.py}", "v.py is a program"),
    "unknown reference": (
        "{$ref: '#/assertionTemplates/no'}",
        "the reference #/assertionTemplates",
    ),
    "weight": (
        "{type: contains, value: a, weight: 0}",
        "the assertion has weight 0 or is a metric",
    ),
    "metric": (
        "{type: contains, value: a, metricOnly: true}",
        "the assertion has weight 0 or is a",
    ),
    "set with weight 0": (
        "{type: assert-set, weight: 0, assert: [{type: contains, value: a}]}",
        "assert-set with weight 0 has no counterpart",
    ),
    "classifier": (
        "{type: classifier, value: a, provider: 'openai:x'}",
        "classifier: it has no label",
    ),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("form", LISTED)
def test_assertions_without_a_counterpart_are_listed_with_their_line(tmp_path, form):
    """The rest of the test is converted, and the assertion is listed with its line and reason."""
    assertion, reason = LISTED[form]
    text = f"""
prompts: ['{{{{x}}}}']
tests:
  - vars: {{x: this}}
    assert:
      - {{type: contains, value: kept}}
  - vars: {{x: this}}
    assert:
      - {assertion}
"""
    converted = convert(tmp_path, text)
    assert converted.requirements == [[{"contains": "kept"}]]
    # only the reader of suites finds the unknown keyword, in the whole test
    line = 7 if form == "keyword" else 9
    assert any(
        listed.startswith(f"line {line}: ") and reason in listed for listed in converted.listed
    ), converted.listed


def test_only_the_requirements_that_the_reader_refuses_are_left_out(tmp_path):
    """A schema with a misspelt keyword does not take the other assertions of its test with it."""
    text = f"""
prompts: [hi]
tests:
  - assert: [{A}, {{type: is-json, value: {{requird: [a]}}}}, {B}]
"""
    converted = convert(tmp_path, text)
    assert converted.requirements == [[HAS_A, HAS_B]]
    (listed,) = converted.listed
    assert listed.startswith("line 4: a suite does not accept the test: ")
    assert "requird" in listed


@pytest.mark.parametrize(
    ("assertion", "note"),
    [
        ("{type: is-refusal}", "line 4: is-refusal: `refuses` knows other phrases"),
        ("{type: regex, value: '^.{3}$'}", "line 4: regex: an emoji counts as one character"),
        (
            "{type: classifier, provider: 'huggingface:text-classification:a/b', value: toxic}",
            "line 4: a/b: put the files of this classifier into models/a_b",
        ),
        ("{type: llm-rubric, value: polite}", "line 4: llm-rubric: a judge answers yes or no"),
        ("{type: g-eval, value: polite}", "line 4: g-eval: a judge grades from 1 to 5"),
    ],
)
def test_differences_of_a_conversion_are_listed(tmp_path, assertion, note):
    """A conversion that is not exact, or needs work, says so with its line."""
    path = tmp_path / "p.yaml"
    path.write_text(f"prompts: [hi]\ntests:\n- assert:\n  - {assertion}\n")
    (listed,) = convert_promptfoo(path, Decimal("0.95")).omissions
    assert listed.startswith(note)


THRESHOLDS = {
    "all": ("0.9", f"[{A}, {B}]", [HAS_A, HAS_B]),
    "one": ("0.5", f"[{A}, {B}]", ["P>=0.95 [ (F contains_1 = 1) | (F contains_2 = 1) ]"]),
    "two of three": (
        "0.6",
        f"[{A}, {B}, {{type: not-regex, value: c}}]",
        [
            "P>=0.95 [ ((F contains_1 = 1) & (F contains_2 = 1)) | "
            "((F contains_1 = 1) & (F (G matches_1 != 1))) | "
            "((F contains_2 = 1) & (F (G matches_1 != 1))) ]"
        ],
    ),
    "weights": (
        "0.5",
        "[{type: contains, value: a, weight: 2}, {type: is-json}, {type: contains, value: c}]",
        ["P>=0.95 [ (F contains_1 = 1) | ((F (G json_1 = 2)) & (F contains_2 = 1)) ]"],
    ),
    "metric": ("0.5", f"[{A}, {B}, {{type: cost, weight: 0}}]", None),
    "sum": (
        "0.6",
        "[" + ", ".join(f"{{type: not-contains, value: {name}}}" for name in "abcde") + "]",
        [
            "P>=0.95 [ F (G (1 - contains_1) + (1 - contains_2) + (1 - contains_3) + "
            "(1 - contains_4) + (1 - contains_5) >= 3) ]"
        ],
    ),
    "weighted sum": (
        "0.5",
        "["
        + ", ".join(f"{{type: contains, value: {n}, weight: 0.5}}" for n in "abcdef")
        + ", {type: contains, value: g, weight: 1.5}]",
        [
            "P>=0.95 [ F (G 2 * contains_1 + 2 * contains_2 + 2 * contains_3 + 2 * contains_4 + "
            "2 * contains_5 + 2 * contains_6 + 6 * contains_7 >= 9) ]"
        ],
    ),
    "twice": ("1", f"[{A}, {A}]", [HAS_A]),
    "equal in Python": (
        "null",
        "[{type: equals, value: [1]}, {type: equals, value: [true]}]",
        [{"json": {"const": [1]}}, {"json": {"const": [True]}}],
    ),
    "properties equal in Python": (
        "0.5",
        "[{type: equals, value: [1]}, {type: equals, value: [true]}]",
        ["P>=0.95 [ (F (G json_1 = 2)) | (F (G json_2 = 2)) ]"],
    ),
    "set": (
        "0.5",
        f"[{A}, {{type: assert-set, assert: [{B}, {C}]}}]",
        ["P>=0.95 [ (F contains_1 = 1) | ((F contains_2 = 1) & (F contains_3 = 1)) ]"],
    ),
    "set of all": (
        "null",
        f"[{A}, {{type: assert-set, assert: [{B}, {C}]}}]",
        [HAS_A, HAS_B, HAS_C],
    ),
    "set of one": (
        "null",
        f"[{A}, {{type: assert-set, threshold: 0.5, assert: [{B}, {C}]}}]",
        [HAS_A, "P>=0.95 [ (F contains_1 = 1) | (F contains_2 = 1) ]"],
    ),
}


@pytest.mark.few(5)
@pytest.mark.parametrize("form", THRESHOLDS)
def test_a_threshold_is_one_requirement_on_its_assertions(tmp_path, form):
    """Exactly the sets of assertions whose weighted share reaches the threshold satisfy it."""
    threshold, assertions, expected = THRESHOLDS[form]
    text = f"""
prompts: [hi]
tests:
  - threshold: {threshold}
    assert: {assertions}
"""
    converted = convert(tmp_path, text)
    expected = expected or ["P>=0.95 [ (F contains_1 = 1) | (F contains_2 = 1) ]"]
    assert converted.requirements == [expected]


@pytest.mark.parametrize(
    ("threshold", "assertions", "reason"),
    [
        ("0", f"[{A}]", "the threshold is reached by every answer"),
        ("1.5", f"[{A}]", "no answer reaches the threshold"),
        ("0.5", f"[{A}, {{type: cost}}]", "not all of its assertions are converted"),
        ("0.5", f"[{A}, {{type: is-refusal}}]", "the score of an assertion is not 0 or 1"),
        ("0.5", "[{type: cost, weight: 0}]", "not all of its assertions are converted"),
        ("half", f"[{A}]", "the threshold is 'half', which is no number"),
    ],
)
def test_a_threshold_that_is_not_exact_is_listed(tmp_path, threshold, assertions, reason):
    """Nothing of such a test is required, and the line of its threshold is listed."""
    text = f"""
prompts: [hi]
tests:
  - threshold: {threshold}
    assert: {assertions}
"""
    message = refuse(tmp_path, text)
    assert reason in message
    assert "line 4: " in message


def holds(query: str, suite: Suite, text: str) -> bool:
    """Whether a query on quantifiers of 0 and 1 holds for a whole answer, by Python's operators."""
    path = query.removeprefix("P>=0.95 [ ").removesuffix(" ]")
    for case in suite.cases:
        for name, quantifier in case.question.asked.quantifiers.items():
            path = re.sub(rf"\b{name}\b", str(quantifier("", text)), path)
    path = re.sub(r"(?<![!><])=", "==", re.sub(r"\b[FG]\b", "", path))
    return eval(path.replace("&", " and ").replace("|", " or "))


@pytest.mark.few(6)
@pytest.mark.parametrize("threshold", [0.2, 0.34, 0.5, 0.61])
@pytest.mark.parametrize("weights", [(1, 1, 1), (3, 1, 1.5), (1, 1, 1, 1, 1), (0.1, 0.2, 0.3, 2)])
def test_a_threshold_has_the_truth_of_the_weighted_share(tmp_path, threshold, weights):
    """For each set of texts in an answer, the formula is true if and only if the share suffices."""
    letters = "abcde"[: len(weights)]
    assertions = [
        {"type": "not-contains" if letter == "b" else "contains", "value": letter, "weight": weight}
        for letter, weight in zip(letters, weights, strict=True)
    ]
    tests = [{"threshold": threshold, "assert": assertions}]
    converted = convert(tmp_path, f"prompts: [hi]\ntests: {json.dumps(tests)}\n")
    (query,) = converted.content["cases"][0]["require"]
    for size in range(len(letters) + 1):
        for chosen in itertools.combinations(letters, size):
            satisfied = [(letter in chosen) != (letter == "b") for letter in letters]
            score = sum(w for w, is_true in zip(weights, satisfied, strict=True) if is_true)
            expected = score / sum(weights) >= threshold
            assert holds(query, converted.suite, "".join(chosen)) == expected


@pytest.mark.parametrize(
    "texts", [(" he", " she", " it"), (" he", " she", " it", " he he", " it it")]
)
def test_the_verdict_of_a_threshold_is_certain_and_right(tmp_path, texts):
    """The probability that half of the texts occur is that of the enumeration of all answers."""
    chances = {" he": 0.25, " she": 0.25, " it": 0.5}
    share = sum(
        math.prod(chances[word] for word in words)
        for words in itertools.product(chances, repeat=3)
        if sum(text in "".join(words) for text in texts) >= len(texts) / 2
    )
    tests = [{"threshold": 0.5, "assert": [{"type": "contains", "value": t} for t in texts]}]
    provider = '{"id": "x", "config": {"max_tokens": 3}}'
    (tmp_path / "p.yaml").write_text(
        f"prompts: [hi]\nproviders: {provider}\ntests: {json.dumps(tests)}\n"
    )
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}")
    for probability, status in ((share - 0.01, Status.HOLDS), (share + 0.01, Status.VIOLATED)):
        conversion = convert_promptfoo(tmp_path / "p.yaml", Decimal(f"{probability:.4f}"))
        # a table model continues a text
        text = conversion.text.replace('user: "hi"', 'start: "once"')
        (tmp_path / "suite.yaml").write_text(text, encoding="utf-8")
        (result,) = run(load_suite(tmp_path / "suite.yaml")).results
        assert (result.status, result.is_certain) == (status, True), result.error


def test_equal_properties_have_one_name_and_others_have_numbers(tmp_path):
    """Queries of several tests name the settings of their own assertions."""
    text = f"""
prompts: [hi]
tests:
  - {{threshold: 0.5, assert: [{A}, {B}]}}
  - {{threshold: 0.5, assert: [{B}, {C}]}}
"""
    converted = convert(tmp_path, text)
    assert converted.requirements[1] == ["P>=0.95 [ (F contains_2 = 1) | (F contains_3 = 1) ]"]
    patterns = {name: keys["pattern"] for name, keys in converted.content["properties"].items()}
    assert patterns == {"contains_1": "a", "contains_2": "b", "contains_3": "c"}


HEADER = "x,__expected"
ROWS = {
    "contains": ("contains: Yes", {"contains": "Yes"}),
    "variable": ("contains:{{x}}", {"contains": "q"}),
    "text": ("Yes: no", {"equals": "Yes: no"}),
    "equals": ("equals:Yes", {"equals": "Yes"}),
    "not": ("not-contains:No", {"not_contains": "No"}),
    "list": ('"contains-any:a, b"', {"contains_any": ["a", "b"]}),
    "open quote": (
        '"contains-any:""a"',
        "contains-any: a quote of the value is not closed before a comma",
    ),
    "regex": (r"regex:^\w", {"matches": "^[0-9A-Za-z_]"}),
    "starts": ("starts-with:a", {"starts_with": "a"}),
    "JSON": ("is-json", {"json": True}),
    "schema": (
        '"is-json:{""type"": ""array""}"',
        {"json": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array"}},
    ),
    "program": ("javascript:output.length", "javascript has no counterpart"),
    "function": ("fn:output.length", "javascript has no counterpart"),
    "python": ("python:len(output)", "python has no counterpart"),
    "program in a file": ("file://check.py:get", "python has no counterpart"),
    "rubric": ("agent-rubric:polite", "agent-rubric has no counterpart"),
    "similar": ("similar(0.8):a", "similar has no counterpart"),
    "distance": ("levenshtein(5):a", "levenshtein has no counterpart"),
    "no value": ("contains", "contains has no value"),
}


@pytest.mark.parametrize("form", ROWS)
def test_expected_cells_are_assertions(tmp_path, form):
    """Each prefix of a cell is its assertion; what has no counterpart is listed with its row."""
    cell, expected = ROWS[form]
    text = "prompts: ['{{x}}']\ntests: t.csv\n"
    files = {"t.csv": f'{HEADER},__expected2\n"k\nk",contains:kept,\nq,{cell},\n'}
    converted = convert(tmp_path, text, files)
    if isinstance(expected, str):
        assert converted.requirements == [[{"contains": "kept"}]]
        # the first row has two lines
        assert f"t.csv, line 4: {expected}" in converted.listed
    else:
        assert converted.prompts == ["k\nk", "q"]
        assert converted.requirements == [[{"contains": "kept"}], [expected]]
        assert converted.listed == ()


def test_a_list_in_a_cell_is_split_before_its_variables_are_inserted(tmp_path):
    """A comma in a variable separates no texts of `contains-any:{{x}}`."""
    rows = 'x,__expected\n"a, b","contains-any:{{x}}, ""c, d"""\n'
    converted = convert(tmp_path, "prompts: ['{{x}}']\ntests: t.csv\n", {"t.csv": rows})
    assert converted.requirements == [[{"contains_any": ["a, b", "c, d"]}]]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("x,_expected1", "t.csv, line 1: the column _expected1 is a variable; write __expected1"),
        ("x;__expected,a", "t.csv, line 1: the columns x;__expected are one; separate columns by"),
    ],
)
def test_a_column_that_is_no_assertion_is_listed(tmp_path, header, reason):
    """A single underscore, or another separator than a comma, makes a variable."""
    text = "prompts: [hi]\ntests: t.csv\ndefaultTest: {assert: [{type: contains, value: a}]}\n"
    converted = convert(tmp_path, text, {"t.csv": f"{header}\nb,contains:b\n"})
    assert converted.listed[0].startswith(reason)
    assert len(converted.listed) == 1


@pytest.mark.parametrize("name", ["promptfooconfig.js", "c.ts", "c.py", "tests.csv"])
def test_a_configuration_in_a_program_is_refused(tmp_path, name):
    """A configuration that is no YAML and no JSON is refused by its name, and does not run."""
    (tmp_path / name).write_text("prompts: [hi]")
    with pytest.raises(ConfigError, match=f"{name}: a configuration is YAML or JSON"):
        convert_promptfoo(tmp_path / name, Decimal("0.5"))


def test_a_prompt_that_no_values_make_convertible_is_listed_once_with_its_line(tmp_path):
    """A template without a counterpart is the prompt's fault, and a missing variable the test's."""
    text = """prompts:
- '{{x | sort}}'
- '{{y}}'
- '{{x}}'
tests:
- {vars: {x: a, y: b}, assert: [{type: contains, value: a}]}
- {vars: {x: a}, assert: [{type: contains, value: a}]}
"""
    assert convert(tmp_path, text).listed == (
        "line 2: the filter sort of the template has no counterpart",
        "line 7: the prompt in line 3: the variable y has no value",
    )


def test_columns_with_underscores_are_keys_of_the_test(tmp_path):
    """Prefix, suffix, description and threshold of a row apply; metrics and metadata do not."""
    text = """
prompts: ['{{tone}}: {{x}}']
defaultTest: { vars: { tone: Politely }, assert: [{ type: icontains, value: z }] }
tests: file://t.csv
"""
    table = (
        "x, __expected1 ,__expected2,__prefix,__suffix,__description,__threshold,__metric,"
        "__metadata:topic\n"
        '"Is ""it"" so, or not?",contains:a,contains:b,> , <,first,0.3,m,t\n'
        "b,,contains:c,,,,,,\n"
    )
    converted = convert(tmp_path, text, {"t.csv": table})
    assert converted.prompts == ['> Politely: Is "it" so, or not? <', "Politely: b"]
    assert [entry["name"] for entry in converted.content["cases"]] == ["first", "row 2"]
    assert converted.requirements == [
        ["P>=0.95 [ (F contains_1 = 1) | (F contains_2 = 1) | (F contains_3 = 1) ]"],
        [{"icontains": "z"}, {"contains": "c"}],
    ]
    assert converted.listed == ()


def test_rows_that_cannot_run_are_listed(tmp_path):
    """A row with a given output, or with another number of cells, is listed with its line."""
    text = "prompts: ['{{x}}']\ntests: t.csv\n"
    table = f"{HEADER},__providerOutput\na,contains:a,given\nb,contains:b\nc,contains:c,\n"
    converted = convert(tmp_path, text, {"t.csv": table})
    assert converted.prompts == ["c"]
    assert [listed.partition(": ")[0] for listed in converted.listed] == [
        "t.csv, line 2",
        "t.csv, line 3",
    ]


KEPT = "{vars: {x: a}, assert: [{type: contains, value: b}]}"
TESTS = {
    "one": (f"tests: {KEPT}", {}, ["a"]),
    "file in a list": ("tests: [file://t.yaml]", {"t.yaml": f"- {KEPT}\n- {KEPT}"}, ["a", "a"]),
    "file": ("tests: t.yaml", {"t.yaml": f"- {KEPT}"}, ["a"]),
    "pattern": ("tests: [t/*.yaml]", {"t/1.yaml": f"- {KEPT}", "t/2.yaml": KEPT}, ["a", "a"]),
    "folder": (
        "tests: file://t/",
        {"t/2.yml": f"- {KEPT}", "t/1.yaml": KEPT, "t/u/3.yaml": KEPT},
        ["a", "a"],
    ),
    "pattern with a scheme": ("tests: file://*.t.yaml", {"1.t.yaml": f"[{KEPT}]"}, ["a"]),
    "JSON": (
        "tests: file://t.json",
        {"t.json": '[{"vars": {"x": "a"}, "assert": [{"type": "contains", "value": "b"}]}]'},
        ["a"],
    ),
    "JSON lines": (
        "tests: t.jsonl",
        {"t.jsonl": '{"vars": {"x": "a"}, "assert": [{"type": "contains", "value": "b"}]}\n'},
        ["a"],
    ),
    "path": ("tests: {path: t.csv}", {"t.csv": f"{HEADER}\na,contains:b\n"}, ["a"]),
    "CSV in a list": (
        f"tests: [{KEPT}, t.csv]",
        {"t.csv": f"\ufeff{HEADER}\nc,contains:b\n"},
        ["a", "c"],
    ),
    "none": (
        "defaultTest: {vars: {x: a}, assert: [{type: contains, value: b}]}",
        {},
        ["a"],
    ),
    "default in a file": (
        "defaultTest: file://d.yaml\ntests: [{vars: {x: a}}]",
        {"d.yaml": "assert: [{type: contains, value: b}]"},
        ["a"],
    ),
    "scenario": (
        "scenarios:\n- config: [{vars: {x: a}}, {vars: {x: c}}]\n"
        "  tests: [{assert: [{type: contains, value: b}]}]",
        {},
        ["a", "c"],
    ),
    "anchor": (
        f"tests:\n- &t {KEPT}\n- {{<<: *t, vars: {{x: c}}}}",
        {},
        ["a", "c"],
    ),
    "reference": (
        "assertionTemplates: {t: {type: contains, value: b}}\n"
        "tests: [{vars: {x: a}, assert: [{$ref: '#/assertionTemplates/t'}]}]",
        {},
        ["a"],
    ),
    "prefix": (
        f"defaultTest: {{options: {{prefix: '> ', suffix: '.'}}}}\ntests: [{KEPT}]",
        {},
        ["> a."],
    ),
    "empty prefix": (
        "defaultTest: {options: {prefix: '> '}, assert: [{type: contains, value: b}]}\n"
        "tests: t.csv",
        {"t.csv": "x,__prefix\na,\nc,! \n"},
        ["> a", "! c"],
    ),
    "no expansion": (
        "tests: [{vars: {x: [a, b]}, options: {disableVarExpansion: true},"
        " assert: [{type: contains, value: b}]}]",
        {},
        ["a,b"],
    ),
    "without defaults": (
        "defaultTest: {assert: [{type: cost}]}\n"
        "tests: [{vars: {x: a}, options: {disableDefaultAsserts: true},"
        " assert: [{type: contains, value: b}]}]",
        {},
        ["a"],
    ),
}


@pytest.mark.parametrize("form", TESTS)
def test_tests_are_read_from_all_places(tmp_path, form):
    """Each form of tests becomes its cases with all their variables and assertions."""
    tests, files, prompts = TESTS[form]
    converted = convert(tmp_path, f"prompts: ['{{{{x}}}}']\n{tests}\n", files)
    assert converted.prompts == prompts
    assert converted.requirements == [[{"contains": "b"}]] * len(prompts)
    assert converted.listed == ()


UNREAD = {
    "service": (
        f"[{KEPT}, 'huggingface://datasets/a/b']",
        "line 2: huggingface://datasets/a/b: tests",
    ),
    "sheet": (
        f"[{KEPT}, 'https://docs.google.com/spreadsheets/d/x']",
        "line 2: https://docs.google",
    ),
    "program": (f"[{KEPT}, 'file://t.py:make']", "line 2: file://t.py:make: tests of a program"),
    "workbook": (f"[{KEPT}, t.xlsx]", "line 2: t.xlsx: tests in files of this kind are not read"),
    "absent": (f"[{KEPT}, file://no.csv]", "line 2: file://no.csv: there is no such file"),
    "folder of texts": (f"[{KEPT}, file://t/]", "line 2: t/: the folder has no YAML files"),
    "text in a folder": ("file://u/", "line 2: u/b.txt: of a folder, YAML files are read"),
    "number": (f"[{KEPT}, 5]", "line 2: the test 5 has no keys"),
    "transform": (
        f"[{KEPT}, {{options: {{transform: output.trim()}}, assert: [{A}]}}]",
        "line 2: the test with transform is not converted",
    ),
    "variables of a program": (
        f"[{KEPT}, {{options: {{transformVars: x}}, assert: [{A}]}}]",
        "line 2: the test with transformVars is not converted",
    ),
    "provider": (
        f"[{KEPT}, {{provider: 'openai:x', assert: [{A}]}}]",
        "line 2: the test with provider is not converted",
    ),
    "given output": (
        f"[{KEPT}, {{providerOutput: a, assert: [{A}]}}]",
        "line 2: the test with providerOutput is not converted",
    ),
    "score": (
        f"[{KEPT}, {{assertScoringFunction: 'file://s.js', assert: [{A}]}}]",
        "line 2: the test with assertScoringFunction is not converted",
    ),
    "no assertion": (
        f"[{KEPT}, {{vars: {{x: a}}}}]",
        "line 2: the test has no assertion that could",
    ),
    "unknown key": (
        f"[{KEPT.removesuffix('}')}, color: red}}]",
        "line 2: color of a test has no counterpart",
    ),
    "stored output": (
        f"[{KEPT.removesuffix('}')}, options: {{storeOutputAs: y}}}}]",
        "line 2: the option storeOutputAs of a test has no counterpart",
    ),
    "no such prompt": (
        f"[{KEPT}, {{vars: {{x: a}}, prompts: [other], assert: [{A}]}}]",
        "line 2: the test selects none of the converted prompts",
    ),
}


UNREAD_FILES = {"t.xlsx": "PK", "t/a.txt": "", "u/b.txt": "", "u/c.yaml": KEPT}


@pytest.mark.parametrize("form", UNREAD)
def test_tests_without_a_counterpart_are_listed_with_their_line(tmp_path, form):
    """The other tests are converted, and such a test is listed with its line and reason."""
    tests, reason = UNREAD[form]
    converted = convert(tmp_path, f"prompts: ['{{{{x}}}}']\ntests: {tests}\n", UNREAD_FILES)
    assert converted.prompts == ["a"]
    (listed,) = converted.listed
    assert listed.startswith(reason)


def test_prompts_are_selected_by_label(tmp_path):
    """A test or the first provider names labels, and the other prompts are not its cases."""
    text = f"""
prompts: [{{raw: A, label: 'group:a'}}, {{raw: B, label: b}}, C]
providers: [{{id: x, prompts: [group, b]}}]
tests: [{{prompts: ['g*'], assert: [{A}]}}, {{assert: [{A}]}}]
"""
    assert convert(tmp_path, text).prompts == ["A", "A", "B"]


PROVIDERS = {
    "settings": (
        "[{id: 'openai:x', config: {temperature: 0.2, top_p: 0.9, max_tokens: 20}}]",
        {"decoding": {"temperature": 0.2, "top_p": 0.9}, "length": 20},
        ["line 2: openai:x: providers are not converted"],
    ),
    "greedy": (
        "{id: x, config: {temperature: 0}}",
        {"decoding": "greedy", "length": 40},
        ["line 2: x: providers"],
    ),
    "second": (
        "[x, {id: y, config: {temperature: 0.7}}]",
        {"length": 40},
        ["line 2: x: providers are not", "line 2: y (temperature 0.7): only the settings of"],
    ),
    "old form": (
        "[{'openai:x': {config: {temperature: 0.5}}}]",
        {"decoding": {"temperature": 0.5}, "length": 40},
        ["line 2: openai:x: providers"],
    ),
    "other settings": (
        "[{id: x, config: {stop: [a], apiKey: secret, max_tokens: 20000}}]",
        {"length": 40},
        [
            "line 2: x: providers",
            "line 2: stop of the provider has no counterpart",
            "line 2: max_tokens 20000 has no counterpart",
        ],
    ),
}


@pytest.mark.parametrize("form", PROVIDERS)
def test_the_first_provider_gives_decoding_and_length(tmp_path, form):
    """Only the first provider's settings are those of the suite; all others are listed."""
    providers, expected, listed = PROVIDERS[form]
    converted = convert(
        tmp_path, f"prompts: [a]\nproviders: {providers}\ntests: [{{assert: [{A}]}}]"
    )
    settings = {key: converted.content.get(key) for key in ("decoding", "length")}
    assert {key: value for key, value in settings.items() if value is not None} == expected
    assert len(converted.listed) == len(listed)
    for reason in listed:
        assert any(line.startswith(reason) for line in converted.listed), converted.listed
    assert "secret" not in str(converted.content) + str(converted.listed)


def test_a_prompt_that_the_first_provider_does_not_select_is_listed(tmp_path):
    """Each prompt that the first provider does not select is listed with its line."""
    text = f"prompts:\n- a\n- b\nproviders: [{{id: x, prompts: [b]}}]\ntests: [{{assert: [{A}]}}]"
    converted = convert(tmp_path, text)
    assert "line 2: the first provider does not select the prompt" in converted.listed
    assert [case["user"] for case in converted.content["cases"]] == ["b"]


def test_a_transform_of_the_provider_concerns_all_assertions(tmp_path):
    """Assertions on a changed output are not converted to requirements on the answer."""
    text = f"""
prompts: [a]
providers: [{{id: x, transform: output.trim()}}]
tests: [{{assert: [{A}]}}]
"""
    assert "line 3: transform: a program of the provider changes" in refuse(tmp_path, text)


def test_keys_of_the_configuration_without_a_counterpart_are_listed(tmp_path):
    """Keys that could change a verdict are listed, and keys that cannot are not."""
    text = f"""
$schema: https://promptfoo.dev/config-schema.json
description: d
tags: {{a: b}}
env: {{A: b}}
evaluateOptions: {{maxConcurrency: 3}}
outputPath: out.json
prompts: [a]
tests: [{{metadata: {{a: b}}, assert: [{A}]}}]
derivedMetrics: [{{name: a, value: b}}]
redteam: {{plugins: [a]}}
extensions: [file://hook.js]
nunjucksFilters: {{upper: upper.js}}
commandLineOptions: {{promptPrefix: a}}
"""
    assert [listed.split()[1:3] for listed in convert(tmp_path, text).listed] == [
        ["10:", "derivedMetrics"],
        ["11:", "redteam"],
        ["12:", "extensions"],
        ["13:", "nunjucksFilters"],
        ["14:", "promptPrefix"],
    ]


@pytest.mark.long
def test_too_many_combinations_are_an_error(tmp_path):
    """The number of prompts, tests and values is limited, also of those without a counterpart."""
    lists = ", ".join(f"v{i}: [a, b, c, d]" for i in range(8))
    message = refuse(
        tmp_path, f"prompts: ['{{{{x}}}}']\ntests: [{{vars: {{{lists}}}, assert: [{A}]}}]"
    )
    assert "promptfooconfig.yaml, line 2: over 10,000 cases; split the tests" in message


def test_long_prompts_with_many_lines_are_written_at_once(tmp_path):
    """A text with any line ends and spaces is read as it was, in a time linear in its length."""
    words = " ".join(["word"] * 200)
    texts = [
        f"a\n\n  {words}\n{words}.",
        f"{words} \n{words}",
        "a\tb\n\u2028c\x85d\r\ne",
        "\n\na\n",
    ]
    tests = [
        {"vars": {"x": text}, "assert": [{"type": "contains", "value": text}]} for text in texts
    ]
    converted = convert(
        tmp_path, "prompts: ['{{x}}.']\ntests: t.json\n", {"t.json": json.dumps(tests)}
    )
    rendered = [text.removesuffix("\n") for text in texts]
    assert converted.prompts == [f"{text}." for text in rendered]
    # the value of an assertion is rendered too
    assert converted.requirements == [[{"contains": text}] for text in texts]
    assert [case.prompt for case in converted.suite.cases] == converted.prompts


def test_names_are_unique_and_printable(tmp_path):
    """Each case has the description of its test, with a number where it is not the first."""
    text = f"""
prompts: [a, b]
tests:
  - {{description: greeting, assert: [{A}]}}
  - {{description: greeting, assert: [{A}]}}
  - {{description: "two\\nlines", assert: [{A}]}}
"""
    names = [entry["name"] for entry in convert(tmp_path, text).content["cases"]]
    assert names == ["greeting", "greeting, 2", "two lines"]


TOO_LONG = "x" * 100_001


@pytest.mark.parametrize(
    ("prompts", "entries", "names"),
    [
        ("[A, '{{q}}']", [["A", "B"]], ["t, prompt 1", "t, prompt 2"]),
        (
            "[{raw: A, label: ' long  one'}, {raw: '{{q}}', label: short}]",
            [{"long one": "A", "short": "B"}],
            ["t, long one", "t, short"],
        ),
        ("[{raw: A, label: a}, '{{q}}']", [["A", "B"]], ["t, prompt 1", "t, prompt 2"]),
        ("[A]", ["A"], ["t"]),
        ("[B, '{{q}}']", ["B", "B"], ["t", "t, 2"]),
        ("""['[{"role": "user", "content": "A"}]', '{{q}}']""", [["A", "B"]], ["t, prompt 1"]),
        (
            """['[{"role": "system", "content": "S"}, {"role": "user", "content": "A"}]', B]""",
            [None, "B"],
            ["t", "t, 2"],
        ),
        (f"[A, {TOO_LONG}]", ["A"], ["t, prompt 1"]),
    ],
    ids=["texts", "labels", "one label", "one", "equal", "chat of one", "chat", "too long"],
)
def test_prompts_become_the_forms_of_one_entry(tmp_path, prompts, entries, names):
    """A test has one entry with all prompts that are distinct texts, named by their labels."""
    text = f"prompts: {prompts}\ntests: [{{description: t, vars: {{q: B}}, assert: [{A}]}}]"
    converted = convert(tmp_path, text)
    assert [entry.get("user") for entry in converted.content["cases"]] == entries
    assert [case.subject for case in converted.suite.cases][: len(names)] == names
    assert ("100,001 characters" in "".join(converted.listed)) is (TOO_LONG in text)


def test_a_configuration_in_flow_style_is_converted(tmp_path):
    """In flow style too, a question mark is a part of a text, and tabs indent JSON."""
    text = """
{prompts: [Is it?, '{{q}}'], tests: [
	{vars: {q: who?, a: b}, assert: [{type: contains, value: yes?}]},
]}
"""
    converted = convert(tmp_path, text)
    assert converted.prompts == ["Is it?", "who?"]
    assert converted.requirements == [[{"contains": "yes?"}]]
    assert converted.listed == ()


def test_every_yaml_reader_sees_texts(tmp_path):
    """Texts are in quotes, so that no reader takes them for numbers, dates or truth values."""
    words = ["yes", "010", "1:30", "2024-01-31", "null", "1e3", "a: b", "# c", " d", "e\n\nf \ng"]
    tests = [{"vars": {"x": w}, "assert": [{"type": "equals", "value": w}]} for w in words]
    (tmp_path / "tests.json").write_text(json.dumps(tests))
    (tmp_path / "p.yaml").write_text("prompts: ['{{x}}']\ntests: tests.json\n")
    conversion = convert_promptfoo(tmp_path / "p.yaml", Decimal("0.95"))
    # the loader reads every plain scalar as a text, and PyYAML's safe one as YAML 1.1
    plain = yaml.load(conversion.text, yaml.BaseLoader)["cases"]
    for cases in (plain, yaml.safe_load(conversion.text)["cases"]):
        assert [case["user"] for case in cases] == words
        assert [case["require"][0]["equals"] for case in cases] == words


def test_a_reason_cannot_leave_its_comment(tmp_path):
    """A name with line ends from the configuration stays on one line of the comment."""
    text = f"""
prompts: [a]
"evil\\nmodel: other": 1
tests: [{{assert: [{A}]}}]
"""
    converted = convert(tmp_path, text)
    assert converted.listed == ("line 3: evil model: other has no counterpart",)
    assert converted.content["model"] == "m"


def test_the_probability_is_that_of_the_command(tmp_path):
    """The decimal number is written as given."""
    (tmp_path / "p.yaml").write_text(f"prompts: [a]\ntests: [{{assert: [{A}]}}]")
    text = convert_promptfoo(tmp_path / "p.yaml", Decimal("0.999")).text
    assert "    at_least: 0.999\n" in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("prompts: [hi]\ntests: []\n", "line 1: the test has no assertion"),
        (
            "prompts: [hi]\ntests: [{ assert: [{ type: cost }] }]\n",
            "line 2: cost has no counterpart",
        ),
        (
            "prompts: [file://a.js]\ntests: [{ assert: [{ type: is-json }] }]\n",
            "line 1: file://a.js",
        ),
        ("tests: [{ assert: [{ type: is-json }] }]\n", "line 1: the variable prompt has no value"),
        (
            "prompts: []\ntests: [{ assert: [{ type: is-json }] }]\n",
            "line 1: the configuration has no prompts",
        ),
        ("[]", "the file is not a mapping; write keys and values"),
        ("a: [}", "line 1: not YAML"),
        ("a: 1\na: 2", "line 2: the key 'a' is also in line 1"),
        ("a: !!python/object:os.system 1", "line 1: the tag !!python/object:os.system is not"),
        ("a: &a [*a]", "line 1: this value contains itself"),
    ],
)
def test_a_file_without_convertible_tests_is_refused_with_all_reasons(tmp_path, text, reason):
    """If nothing can be converted, no suite is written; the message has all lines and reasons."""
    assert reason in refuse(tmp_path, text)


GRADED = {
    "llm-rubric": (
        "{type: llm-rubric, value: 'is about {{x}}'}",
        {"question": "Does the text meet this rubric? is about q", "of": "continuation"},
    ),
    "negated": (
        "{type: not-llm-rubric, value: rude}",
        {"question": "Does the text meet this rubric? rude", "of": "continuation"},
    ),
    "closed": (
        "{type: model-graded-closedqa, value: polite}",
        {"question": "Does the text meet this criterion? polite", "of": "text"},
    ),
    "factuality": (
        "{type: factuality, value: 'It is {1}.'}",
        {
            "question": "Is the text free of contradictions to this expert answer? It is {1}.",
            "of": "text",
        },
    ),
    "relevance": (
        "{type: answer-relevance, threshold: 0.9}",
        {"question": "Does the text answer the prompt?", "of": "text"},
    ),
    "g-eval": (
        "{type: g-eval, value: [polite, short]}",
        {"rubric": "polite\nshort", "scale": "1 to 5", "of": "text", "grade": 4},
    ),
    "g-eval with a threshold": (
        "{type: g-eval, value: polite, threshold: 0.75}",
        {"rubric": "polite", "scale": "1 to 5", "of": "text", "grade": 4},
    ),
    "strict g-eval": (
        "{type: g-eval, value: polite, threshold: 0.76}",
        {"rubric": "polite", "scale": "1 to 5", "of": "text", "grade": 5},
    ),
}


@pytest.mark.parametrize("form", GRADED)
def test_graded_assertions_are_judges(tmp_path, form):
    """Each is a plain question to a judge of its own, which `test` accepts, and is listed."""
    assertion, settings = GRADED[form]
    text = f"prompts: [hi]\ntests:\n- vars: {{x: q}}\n  assert:\n  - {assertion}\n"
    converted = convert(tmp_path, text)
    name = "not_judge" if form == "negated" else "judge"
    expected = {name: {"model": "./judge", **settings}}
    assert converted.requirements == [[expected]]
    (listed,) = converted.listed
    assert "put a chat model into ./judge" in listed
    (case,) = converted.suite.cases
    (quantifier,) = case.question.asked.quantifiers.values()
    assert quantifier.model.name == "judge"
