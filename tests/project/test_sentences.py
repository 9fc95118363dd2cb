"""How long messages and first lines of docstrings are, and how many comments the package has."""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from llmchecker import errors

SOURCE = Path(__file__).parents[2] / "src/llmchecker"
ERRORS = {name for name in vars(errors) if isinstance(getattr(errors, name), type)}
MAX_WORDS = 25
PLACE = ": "
"""The end of the place in a message."""
COMPLETED = ("unknown key ", "x; give it to check", "x; delete x to lock ", "x; start it with ")
"""Messages to which the caller or an inserted message adds the place."""
MAX_FIRST_LINE = 80
MIN_COMMENTS = 0.05


def sources() -> Iterator[tuple[Path, str]]:
    """The path and the text of each module of the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, path.read_text(encoding="utf-8")


def literal(node: ast.AST) -> str:
    """The text of a string; an inserted value counts as one word."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else "x" for part in parts)
        case ast.BinOp(left=left, right=right):
            return literal(left) + literal(right)
    return ""


def messages() -> Iterator[tuple[Path, int, str]]:
    """The module, the line and the text of each literal message of an error."""
    for path, text in sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and node.args and getattr(node.func, "id", "") in ERRORS:
                yield path.relative_to(SOURCE), node.lineno, literal(node.args[0])


def test_messages_of_errors_are_short():
    """No message that an error is raised with has more than 25 words."""
    found = list(messages())
    assert sum(bool(text) for _, _, text in found) > 300
    long = [f"{path}:{line}" for path, line, text in found if len(text.split()) > MAX_WORDS]
    assert long == []


def test_messages_of_errors_begin_with_the_place():
    """Each message has a place before the problem."""
    without = [
        f"{path}:{line}: {text}"
        for path, line, text in messages()
        # a text with less than two words is another error's message with its fix
        if len(text.split()) > 1 and PLACE not in text and not text.startswith(COMPLETED)
    ]
    assert without == []


def test_first_lines_of_docstrings_are_short():
    """The first line of every docstring has at most 80 characters."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    long = [
        f"{path.name}: {first}"
        for path, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
        for first in (ast.get_docstring(node) or "").splitlines()[:1]
        if len(first) > MAX_FIRST_LINE
    ]
    assert long == []


def test_comments_give_reasons_often_enough():
    """At least 5 lines in 100 lines of code have a comment."""
    comments = code = 0
    for _, text in sources():
        docstrings = {
            line
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Expr) and literal(node.value)
            for line in range(node.lineno, node.end_lineno + 1)
        }
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
        lines = enumerate(text.splitlines(), 1)
        code += sum(bool(line.strip()) for number, line in lines if number not in docstrings)
        comments += len(commented)
    assert comments >= MIN_COMMENTS * code
