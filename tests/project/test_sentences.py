"""What the messages of errors contain."""

import ast
from collections.abc import Iterator

import pytest
from helpers.parsed_source import name_file, parse_modules

from llmchecker import errors

ERRORS = {name for name in vars(errors) if isinstance(getattr(errors, name), type)}
PLACE = ": "
"""The end of the place in a message."""
COMPLETED = (
    *("unknown key ", "x; give it to check", "x; delete x to lock ", "x; start it with "),
    # parts of a prompt and of a decoding, whose key the caller knows
    *("x is not a text; ", "x is not a list; ", "x is not valid UTF-8; ", "the text is empty; "),
    *("it has x characters; ", "x names no model; "),
)
"""Messages to which the caller or an inserted message adds the place."""


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


def find_messages() -> Iterator[tuple[str, int, str]]:
    """Yield the module, the line and the text of each literal message of an error."""
    for path, module in parse_modules().items():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and node.args and getattr(node.func, "id", "") in ERRORS:
                yield name_file(path), node.lineno, literal(node.args[0])


@pytest.mark.long
def test_messages_of_errors_begin_with_the_place():
    """Each message has a place before the problem."""
    messages = list(find_messages())
    assert sum(bool(text) for _, _, text in messages) > 300
    without = [
        f"{path}:{line}: {text}"
        for path, line, text in messages
        # a text with less than two words is another error's message with its fix
        if len(text.split()) > 1 and PLACE not in text and not text.startswith(COMPLETED)
    ]
    assert without == []
