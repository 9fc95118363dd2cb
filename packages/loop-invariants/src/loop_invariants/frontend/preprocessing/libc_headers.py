"""Headers of the C library: macros and type names, for 64-bit Linux.

These headers declare no functions: builtins need no declaration, and all others are rejected. Tests
compare the macros with those of gcc's own headers.
"""

import re

_LIMITS_H = """
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

_INTEGER_TYPES = {
    8: ("signed char", "unsigned char"),
    16: ("short", "unsigned short"),
    32: ("int", "unsigned int"),
    64: ("long", "unsigned long"),
}
_FAST_WIDTHS = {8: 8, 16: 64, 32: 64, 64: 64}
"""Width of `int_fastN_t` in the GNU C library, by N."""

_TYPE_KEYWORDS = frozenset("typedef unsigned signed char short int long".split())

_WIDEST_TYPES = ("intmax", "intptr")


def _build_stdint_h() -> str:
    """Build the text of `<stdint.h>`."""
    widths = {f"int{n}": n for n in _INTEGER_TYPES} | {f"int_least{n}": n for n in _INTEGER_TYPES}
    widths |= {f"int_fast{n}": _FAST_WIDTHS[n] for n in _INTEGER_TYPES} | dict.fromkeys(
        _WIDEST_TYPES, 64
    )
    lines = []
    for name, bits in widths.items():
        signed_type, unsigned_type = _INTEGER_TYPES[bits]
        lines += [f"typedef {signed_type} {name}_t;", f"typedef {unsigned_type} u{name}_t;"]
        # Constants of 64 bits need the suffix of `long`.
        suffix = "L" if bits == 64 else ""
        maximum, macro_name = (1 << bits - 1) - 1, name.upper()
        lines.append(f"#define {macro_name}_MAX {maximum}{suffix}")
        lines.append(f"#define {macro_name}_MIN (-{maximum}{suffix} - 1)")
        # Narrow unsigned types are promoted to int, so their limits have no suffix.
        unsigned_suffix = "U" * (bits >= 32) + suffix
        lines.append(f"#define U{macro_name}_MAX {(1 << bits) - 1}{unsigned_suffix}")
    lines += ["#define SIZE_MAX 18446744073709551615UL", "#define PTRDIFF_MAX 9223372036854775807L"]
    lines.append("#define PTRDIFF_MIN (-9223372036854775807L - 1)")
    return "\n".join(lines)


_SIZE_TYPE = "typedef unsigned long size_t;"
_NULL_MACRO = f"{_SIZE_TYPE}\n#define NULL ((void *)0)"
_BSD_TYPES = """
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

_HEADER_TEXTS = {
    "assert.h": "#undef assert\n#define static_assert _Static_assert",
    "limits.h": _LIMITS_H,
    # The macros of C11 7.18.
    "stdbool.h": "#define bool _Bool\n#define true 1\n#define false 0",
    "stddef.h": f"{_NULL_MACRO}\ntypedef long ptrdiff_t;\ntypedef int wchar_t;",
    "stdint.h": _build_stdint_h(),
    "inttypes.h": _build_stdint_h(),
    "stdio.h": f"{_NULL_MACRO}\ntypedef long ssize_t;\n#define EOF (-1)",
    "stdlib.h": f"{_NULL_MACRO}\n{_BSD_TYPES}\ntypedef int wchar_t;\n"
    "#define EXIT_SUCCESS 0\n#define EXIT_FAILURE 1\n#define RAND_MAX 2147483647",
    "string.h": _NULL_MACRO,
    "sys/types.h": f"{_SIZE_TYPE}\n{_BSD_TYPES}",
    "math.h": "",
    "time.h": _NULL_MACRO,
    "alloca.h": _SIZE_TYPE,
    "unistd.h": f"{_NULL_MACRO}\ntypedef long ssize_t;",
}

HEADERS = frozenset(_HEADER_TEXTS)
"""Names of the headers that may be included."""

_COMPILER_MACRO = re.compile(
    r"_.*|linux|unix|i386|NDEBUG|NULL|[A-Z]+_(MAX|MIN|DELTA|BUF|PRIO\w*|C)|u?int\w*_t|is\w+|to\w+"
    r"|(PRI|SCN|M_|FP_|SEEK_|CLOCK|TIMER_|HUGE_|EXIT_|MB_|F_|L_|W[A-Z]|FD_|P_)\w*|NAN|INFINITY"
    r"|BUFSIZ|FILENAME_MAX|\w+_OK|(BIG|LITTLE|PDP)_ENDIAN|BYTE_ORDER|alloca|(be|le|hto)\w+"
    r"|stdin|stdout|stderr|offsetof|TIME_UTC|MAX_CANON|MAX_INPUT|NFDBITS|RE_DUP_MAX|signbit"
    r"|fpclassify|math_errhandling|MATH_\w+|static_assert|STD\w+_FILENO|PTHREAD_\w+|INT\d+_C"
)
"""Macros that a compiler or header may define although this module does not."""


_VERIFIER_GUARD = re.compile(r"_+(SEAHORN|KLEE|CBMC|ESBMC|VERIFIER)_+H_*")
"""Include guards of the headers of verifiers, which no compiler or C library defines."""


def read_header(name: str) -> str:
    """Return the whole text of a header in `HEADERS`."""
    return _HEADER_TEXTS[name]


def build_header(name: str, words: frozenset[str]) -> str:
    """Build the text of a header: its macros, and the types that the text uses.

    Args:
        name: name in `HEADERS`.
        words: all words of the text.
    """
    return "\n".join(
        line
        for line in _HEADER_TEXTS[name].split("\n")
        if not line.startswith("typedef") or words & set(re.findall(r"\w+", line)) - _TYPE_KEYWORDS
    )


def can_be_predefined(name: str) -> bool:
    """Check that a compiler or header may define a macro of this name.

    A C compiler never defines `__cplusplus` (C11 6.10.8p3).
    """
    is_undefined = name == "__cplusplus" or _VERIFIER_GUARD.fullmatch(name)
    return not is_undefined and _COMPILER_MACRO.fullmatch(name) is not None
