"""Scores of JSON texts by Python's parser and jsonschema, as an oracle of the type `json`."""

import json
import re
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

SCALAR_ENDINGS = [
    *("", "0", '"', 'n"', *("0" * digits + '"' for digits in range(1, 5))),
    *(word[begin:] for word in ("true", "false", "null") for begin in range(1, len(word))),
]
ENDINGS = [*SCALAR_ENDINGS, '"":0', *(f"{ending}:0" for ending in SCALAR_ENDINGS)]
"""Texts of which one completes each beginning of JSON, but for the brackets that are open."""
_STRING = re.compile(r'(?s)"(?:[^"\\]|\\.)*(?:"|\\?\Z)')


def is_json(text: str) -> bool:
    """Whether Python's parser reads a text, without the constants that are not JSON."""

    def refused(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refused)
    except ValueError:
        return False
    return True


def can_become_json(text: str) -> bool:
    """Whether one of the endings and the brackets that are open complete a text."""
    closers = ""
    for character in _STRING.sub("", text):
        if character in "[{":
            closers = {"[": "]", "{": "}"}[character] + closers
        elif character in "]}":
            closers = closers[1:]
    return any(is_json(text + ending + closers) for ending in ENDINGS)


@lru_cache(maxsize=2**14)
def score_any_json(text: str) -> int:
    """2 for JSON, 1 for a beginning of JSON, else 0."""
    return 2 if is_json(text) else int(can_become_json(text))


def score_json(schema: Any, text: str) -> int:
    """The score of a text with a schema."""
    score = score_any_json(text)
    validator = validator_for(schema, default=Draft202012Validator)(schema)
    return 1 if score == 2 and not validator.is_valid(json.loads(text)) else score
