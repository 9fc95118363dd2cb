"""Preprocessing by `gcc -E`, with headers of types and macros only, and parsing."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pycparser import c_ast, c_parser

from llmchecker.errors import UnsupportedProgram
from loop_invariants.frontend.preprocessing.libc_headers import HEADERS, read_header

_SECONDS = 10
_MAX_CHARACTERS = 3_000_000

_OWN_HEADERS = {
    "assert.h": "#undef assert\n#ifdef NDEBUG\n#define assert(e) ((void)0)\n#endif\n"
    "#define static_assert _Static_assert\n",
    # The parser knows no type as an argument.
    "stdarg.h": "typedef struct __va_list_tag *va_list;\n"
    "#define va_arg(list, type) (*(type *)va_arg(list))\n",
    "setjmp.h": "typedef struct __jmp_buf_tag *jmp_buf;\n",
    "errno.h": "extern int errno;\n",
    "ctype.h": "",
    "float.h": "",
    "signal.h": "typedef int sig_atomic_t;\n",
    "stdnoreturn.h": "#define noreturn _Noreturn\n",
    "iso646.h": "#define and &&\n#define or ||\n#define not !\n#define not_eq !=\n",
}
"""Headers that the frontend's own preprocessor does not know, or reads otherwise."""

_HARMLESS = "noreturn|unused|noinline|always_inline|nothrow|leaf|const|pure|cold|hot|format"
_ATTRIBUTE = rf"__attribute(?:__)?\s*\(\(\s*(?:_*(?:{_HARMLESS})_*(?:\s*\([^()]*\))?\s*,?\s*)*\)\)"
_WORDS = {
    "__extension__": "",
    "__inline": "inline",
    "__inline__": "inline",
    "__restrict": "restrict",
    "__restrict__": "restrict",
    "__const": "const",
    "__volatile__": "volatile",
    "__signed__": "signed",
    "__builtin_offsetof": "offsetof",
}
_QUOTED = r"""(?P<quoted>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_EXTENSION = re.compile(
    rf"{_QUOTED}|{_ATTRIBUTE}|(?<![\w$])(?P<word>{'|'.join(_WORDS)})(?![\w$])", flags=re.DOTALL
)
# pycparser joins two strings before their escapes are known.
_SPLIT_ESCAPE = re.compile(
    r'\\(?:x[0-9a-fA-F]+|[0-7]{1,2})"(?:\s|^#[^\n]*$)*"[0-9a-fA-F]', flags=re.MULTILINE
)


def parse_preprocessed(source: str, file: str, sibling_files: Mapping[str, str]) -> c_ast.FileAST:
    """Preprocess a C text by gcc and parse it.

    Args:
        source: the C text.
        file: name of its file in messages.
        sibling_files: texts of the headers in the same folder, by name.

    Raises:
        UnsupportedProgram: gcc is missing, or gcc or the parser rejects the text.
    """
    text = _preprocess(source, file, sibling_files)
    if _SPLIT_ESCAPE.search(text):
        raise _build_error(file, "an escape before the end of a string")
    text = _EXTENSION.sub(lambda match: match["quoted"] or _WORDS.get(match["word"], ""), text)
    try:
        return c_parser.CParser().parse(text, file)
    except (c_parser.ParseError, ValueError, AssertionError, RecursionError) as error:
        raise _build_error(file, f"this text ({error})") from error


def _build_error(file: str, construct: str) -> UnsupportedProgram:
    return UnsupportedProgram(f"{file}: {construct} is not supported; rewrite it")


def _preprocess(source: str, file: str, sibling_files: Mapping[str, str]) -> str:
    if shutil.which("gcc") is None:
        raise UnsupportedProgram(f"{file}: gcc is not installed; install it")
    with tempfile.TemporaryDirectory(prefix="llmchecker-") as folder:
        headers = Path(folder) / "headers"
        for header in sorted(HEADERS | _OWN_HEADERS.keys()):
            text = _OWN_HEADERS[header] if header in _OWN_HEADERS else read_header(header)
            (headers / header).parent.mkdir(parents=True, exist_ok=True)
            (headers / header).write_text(text, encoding="utf-8")
        for sibling, text in sibling_files.items():
            (Path(folder) / sibling).write_text(text, encoding="utf-8")
        (Path(folder) / "program.c").write_text(source, encoding="utf-8")
        command = ["gcc", "-E", "-std=gnu11", "-nostdinc", "-w", "-I", str(headers), "program.c"]
        try:
            process = subprocess.run(
                command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise _build_error(file, "a text that gcc does not preprocess in time") from error
    if process.returncode != 0:
        message = process.stderr.decode(errors="replace").strip().split("\n")[0]
        raise _build_error(file, f"a text that gcc rejects ({message})")
    text = process.stdout.decode(errors="replace")
    if len(text) > _MAX_CHARACTERS:
        raise _build_error(file, "such a long text")
    return text
