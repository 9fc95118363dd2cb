"""ACSL contracts of `main`, such as `/*@ requires n > 0; */`, as C declarations."""

import re

REQUIRES_ARRAY = "__VERIFIER_remark_requires"
"""Array whose initial values are the conditions of `main`'s contract."""

MEMORY_FUNCTION = "__VERIFIER_remark_memory"
"""Function for memory clauses; its arguments are arrays, first and last indices."""

_MAIN_HEADER = re.compile(r"\s*(?:(?:int|void|signed)\s+)+main\s*\(")
_IGNORED_CLAUSES = ("assigns", "ensures", "terminates", "decreases")
_MEMORY_PREDICATE = re.compile(r"\\(?:separated|valid|valid_read)\s*\((?P<ranges>.*)\)")
_RANGE = re.compile(r"\(?\s*(\w+)\s*\+\s*\(\s*(\w+)\s*\.\.\s*([\w\s-]+?)\s*\)\s*\)?\s*")
_C_EXPRESSION = re.compile(r"(?:(?!==>|-->|\^\^)[\w\s\[\]().<>=!&|+*/%?:-])+")


def translate_contract(annotation: str, following_text: str) -> str:
    """Translate an annotation before `main` to a declaration; else empty.

    Args:
        annotation: comment, with its delimiters.
        following_text: text after the comment.
    """
    if not (
        re.match(r"/[/*]@", annotation)
        and "requires" in annotation
        and _MAIN_HEADER.match(following_text)
    ):
        return ""
    # Lines of an annotation may begin with `@`.
    body = re.sub(r"(?m)^\s*@", " ", annotation[3:].removesuffix("*/"))
    conditions = []
    for clause in (" ".join(part.split()) for part in body.split(";")):
        keyword, _, condition = clause.partition(" ")
        if keyword == "requires":
            conditions.append(_translate_condition(condition))
        # An unknown clause could change the meaning of the contract.
        elif keyword and keyword not in _IGNORED_CLAUSES:
            return ""
    # All clauses must be expressible, since each may rely on another.
    if not all(conditions):
        return ""
    return f"int {REQUIRES_ARRAY}[] = {{{', '.join(conditions)}}};"


def _translate_condition(condition: str) -> str:
    """Translate a condition to C; return an empty text if C cannot express it."""
    memory = _MEMORY_PREDICATE.fullmatch(condition)
    if memory is None:
        return f"({condition})" if _C_EXPRESSION.fullmatch(condition) else ""
    ranges = [_RANGE.fullmatch(part) for part in memory["ranges"].split(",")]
    if not all(ranges):
        return ""
    return f"{MEMORY_FUNCTION}({', '.join(', '.join(match.groups()) for match in ranges)})"
