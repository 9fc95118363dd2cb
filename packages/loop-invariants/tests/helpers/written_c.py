"""Random C programs as people write them: with every construct that the front end covers.

Each program ends by itself, and divides, shifts and indexes within what C defines. Signed overflow
may occur and counts as wrapping around. Whether the order of evaluation matters is not looked at:
the front end must refuse such programs.
"""

import random
import re
from dataclasses import dataclass

from loop_invariants.ir.expressions import Type

OBSERVED = {
    "int": Type(32),
    "unsigned": Type(32, False),
    "char": Type(8),
    "unsigned char": Type(8, False),
    "short": Type(16),
    "unsigned short": Type(16, False),
    "long": Type(64),
    "unsigned long": Type(64, False),
    "long long": Type(64),
    "_Bool": Type(1, False),
}

_DRAWN = ("int", "uint", "char", "uchar", "short", "ushort", "long", "ulong", "bool", "longlong")
_OF_DRAWN = ("int", "unsigned", "char", "unsigned char", "short", "unsigned short", "long")
_OF_DRAWN += ("unsigned long", "_Bool", "long long")

DECLARED = "".join(
    f"extern {c} __VERIFIER_nondet_{name}(void);\n"
    for name, c in zip(_DRAWN, _OF_DRAWN, strict=True)
)
DECLARED += "extern void __VERIFIER_assert(int);\nextern void __VERIFIER_assume(int);\n"
DECLARED += "extern void assume_abort_if_not(int);\nextern int undefined(int);\n"
DECLARED += "extern void abort(void);\nextern void reach_error(void);\n"
DECLARED += "extern void __assert_fail(const char *, const char *, unsigned, const char *)\n"
DECLARED += "    __attribute__((__nothrow__, __leaf__));\n"
DECLARED += "#include <limits.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdlib.h>\n"

# Functions and macros for the pieces of each program; S is its number.
_GIVEN = """
#define LIMIT_S 7
#define TWICE_S(x) ((x) + (x))
#define LOOSE_S(x, y) x * 2 - y
#define ADD_S(to, v) do { if ((v) & 1) break; to += (v); } while (0)
#if defined(LIMIT_S) && LIMIT_S > 5 && !defined(NOTHING_S)
static int next_S(int *q, unsigned i) { q[i & 3] += i; return q[(i + 1) & 3]; }
#else
#error
#endif
static int walk_S(const int *q, int n) { int t = 0; while (n-- > 0) t += *q++; return t; }
static int between_S(int *from, const int *to) {
    int *at = from, t = 0;
    for (; at < to; ++at) { if (at == from + 1) continue; t ^= *at + (at != from); }
    return t + (to - from);
}
static void swap_S(int *x, int *const y) { int t = *x; *x = *y; *y = t; }
static int *find_S(int *q, int n, int v) {
    while (n-- > 0) { if (*q == v) return q; q++; }
    return NULL;
}
static int *same_S(int *q) { return q; }
static int *at_S;
static void shift_S(struct sS *p, int by) { p->x += by; (*p).y = p->x; }
"""


_NUMBERS = ("0", "1", "2", "3", "7", "100", "255", "5u", "3L", "2UL", "0x10", "0xFFFFFFFF", "'a'")
_NUMBERS += ("'\\n'", "010", "2147483647", "-1", "sizeof(int)", "INT_MAX", "CHAR_MIN", "UINT8_MAX")
_NUMBERS += ("5LL", "7ull", "sizeof(short)", "LONG_MIN")


@dataclass
class _Function:
    name: str
    parameters: int
    returns: bool


