"""Directives by `gcc -E`, with headers of types and macros only, for both readings of a text.

No other header is read, and no condition may depend on a macro that only the machine's own headers
define, so that a text means the same on each machine with gcc.
"""

import posixpath
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from pycparser import c_ast, c_parser

from llmchecker.errors import ProgramError, UnreadableProgram, UnsupportedProgram
from loop_invariants.frontend.preprocessing.libc_headers import HEADER_TEXTS
from loop_invariants.limited_command import run_command

_SECONDS = 10
_MAX_BYTES = 3_000_000
"""Maximum size of a preprocessed text, since macros can grow exponentially."""
_MAX_SHOWN_CHARACTERS = 80
"""Maximum number of characters of a directive in a message."""

_SPACE = r"(?:[ \t\v\f]|/\*.*?\*/)*"
_OTHER_INCLUDE = re.compile(
    rf'^{_SPACE}#{_SPACE}include\b(?!{_SPACE}(?:<[^>\n]+>|"[^"/\n]+")).*', flags=re.MULTILINE
)
"""An include of a folder, which may contain the header, or of a name that a macro builds."""

_CONDITION = re.compile(rf"^{_SPACE}#{_SPACE}(?:el)?if.*", flags=re.MULTILINE)
_UNDEFINED = re.compile(r'^#undef (\w+)$|warning: "(\w+)" is not defined', flags=re.MULTILINE)
_ERROR = re.compile(r"^([^:\n]+):(\d+):(?:\d+:)? (?:fatal )?error: (.*)", flags=re.MULTILINE)
_MISSING_HEADER = re.compile(r"(.*): No such file or directory")
_OPENED = re.compile(r"^\.+ (.*)$", flags=re.MULTILINE)
"""A header that gcc opened, as its option -H reports it."""
_LINE_MARKER = re.compile(r'# (\d+) "(.*?)"')
_FOUND_HEADER = re.compile(r"\b__has_include(?:_next)?\b")

_HARMLESS = "noreturn|unused|noinline|always_inline|nothrow|leaf|const|pure|cold|hot|format"
_ATTRIBUTE = rf"__attribute(?:__)?\s*\(\(\s*(?:_*(?:{_HARMLESS})_*(?:\s*\([^()]*\))?\s*,?\s*)*\)\)"
GCC_KEYWORDS = {
    f"__{word}{end}": word
    for word in ("const", "inline", "restrict", "signed", "volatile")
    for end in ("", "__")
} | {"__extension__": ""}
"""Words of gcc with the meaning of a word of C, or without an effect here."""
_WORDS = GCC_KEYWORDS | {"__builtin_offsetof": "offsetof"}
_QUOTED = r"""(?P<quoted>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_EXTENSION = re.compile(
    rf"{_QUOTED}|{_ATTRIBUTE}|(?<![\w$])(?P<word>{'|'.join(_WORDS)})(?![\w$])", flags=re.DOTALL
)
# pycparser joins two strings before their escapes are known.
_SPLIT_ESCAPE = re.compile(
    r'\\(?:x[0-9a-fA-F]+|[0-7]{1,2})"(?:\s|^#[^\n]*$)*"[0-9a-fA-F]', flags=re.MULTILINE
)


def parse_preprocessed(source: str, file: str, sibling_files: Mapping[str, str]) -> c_ast.FileAST:
    """Preprocess a C text and parse it as gcc reads it.

    Args:
        source: the C text.
        file: name of its file in messages.
        sibling_files: texts of the headers in the same folder, by name.

    Raises:
        ProgramError: gcc is missing, or gcc or the parser rejects the text.
    """
    text = preprocess(source, file, sibling_files)
    if _SPLIT_ESCAPE.search(text):
        raise _build_unsupported(file, "an escape before the end of a string")
    text = _EXTENSION.sub(lambda match: match["quoted"] or _WORDS.get(match["word"], ""), text)
    try:
        return c_parser.CParser().parse(text, file)
    except (c_parser.ParseError, ValueError, AssertionError, RecursionError) as error:
        raise _build_unsupported(file, f"this text ({error})") from error


def preprocess(source: str, file: str, sibling_files: Mapping[str, str]) -> str:
    """Return the output of `gcc -E` for a text, with its line markers.

    Args:
        source: the C text.
        file: name of its file in messages.
        sibling_files: texts of the headers in the same folder, by name.

    Raises:
        UnsupportedProgram: gcc is missing, or a directive depends on another header.
        UnreadableProgram: gcc rejects a directive.
    """
    texts = {"program.c": source, **sibling_files}
    names = {name: file if name == "program.c" else name for name in texts}
    for pattern, fix in (
        (_OTHER_INCLUDE, "put the header into the folder of the program and name it"),
        (_FOUND_HEADER, "include the header, or not"),
    ):
        if place := _find_first(pattern, texts):
            name, line = place
            directive = format_directive(texts[name].split("\n")[line - 1])
            raise _build_unsupported(f"{names[name]}:{line}", directive, fix)
    if _find_first(_CONDITION, texts):
        _check_conditions(texts, names)
    return _run_gcc(texts, names, ["-w"])[0]


def _check_conditions(texts: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Check that no condition depends on a macro that only this machine's headers define.

    Raises:
        UnsupportedProgram: one does.
    """
    output, report = _run_gcc(texts, names, ["-dU", "-Wundef"])
    undefined = {first or second for first, second in _UNDEFINED.findall(f"{output}\n{report}")}
    macros = undefined and undefined & _find_system_macros(texts, names)
    if macros:
        macro = min(macros)
        condition = re.compile(rf"{_CONDITION.pattern}\b{macro}\b", flags=re.MULTILINE)
        name, line = _find_first(condition, texts) or ("program.c", 1)
        problem = f"a condition on {macro}, which the C library of this machine defines,"
        raise _build_unsupported(f"{names[name]}:{line}", problem)


