"""Write the pages of keys, configuration.md and question_keys.md, from their descriptions:

.venv/bin/python docs/config_reference.py
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmchecker.checking.budget import Budget
from llmchecker.config.keys import AnswerKeys
from llmchecker.config.question import HorizonKeys
from llmchecker.config.registry_keys import OutputKeys
from llmchecker.config.schema import build_schema
from llmchecker.suites.suite_file import BudgetKeys, SuiteKeys
from llmchecker.utils.section import Section

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/configuration.md"
QUESTION_PAGE = ROOT / "docs/reference/question_keys.md"

INTRODUCTION = """\
# Configuration

*Generated from [`src/llmchecker/config/keys.py`](../../src/llmchecker/config/keys.py) by
[`docs/config_reference.py`](../config_reference.py).*

A configuration is a YAML file, [`config.yaml`](../../config.yaml) unless `--configfile` names
another. `NAME` is a name of your choice, `[]` an entry of a list. A **required** key is required if
the key above it is present. An unknown key stops a run before any job starts. [Ask a new
question](../how-to/new_question.md) has examples, and [Method](../explanation/method.md) defines
alpha, k and L.
"""
REQUIRED = "**required**"
UNREACHED = 1_000_000

QUESTION_INTRODUCTION = """\
# Keys of a question

*Generated from the descriptions of the keys by
[`docs/config_reference.py`](../config_reference.py).*

The shell, Python, [suites](suites.md) and a [configuration](configuration.md) describe a question
with the same keys. A key has one meaning, one range, one default and one message about a wrong
value. A quantifier of the same name as an argument in Python is given as `quantifiers={"seed":
...}`.

