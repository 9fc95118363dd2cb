"""Hooks of the documentation site, which mkdocs.yml names.

The pages also work in a file browser, so their links to files outside of docs/ are relative paths
of the repository. The site has a page for each document of `PAGES`, and a copy of every other file
that a page links to.
"""

import argparse
import html
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import latex2mathml.converter
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.parser import COMMAND_HELP

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "results/README.md": "results.md",
    "examples/first_steps.ipynb": "notebooks/first_steps.md",
    "examples/suites.ipynb": "notebooks/suites.md",
}
"""Documents outside of docs/, by path in the repository, and their pages on the site."""

COPIES = PurePosixPath("repository")
"""Folder of the site with copies of files."""

BAR = "\\|"
"""A bar in a cell of a Markdown table."""

COMMANDS_MARK = "<!-- options of all commands -->"
_LINK = re.compile(r"(?<=\]\()([^()\s:#]+)(?=[)#])")
_CELL = re.compile(r"<td.*?</td>", flags=re.DOTALL)
_MATH = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>([.,;:)]*)', flags=re.DOTALL
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside of docs/, and the files that pages link to."""
    for path, uri in PAGES.items():
        source: dict[str, Any] = {"abs_src_path": str(ROOT / path)}
        if path.endswith(".ipynb"):
            source = {"content": format_notebook(nbformat.read(ROOT / path, as_version=4))}
        files.append(File.generated(config, uri, **source))
    for linked in sorted(set(_find_linked_files(files))):
        copy = _name_copy(str(COPIES / linked))
        # As text, so that Markdown is not a page of the site.
        files.append(File.generated(config, copy, content=(ROOT / linked).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page, and add the options of the commands."""
    folder = PurePosixPath(page.file.src_uri).parent
    if COMMANDS_MARK in markdown:
        markdown = markdown.replace(COMMANDS_MARK, describe_commands())
    return _LINK.sub(partial(_rewrite_link, _find_path(page.file), folder), markdown)


def on_page_content(html_text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace TeX by MathML, which browsers render without a script, and bars in tables."""
    # Markdown keeps the backslash of a bar in code, which GitHub needs in a cell
    html_text = _CELL.sub(lambda cell: cell[0].replace(BAR, "|"), html_text)
    return _MATH.sub(_convert_math, html_text)


def format_notebook(notebook: nbformat.NotebookNode) -> str:
    """Format a notebook with its outputs as a page in Markdown."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [_format_output(output) for output in cell.outputs]
    return "\n\n".join(parts) + "\n"


def _format_output(output: nbformat.NotebookNode) -> str:
    """Format an output of a cell in the richest form that it has, as a notebook does."""
    data = output.get("data", {})
    if "image/png" in data:
        # its meaning is in the texts of the notebook
        image = "".join(data["image/png"].split())
        return f'<img alt="Plot of the cell above" src="data:image/png;base64,{image}">'
    if "text/html" in data:
        # one block of HTML, which an empty line would end
        lines = (line.strip() for line in data["text/html"].splitlines())
        # the corner of a frame is the header of nothing
        block = "".join(line for line in lines if line).replace("<th></th>", "<td></td>")
        return f'<div class="output">{block}</div>'
    return f"```text\n{(output.get('text') or data['text/plain']).rstrip()}\n```"


def describe_commands() -> str:
    """Describe every command with its arguments, as Markdown, from the parser of the shell."""
    commands = next(
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return "\n".join(
        line
        for name, parser in commands.choices.items()
        for line in _describe_command(name, parser)
    )


def _describe_command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"### {name}\n\n{_escape(parser.description or COMMAND_HELP.get(name, ''))}\n"
    # argparse's own two groups, of positional arguments and of options, are one table
    first, second, *others = parser._action_groups
    yield _format_actions(parser, first._group_actions + second._group_actions)
    for group in others:
        if table := _format_actions(parser, group._group_actions):
            yield f"**{group.title}**: {_escape(group.description or '')}\n\n{table}"


def _format_actions(parser: argparse.ArgumentParser, actions: Sequence[argparse.Action]) -> str:
    """Format a table of arguments; empty without any."""
    formatter = parser._get_formatter()
    rows = [
        f"| `{formatter._format_action_invocation(action).replace('|', BAR)}` "
        f"| {_escape(formatter._expand_help(action) if action.help else '')} |\n"
        for action in actions
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)
    ]
    return "| argument | meaning |\n| --- | --- |\n" + "".join(rows) if rows else ""


def _escape(text: str) -> str:
    """Escape what Markdown would interpret in a text of the parser."""
    escaped = re.sub(r"([\\`*_\[\]{}>|])", r"\\\1", " ".join(text.split()))
    # Markdown has no escape for the beginning of a tag
    return escaped.replace("<", "&lt;")


def _find_path(file: File) -> PurePosixPath:
    """Return the path of a page's source in the repository."""
    for path, uri in PAGES.items():
        if uri == file.src_uri:
            return PurePosixPath(path)
    return PurePosixPath("docs") / file.src_uri


def _resolve(source: PurePosixPath, link: str) -> PurePosixPath:
    """Return the path in the repository of a file that a document links to."""
    return PurePosixPath(os.path.normpath(source.parent / link))


def _find_linked_files(files: Files) -> Iterator[PurePosixPath]:
    """Yield the files outside of docs/ that pages link to, and that are no pages."""
    for file in files.documentation_pages():
        source = _find_path(file)
        for link in _LINK.findall(file.content_string):
            path = _resolve(source, link)
            if path.parts[0] == "docs" and path.suffix != ".py":
                continue
            if str(path) not in PAGES and (ROOT / path).is_file():
                yield path


def _name_copy(path: str) -> str:
    return path + ".txt" if path.endswith((".md", ".py", ".yaml", ".cff")) else path


def _rewrite_link(source: PurePosixPath, folder: PurePosixPath, link: re.Match[str]) -> str:
    """Return the link on the site: to a page, to a file of docs/, or to a copy."""
    path = _resolve(source, link[1])
    if str(path) in PAGES:
        target = PAGES[str(path)]
    elif path.parts[0] == "docs" and path.suffix != ".py":
        target = str(path.relative_to("docs"))
    else:
        target = _name_copy(str(COPIES / path))
    return os.path.relpath(target, folder)


def _convert_math(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    formula = latex2mathml.converter.convert(html.unescape(found[3]), display=display)
    # a line must not begin with the comma after a formula
    return f'<span class="formula">{formula}{found[4]}</span>' if found[4] else formula