def _find_first(pattern: re.Pattern[str], texts: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the file and line of the first match in the texts; None without one."""
    for name, text in texts.items():
        if match := pattern.search(text):
            return name, text.count("\n", 0, match.start()) + 1
    return None


def _find_system_macros(texts: Mapping[str, str], names: Mapping[str, str]) -> set[str]:
    """Return the macros that the machine's own headers define where a text includes them."""
    output, _ = _run_gcc(texts, names, ["-w", "-dD"], has_system_headers=True)
    macros: set[str] = set()
    is_system = False
    for line in output.splitlines():
        if marker := _LINE_MARKER.match(line):
            is_system = marker[2].startswith("/")
        elif is_system and (definition := re.match(r"#define (\w+)", line)):
            macros.add(definition[1])
    return macros


def _run_gcc(
    texts: Mapping[str, str],
    names: Mapping[str, str],
    options: list[str],
    has_system_headers: bool = False,
) -> tuple[str, str]:
    """Return the output and the warnings of gcc's preprocessor."""
    file = names["program.c"]
    if shutil.which("gcc") is None:
        raise UnsupportedProgram(f"{file}: gcc is not installed; install it")
    with tempfile.TemporaryDirectory(prefix="llmchecker-") as name:
        folder = Path(name)
        headers = {f"headers/{header}": text for header, text in HEADER_TEXTS.items()}
        for path, text in {**headers, **texts}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        command = ["gcc", "-E", "-H", "-std=gnu11", *options]
        # A header in angle brackets is one of the C library first.
        command += [] if has_system_headers else ["-nostdinc", "-I", "headers"]
        command += ["-idirafter", ".", "program.c", "-o", "output"]
        run = run_command(command, name, _SECONDS, max_bytes=_MAX_BYTES)
        if run.limit:
            raise _build_unsupported(file, "a text that gcc does not preprocess in time")
        if run.problem:
            construct = f"a text with macros of more than {_MAX_BYTES:,} bytes"
            raise _build_unsupported(file, construct, "expand them")
        if not has_system_headers:
            _check_opened(run.output, texts.keys(), file)
        if run.status != 0:
            raise _build_rejection(run.output, texts, names)
        return (folder / "output").read_text(encoding="utf-8", errors="replace"), run.output


def _check_opened(report: str, texts: Collection[str], file: str) -> None:
    """Check that gcc opened no other files, which directives in parts of lines may name.

    Raises:
        UnsupportedProgram: it did.
    """
    for name in _OPENED.findall(report):
        path = posixpath.normpath(name)
        if path not in texts and not path.startswith("headers/"):
            fix = "put the header into the folder of the program and name it"
            raise _build_unsupported(file, f"the header {name!r}", fix)


def _build_rejection(
    report: str, texts: Mapping[str, str], names: Mapping[str, str]
) -> ProgramError:
    """Build the error for the first error of gcc's report."""
    match = _ERROR.search(report)
    if match is None:
        return _build_unsupported(names["program.c"], f"a text that gcc rejects ({report.strip()})")
    location, problem = f"{names.get(match[1], match[1])}:{match[2]}", match[3]
    directive = texts.get(match[1], "").split("\n")[int(match[2]) - 1]
    missing = _MISSING_HEADER.fullmatch(problem)
    # The headers of C end in .h, those of the C++ library do not.
    if missing and "." not in missing[1]:
        problem = f"{directive.strip()} is C++ and not C; verify a C program"
        return UnreadableProgram(f"{location}: {problem}")
    if missing:
        fix = "include a header that docs/covered_c.md lists, or one of the program's folder"
        return _build_unsupported(location, format_directive(directive), fix)
    if problem.startswith(("#error", "#include nested")):
        return _build_unsupported(location, f"{format_directive(directive)} ({problem})")
    return UnreadableProgram(f"{location}: {problem}; correct it")


def _build_unsupported(place: str, construct: str, fix: str = "rewrite it") -> UnsupportedProgram:
    return UnsupportedProgram(f"{place}: {construct} is not supported; {fix}")


def format_directive(line: str) -> str:
    """Format a directive for messages."""
    line = line.strip()
    return repr(line if len(line) <= _MAX_SHOWN_CHARACTERS else f"{line[:_MAX_SHOWN_CHARACTERS]}…")


def restore_lines(output: str, file: str, count: int) -> str:
    """Put each token of the preprocessor's output into its line of the text.

    The tokens of a header are in the line of its directive.

    Args:
        output: the output of `preprocess`.
        file: name of the file in messages.
        count: number of lines of the text.

    Raises:
        UnsupportedProgram: the output contains another directive, such as a pragma.
    """
    lines = [""] * (count + 1)
    header_lines: list[str] = []
    name, number = "program.c", 1
    for line in output.splitlines():
        if marker := _LINE_MARKER.match(line):
            number, name = int(marker[1]), marker[2]
            if name == "program.c" and header_lines:
                lines[number - 2] += " ".join(header_lines)
                header_lines = []
            continue
        if line.lstrip().startswith("#"):
            place = f"{file if name == 'program.c' else Path(name).name}:{number}"
            raise _build_unsupported(place, format_directive(line))
        if name == "program.c":
            lines[number - 1] += line
        else:
            header_lines.append(line)
        number += 1
    return "\n".join(lines[:count])
