"""Headers of the C library: macros and type names, for 64-bit Linux.

These headers declare no functions: builtins need no declaration, and all others are rejected. Tests
compare the macros with those of gcc's own headers.
"""

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
    lines.append("#define PTRDIFF_MIN (-9223372036854775807L - 1)\n")
    return "\n".join(lines)


_SIZE_TYPE = "typedef unsigned long size_t;\n"
_NULL_MACRO = f"{_SIZE_TYPE}#define NULL ((void *)0)\n"
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

HEADER_TEXTS = {
    "assert.h": "#undef assert\n#ifdef NDEBUG\n#define assert(e) ((void)0)\n#endif\n"
    "#define static_assert _Static_assert\n",
    "limits.h": _LIMITS_H,
    # The macros of C11 7.18.
    "stdbool.h": "#define bool _Bool\n#define true 1\n#define false 0\n",
    "stddef.h": f"{_NULL_MACRO}typedef long ptrdiff_t;\ntypedef int wchar_t;\n",
    "stdint.h": _build_stdint_h(),
    "inttypes.h": _build_stdint_h(),
    "stdio.h": f"{_NULL_MACRO}typedef long ssize_t;\n#define EOF (-1)\n",
    "stdlib.h": f"{_NULL_MACRO}{_BSD_TYPES}typedef int wchar_t;\n"
    "#define EXIT_SUCCESS 0\n#define EXIT_FAILURE 1\n#define RAND_MAX 2147483647\n",
    "string.h": _NULL_MACRO,
    "sys/types.h": f"{_SIZE_TYPE}{_BSD_TYPES}",
    "math.h": "",
    "time.h": _NULL_MACRO,
    "alloca.h": _SIZE_TYPE,
    "unistd.h": f"{_NULL_MACRO}typedef long ssize_t;\n",
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
"""Texts of the headers that may be included, by name."""
