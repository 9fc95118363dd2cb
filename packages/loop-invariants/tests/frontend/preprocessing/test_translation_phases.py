"""The first translation phases, in the order of the standard, and what is refused in them."""

import contextlib
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from helpers.marks import long_cases

from llmchecker.errors import ProgramError, UnreadableProgram, UnsupportedProgram
from loop_invariants.c_files import read_included_headers
from loop_invariants.frontend.preprocessing import preprocessor
from loop_invariants.frontend.preprocessing.libc_headers import HEADER_TEXTS
from loop_invariants.frontend.preprocessing.translation_phases import translate
from loop_invariants.frontend.translation_unit import parse_program, read_program

GCC = shutil.which("gcc")


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


@pytest.mark.skipif(GCC is None, reason="there is no gcc")
@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ('#include "limits.h"\nint x = INT_MAX;', {"limits.h": "#define INT_MAX 3\n"}),
        ("#include <limits.h>\nint x = 1;", {"limits.h": "int y;\n"}),
        ("#include <own.h>\nint x = ONE;", {"own.h": "#define ONE 1 // one\n"}),
        ('int x;\n  # include "a.h" /* remark */\nint y;', {"a.h": "int z; // \\\nint no;\n"}),
        ('#include "a.h"\n#include "a.h"\n', {"a.h": "#ifndef A\n#define A\nint x;\n#endif"}),
        ('#include "a.h"\nint t = B;', {"a.h": '#include "b.h"\n', "b.h": "#define B 7"}),
        ('#include "b.h"\n#include "a.h"', {"a.h": "#ifdef B\nint x;\n#endif", "b.h": "#define B"}),
        ('#define B 2\n#include "a.h"\n#undef B\nint y = B;', {"a.h": "int x = B;"}),
        ('#if 0\n#include "a.h"\n#endif\nint y;', {"a.h": "#error no\n"}),
        ('// #include "a.h"\nint y;', {"a.h": "int x;"}),
        ('/*\n#include "a.h"\n*/ int y;', {"a.h": "int x;"}),
        ('#include "a.h"\nint y;', {"a.h": "#ifdef __cplusplus\nclass c;\n#endif\nint x;\r\n"}),
        ('int y = 1 + \n#include "a.h"\nint z;', {"a.h": "2;"}),
        ('#include "a.h"\nint f(int x) { return x; }', {"a.h": "#define f(x) g(x + 1)\n"}),
        ('#include /* a */ "limits.h"\nint x = INT_MAX;', {"limits.h": "#define INT_MAX 3\n"}),
        ('#define f(x) x\n#include "a.h"\n(int x;)', {"a.h": "f"}),
        ('#include "a.h"\nint t = A(1, 2);', {"a.h": "#define A(x, y) x ## y\n"}),
        ('#include "a.h"\nint t = 0.5;', {"a.h": "#ifndef _A_H\n#define _A_H 2.5f\n#endif"}),
        ('#inc\\\nlude "lim\\\nits.h"\nint x = INT_MAX;', {"limits.h": "#define INT_MAX 3\n"}),
    ],
)  # fmt: skip
def test_headers_beside_the_file_are_read_as_gcc_does(
    text: str, headers: dict[str, str], tmp_path: Path
) -> None:
    """Headers in the file's folder are included as often as they are, with what stood before."""
    for name, header in headers.items():
        (tmp_path / name).write_text(header)
    file = tmp_path / "case.c"
    file.write_text(f"{text}\nint main(void) {{ }}\n")
    done = subprocess.run(
        [GCC, "-E", "-P", "-idirafter", ".", "case.c"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    beside = read_included_headers(file, file.read_text())
    assert words(translate(file.read_text(), "case.c", beside)) == words(done.stdout)


@pytest.mark.skipif(GCC is None, reason="there is no gcc")
def test_headers_are_those_of_the_folder_that_a_path_names(tmp_path: Path) -> None:
    """A link to a program includes the headers next to the link, as with gcc."""
    for folder in ("own", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.h").write_text(f"int {folder};\n")
    (tmp_path / "other/case.c").write_text('#include "a.h"\nint main(void) { }\n')
    link = tmp_path / "own/case.c"
    link.symlink_to("../other/case.c")
    done = subprocess.run([GCC, "-E", "-P", link], capture_output=True, text=True, check=True)
    source = link.read_text()
    text = translate(source, "case.c", read_included_headers(link, source))
    assert words(text) == words(done.stdout)
    assert "own" in words(text)


def test_names_of_headers_are_those_of_the_program(tmp_path: Path) -> None:
    """A function and a variable of a header are used, and the text alone is not given to ESBMC."""
    (tmp_path / "a.h").write_text("int drawn;\nstatic int next(void) { return ++drawn; }\n")
    file = tmp_path / "case.c"
    file.write_text('#include "a.h"\nint main(void) { int x = next(); { int x = drawn; } }\n')
    program = read_program(file)
    assert program.is_lowered
    assert {"drawn", "x", "x_2"} <= set(program.types)


@pytest.mark.parametrize(
    ("text", "headers", "reason"),
    [
        ('#include "a.h"\n', {}, r"case.c:1: '#include \"a.h\"' is not supported"),
        ('#include "../a.h"\n', {}, r"case.c:1: '#include \"../a.h\"' is not supported"),
        ('int x;\n#include "a.h"\n', {"a.h": "\n#pragma p\n"}, r"a.h:2: '#pragma p' is not"),
        ('int x;\n#include "a.h"\n', {"a.h": '#include "a.h"\n'}, "nested depth 200"),
        ('#define A "a.h"\n#include A\n', {"a.h": ""}, "c:2: '#include A' is not supported"),
        ('#define A "limits.h"\n#include A\n', {"limits.h": ""}, "c:2: '#include A' is not"),
        (
            '#include "a.h"\n',
            {"a.h": "#include <stdio.h>\n#ifdef BUFSIZ\n#endif"},
            "a.h:2: a condition",
        ),
        ('#include "sys/types.h"\n', {}, "put the header into the folder of the program"),
    ],
)
def test_headers_that_are_refused(
    text: str, headers: dict[str, str], reason: str, tmp_path: Path
) -> None:
    """One that lies elsewhere, includes itself for ever or is not covered is named."""
    for name, header in headers.items():
        (tmp_path / name).write_text(header)
    file = tmp_path / "case.c"
    file.write_text(f"{text}\nint main(void) {{ }}\n")
    with pytest.raises(UnsupportedProgram, match=reason):
        read_program(file)


@pytest.mark.parametrize(
    "directive",
    [
        "#include <{}>",
        "#include_next <{}>",
        "#import <{}>",
        "#include <../{}>",
        "/*\n*/ #import {}",
    ],
)
def test_no_other_file_is_read(directive: str, tmp_path: Path) -> None:
    """A header outside the program's folder is refused, however a directive names it."""
    secret, folder = tmp_path / "secret.h", tmp_path / "program"
    secret.write_text("int secret;\n")
    folder.mkdir()
    file = folder / "case.c"
    file.write_text(directive.format(secret) + "\nint main(void) { secret = 1; }\n")
    with pytest.raises(ProgramError) as refused:
        read_program(file)
    assert "int secret" not in str(refused.value)


def test_no_process_goes_on_after_the_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Macros that double themselves end in time, and so do the children of gcc."""
    monkeypatch.setattr(preprocessor, "_SECONDS", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    doubled = [f"#define A{n} A{n - 1} A{n - 1}\n" for n in range(1, 60)]
    file = tmp_path / "case.c"
    file.write_text("#define A0\n" + "".join(doubled) + "A59\nint main(void) { }\n")
    with pytest.raises(UnsupportedProgram):
        read_program(file)
    for _ in range(100):
        if not _has_process_in(tmp_path):
            return
        time.sleep(0.1)
    pytest.fail("a child of gcc still runs")


def _has_process_in(folder: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        # a process may end at any time
        with contextlib.suppress(OSError):
            if str((process / "cwd").readlink()).startswith(str(folder)):
                return True
    return False


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
        ("  # /* remark */ include <assert.h> // remark\na", "a"),
        ("a // remark \\", "a"),
        ("extern void abort(void) __attribute__((__noreturn__));", "extern void abort(void);"),
        ("void uncalled(int) __attribute__((noreturn));", "void uncalled(int);"),
        ("typedef int t __attribute__ ((__mode__ (__QI__)));", "typedef signed char t;"),
        ("typedef unsigned int t __attribute__((__mode__(__word__)));", "typedef unsigned long t;"),
        ("struct s { int x; } __attribute__((packed));", "struct s { int x; };"),
        ("void exit(int) __attribute__ ((__nothrow__ , __leaf__)) __attribute__((noreturn));",
         "void exit(int);"),
        ("#define N 3\nint x = N;", "int x = 3;"),
        ("#define N 10ull\nint x = -N - 0XFL;", "int x = - 10ull - 0XFL;"),
        ("#define MINUS -1\nx = -MINUS;", "x = - - 1;"),
        ("#define F(a) a(a)\nF((b))", "(b)((b))"),
        ("#define F(a) (F)(a)\nF(F(x))", "(F)((F)(x))"),
        ("#define XOR(a, b) a ^= b\nXOR(x, y);", "x ^= y;"),
        ("#ifdef NO\n#error\n#include \"x\"\n#else\na\n#endif", "a"),
        ("#define N 3\n#if N > 2 && !defined(M)\na\n#elif 1\nb\n#endif", "a"),
        ("#include <limits.h>\nINT_MIN", "(-2147483647 - 1)"),
        ("# 1 \"file.c\" 3 4\n#line 7\na", "a"),
        ("#define JOIN(a, b) a ## b\nint JOIN(x, 1);", "int x1;"),
        ("#define SHOW(...) f(__VA_ARGS__)\nSHOW(1, 2);", "f(1, 2);"),
        ("#define TEXT(a) f(#a)\nTEXT(b);", 'f("");'),
        ("#ifdef __GNUC__\na\n#else\nb\n#endif", "a"),
        ("#include <limits.h>\n#if INT_MAX > 5\na\n#endif", "a"),
        ("#define F(a) a\nF(\n#define N 1\nN)", "1"),
        ("#define NDEBUG\n#include <assert.h>\nassert(x);", "((void)0);"),
        ("#define N 3\nint x = N * 1.5;", "int x = 3 * 1.5;"),
        ("#include <iso646.h>\na and b", "a && b"),
        ("__extension__ __signed__ char x;", "signed char x;"),
        ("int __attribute__((noinline, nonnull (1, 2))) f(void);", "int f(void);"),
        ("int f(int) __attribute__((const)); int g(void) { return f(1); }",
         "int f(int); int g(void) { return f(1); }"),
        ("int __attribute__((noinline)) f(void) { return 1; }", "int f(void) { return 1; }"),
        ("char *__restrict p;", "char *restrict p;"),
        ("x; //@ assert x > 0;\ny;", "x; __VERIFIER_remark(x > 0); y;"),
        ("x; /*@ assert x > 0; */ y;", "x; __VERIFIER_remark(x > 0); y;"),
        ("x; /* @ assert x; */ // @assert x;", "x;"),
        ("if (x) //@ assert x;\ny;", "if (x) __VERIFIER_remark_inside_a_statement(); y;"),
        ("x; //@ assert x > 0 ==> y;", "x; __VERIFIER_remark_beyond_C();"),
        ("x; //@ assert !\\false;", "x; __VERIFIER_remark(!0);"),
        ("x; //@ loop invariant x > 0;", "x;"),
    ],
)  # fmt: skip
def test_phases_are_those_of_the_standard(source: str, expected: str) -> None:
    """Lines are joined first, comments become spaces, strings hide what looks like either."""
    assert words(translate(source, "case.c")) == words(expected)


@pytest.mark.parametrize("source", ["a\\\nb\n\nc", "/* a\n\n*/ b\nc", "// a \\\nb\nc", "a\n\nc\n"])
def test_every_line_keeps_its_place(source: str) -> None:
    """What stands after joined lines and comments stands in the line that it had."""
    line = source.split("\n").index("c")
    assert translate(source, "case.c").split("\n")[line] == "c"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("\na \r b", "case.c:2: a carriage return inside a line"),
        ("// a ??/\nb", "case.c:1: a trigraph"),
        ("a \\  \nb", "case.c:1: a backslash before spaces"),
        ("\n#pragma pack(1)", "case.c:2: '#pragma pack(1)'"),
        ("#error none\n", "'#error none'"),
        ("#include <stdio.h>\n#ifdef __GLIBC__\n#endif", "case.c:2: a condition on __GLIBC__"),
        ("#include <stdio.h>\n#ifndef BUFSIZ\n#define BUFSIZ 3\n#endif", "a condition on BUFSIZ"),
        ("#include <stdio.h>\n#define A __GLIBC__\n#if A\n#endif", "a condition on __GLIBC__"),
        ("#if defined(__STDC_IEC_559__) || 1\n#endif", "a condition on __STDC_IEC_559__"),
        ("\n#if __has_include(<pthread.h>)\n#endif", "case.c:2: '#if __has_include(<pthread.h>)'"),
        *long_cases(("#define A 1\n" + "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(40))
                     + "A40", "macros of more than 3,000,000")),
        ("__VERIFIER_remark(1);", "the name __VERIFIER_remark"),
        ("int x; #define x 3", "'int x; #define x 3'"),
        ('#include "own.h"', "'#include \"own.h\"'"),
        ("#include <../assert.h>", "'#include <../assert.h>'"),
        ("#include HEADER", "'#include HEADER'"),
        ("#include /*\n*/ <assert.h>", "'#include'"),
        ("a <: b :>", "a digraph"),
        ("%:define N 3", "a digraph"),
        ("int \\u0061;", "the character '\\\\'"),
        ("int \u00e9;", "the character 'é'"),
        ("int\fx;", "the character '\\x0c'"),
        ("x = L'a';", "a prefix of 'a'"),
        ('f(R"(");', "a prefix of"),
        ("int x __attribute__((mode(QI)));", "'__attribute__', a word of the compiler,"),
        ("int x __attribute((mode(QI)));", "'__attribute', a word of the compiler,"),
        ("void f(void) __attribute__((noreturn)); f();", "'__attribute__'"),
        ("void abort(void) __attribute__((constructor));", "'__attribute__'"),
        ("void abort(void) __attribute__((noreturn, alias(\"f\")));", "'__attribute__'"),
        ("__attribute__((noreturn)) void abort(void);", "'__attribute__'"),
        ("int abort(void) __attribute__((noreturn)); abort();", "'__attribute__'"),
        ("__attribute__((const)) int f(int x) { return x; }", "'__attribute__'"),
        ("static int __attribute__((pure)) f(int x) { return x; }", "'__attribute__'"),
        ("int f(int *p) __attribute__((nonnull)); int f(int *p) { return !p; }", "'__attribute__'"),
        ("_Noreturn void f(void);", "'_Noreturn'"),
        ('asm("nop");', "'asm'"),
        ("__asm__ volatile (\"nop\");", "'__asm__'"),
        ("typeof(x) y;", "'typeof'"),
        ("_Pragma(\"pack(1)\")", "'_Pragma'"),
        ("_Atomic int x;", "'_Atomic'"),
        ("int x = __LINE__;", "'__LINE__'"),
        ("int x = __builtin_abs(3);", "'__builtin_abs'"),
    ],
)  # fmt: skip
def test_what_may_mean_something_else_is_refused(source: str, reason: str) -> None:
    """Text that a compiler could read in another way is refused by name, file and line."""
    with pytest.raises(UnsupportedProgram) as raised:
        translate(source, "case.c")
    assert reason in str(raised.value)


@pytest.mark.parametrize("read", [translate, partial(preprocessor.preprocess, sibling_files={})])
def test_names_that_gcc_leaves_undefined_are_undefined(read: Callable[[str, str], str]) -> None:
    """Both readings take a condition as gcc does, and refuse one on a macro of its headers."""
    source = "#ifdef _WIN32\na\n#endif\n#ifndef NDEBUG\nb\n#endif\n"
    assert words(re.sub("# .*", "", read(source, "case.c"))) == ["b"]
    with pytest.raises(UnsupportedProgram, match=r"case.c:2: a condition on __GLIBC__"):
        read("#include <stdio.h>\n#ifdef __GLIBC__\n#endif\n", "case.c")


@pytest.mark.parametrize("source", ["int\u00a0x;", "int\0x;", "int@x;", "int `x;", "don't 'x"])
def test_what_no_compiler_reads_is_no_c(source: str) -> None:
    """Characters of no token of C make a text unreadable, with their line."""
    with pytest.raises(UnreadableProgram, match=r"case.c:1: .* is not C; correct"):
        translate(source, "case.c")


@pytest.mark.parametrize("name", ["_SEAHORN__H_", "_KLEE_H", "_OWN_H"])
def test_a_guard_with_an_underscore_is_read(name: str) -> None:
    """A text that defines such a name owns it, so that the header is included once."""
    header = f"#ifndef {name}\n#define {name}\nint x;\n#endif\n"
    source = '#include "h.h"\n#include "h.h"\n'
    assert translate(source, "case.c", {"h.h": header}).split() == ["int", "x;"]


@pytest.mark.parametrize("source", ['x = "a\n";', "x = 'a\n;", "/* 'a */ 'b"])
def test_what_does_not_end_is_unreadable(source: str) -> None:
    """A string or a character constant that is not closed is named with its line."""
    with pytest.raises(UnreadableProgram, match=r"case.c:1: .* is opened and not closed"):
        translate(source, "case.c")


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


@pytest.mark.long
@pytest.mark.skipif(GCC is None, reason="there is no gcc")
def test_random_text_is_translated_as_gcc_does(tmp_path: Path) -> None:
    """What is accepted of random lines, comments and strings has the tokens that gcc finds."""
    generator = random.Random(0)
    file = tmp_path / "case.c"
    compared = 0
    while compared < 150:
        source = "".join(generator.choices(PIECES, k=generator.randint(3, 14)))
        try:
            ours = words(translate(source, "case.c"))
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
    "typedef char bool;": True,
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
        ("reach_error(1 / 0);", "the call of reach_error"),
        ("int c = __VERIFIER_nondet_char();", "__VERIFIER_nondet_char, which is not declared,"),
        ("int y = " + "9" * 5000 + ";", "a constant of 5000 digits"),
        ("int y = 0x" + "f" * 5000 + ";", "a constant of 5002 digits"),
        ("int y = " + "9" * 5000 + ".0;", "a constant of 5002 digits"),
    ],
)
def test_calls_and_constants_that_are_refused(body: str, reason: str) -> None:
    """What a call or a constant does to its value in C is kept, or the program is refused."""
    with pytest.raises(UnsupportedProgram) as raised:
        parse_program(f"int main(void) {{ {body} }}", "case")
    assert str(raised.value).startswith("case.c:1: ")
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 200


WORDS = ("A", "B", "F", "G", "x", "1", "2", "(", ")", ",", "+", "-", "-", "=", "^", "F(", "G(")
BODIES = (*WORDS[:7], "a", "a", "b", "(a)", "+", "-", "F(a)", "G(x)", "(A)", "-a", "-1", "B")


def macros(source: random.Random) -> str:
    """Random macros, some of them taken back, and text that uses them."""
    lines = []
    for _ in range(source.randint(2, 6)):
        name = source.choice("ABFG")
        body = " ".join(source.choices(BODIES, k=source.randint(0, 4)))
        given = {"F": "(a)", "G": "(a, b)"}.get(name, "") if source.random() < 0.8 else ""
        lines += [f"#undef {name}", f"#define {name}{given} {body}"]
        if source.random() < 0.5:
            test = source.choice((f"#ifdef {name}", f"#ifndef {name}", "#if 1 - 1", "#if 2 > 1"))
            lines += [test, f"#undef {source.choice('ABFG')}", "#else", "#define A 7", "#endif"]
            lines.insert(-2, "#undef A")
        used = "("
        while used.count("(") != used.count(")"):
            used = " ".join(source.choices(WORDS, k=source.randint(2, 9)))
        lines.append(used + source.choice((" F(x) ;", " G(1, A) ;", " F(F(2)) ;", " A B ;")))
    return "\n".join(lines) + "\n"


@pytest.mark.skipif(GCC is None, reason="there is no gcc")
@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.long)])
def test_random_macros_are_expanded_as_gcc_does(count: int, tmp_path: Path) -> None:
    """What is accepted of random macros and conditions has the tokens that gcc finds."""
    file = tmp_path / "case.c"
    compared = 0
    for seed in range(count):
        source = macros(random.Random(f"macros {count} {seed}"))
        try:
            ours = words(translate(source, "case.c"))
        except (UnsupportedProgram, UnreadableProgram):
            continue
        file.write_text(source)
        done = subprocess.run([GCC, "-E", "-P", "-w", file], capture_output=True, text=True)
        if done.returncode == 0:
            assert ours == words(done.stdout), source
            compared += 1
    assert compared > count / 4


VALUES = {
    "limits": "CHAR_BIT SCHAR_MIN SCHAR_MAX UCHAR_MAX CHAR_MIN CHAR_MAX SHRT_MIN SHRT_MAX "
    "USHRT_MAX INT_MIN INT_MAX UINT_MAX LONG_MIN LONG_MAX ULONG_MAX LLONG_MIN LLONG_MAX ULLONG_MAX",
    "stdint": " ".join(
        f"{sign}{kind}_{end}"
        for sign, ends in (("INT", ("MIN", "MAX")), ("UINT", ("MAX",)))
        for kind in ("8", "16", "32", "64", "_LEAST8", "_LEAST32", "_FAST8", "_FAST16", "_FAST64")
        for end in ends
    )
    + " INTMAX_MAX UINTMAX_MAX INTPTR_MIN UINTPTR_MAX SIZE_MAX PTRDIFF_MIN PTRDIFF_MAX",
    "stdlib": "EXIT_SUCCESS EXIT_FAILURE RAND_MAX",
    "stdio": "EOF",
    "stdbool": "true false",
}
TYPES = {
    "stdint": "int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t int_fast8_t "
    "uint_fast16_t int_least16_t intmax_t uintptr_t",
    "stddef": "size_t ptrdiff_t wchar_t",
    "stdlib": "size_t u_int8_t u_short uint ulong int16_t ssize_t",
    "sys/types": "u_char ushort u_int64_t",
}


@pytest.mark.few(2)
@pytest.mark.skipif(GCC is None, reason="there is no gcc")
@pytest.mark.parametrize("header", sorted(VALUES.keys() | TYPES.keys()))
def test_headers_say_what_those_of_gcc_say(header: str, tmp_path: Path) -> None:
    """Macros have the values and types, and types the widths, of the C library's own headers."""
    lines = [f"#include <{header}.h>", "int main(void) {"]
    for name in VALUES.get(header, "").split():
        (text,) = translate(f"#include <{header}.h>\nlong_name = {name};", "x.c").split("\n")[1:]
        value = text.partition("=")[2].strip(" ;")
        lines.append(f'_Static_assert({name} == {value}, "{name}");')
        lines.append(f'_Static_assert(sizeof({name}) == sizeof({value}), "{name}");')
    for name in TYPES.get(header, "").split():
        own = translate(f"#include <{header}.h>\n{name} x;", "x.c").split("\n")[0]
        kind = re.search(rf"typedef ([a-z ]+?) (?:\w+, )?{name}(?:,[^;]*)?;", own)[1]
        lines.append(f'_Static_assert(_Generic(({name})0, {kind}: 1), "{name}");')
    (tmp_path / "case.c").write_text("\n".join([*lines, "}"]))
    done = subprocess.run(
        [GCC, "-fsyntax-only", tmp_path / "case.c"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_known_headers_may_be_included() -> None:
    """Every known header can be included, alone and with the others."""
    included = "".join(f"#include <{name}>\n" for name in sorted(HEADER_TEXTS.keys() - {"errno.h"}))
    assert parse_program(f"{included}int main(void) {{ return 0; }}", "case").body