class WrittenProgram:
    """A random program.

    Args:
        seed: equal seeds give equal programs.

    Attributes:
        observed: the names of the global variables whose last values tell what a run did.
        text: the C text, with a function `main` in one line of its own.
        kinds: the types of variables.
        numbers: the constants.
    """

    kinds = tuple(sorted(OBSERVED))
    numbers = _NUMBERS

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"written {seed}")
        self._suffix = f"_{seed}"
        self._fresh = 0
        self._functions: list[_Function] = []
        self._loops = 0
        self._switches = 0
        names = {}
        for c_type in self._random.sample(self.kinds, 5):
            names[self._name("g")] = c_type
        self.observed = tuple(names)
        self._types = dict(names)
        self._locals: list[list[str]] = [list(names)]
        self.text = self._program()

    @property
    def compiled_text(self) -> str:
        """The text for a compiler, to which a remark says nothing, with what remarks assert."""

        def said(match: re.Match[str]) -> str:
            wide = re.sub(r"(?<![\w.])([a-z][\w.]*)", r"(__int128)\1", match[1])
            return f"__VERIFIER_assert({wide});"

        return re.sub(r"/\*@ assert (.*?); \*/", said, self.text)

    def _name(self, start: str) -> str:
        self._fresh += 1
        return f"{start}{self._fresh}{self._suffix}"

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _program(self) -> str:
        s = self._suffix
        parts = [DECLARED, f"enum e{s} {{ RED{s}, GREEN{s} = 5, BLUE{s} }};\n"]
        parts.append(f"struct s{s} {{ int x; unsigned char y; }};\n")
        parts.append(f"struct t{s} {{ int n; short d[3]; }};\n")
        parts.append(f"typedef unsigned int uint{s};\n")
        parts += [f"{c_type} {name};\n" for name, c_type in self._types.items()]
        parts.append(f"struct s{s} p{s};\nint a{s}[4] = {{1, 2}};\nint k{s};\n")
        parts.append(f"int m{s}[2][3] = {{{{1}}, {{2, 3}}}};\nstruct s{s} r{s}[3];\n")
        parts.append(f"struct t{s} t{s};\n")
        parts.append(_GIVEN.replace("_S", s).replace("sS", f"s{s}"))
        for _ in range(self._random.randint(0, 3)):
            parts.append(self._function())
        parts.append(self._main())
        return "".join(parts)

    def _main(self) -> str:
        return f"int main(void)\n{self._block(3, start=self._inputs())}\n"

    def _inputs(self) -> str:
        lines = []
        for name in self.observed:
            drawn = _DRAWN[_OF_DRAWN.index(self._types[name])]
            lines.append(f"{name} = __VERIFIER_nondet_{drawn}();")
        return " ".join(lines)

    def _function(self) -> str:
        name = self._name("f")
        count = self._random.randint(0, 2)
        parameters = [self._name("q") for _ in range(count)]
        types = [self._random.choice(self.kinds) for _ in parameters]
        returns = self._chance(0.8)
        outer = self._locals
        # Functions mostly leave the globals alone, or few calls would stand in expressions.
        visible = list(self.observed) if self._chance(0.3) else []
        for parameter, c_type in zip(parameters, types, strict=True):
            self._types[parameter] = c_type
        own = self._name("v")
        self._types[own] = "int"
        self._locals = [[*visible, *parameters, own]]
        kept = f"static int {own} = 3;" if self._chance(0.2) else f"int {own} = 1;"
        loops, self._loops = self._loops, 0
        early = f"if ({self._value(1)}) return {self._value(1)};" if returns else ""
        if not returns and self._chance(0.5):
            early = f"if ({self._value(1)}) return;"
        body = self._block(1, start=f"{kept} {early}", end=returns)
        self._locals, self._loops = outer, loops
        given = ", ".join(f"{t} {p}" for t, p in zip(types, parameters, strict=True)) or "void"
        result = self._random.choice(self.kinds) if returns else "void"
        self._functions.append(_Function(name, count, returns))
        return f"{self._random.choice(('', 'static '))}{result} {name}({given})\n{body}\n"

    def _visible(self) -> list[str]:
        return [name for scope in self._locals for name in scope]

    def _variable(self) -> str:
        kind = self._random.random()
        plain = self._random.choice(self._visible())
        if kind < 0.08:
            return f"a{self._suffix}[{plain} & 3]"
        if kind < 0.16:
            return f"p{self._suffix}.{self._random.choice('xy')}"
        return plain

    def _value(self, depth: int) -> str:
        kind = self._random.random()
        if depth == 0 or kind < 0.12:
            if self._chance(0.65):
                return self._variable()
            if self._chance(0.1):
                return self._random.choice(("RED", "GREEN", "BLUE")) + self._suffix
            return self._random.choice(self.numbers)
        if kind < 0.20:
            return f"({self._changing(depth)})"
        if kind < 0.27 and self._functions:
            returning = [f for f in self._functions if f.returns]
            if returning:
                return self._call(self._random.choice(returning), depth)
        if kind < 0.34:
            c_type = self._random.choice([*self.kinds, f"uint{self._suffix}"])
            return f"({c_type})({self._value(depth - 1)})"
        if kind < 0.40:
            return f"({self._random.choice('-!~+')}({self._value(depth - 1)}))"
        if kind < 0.46:
            parts = (self._value(depth - 1) for _ in range(3))
            return "(({}) ? ({}) : ({}))".format(*parts)
        if kind < 0.50:
            return f"({self._changing(depth)}, {self._value(depth - 1)})"
        if kind < 0.55:
            divisor = self._random.choice(("3", "7u", "-5", "100L"))
            return f"(({self._value(depth - 1)}) {self._random.choice('/%')} {divisor})"
        if kind < 0.63:
            return self._with_pieces(depth)
        if kind < 0.67:
            shift = self._random.choice(("<<", ">>"))
            return f"(({self._value(depth - 1)}) {shift} {self._random.randint(0, 7)})"
        operators = ("+", "-", "*", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||")
        operator = self._random.choice(operators)
        return f"(({self._value(depth - 1)}) {operator} ({self._value(depth - 1)}))"

    def _with_pieces(self, depth: int) -> str:
        """A value made by a macro, a function that takes pointers, or one that nobody defines."""
        s = self._suffix
        value = self._value(max(0, depth - 2))
        forms = (
            f"LIMIT{s}",
            f"TWICE{s}({self._variable()})",
            f"LOOSE{s}({self._variable()}, {self._random.choice(self.numbers)})",
            f"next{s}(a{s}, {value})",
            f"walk{s}(a{s}, ({value}) & 3)",
            f"walk{s}(&a{s}[1] + (({value}) & 1), 2)",
            f"between{s}(a{s}, a{s} + (({value}) & 3))",
            f"undefined({value})",
            f"sizeof({self._random.choice(self.observed)})",
            f"sizeof(a{s})",
        )
        return f"({self._random.choice(forms)})"

    def _call(self, function: _Function, depth: int) -> str:
        given = ", ".join(self._value(max(0, depth - 2)) for _ in range(function.parameters))
        return f"{function.name}({given})"

    def _changing(self, depth: int) -> str:
        """An expression that changes a variable."""
        target = self._variable()
        kind = self._random.random()
        if kind < 0.4:
            return self._random.choice(("{}++", "{}--", "++{}", "--{}")).format(target)
        operator = self._random.choice(("=", "=", "+=", "-=", "*=", "&=", "|=", "^=", "<<="))
        if operator == "<<=":
            return f"{target} <<= {self._random.randint(0, 7)}"
        return f"{target} {operator} {self._value(max(0, depth - 1))}"

    def _block(self, depth: int, start: str = "", end: bool = False) -> str:
        self._locals.append([])
        lines = [start] if start else []
        lines += [self._statement(depth) for _ in range(self._random.randint(2, 4))]
        if end:
            lines.append(f"return {self._value(2)};")
        self._locals.pop()
        return "{ " + " ".join(lines) + " }"

    def _statement(self, depth: int) -> str:
        kind = self._random.random()
        if depth == 0 or kind < 0.34:
            return self._changing(2) + ";"
        if kind < 0.38:
            name = self._random.choice(("i", "k")) + self._suffix
            if name in self._locals[-1]:
                return ";"
            c_type = self._random.choice(self.kinds)
            value = self._value(2)
            if name in value:
                return ";"
            self._types[name] = c_type
            self._locals[-1].append(name)
            return f"{c_type} {name} = {value};"
        if kind < 0.42 and self._functions:
            return self._call(self._random.choice(self._functions), 2) + ";"
        if kind < 0.55:
            then, otherwise = self._block(depth - 1), self._block(depth - 1)
            rest = f" else {otherwise}" if self._chance(0.5) else ""
            return f"if ({self._value(2)}) {then}{rest}"
        if kind < 0.60:
            return self._switch(depth)
        if kind < 0.65:
            return self._forward(depth)
        if kind < 0.68:
            return self._back(depth)
        if kind < 0.70:
            return self._into(depth)
        if kind < 0.76:
            return self._pointing(depth)
        if kind < 0.80:
            choices = ("__VERIFIER_assert(({0}) || 1);", "__VERIFIER_assume(({0}) != 77);")
            choices += ("__VERIFIER_assert(({0}) != 99);", "if (({0}) == 98) abort();")
            choices += ("if (({0}) == 97) reach_error();", "if (({0}) == 96) return 0;")
            choices = ("assume_abort_if_not(({0}) != 78);", *choices)
            choices = ('if (({0}) == 79) __assert_fail("", "", 1, "");', *choices)
            if self._chance(0.3):
                return self._remark()
            # A function without a result must not return one.
            inside = len(self._locals[0]) and self._locals[0][0] == self.observed[0]
            choice = self._random.choice(choices if inside and depth > 1 else choices[:7])
            return choice.format(self._value(2))
        return self._loop(depth)

    def _switch(self, depth: int) -> str:
        self._switches += 1
        cases = self._random.sample(range(-2, 8), 3)
        parts = []
        for number in cases:
            leave = self._random.choice(("break;", "", "break;"))
            parts.append(f"case {number}: {self._changing(1)}; {self._block(depth - 1)} {leave}")
        parts.insert(self._random.randint(0, 3), f"default: {self._changing(1)};")
        self._switches -= 1
        return f"switch ({self._value(2)}) {{ {' '.join(parts)} }}"

    def _forward(self, depth: int) -> str:
        label = self._name("L")
        jump = f"if ({self._value(1)}) goto {label};"
        inner = f"{{ {self._changing(1)}; {jump} }}"
        again = f"while ({self._value(1)}) {{ {self._changing(1)}; goto {label}; }}"
        first = self._random.choice((jump, inner, again))
        inside = self._block(depth - 1) if self._chance(0.8) else self._statement(depth - 1)
        return f"{first} {self._changing(1)}; {inside} {label}: ;"

    def _back(self, depth: int) -> str:
        counter, label = self._name("c"), self._name("L")
        leave = f"if ({self._value(1)}) goto out{label};" if self._chance(0.3) else ""
        return (
            f"{{ int {counter} = 0; {label}: {counter}++; {leave} {self._block(depth - 1)} "
            f"if ({counter} < 3) goto {label}; out{label}: ; }}"
        )

    def _into(self, depth: int) -> str:
        """A jump into a loop."""
        counter, label = self._name("c"), self._name("L")
        inner = f"{counter}++; {self._changing(1)}; {label}: {self._changing(1)};"
        again = f"while ({counter} < 3) {{ {inner} {self._statement(0)} }}"
        return f"{{ int {counter} = 0; {{ if ({self._value(1)}) goto {label}; {again} }} }}"

    def _remark(self) -> str:
        """An assertion in a remark, over mathematical integers; `compiled_text` has it in C."""
        narrow = [name for name in self.observed if OBSERVED[self._types[name]].bits <= 32]
        one, other = (self._random.choice([*narrow, f"p{self._suffix}.x"]) for _ in range(2))
        what = self._random.choice(("{} + {} < 5000000000", "{} - {} != 7", "2 * {} >= {}"))
        return f"; /*@ assert {what.format(one, other)}; */ ;"

    def _pointing(self, depth: int) -> str:
        """A block with pointers, memory that is allocated, or an array of its own."""
        s, w = self._suffix, self._name("w")
        one, other, last = (self._value(1) for _ in range(3))
        c_type = self._random.choice([t for t in self.kinds if t != "_Bool"])
        same = [name for name in self.observed if self._types[name] == c_type]
        forms = [
            f"int *{w} = a{s} + (({one}) & 1); *{w} = {other}; {w}++; {w}[1] = *{w} + 1; "
            f"*--{w} ^= 5;",
            f"int *{w}; {w} = &a{s}[({one}) & 1]; *{w}++ = {other}; {w} += 1; k{s} = *{w};",
            f"{c_type} *{w} = ({c_type} *)malloc(4 * sizeof({c_type})); {w}[0] = {one}; "
            f"{w}[1] = {w}[0]; *({w} + 2) = {other}; if (!{w} || {w} == NULL) abort(); "
            f"k{s} = {w}[2] + *{w}; free({w});",
            f"int n{w} = 1 + (({one}) & 3); int *{w} = malloc(n{w} * sizeof(int)); int i{w} = 0; "
            f"for (; i{w} < n{w}; i{w}++) {w}[i{w}] = i{w} * 3; k{s} += {w}[n{w} - 1];",
            f"struct s{s} *{w} = &p{s}; {w}->x = {one}; shift{s}({w}, {other}); k{s} = (*{w}).y;",
            f"struct s{s} {w} = p{s}; shift{s}(&{w}, 3); k{s} ^= {w}.x;",
            f"struct s{s} *{w} = malloc(sizeof(struct s{s})); {w}->x = {one}; {w}->y = 2; "
            f"shift{s}({w}, 1); k{s} = {w}->y;",
            f"swap{s}(&k{s}, &p{s}.x);",
            f"swap{s}(a{s} + 1, &a{s}[({one}) & 3]);",
            f"int n{w} = 2 + (({one}) & 1); {c_type} {w}[n{w}]; {w}[0] = {other}; {w}[1] = {last}; "
            f"k{s} = {w}[({last}) & 1];",
            f"{c_type} {w}[3] = {{1, 2}}; {w}[({one}) & 1] += {other}; k{s} = {w}[1] - {w}[2];",
            f"ADD{s}(k{s}, {self._variable()});",
            f"int *{w} = find{s}(a{s}, ({one}) & 3, {other}); if ({w}) *{w} -= 3; "
            f"k{s} += {w} == NULL; if ({w} && {w} > a{s}) k{s} = {w} - a{s};",
            f"int *{w} = NULL; if ({one}) {w} = a{s} + (({other}) & 1); "
            f"k{s} = {w} ? {w}[1] : 5; {w} = !{w} ? &a{s}[2] : {w}; *{w} = 4;",
            f"int *{w}; if ({one}) {w} = a{s}; else {w} = a{s} + 1; k{s} = *{w}++; *{w} = 1;",
            f"m{s}[({one}) & 1][({other}) & 1] += {last}; k{s} = m{s}[1][2] + m{s}[0][1]++;",
            f"char {w}[2][2] = {{{{{one}}}, {{{other}, 4}}}}; int i{w} = 0, j{w}; "
            f"for (; i{w} < 2; i{w}++) for (j{w} = 0; j{w} < 2 && {w}[i{w}][j{w}]; j{w}++) "
            f"k{s} += {w}[i{w}][j{w}];",
            f"r{s}[({one}) & 1].x = {other}; r{s}[2].y = {last}; struct s{s} *{w} = &r{s}[1]; "
            f"{w}->x++; shift{s}({w} + 1, 2); k{s} = r{s}[1].x - {w}[-1].y; {w} = r{s}; "
            f"(*{w}).y = 1;",
            f"struct t{s} *{w} = &t{s}; {w}->n = ({one}) & 1; {w}->d[{w}->n] = {other}; "
            f"k{s} = t{s}.d[1] + t{s}.d[t{s}.n + 1]--;",
            f"struct t{s} {w}; {w}.d[1] = {one}; {w}.n = {other}; short *q{w} = &{w}.d[1]; "
            f"k{s} = *q{w} + {w}.n;",
            f"struct s{s} *{w} = malloc(2 * sizeof(struct s{s})); {w}[1].x = {one}; "
            f"{w}[0].y = {other}; k{s} = {w}[1].x ^ {w}->y; free({w});",
            f"at{s} = ({one}) ? &k{s} : NULL; if (at{s} != NULL && *at{s} > 2) *at{s} = {other}; "
            f"int *{w} = at{s}; at{s} = 0; if ({w}) (*{w})--;",
            f"*same{s}(a{s}) += {one}; k{s} = *same{s}(same{s}(a{s} + 1)) + 1;",
            f"char {w}[2] = {{{one}, 100}}; {w}[1] += 100; "
            f"k{s} = *(unsigned char *)({w} + 1) + ((unsigned char *){w})[0];",
        ]
        if same:
            forms.append(f"{c_type} *{w} = &{same[0]}; *{w} += {one}; k{s} = (*{w})++ & 15;")
        return f"{{ {self._random.choice(forms)} }}"

    def _loop(self, depth: int) -> str:
        counter = self._name("c")
        leave = ""
        if self._chance(0.4):
            leave = f"if ({self._value(1)}) {self._random.choice(('break;', 'continue;'))}"
        rest = self._random.randint(1, 3)
        self._loops += 1
        block = self._block(depth - 1)
        self._loops -= 1
        inner = f"{{ {leave} {block} }}"
        extra = f" && {self._value(1)}" if self._chance(0.2) else ""
        forms = (
            f"for (int {counter} = 0; {counter} < {rest}{extra}; {counter}++) {inner}",
            f"for (int {counter} = 0, d{counter} = 5; {counter}++ < {rest}; d{counter}--) {inner}",
            f"{{ int {counter} = {rest}; while ({counter}--) {inner} }}",
            f"{{ int {counter} = {rest}; while (--{counter} > 0{extra}) {inner} }}",
            f"{{ int {counter} = 0; do {{ {counter}++; {inner} }} while ({counter} < {rest}); }}",
            f"{{ char {counter} = 0; do {inner} while ({counter}++ < {rest}{extra}); }}",
            f"do {inner} while (0);",
        )
        return self._random.choice(forms)