| key | shell | Python | suite | configuration |
| --- | --- | --- | --- | --- |
"""
PROMPTS = {
    "start": ("`--start`", "`ask(…, start)`", "`start`", "`start_strings.NAME`"),
    "user": ("`--user`", "`ask(user=…)`", "`user`", "in `start_strings.NAME`"),
    "system": ("`--system`", "`ask(system=…)`", "`system`", "in `start_strings.NAME`"),
    "messages": ("`--messages`", "`ask(messages=…)`", "`messages`", "`start_strings.NAME`"),
    "tools": (
        "absent: a query about calls needs a suite",
        "`ask(tools=…)`",
        "`tools`",
        "absent: a start string has no tools; write a suite",
    ),
    "columns": (
        "absent: an application gets rows of a file; write a suite",
        "`ask(columns=…)`",
        "columns of `prompts`",
        "absent: experiments need probabilities; write a suite",
    ),
    "turns": (
        "absent: a conversation is a file; write a suite",
        "`ask(turns=…)`",
        "`turns`",
        "absent: experiments are about one answer; write a suite",
    ),
}
"""The keys of a prompt, and where each door has them."""

Schema = Mapping[str, Any]


def page(schema: Schema) -> str:
    """Build the page: a section for each top-level key, an entry for each key below it.

    The keys of a decoding or an answer have entries in their first section only.
    """
    sections = [INTRODUCTION]
    for key, value in schema["properties"].items():
        entry = resolved(value, schema)
        rows = "".join(rows_of(key, entry, schema))
        about = sentence(entry["description"])
        about += " Required." if key in schema["required"] else ""
        sections.append(f"## {key}\n\n{about}\n\n{rows}")
    return shorten_repeated("\n".join(sections))


def question_page() -> str:
    """Build the page of the keys of a question: where each door has each key, or why not."""
    rows = [f"| `{key}` | {' | '.join(doors)} |" for key, doors in PROMPTS.items()]
    meanings = []
    for section in (HorizonKeys, OutputKeys, Budget):
        for key, field in section.model_fields.items():
            rows.append(f"| `{key}` | {' | '.join(doors_of(key, section))} |")
            is_absent = field.default is None or field.default is False
            default = "" if is_absent else f", default `{field.default}`"
            meanings.append(f"- `{key}`{default}: {sentence(field.description or '')}")
    return QUESTION_INTRODUCTION + "\n".join([*rows, "", *meanings]) + "\n"


def doors_of(key: str, section: type[Section]) -> tuple[str, str, str, str]:
    """Return where the shell, Python, a suite and a configuration have a key, or why not."""
    shell, suite = f"`--{key.replace('_', '-')}`", f"`{key}`"
    function = "load" if section is OutputKeys or key in ("tokens", "dollars") else "ask"
    configuration = "`L` of an experiment" if section is HorizonKeys else f"`models.NAME.{key}`"
    if section is Budget:
        if key not in SuiteKeys.model_fields:
            suite = reason_of(key, BudgetKeys) or f"`budget.{key}`"
        configuration = reason_of(key, AnswerKeys) or f"`answer.{key}`"
    return shell, f"`{function}({key}=…)`", suite, configuration


def reason_of(key: str, section: type[Section]) -> str:
    """Return why a section refuses a key; empty if it has the key."""
    reason = section.refused_keys.get(key)
    return "" if reason is None else f"absent: {reason}"


def shorten_repeated(text: str) -> str:
    """Replace the meaning of a key that an earlier key has by the name of that key."""
    first_keys: dict[str, str] = {}

    def shorten(entry: re.Match[str]) -> str:
        beginning, key, meaning = entry.groups()
        first = first_keys.setdefault(meaning, key)
        return entry[0] if first == key else f"{beginning}: as `{first}`."

    return re.sub(r"^(- `(.+?)` \(.+?\)): (.+)$", shorten, text, flags=re.MULTILINE)


def rows_of(key: str, entry: Schema, root: Schema) -> Iterator[str]:
    """Yield an entry for each key below an entry, in the order of the schema."""
    others = entry.get("additionalProperties")
    if isinstance(others, Mapping):
        yield from rows_at(f"{key}.NAME", resolved(others, root), root, "")
    if "items" in entry:
        yield from rows_at(f"{key}[]", resolved(entry["items"], root), root, "")
    for name, value in entry.get("properties", {}).items():
        need = REQUIRED if name in entry.get("required", ()) else ""
        yield from rows_at(f"{key}.{name}", resolved(value, root), root, need)


def rows_at(key: str, entry: Schema, root: Schema, need: str) -> Iterator[str]:
    """Yield the entry of a key and the entries of the keys below it."""
    if "description" in entry:
        default = f"default `{entry['default']}`" if "default" in entry else need
        about = sentence(entry["description"])
        values = ", ".join(filter(None, (kind(entry), default)))
        yield f"- `{key}` ({values}): {about}\n"
        if about.startswith("As "):  # the same keys have entries in an earlier section
            return
    yield from rows_of(key, entry, root)


def kind(entry: Schema) -> str:
    """Format the values that an entry allows."""
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    limits = [limits_of(entry)] if "maximum" in entry else []
    types = [entry["type"]] if isinstance(entry["type"], str) else entry["type"]
    words = {"object": "keys", "array": "list", "string": "text"}
    name = " or ".join(words.get(name, name) for name in types)
    return ", ".join([name, *limits])


def limits_of(entry: Schema) -> str:
    """Format the limits of a number, without a largest one that nobody reaches."""
    is_large = entry["maximum"] >= UNREACHED
    if "minimum" in entry:
        return f"from {entry['minimum']}" if is_large else f"{entry['minimum']}–{entry['maximum']}"
    return "above 0" if is_large else f"above 0, to {entry['maximum']}"


def resolved(entry: Schema, root: Schema) -> Schema:
    """Return an entry with its reference resolved."""
    if "$ref" not in entry:
        return entry
    return {**root["$defs"][entry["$ref"].rpartition("/")[2]], **entry}


def sentence(text: str) -> str:
    """Join the lines of a description, and link the pages that it names."""
    words = " ".join(text.split())
    return re.sub(
        r"docs/reference/(\w+)\.md", lambda page: f"[{page[1].title()}]({page[1]}.md)", words
    )


if __name__ == "__main__":
    PAGE.write_text(page(build_schema()), encoding="utf-8")
    QUESTION_PAGE.write_text(question_page(), encoding="utf-8")
