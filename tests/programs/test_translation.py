"""The first translation phases, in the order of the standard, and what is refused in them."""

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from llmchecker.errors import UnreadableProgram, UnsupportedProgram
from llmchecker.programs.parsing import parse_program, read_program
from llmchecker.programs.translation import HEADERS, translated

GCC = shutil.which("gcc")


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a // b \\\nc\nd", "a d"),
        ("a // b \\\r\nc\r\nd", "a d"),
        ("a /\\\n/ b\nc", "a c"),
        ("a /\\\n* b *\\\n/ c", "a c"),
        ("a\\\nb c", "ab c"),
        ("a \\\n\\\nb", "a b"),
        ("a /* // */ b", "a b"),
        ("a // /*\nb // */", "a b"),
        ("a '\"' b // \" c\nd", "a '\"' b d"),
        ('a "// \\" /*" b', 'a "" b'),
        ("a/**/b", "a b"),
        ("#include <assert.h>\na", "a"),
        ("  # /* remark */ include <stdlib.h> // remark\na", "a"),
        ("a // remark \\", "a"),
        ("extern void abort(void) __attribute__((__noreturn__));", "extern void abort(void);"),
        ("void exit(int) __attribute__ ((__nothrow__ , __leaf__)) __attribute__((noreturn));",
         "void exit(int);"),
    ],
)  # fmt: skip
def test_phases_are_those_of_the_standard(source: str, expected: str) -> None:
    """Lines are joined first, comments become spaces, strings hide what looks like either."""
    assert words(translated(source, "case.c")) == words(expected)


@pytest.mark.parametrize("source", ["a\\\nb\n\nc", "/* a\n\n*/ b\nc", "// a \\\nb\nc", "a\n\nc\n"])
def test_every_line_keeps_its_place(source: str) -> None:
    """What stands after joined lines and comments stands in the line that it had."""
    line = source.split("\n").index("c")
    assert translated(source, "case.c").split("\n")[line] == "c"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("\na \r b", "case.c:2: a carriage return inside a line"),
        ("// a ??/\nb", "case.c:1: a trigraph"),
        ("a \\  \nb", "case.c:1: a backslash before spaces"),
        ("\n#define N 3", "case.c:2: '#define N 3'"),
        ("#pragma pack(1)", "case.c:1: '#pragma pack(1)'"),
        ("#line 3", "'#line 3'"),
        ("# 3 \"file.c\"", "'# 3 \"file.c\"'"),
        ("int x; #define x 3", "'int x; #define x 3'"),
        ('#include "assert.h"', "'#include \"assert.h\"'"),
        ("#include <iso646.h>", "'#include <iso646.h>'"),
        ("#include <../assert.h>", "'#include <../assert.h>'"),
        ("#include HEADER", "'#include HEADER'"),
        ("#include /*\n*/ <assert.h>", "'#include'"),
        ("#undef assert", "'#undef assert'"),
        ("a <: b :>", "a digraph"),
        ("%:define N 3", "a digraph"),
        ("int \\u0061;", "the character '\\\\'"),
        ("int \u00e9;", "the character 'é'"),
        ("int\u00a0x;", "the character '\\xa0'"),
        ("int\fx;", "the character '\\x0c'"),
        ("int\0x;", "the character '\\x00'"),
        ("x = L'a';", "a prefix of 'a'"),
        ('f(R"(");', "a prefix of"),
        ("int x __attribute__((mode(QI)));", "'__attribute__', a word of the compiler,"),
        ("int x __attribute((mode(QI)));", "'__attribute', a word of the compiler,"),
        ("void f(void) __attribute__((noreturn));", "'__attribute__'"),
        ("void abort(void) __attribute__((constructor));", "'__attribute__'"),
        ("void abort(void) __attribute__((noreturn, alias(\"f\")));", "'__attribute__'"),
        ("__attribute__((noreturn)) void abort(void);", "'__attribute__'"),
        ("int abort(void) __attribute__((noreturn));", "'__attribute__'"),
        ("_Noreturn void f(void);", "'_Noreturn'"),
        ('asm("nop");', "'asm'"),
        ("__asm__ volatile (\"nop\");", "'__asm__'"),
        ("typeof(x) y;", "'typeof'"),
        ("__extension__ int x;", "'__extension__'"),
        ("_Pragma(\"pack(1)\")", "'_Pragma'"),
        ("_Atomic int x;", "'_Atomic'"),
        ("_Static_assert(1, \"\");", "'_Static_assert'"),
        ("int x = __LINE__;", "'__LINE__'"),
        ("int x = __builtin_abs(3);", "'__builtin_abs'"),
    ],
)  # fmt: skip
def test_what_may_mean_something_else_is_refused(source: str, reason: str) -> None:
    """Text that a compiler could read in another way is refused by name, file and line."""
    with pytest.raises(UnsupportedProgram) as raised:
        translated(source, "case.c")
    assert reason in str(raised.value)


