"""Prompts of promptfoo: texts, chats and files of these."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError
from llmchecker.models.decoding.chat_template import Chat
from llmchecker_promptfoo.documents import (
    FILE_SCHEME,
    find_files,
    parse_js_yaml,
    parse_json,
    read_csv_records,
    read_text,
)
from llmchecker_promptfoo.javascript import format_json
from llmchecker_promptfoo.report import NotConverted, Place, Report
from llmchecker_promptfoo.templates import has_template, render
from llmchecker_promptfoo.variables import mark_templates, render_variables

_TEXT_SUFFIXES = (".txt", ".md", ".j2", ".json", ".jsonl", ".yaml", ".yml", ".csv")
"""Suffixes of files with prompts."""
_PROGRAM_SUFFIXES = ".js .cjs .mjs .ts .cts .mts .py .sh .bash .exe .bat .cmd .ps1 .rb .pl".split()
_REMOTE = re.compile(r"(portkey|langfuse|helicone|pf|https?|package|az|s3|gs)://|package:|exec:")
_PATH = re.compile(r"[/\\*]|\.\w\w\w?$|\.(json|jsonl|yaml)(:|$)|\.\w+:\w+$")
"""What promptfoo takes for a path or pattern."""
_FUNCTION = re.compile(r":[\w.]+$")
_MESSAGE_KEYS = {"role", "content"}
_ROLES = ("system", "user", "assistant")
_JSON_START = re.compile(r'\{\s*("|\}|$)|\[\s*(["{\[\]\d-]|true|false|null|$)')


@dataclass(frozen=True)
class Prompt:
    """A prompt with templates.

    Attributes:
        text: the text, or a chat in JSON.
        place: its place.
        labels: the label and the id by which tests select it.
        name: its label; empty without one.
    """

    text: str
    place: Place
    labels: tuple[str, ...]
    name: str = ""

    def is_selected(self, references: Any) -> bool:
        """Return whether a key `prompts` of a test or provider selects the prompt."""
        if not isinstance(references, list):
            return True
        return any(
            reference in self.labels
            or any(label.startswith(f"{reference}:") for label in self.labels)
            or (
                str(reference).endswith("*")
                and any(label.startswith(str(reference)[:-1]) for label in self.labels)
            )
            for reference in references
        )


def read_prompt_list(value: Any, place: Place, folder: Path, report: Report) -> list[Prompt]:
    """Read all prompts of a configuration, and list those that are not converted."""
    if isinstance(value, Mapping) and not {"raw", "id", "label"} & value.keys():
        # a mapping of texts or files to labels is an old form
        entries = [({"raw": raw, "label": label}, place.child(raw)) for raw, label in value.items()]
    else:
        entries = place.list_items(_read_list(value, folder))
    prompts: list[Prompt] = []
    for entry, entry_place in entries:
        try:
            prompts += _read_entry(entry, entry_place, folder, report)
        except NotConverted as error:
            report.omit(entry_place, error)
    return prompts


def _read_list(value: Any, folder: Path) -> Any:
    """Return the list of prompts in a YAML file that is named in place of a list.

    Names in the list are relative to the folder of the configuration. Messages of a chat are one
    prompt, so that the name of their file stays.
    """
    is_file = isinstance(value, str) and value.startswith(FILE_SCHEME)
    if not is_file or not value.endswith((".yaml", ".yml")):
        return value
    path = folder / value.removeprefix(FILE_SCHEME)
    try:
        found = parse_js_yaml(read_text(path), path.name)
    except NotConverted:
        # an absent or damaged file is listed where it is read as a prompt
        return value
    is_list = isinstance(found, list) and all(map(_is_prompt, found))
    return found if is_list and found else value


def _is_prompt(entry: Any) -> bool:
    return isinstance(entry, str) or (
        isinstance(entry, Mapping) and bool({"raw", "id"} & entry.keys())
    )


def _read_entry(entry: Any, place: Place, folder: Path, report: Report) -> Iterator[Prompt]:
    labels: list[str] = []
    raw, label = entry, ""
    if isinstance(entry, Mapping):
        raw = entry.get("raw") or entry.get("id")
        label = str(entry.get("label") or "")
        labels = [str(entry[name]) for name in ("label", "id") if entry.get(name)]
        for name in entry.keys() - {"raw", "label", "id", "display"}:
            report.omit(place.child(name), f"{name} of a prompt has no counterpart")
    if not isinstance(raw, str) or not raw:
        raise NotConverted("the prompt is no text")
    prompt = Prompt(raw, place, tuple(labels) or (raw,), label)
    if _REMOTE.match(raw):
        raise NotConverted(f"{raw}: a prompt of a program or service has no counterpart")
    names = _find_prompt_files(raw, folder)
    if names is None:
        yield prompt
        return
    for name in names:
        for text in _read_prompt_file(folder / name, name):
            labels_of_file = prompt.labels if labels else (name, f"{name}: {text}")
            yield replace(prompt, text=text, labels=labels_of_file)


def _find_prompt_files(raw: str, folder: Path) -> list[str] | None:
    """Return the files that a prompt names; None for a text.

    Raises:
        NotConverted: the prompt names programs or absent files.
    """
    is_file = raw.startswith(FILE_SCHEME)
    name = raw.removeprefix(FILE_SCHEME)
    if not is_file and ("\n" in raw or has_template(raw) or not _PATH.search(raw)):
        return None
    base = name if (folder / name).exists() else _FUNCTION.sub("", name)
    suffix = Path(base).suffix.lower()
    if suffix in _PROGRAM_SUFFIXES and (is_file or " " not in base):
        raise NotConverted(f"{raw}: prompts of a program have no counterpart; write them as texts")
    try:
        files = find_files(name, folder)
    except (OSError, ValueError):
        files = []
    if files:
        return files
    # a text with a slash or a star is a text if no file has its name
    if is_file or (suffix in _TEXT_SUFFIXES and " " not in name):
        raise NotConverted(f"{raw}: there is no such file")
    return None


def _read_prompt_file(path: Path, name: str) -> Iterator[str]:
    """Yield the prompts of a file."""
    suffix = path.suffix.lower()
    if suffix not in _TEXT_SUFFIXES:
        raise NotConverted(f"{name}: prompts in files of this kind are not read")
    if suffix == ".csv":
        yield from _iter_csv_prompts(path)
        return
    text = read_text(path)
    if suffix in (".yaml", ".yml"):
        yield format_json(parse_js_yaml(text, name))
    elif suffix == ".txt":
        yield from _split_prompts(text)
    elif suffix == ".jsonl":
        yield from (line for line in re.split(r"\r?\n", text) if line)
    elif suffix == ".json":
        yield text.strip()
    else:
        yield text


def _split_prompts(text: str) -> Iterator[str]:
    """Yield the prompts of a text file, between lines with three hyphens."""
    lines: list[str] = []
    for line in [*re.split(r"\r?\n", text), "---"]:
        if line.strip() != "---":
            lines.append(line)
            continue
        if prompt := "\n".join(lines).strip():
            yield prompt
        lines = []


def _iter_csv_prompts(path: Path) -> Iterator[str]:
    text = read_text(path)
    # without a comma each line is a prompt
    if "," not in text:
        lines = [line for line in re.split(r"\r?\n", text) if line.strip()]
        has_header = bool(lines) and lines[0].strip().lower() == "prompt"
        yield from lines[1:] if has_header else lines
        return
    for row in read_csv_records(path):
        if row.cells is None or "prompt" not in row.cells:
            raise NotConverted(f"{path.name}: the column prompt is absent in line {row.line}")
        if prompt := row.cells["prompt"].strip():
            yield prompt


def render_prompt(
    prompt: str, variables: Mapping[str, Any], custom: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Render a prompt: `user` with a text, or `messages` for a chat.

    Raises:
        NotConverted: a template is not converted, or the chat has another form.
    """
    chat = _parse_chat(prompt)
    if chat is None:
        return _render_text(prompt, variables, custom)
    # within a chat in JSON, promptfoo leaves templates in variables as they are
    return _build_chat(_render_json(chat, mark_templates(variables), custom))


