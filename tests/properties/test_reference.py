"""The reference of types and query forms: complete, parsable, and as the documents have it."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from llmchecker.errors import InvalidQuery
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


def test_the_page_on_quantifiers_has_the_same_types():
    """The table of types has the summary of each reference, in its order."""
    text = (DOCS / "quantifiers.md").read_text(encoding="utf-8")
    section = text.split("\n## Types\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| \[`(\w+)`\]\([\w.]*#\w+\) \| (.*?) \|", section, flags=re.M)
    assert rows == [(name, entry.summary) for name, entry in QUANTIFIER_TYPES.items()]


@pytest.mark.parametrize("name", QUANTIFIER_TYPES)
def test_the_page_on_quantifiers_has_each_setting(name):
    """The section of a type names each of its settings."""
    pages = [page.read_text(encoding="utf-8") for page in DOCS.glob("quantifiers*.md")]
    (text,) = [page for page in pages if re.search(rf"\n###? `{name}`\n", page)]
    section = re.split(rf"\n###? `{name}`\n", text)[1].split("\n## ")[0]
    assert all(f"`{setting}`" in section for setting in QUANTIFIER_TYPES[name].settings)


def read_rows(heading: str, table_number: int = 1) -> list[list[list[str]]]:
    """Read the spans of code of each cell in a table of a section on queries."""
    text = (DOCS / "queries.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = section.split("| --- |\n")[table_number].split("\n\n")[0]
    return [
        [
            [span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", cell)]
            for cell in re.split(r"(?<!\\)\|", row)[1:-1]
        ]
        for row in table.splitlines()
    ]


def test_the_page_on_queries_has_the_same_forms():
    """The table of forms of docs/reference/queries.md is that of the reference, in its order."""
    rows = read_rows("Forms")
    assert [row[2] for row in rows] == [[form.example] for form in QUERY_FORMS]
    assert all(
        ", ".join(row[0]).startswith(form.form) for row, form in zip(rows, QUERY_FORMS, strict=True)
    )


def test_the_page_on_queries_has_the_same_operators():
    """The tables of path formulas and atoms have the forms and examples of the reference."""
    rows = read_rows("Path formulas") + read_rows("Atoms")
    assert rows[0][0] == ["X φ"]
    examples = [example for row in rows for example in row[2]]
    assert examples == [*(form.example for form in PATH_FORMS), 'P=? [ F "rest" ]']


PRISM_FORMS = [query for row in read_rows("The manual of PRISM") for query in row[2]]
REFUSED_FORMS = read_rows("The manual of PRISM", 2)


@pytest.mark.parametrize("query", PRISM_FORMS)
def test_a_form_of_the_manual_is_a_query(query):
    """Each example in the table of PRISM's manual parses, and keeps its text."""
    assert str(parse(query)) == query


@pytest.mark.parametrize("query", [query for row in REFUSED_FORMS for query in row[1]])
def test_a_refused_form_of_the_manual_has_a_reason(query):
    """Each refused form in the table of PRISM's manual has a message that names another form."""
    with pytest.raises(InvalidQuery) as raised:
        parse(query)
    assert re.search("write|expected|remove|needs|takes|outermost|lists", str(raised.value))


@pytest.mark.parametrize("query", [query for row in REFUSED_FORMS for query in row[3]])
def test_the_form_to_write_instead_is_a_query(query):
    """Each form that the table of PRISM's manual has for a refused form parses."""
    assert parse(query)


@pytest.mark.parametrize("row", read_rows("Fairness"), ids=lambda row: row[1][0])
def test_the_formulas_on_fairness_are_queries(row):
    """Both forms of each fairness assumption parse."""
    assert all(map(parse, [*row[1], *row[2]]))


def test_the_page_on_queries_shows_the_message_of_a_mistake():
    """The query in the section on mistakes has the message that is shown."""
    text = (DOCS / "queries.md").read_text(encoding="utf-8")
    shown = text.split("\n## Mistakes\n")[1].split("```text\n")[1].split("\n```")[0]
    with pytest.raises(InvalidQuery) as raised:
        parse(shown.splitlines()[1].strip())
    assert str(raised.value) == shown


@pytest.mark.parametrize("form", QUERY_FORMS + PATH_FORMS, ids=lambda form: form.form)
def test_an_example_is_a_query(form):
    """Each example parses."""
    assert parse(form.example)
