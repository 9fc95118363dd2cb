"""Contracts of `main` in remarks, `/*@ requires n > 0; */`, as a declaration that can be parsed."""

import re

REQUIRED = "__VERIFIER_remark_requires"
"""The array whose initialisation lists what the contract of `main` requires, one each."""

MEMORY = "__VERIFIER_remark_memory"
"""The function whose calls stand for memory: an array, its first and its last index, and so on."""

_MAIN = re.compile(r"\s*(?:(?:int|void|signed)\s+)+main\s*\(")
_SAID_NOTHING = ("assigns", "ensures", "terminates", "decreases")
_OF_MEMORY = re.compile(r"\\(?:separated|valid|valid_read)\s*\((?P<ranges>.*)\)")
_RANGE = re.compile(r"\(?\s*(\w+)\s*\+\s*\(\s*(\w+)\s*\.\.\s*([\w\s-]+?)\s*\)\s*\)?\s*")
_IN_C = re.compile(r"(?:(?!==>|-->|\^\^)[\w\s\[\]().<>=!&|+*/%?:-])+")


def required(remark: str, after: str) -> str:
    """The declaration that says what a remark before `main` requires; empty for other remarks.

    Args:
        remark: the remark, with its beginning and end.
        after: the text behind it.
    """
    if not (re.match(r"/[/*]@", remark) and "requires" in remark and _MAIN.match(after)):
        return ""
    body = re.sub(r"(?m)^\s*@", " ", remark[3:].removesuffix("*/"))
    conditions = []
    for clause in (" ".join(part.split()) for part in body.split(";")):
        keyword, _, said = clause.partition(" ")
        if keyword == "requires":
            conditions.append(_in_c(said))
        elif keyword and keyword not in _SAID_NOTHING:
            return ""
    if not all(conditions):
        return ""
    return f"int {REQUIRED}[] = {{{', '.join(conditions)}}};"


def _in_c(said: str) -> str:
    """A condition as C can say it; empty if it cannot."""
    memory = _OF_MEMORY.fullmatch(said)
    if memory is None:
        return f"({said})" if _IN_C.fullmatch(said) else ""
    ranges = [_RANGE.fullmatch(part) for part in memory["ranges"].split(",")]
    if not all(ranges):
        return ""
    return f"{MEMORY}({', '.join(', '.join(found.groups()) for found in ranges)})"
