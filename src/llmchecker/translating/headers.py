"""Headers of the C library: their macros and the names of their types, on 64-bit Linux.

A header declares no functions here, since known functions need no declaration and all others are
refused. Tests compare the macros with those of gcc's own headers.
"""

import re

_LIMITS = """
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN (-128)
#define CHAR_MAX 127
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1L)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807L - 1L)
#define LLONG_MAX 9223372036854775807L
#define ULLONG_MAX 18446744073709551615UL
"""

_INTEGERS = {
    8: ("signed char", "unsigned char"),
    16: ("short", "unsigned short"),
    32: ("int", "unsigned int"),
    64: ("long", "unsigned long"),
}
_FAST = {8: 8, 16: 64, 32: 64, 64: 64}
"""The width of `int_fastN_t` with the GNU C library, by N."""

_WORDS = frozenset("typedef unsigned signed char short int long".split())

_WIDE = ("intmax", "intptr")


def _standard_integers() -> str:
    """`<stdint.h>`."""
    widths = {f"int{n}": n for n in _INTEGERS} | {f"int_least{n}": n for n in _INTEGERS}
    widths |= {f"int_fast{n}": _FAST[n] for n in _INTEGERS} | dict.fromkeys(_WIDE, 64)
    lines = []
    for name, bits in widths.items():
        signed, unsigned = _INTEGERS[bits]
        lines += [f"typedef {signed} {name}_t;", f"typedef {unsigned} u{name}_t;"]
        ending = "L" if bits == 64 else ""
        most, upper = (1 << bits - 1) - 1, name.upper()
        lines.append(f"#define {upper}_MAX {most}{ending}")
        lines.append(f"#define {upper}_MIN (-{most}{ending} - 1)")
        unsigned_ending = "U" * (bits >= 32) + ending
        lines.append(f"#define U{upper}_MAX {(1 << bits) - 1}{unsigned_ending}")
    lines += ["#define SIZE_MAX 18446744073709551615UL", "#define PTRDIFF_MAX 9223372036854775807L"]
    lines.append("#define PTRDIFF_MIN (-9223372036854775807L - 1)")
    return "\n".join(lines)


_SIZE = "typedef unsigned long size_t;"
_NULL = f"{_SIZE}\n#define NULL ((void *)0)"
_BSD = """
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char u_int8_t;
typedef unsigned short u_int16_t;
typedef unsigned int u_int32_t;
typedef unsigned long u_int64_t;
typedef unsigned char u_char;
typedef unsigned short u_short, ushort;
typedef unsigned int u_int, uint;
typedef unsigned long u_long, ulong;
typedef long ssize_t;
"""

_TEXTS = {
    "assert.h": "#undef assert",
    "limits.h": _LIMITS,
    "stdbool.h": "#define bool _Bool\n#define true 1\n#define false 0",
    "stddef.h": f"{_NULL}\ntypedef long ptrdiff_t;\ntypedef int wchar_t;",
    "stdint.h": _standard_integers(),
    "inttypes.h": _standard_integers(),
    "stdio.h": f"{_NULL}\ntypedef long ssize_t;\n#define EOF (-1)",
    "stdlib.h": f"{_NULL}\n{_BSD}\ntypedef int wchar_t;\n"
    "#define EXIT_SUCCESS 0\n#define EXIT_FAILURE 1\n#define RAND_MAX 2147483647",
    "string.h": _NULL,
    "sys/types.h": f"{_SIZE}\n{_BSD}",
    "math.h": "",
    "time.h": _NULL,
    "alloca.h": _SIZE,
    "unistd.h": f"{_NULL}\ntypedef long ssize_t;",
}

HEADERS = frozenset(_TEXTS)
"""Headers that may be included."""

_UNTESTABLE = re.compile(
    r"_.*|linux|unix|i386|NDEBUG|NULL|[A-Z]+_(MAX|MIN|DELTA|BUF|PRIO\w*|C)|u?int\w*_t|is\w+|to\w+"
    r"|(PRI|SCN|M_|FP_|SEEK_|CLOCK|TIMER_|HUGE_|EXIT_|MB_|F_|L_|W[A-Z]|FD_|P_)\w*|NAN|INFINITY"
    r"|BUFSIZ|FILENAME_MAX|\w+_OK|(BIG|LITTLE|PDP)_ENDIAN|BYTE_ORDER|alloca|(be|le|hto)\w+"
    r"|stdin|stdout|stderr|offsetof|TIME_UTC|MAX_CANON|MAX_INPUT|NFDBITS|RE_DUP_MAX|signbit"
    r"|fpclassify|math_errhandling|MATH_\w+|static_assert|STD\w+_FILENO|PTHREAD_\w+|INT\d+_C"
)
"""Names that a compiler or a header may have defined although this module does not."""


def header_text(name: str, words: frozenset[str]) -> str:
    """What a header adds to a text: its macros, and those of its types that the text names.

    Args:
        name: one of `HEADERS`.
        words: all words of the text.
    """
    return "\n".join(
        line
        for line in _TEXTS[name].split("\n")
        if not line.startswith("typedef") or words & set(re.findall(r"\w+", line)) - _WORDS
    )


def may_be_defined(name: str) -> bool:
    """Whether a compiler may have defined a macro of this name by itself or in a header.

    A compiler of C never defines `__cplusplus` (C11 6.10.8p3).
    """
    return name != "__cplusplus" and _UNTESTABLE.fullmatch(name) is not None