@pytest.mark.parametrize("source", ['x = "a\n";', "x = 'a\n;", "/* 'a */ 'b"])
def test_what_does_not_end_is_unreadable(source: str) -> None:
    """A string or a character constant that is not closed is named with its line."""
    with pytest.raises(UnreadableProgram, match=r"case.c:1: .* is opened and not closed"):
        translated(source, "case.c")


def test_a_file_is_read_as_it_is_stored(tmp_path: Path) -> None:
    """A carriage return that a file holds inside a line is not taken for the end of the line."""
    file = tmp_path / "case.c"
    file.write_bytes(b"int main(void) { // remark \r return 1 / 0;\n}")
    with pytest.raises(UnsupportedProgram, match="a carriage return inside a line"):
        read_program(file)
    file.write_bytes(b"int main(void) {\r\n return 0;\r\n}\r\n")
    assert read_program(file).body


PIECES = (
    *("a", "b", " ", " ", "\n", "\n", "\\\n", "\\\r\n", "\r\n", "/", "/", "*", "*", "//"),
    *("/*", "*/", "'x'", '"', '"s"', "'", "\t", ";", "+", "int x;"),
)


@pytest.mark.skipif(GCC is None, reason="there is no gcc")
def test_random_text_is_translated_as_gcc_does(tmp_path: Path) -> None:
    """What is accepted of random lines, comments and strings has the tokens that gcc finds."""
    generator = random.Random(0)
    file = tmp_path / "case.c"
    compared = 0
    while compared < 150:
        source = "".join(generator.choices(PIECES, k=generator.randint(3, 14)))
        try:
            ours = words(translated(source, "case.c"))
        except (UnsupportedProgram, UnreadableProgram):
            continue
        file.write_bytes(source.encode())
        done = subprocess.run([GCC, "-E", "-P", "-w", file], capture_output=True, text=True)
        if done.returncode == 0:
            # The insides of strings are left out.
            assert ours == words(re.sub(r'"[^"]*"', '""', done.stdout)), source
            compared += 1


