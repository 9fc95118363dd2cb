"""Templates are rendered as by nunjucks 3.2.4, from which the expected texts are."""

import pytest

from llmchecker_promptfoo.report import NotConverted
from llmchecker_promptfoo.templates import render

VARIABLES = {
    "s": "hello wORld",
    "empty": "",
    "n": 3,
    "one": 1.0,
    "yes": True,
    "no": False,
    "nothing": None,
    "l": ["a", "b", "c"],
    "vacant": [],
    "d": {"k": "v", "deep": {"m": [1, 2]}},
    "objects": [{"name": "A"}, {"name": "B"}],
    "quoted": 'say "hi"\n',
}
TEMPLATES = [
    ("plain {a} $ \\ \r\n", "plain {a} $ \\ \r\n"),
    ("{{ s }}|{{n}}|{{one}}|{{yes}}|{{nothing}}", "hello wORld|3|1|true|"),
    ("{{ l }} {{ vacant }}.", "a,b,c ."),
    ("{{ d.k }}{{ d['k'] }}{{ d.deep.m[1] }}{{ l[0] }}{{ objects[1].name }}", "vv2aB"),
    ("{{ s | upper }} {{ s | lower }} {{ s | title }}", "HELLO WORLD hello world Hello World"),
    ("{{ s | capitalize }} {{ ' a ' | trim }}.", "Hello world a."),
    ("{{ undefined | default('D') }}{{ empty | d('D', true) }}{{ empty | d('D') }}", "DD"),
    (
        "{{ l | length }}{{ s | length }}{{ l | join('-') }}{{ l | first }}{{ l | last }}",
        "311a-b-cac",
    ),
    (
        "{{ s | replace('o', '0') }} {{ quoted | dump }} {{ d | dump }}",
        'hell0 wORld "say \\"hi\\"\\n" {"k":"v","deep":{"m":[1,2]}}',
    ),
    ("{% if vacant %}list{% endif %}{% if empty %}x{% else %}y{% endif %}", "listy"),
    ("{% if undefined %}a{% elif n > 2 and s %}b{% else %}c{% endif %}", "b"),
    (
        "{% if n == 3 %}a{% endif %}{% if s != 'x' %}b{% endif %}{% if 'a' in l %}c{% endif %}",
        "abc",
    ),
    ("{% if not no %}a{% endif %}{% if undefined is defined %}b{% endif %}", "a"),
    ("{{ 'a' if yes else 'b' }}{{ empty or 'c' }}{{ s ~ n }}", "achello wORld3"),
    (
        "{% for x in l %}{{ loop.index }}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
        "1a, 2b, 3c",
    ),
    (
        "{% for o in objects %}{{ o.name }}{% endfor %}"
        "{% for x in vacant %}{% else %}!{% endfor %}",
        "AB!",
    ),
    ("{% set x = n %}{{ x }}", "3"),
    ("a \n {{- s -}} \n b", "ahello wORldb"),
    ("a\n{% if yes -%}\n  b\n{%- endif %}\nc\n", "a\nb\nc\n"),
    ("{# a comment #}{% raw %}{{ s }}{% endraw %}", "{{ s }}"),
    ("{{ s | safe }}", "hello wORld"),
    ("""{{ ('{"k": [1.50, {}]}' | load).k[0] }}""", "1.5"),
]


@pytest.mark.parametrize(("template", "text"), TEMPLATES)
def test_a_template_is_rendered_as_by_nunjucks(template, text):
    """Names, filters, conditions, loops and white space have the meaning of nunjucks."""
    assert render(template, VARIABLES) == text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ undefined }}", "the variable undefined has no value"),
        ("{{ d.absent }}", "the variable d.absent has no value"),
        ("{{ d }}", r"the variable d: a mapping is inserted, as \[object Object\]"),
        ("{{ env.HOME }}", "env is the environment of promptfoo"),
        ("{{ _conversation }}", "_conversation contains earlier answers"),
        ("{{ s | load }}", "the filter load of the template: no JSON"),
        ("{{ s | sort }}", "the filter sort of the template has no counterpart"),
        ("{{ s | lower }}", "the filter lower of the template has no counterpart"),
        ("{{ s | safe }}", "the filter safe of the template has no counterpart"),
        ("{{ n + 1 }}", r"the operator \+ of the template has no counterpart"),
        ("{{ s.toUpperCase() }}", "a call of the template has no counterpart"),
        ("{% for i in range(9) %}{% endfor %}", "a call of the template has no counterpart"),
        ("{% for k, v in d %}{% endfor %}", "a loop of the template is not over a list"),
        ("{% include 'a' %}", "include of the template has no counterpart"),
        ("{% if n == '3' %}{% endif %}", "the template compares values of two types"),
        ("{% if not n == 3 %}{% endif %}", "the operator not of the template has no counterpart"),
        ("{% if s %}", "the template cannot be read"),
        ("{% if s\n%}a{% endif %}", "a tag of the template is not closed in its line"),
        ("{{ 'a\\n' }}", "a tag of the template has a backslash"),
        ("a\r\n{{- s }}", "the template removes white space between lines"),
    ],
)
def test_other_templates_are_not_converted(template, reason):
    """What has another meaning, or may run long, is refused with the reason."""
    with pytest.raises(NotConverted, match=reason):
        render(template, VARIABLES, frozenset({"lower", "safe"}))
