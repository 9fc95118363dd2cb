"""Variables of promptfoo's tests: combinations of values, files, and variables in variables."""

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llmchecker_promptfoo.documents import (
    FILE_SCHEME,
    find_files,
    parse_js_yaml,
    read_text,
)
from llmchecker_promptfoo.javascript import format_js_value, format_json
from llmchecker_promptfoo.report import NotConverted
from llmchecker_promptfoo.templates import Unusable, has_template, render

_NAME = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_MAX_ROUNDS = 5
"""Maximum number of rounds in which promptfoo inserts variables into variables."""
_OPAQUE_SUFFIXES = (
    ".js .cjs .mjs .ts .cts .mts .py .pdf .png .jpg .jpeg .gif .bmp .webp .svg .mp4 .webm .ogg "
    ".mov .avi .wmv .mkv .m4v .wav .mp3"
).split()
"""Suffixes of files that are programs or no texts."""


def merge_variables(value: Any, folder: Path) -> dict[str, Any]:
    """Return the variables of a test: a mapping, or YAML files with mappings.

    Raises:
        NotConverted: a file is unreadable, or the variables have another form.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    merged: dict[str, Any] = {}
    for pattern in value if isinstance(value, list) else [value]:
        if not isinstance(pattern, str):
            raise NotConverted("the variables are neither names with values nor files")
        names = find_files(pattern.removeprefix(FILE_SCHEME), folder)
        if not names:
            raise NotConverted(f"the variables are in {pattern}, which is no file")
        for name in names:
            content = parse_js_yaml(read_text(folder / name), name)
            if not isinstance(content, Mapping):
                raise NotConverted(f"{name} has no names with values")
            merged |= content
    return merged


def iter_combinations(
    variables: Mapping[str, Any], folder: Path, *, is_expanded: bool
) -> Iterator[dict[str, Any]]:
    """Yield the combinations of values: a list of texts, or a pattern of files, means each."""
    choices = [_list_values(name, variables[name], folder, is_expanded) for name in variables]
    for combination in itertools.product(*choices):
        yield _resolve(dict(zip(variables, combination, strict=True)))


def _list_values(name: str, value: Any, folder: Path, is_expanded: bool) -> list[Any]:
    # promptfoo looks at the first value of a list alone
    if is_expanded and isinstance(value, list) and value and isinstance(value[0], str):
        return [_read_variable(name, item, folder) for item in value]
    if is_expanded and isinstance(value, str) and value.startswith(FILE_SCHEME):
        files = find_files(value.removeprefix(FILE_SCHEME), folder)
        if files:
            return [_read_variable(name, FILE_SCHEME + file, folder) for file in files]
    return [_read_variable(name, value, folder)]


def _read_variable(name: str, value: Any, folder: Path) -> Any:
    """Return a value, or the text of its file."""
    if not isinstance(value, str) or not value.startswith(FILE_SCHEME):
        return value
    path = folder / value.removeprefix(FILE_SCHEME)
    if path.suffix.lower() in _OPAQUE_SUFFIXES:
        return Unusable(f"the variable {name} is in {path.name}, which is a program or no text")
    try:
        text = read_text(path)
        is_yaml = path.suffix in (".yaml", ".yml")
        return format_json(parse_js_yaml(text, path.name)) if is_yaml else text.strip()
    except NotConverted as error:
        return Unusable(f"the variable {name}: {error}")


def _resolve(variables: dict[str, Any]) -> dict[str, Any]:
    """Insert variables into variables, as promptfoo does before it renders a prompt."""
    for name, value in variables.items():
        # a last line end would break prompts in JSON
        if isinstance(value, str):
            variables[name] = value.removesuffix("\n")
    for _ in range(_MAX_ROUNDS):
        is_changed = False
        for name, value in variables.items():
            match = _NAME.search(value) if isinstance(value, str) else None
            if match is not None and match[1] in variables:
                variables[name] = _insert(value, match, variables[match[1]])
                is_changed = True
        if not is_changed:
            break
    return variables


def _insert(text: str, match: re.Match[str], inserted: Any) -> str | Unusable:
    if isinstance(inserted, Unusable):
        return inserted
    try:
        inserted_text = format_js_value(inserted)
    except NotConverted as error:
        return Unusable(f"the variable {match[1]}: {error}")
    # JavaScript's `replace` gives such a text another meaning
    if re.search(r"\$[$&`']", inserted_text):
        return Unusable(f"the variable {match[1]} has $ before a special character")
    return text[: match.start()] + inserted_text + text[match.end() :]


def render_variables(variables: Mapping[str, Any], custom: frozenset[str]) -> dict[str, Any]:
    """Render the templates in variables, as promptfoo does for a prompt that is a text."""
    rendered = mark_templates(variables)
    for name, value in variables.items():
        if isinstance(value, str) and has_template(value):
            try:
                rendered[name] = render(value, variables, custom)
            except NotConverted as error:
                rendered[name] = Unusable(f"the variable {name}: {error}")
    return rendered


def mark_templates(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a chat in JSON or an assertion: promptfoo renders no others."""
    return {
        name: Unusable(f"the variable {name} has a template, which promptfoo does not render here")
        if has_template(value)
        else value
        for name, value in variables.items()
    }