def is_text_prompt(
    entry: Mapping[str, Any],
    prompt: str,
    variables: Mapping[str, Any],
    custom: frozenset[str] = frozenset(),
) -> bool:
    """Return whether a rendered entry is the text of its prompt, and no message of a chat."""
    if _parse_chat(prompt) is not None:
        return False
    return entry == {"user": render(prompt, render_variables(variables, custom), custom)}


def _render_text(
    prompt: str, variables: Mapping[str, Any], custom: frozenset[str]
) -> dict[str, Any]:
    text = render(prompt, render_variables(variables, custom), custom)
    if text.strip().startswith("- role:"):
        return _build_chat(parse_js_yaml(text))
    chat = _parse_chat(text)
    if chat is not None:
        return _build_chat(chat)
    if _JSON_START.match(text.strip()):
        raise NotConverted("the prompt begins as JSON, but is none")
    if not text.strip():
        raise NotConverted("the prompt is empty")
    return {"user": text}


def _parse_chat(text: str) -> Any:
    """Parse a text that is a list or mapping in JSON; None for any other text."""
    try:
        parsed = parse_json(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, list | Mapping) else None


def _render_json(value: Any, variables: Mapping[str, Any], custom: frozenset[str]) -> Any:
    if isinstance(value, str):
        return render(value, variables, custom)
    if isinstance(value, list):
        return [_render_json(item, variables, custom) for item in value]
    if isinstance(value, Mapping):
        return {key: _render_json(item, variables, custom) for key, item in value.items()}
    return value


def _build_chat(messages: Any) -> dict[str, Any]:
    """Return the entry of a chat.

    Raises:
        NotConverted: a message has another form than a role and a text.
    """
    if not isinstance(messages, list):
        raise NotConverted("the prompt is JSON, but no chat of messages")
    turns = []
    for message in messages:
        if not isinstance(message, Mapping) or message.keys() != _MESSAGE_KEYS:
            raise NotConverted("a message of the chat has other keys than role and content")
        role, content = message["role"], message["content"]
        if not isinstance(role, str) or role not in _ROLES:
            raise NotConverted(f"a message of the chat has the role {json.dumps(role)}")
        if not isinstance(content, str):
            raise NotConverted("a message of the chat is no text")
        turns.append({role: content})
    try:
        Chat.from_messages(turns)
    except ConfigError as error:
        raise NotConverted(f"the chat: {error}") from error
    if len(turns) == 1:
        return dict(turns[0])
    return {"messages": turns}
