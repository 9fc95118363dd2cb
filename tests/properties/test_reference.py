"""The reference of types and query forms: complete, parsable, and as the documents have it."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from llmchecker.properties.logic.parser import parse
from llmchecker.properties.reference import PATH_FORMS, QUANTIFIER_TYPES, QUERY_FORMS
from llmchecker.properties.registry import BUILTIN_TYPES

DOCS = Path(__file__).parents[2] / "docs/reference"


def test_every_type_has_a_reference():
    """The reference has the built-in types and no others."""
    assert set(QUANTIFIER_TYPES) == set(BUILTIN_TYPES)


@pytest.mark.parametrize("name", QUANTIFIER_TYPES)
def test_the_settings_of_a_type_are_the_fields_of_its_class(name):
    """A reference names each setting of the type once."""
    names = [field.name.rstrip("_") for field in fields(BUILTIN_TYPES[name].load()) if field.init]
    assert sorted(QUANTIFIER_TYPES[name].settings) == sorted(names)


def test_the_page_on_properties_has_the_same_types():
    """The page describes each type by the summary of the reference, in its order."""
    text = (DOCS / "quantifiers.md").read_text(encoding="utf-8")
    section = " ".join(text.split("\n## Types\n")[1].split("\n\n`gender` and")[0].split())
    entries = re.findall(r"- `(\w+)`: (.*?)(?=\. |\.$)", section)
    assert entries == [(name, entry.summary) for name, entry in QUANTIFIER_TYPES.items()]


def test_the_page_on_queries_has_the_same_forms():
    """The table of forms of docs/reference/queries.md is that of the reference, in its order."""
    text = (DOCS / "queries.md").read_text(encoding="utf-8")
    table = text.split("\n## Forms\n")[1].split("| --- | --- |\n")[1].split("\n\n")[0]
    cells = [re.split(r"(?<!\\)\|", row)[1].replace("\\|", "|") for row in table.splitlines()]
    spans = [", ".join(re.findall(r"`([^`]+)`", cell)) for cell in cells]
    forms = [form.form for form in QUERY_FORMS]
    assert len(spans) == len(forms)
    assert all(map(str.startswith, spans, forms))


def test_the_page_on_queries_has_the_same_operators():
    """The tables of path formulas and atoms have the forms and examples of the reference."""
    text = (DOCS / "queries.md").read_text(encoding="utf-8").split("\n## Path formulas\n")[1]
    rows = [re.split(r"(?<!\\)\|", row) for row in re.findall(r"^\| .*`.*$", text, flags=re.M)]
    spans = [
        [[span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", cell)] for cell in row]
        for row in rows
    ]
    examples = [row[3][0] for row in spans]
    assert [form.example for form in PATH_FORMS] == examples[: len(PATH_FORMS)]
    assert set(spans[0][1]) == {"X φ"}
    assert examples[len(PATH_FORMS) :] == ['P=? [ F "rest" ]']


@pytest.mark.parametrize("form", QUERY_FORMS + PATH_FORMS, ids=lambda form: form.form)
def test_an_example_is_a_query(form):
    """Each example parses."""
    assert parse(form.example)
