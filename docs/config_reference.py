"""Write docs/config.md from the schema of a configuration:

    .venv/bin/python docs/config_reference.py

Everything that the page says of a key stands in the schema.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "src/llmchecker/config/config.schema.yaml"
PAGE = ROOT / "docs/config.md"

INTRODUCTION = """\
# Every key of a configuration

*Generated from
[`src/llmchecker/config/config.schema.yaml`](../src/llmchecker/config/config.schema.yaml) by
[`docs/config_reference.py`](config_reference.py): change the schema, then run it.*

A configuration is a YAML file, [`config.yaml`](../config.yaml) unless `--configfile` names another.
A `NAME` is chosen by whoever writes the file, `[]` is an entry of a list, and what is required is
so wherever the key above it is there. A key that is not listed stops a run before any job starts.
How to add a model, a text, a query or a quantifier is told in
[artefact.md](artefact.md#how-to-reuse-it), what alpha, k, L and queries mean in
[method.md](method.md).
"""
HEADER = "| key | what it is | type | default |\n| --- | --- | --- | --- |\n"
REQUIRED = "**required**"

Schema = Mapping[str, Any]


def page(schema: Schema) -> str:
    """The page: a section for each key of the top level, a row for each key below it."""
    sections = [INTRODUCTION]
    for key, value in schema["properties"].items():
        entry = resolved(value, schema)
        need = "Required." if key in schema["required"] else "May be left out."
        rows = "".join(rows_of(key, entry, schema))
        about = f"{sentence(entry['description'])} {need}"
        sections.append(f"## {key}\n\n{about}\n\n{HEADER}{rows}")
    return "\n".join(sections)


def rows_of(key: str, entry: Schema, root: Schema) -> Iterator[str]:
    """A row for each key below an entry, in the order of the schema."""
    others = entry.get("additionalProperties")
    if isinstance(others, Mapping):
        yield from rows_at(f"{key}.NAME", resolved(others, root), root, "")
    if "items" in entry:
        yield from rows_at(f"{key}[]", resolved(entry["items"], root), root, "")
    for name, value in entry.get("properties", {}).items():
        need = REQUIRED if name in entry.get("required", ()) else ""
        yield from rows_at(f"{key}.{name}", resolved(value, root), root, need)


def rows_at(key: str, entry: Schema, root: Schema, need: str) -> Iterator[str]:
    """A row for a key that holds a value, and rows for what is below it."""
    if "description" in entry:
        default = f"`{entry['default']}`" if "default" in entry else need
        about = sentence(entry["description"])
        yield f"| `{key}` | {cell(about)} | {cell(kind(entry))} | {default} |\n"
    yield from rows_of(key, entry, root)


def kind(entry: Schema) -> str:
    """Which values an entry allows."""
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    limits = [
        f"{word} {entry[limit]}"
        for limit, word in (
            ("exclusiveMinimum", "above"),
            ("minimum", "at least"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "below"),
        )
        if limit in entry
    ]
    types = [entry["type"]] if isinstance(entry["type"], str) else entry["type"]
    words = {"object": "keys", "array": "list", "string": "text"}
    name = " or ".join(words.get(name, name) for name in types)
    return ", ".join([name, *limits])


def resolved(entry: Schema, root: Schema) -> Schema:
    """An entry with what its reference stands for."""
    if "$ref" not in entry:
        return entry
    return {**root["$defs"][entry["$ref"].rpartition("/")[2]], **entry}


def sentence(text: str) -> str:
    return " ".join(text.split())


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))), encoding="utf-8")