DEFINITIONS = {
    "void __VERIFIER_assert(int c) { if (!(c)) { ERROR: {reach_error();abort();} } return; }": True,
    "void __VERIFIER_assert(int c) { if (c == 0) { reach_error(); } }": True,
    "void __VERIFIER_assert(int c) { assert(c); }": True,
    "void __VERIFIER_assert(int c) { x = 1; }": False,
    "void __VERIFIER_assert(int c) { if (!c) reach_error(); else x = 1; }": False,
    "void __VERIFIER_assert(int c) { if (c) return; x = 1; }": False,
    "void __VERIFIER_assert(int c) { return; x = 1; }": True,
    "void __VERIFIER_assert(int c, int d) { }": False,
    "void __VERIFIER_assert(int *c) { }": False,
    "void assert(int c) { assert(c); }": False,
    "void __VERIFIER_assume(int c) { if (!c) abort(); }": True,
    "void __VERIFIER_assume(int c) { if (!c) { exit(0); } return; }": True,
    "void __VERIFIER_assume(int c) { if (!c) { LOOP: goto LOOP; } return; }": True,
    "void __VERIFIER_assume(int c) { if (!c) while (1) ; }": True,
    "void __VERIFIER_assume(int c) { if (!c) for (;;) { } }": True,
    "void __VERIFIER_assume(int c) { if (!c) while (1) abort(); }": False,
    "void __VERIFIER_assume(int c) { if (!c) while (x) ; }": False,
    "void __VERIFIER_assume(int c) { if (c) abort(); }": False,
    "void __VERIFIER_assume(int c) { if (!x) abort(); }": False,
    "void __VERIFIER_assume(int c) { if (!c) return; abort(); }": False,
    "void __VERIFIER_assume(int c) { assert(c); abort(); }": False,
    "void __VERIFIER_assume(int c) { abort(); }": False,
    "void __VERIFIER_assume(int c) { }": False,
    "void __VERIFIER_assume(c) int c; { if (!c) abort(); }": False,
    "void abort(void) { }": False,
    "void exit(int s) { while (1) ; }": False,
    "void reach_error(void) { x = 1; }": True,
    "void __assert_fail(const char *a, const char *b, unsigned c, const char *d) { }": True,
    "int __VERIFIER_nondet_int(void) { return 3; }": False,
    "void *malloc(unsigned long n) { x = 1; return 0; }": False,
    "void _start(void) { x = 1; }": False,
    "int abs(int n) { return n < 0 ? -n : n; }": True,
    "extern char __VERIFIER_nondet_int(void);": False,
    "extern int __VERIFIER_nondet_int(int);": False,
    "extern int __VERIFIER_nondet_int();": True,
    "extern void __VERIFIER_assume(float);": False,
    "extern void __ESBMC_assert(_Bool, const char *);": True,
    "inline void abort(void);": False,
    "typedef char bool;": False,
    "typedef _Bool bool;": True,
    "typedef unsigned long size;": True,
    "int abort;": False,
    "int _end;": False,
}


@pytest.mark.parametrize(("before", "understood"), DEFINITIONS.items())
def test_a_file_may_say_only_what_is_known(before: str, understood: bool) -> None:
    """A known function that is declared or defined in another meaning makes a program refused."""
    source = f"int x;\n{before}\nint main(void) {{ x = 0; }}"
    if understood:
        assert parse_program(source, "case").body
    else:
        with pytest.raises(UnsupportedProgram, match=r"^case\.c:2"):
            parse_program(source, "case")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("long y = 0; __VERIFIER_assert(y);", "which cuts its argument short"),
        ("long y = 0; __VERIFIER_assume(y);", "which cuts its argument short"),
        ("__VERIFIER_assert(1, 2);", "the call of __VERIFIER_assert with these arguments"),
        ("__ESBMC_assert(1, 1 / 0);", "the call of __ESBMC_assert with these arguments"),
        ("__VERIFIER_assume();", "the call of __VERIFIER_assume with these arguments"),
        ("abort(1);", "the call of abort"),
        ("exit();", "the call of exit"),
        ("exit(f());", "the call of f in an expression"),
        ("reach_error(1 / 0);", "the call of reach_error"),
        ("char c = __VERIFIER_nondet_char();", "__VERIFIER_nondet_char, which is not declared,"),
        ("int y = " + "9" * 5000 + ";", "a constant of 5000 digits"),
        ("int y = 0x" + "f" * 5000 + ";", "a constant of 5002 digits"),
    ],
)
def test_calls_and_constants_that_are_refused(body: str, reason: str) -> None:
    """What a call or a constant does to its value in C is kept, or the program is refused."""
    with pytest.raises(UnsupportedProgram) as raised:
        parse_program(f"int main(void) {{ {body} }}", "case")
    assert str(raised.value).startswith("case.c:1: ")
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 200


def test_known_headers_may_be_included() -> None:
    """Every known header can be included, alone and with the others."""
    included = "".join(f"#include <{name}>\n" for name in sorted(HEADERS))
    assert parse_program(f"{included}int main(void) {{ return 0; }}", "case").body
