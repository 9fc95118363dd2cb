"""The lines of a YAML text, joined by the rules of its style."""


def fold_block(lines: list[str]) -> str:
    """Join the lines of a block with `>`: a space joins two lines without further indentation."""
    parts: list[str] = []
    previous, breaks = None, 0
    for line in lines:
        if not line:
            breaks += 1
            continue
        if previous is not None:
            is_more_indented = line[0] in " \t" or previous[0] in " \t"
            parts.append("\n" * (breaks + 1) if is_more_indented else "\n" * breaks or " ")
        else:
            parts.append("\n" * breaks)
        parts.append(line)
        previous, breaks = line, 0
    return "".join(parts)


def fold_quoted(lines: list[str]) -> str:
    """Join the lines of a text in quotes.

    A space joins two lines, `\\` at the end of a line nothing, and blank lines are line ends.
    """
    parts: list[str] = []
    is_escaped, breaks, last = False, 0, len(lines) - 1
    for index, line in enumerate(lines):
        if index > 0:
            line = line.lstrip(" \t")
            if not line and index < last:
                breaks += 1
                continue
            parts.append("\n" * breaks or ("" if is_escaped else " "))
        is_escaped, breaks = line.endswith("\\\n"), 0
        if is_escaped:
            line = line[:-2]
        elif index < last:
            line = _strip_end(line)
        parts.append(line)
    return "".join(parts)


def _strip_end(line: str) -> str:
    """Return a line without the spaces at its end, of which an escaped one is a text."""
    stripped = line.rstrip(" \t")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return line[: len(stripped) + backslashes % 2]
