"""Random programs over many kinds of memory, and their runs in gcc with sanitizers."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

_TYPES = "int,unsigned,short,unsigned short,signed char,unsigned char,long,unsigned long,_Bool"
_MASKS = {2: 1, 3: 1, 4: 3, 5: 3, 6: 3}

_STRUCTURES = """s2 = s1;|s1 = s2;|s2 = sw(s1);|s1 = (struct S){1, .y = 2};
memcpy(&s2, &s1, sizeof s1);|memset(&u, 0, sizeof u);|ps = &s2;|ps = n > 1 ? &s1 : &s2;
ps = (struct S *)&s2.x;|s1.in = s2.in;|*ps = s2;|b = offsetof(struct S, in);"""
_POINTERS = """{ int (*fp)(int, int) = n > 1 ? f : f2; a = fp(a, b); }|p = n & 1 ? &a : ar;
p = ar + (n & 1);|p = &ar[2];|q = &m[1][0];|q = m[1] + 1;|q = m[n & 1];|p = ar; p += 2;
*p++ = 3; p = ar;
a = (p == ar);|b = &ar[3] - &ar[1];|b = (int[]){4, 5, 6}[n & 1];|memset(ar, 1, sizeof ar);
p = malloc(3 * sizeof(int)); p[0] = a; p[1] = 2;|{ int v = 3; p = &v; a += *p; } p = ar;
memmove(ar, ar + 1, 3 * sizeof(int));|memcpy(bs, &a, 4);|memcpy(&a, bs, 4);"""
_STRINGS = """strcpy(st, t2);|strcpy(st, "hey");|st[n] = 'q';|st[4] = 0;|strncpy(st, "abcdef", 6);
strcat(st, "x");|t2 = "lo\\x41ng";|t2 = st + 1;|a = t2[0];|a = "wxyz"[n];|a = (int)strlen(st);
for (const char *z = t2; *z; z++) b += *z;|b += memcmp(st, "abc", 2) == 0;
b = strcmp(st, "ab") < 0;"""
_CALLS = "a = rec(n + 3);|{ static int cnt = 5; a += cnt++; }|h = abs((int)(short)a);"

KINDS = {
    "expressions": (0.9, "h = abs((int)(short)a);"),
    "control flow": (0.3, _CALLS),
    "pointers": (0.3, _POINTERS),
    "structures": (0.4, _STRUCTURES),
    "strings": (0.3, _STRINGS),
    "all": (0.4, "|".join((_STRUCTURES, _POINTERS, _STRINGS, _CALLS))),
}
"""Share of assignments, and the fixed statements, of each kind of program."""
_FIXED_SHARE = {"control flow": 0.1, "all": 0.25}
"""Share of fixed statements; the rest is control flow."""

_VARIABLES = (
    "a b c d e h s1.x s1.y s1.f s1.g s2.f s1.in.z u.w gl *p ps->x ps->g *q (*pp)[0]".split()
)

_TEXT = r"""#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
extern int __VERIFIER_nondet_int(void);
extern void __VERIFIER_assume(int);
enum { K1 = 3, K2 = K1 + 4 };
struct In { short z; };
struct S { int x; unsigned y; int f : 5; unsigned g : 3; struct In in; };
union U { unsigned w; unsigned short h[2]; unsigned char b[4]; };
int gl = 7; static int gcnt;
static int f(int x, int y) { gcnt++; return x > y ? x - 1 : (int)((unsigned)y + 2u); }
static int f2(int x, int y) { return (int)((unsigned)x ^ (unsigned)y); }
static int sc(void) { static short c = 3; c += 2; return c; }
static int rec(int k) { return k <= 1 ? 1 : (int)((unsigned)k * (unsigned)rec(k - 1)); }
static struct S sw(struct S v) { v.x++; v.g += 3; return v; }
static unsigned long run(int n)
{
    int a = 1, b = -2; short c = 300; unsigned char d = 250; unsigned e = 5; long h = -1;
    struct S s1 = {1, 2, -3, 4, {5}}, s2 = {.y = 9, .in = {.z = 2}};
    union U u = {0x01020304};
    int ar[5] = {1, [3] = 4, 5}, m[2][3] = {{1, 2}, 3, 4}; signed char bs[4] = {1, -1};
    int ar2[2] = {8, 9}, *p = ar, *q = m[0], (*pp)[2] = &ar2; struct S *ps = &s1;
    char st[6] = "ab"; const char *t2 = "cde";
    BODY
    unsigned long r = (unsigned)a + 3u * (unsigned)b + 5u * (unsigned short)c + 7u * d + 11u * e;
    r = r * 31 + 13ul * (unsigned long)h + (unsigned)s1.x + s1.y + (unsigned)s1.f + s1.g;
    r = r * 31 + (unsigned)s2.x + (unsigned)s2.in.z + u.w + (unsigned)gl + (unsigned)gcnt;
    for (int i = 0; i < 5; i++) r = r * 31 + (unsigned)ar[i];
    for (int i = 0; i < 6; i++) r = r * 31 + (unsigned)m[i / 3][i % 3] + (unsigned char)st[i];
    return r + (unsigned char)bs[0] + (unsigned char)bs[3];
}
int main(void)
{
    int n = __VERIFIER_nondet_int();
    __VERIFIER_assume(n >= 0 && n <= 3);
    unsigned long r = run(n);
    assert(CLAIM);
    return 0;
}
"""

_MAIN = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    for (int k = 0; k < COUNT; k++)
        for (int n = 0; n < 4; n++) {
            if (!fork()) {
                alarm(5);
                printf("%d %d %lu\n", k, n, runs[k](n));
                fflush(stdout);
                _exit(0);
            }
            wait(0);
        }
}
"""

_FLAGS = (
    "-w -O0 -std=gnu11 -fwrapv -fno-strict-aliasing -fsanitize=address,undefined,bounds-strict "
    "-fno-sanitize=signed-integer-overflow,shift-base,alignment -fno-sanitize-recover=all "
    "-ftrivial-auto-var-init=zero -fno-builtin"
).split()


class _Writer:
    """A writer of random statements and expressions."""

    def __init__(self, seed: int, kind: str) -> None:
        self._random = random.Random(seed)
        self._assignments, fixed = KINDS[kind]
        self._statements = fixed.replace("\n", "|").split("|")
        self._fixed_share = _FIXED_SHARE.get(kind, (1 - self._assignments) * 0.7)
        self._loops = 0

    def _index(self, count: int) -> str:
        number = self._random.random()
        if number < 0.6:
            return str(self._random.randrange(count))
        name = self._random.choice(["n", "a", "b", "(int)h"])
        return "n" if number < 0.65 else f"({name} & {_MASKS[count]})"

    def _variable(self) -> str:
        elements = {"ar": (5,), "m": (2, 3), "bs": (4,), "st": (6,), "p": (2,), "u.h": (2,)}
        if self._random.random() < 0.7:
            return self._random.choice(_VARIABLES)
        name = self._random.choice(list(elements))
        return name + "".join(f"[{self._index(count)}]" for count in elements[name])

    def _constant(self) -> str:
        number = self._random.randrange(-5, 20)
        wide = self._random.choice([127, 128, 255, 256, 32767, 32768, 65535, 65536])
        fixed = "2147483647,(-2147483647-1),3u,7L,'a','\\n',4294967295u,sizeof(ar),sizeof s1,K2"
        return self._random.choice([str(number), str(wide), *fixed.split(",")])

    def expression(self, depth: int = 0) -> str:
        """Write an expression."""
        choose, kind = self._random.choice, self._random.random()
        if depth > 3 or kind < 0.25:
            return self._constant() if choose((0, 0, 1)) else self._variable()
        left, right, third = (self.expression(depth + 1) for _ in range(3))
        return choose(
            [
                *[f"({left} {choose('+ - * & | ^'.split())} {right})"] * 5,
                f"({left} {choose('/%')} (({right}) | 1))",
                f"({left} {choose(['<<', '>>'])} (({right}) & 7))",
                *[f"({left} {choose('< <= > >= == != && ||'.split())} {right})"] * 2,
                f"({left} ? {right} : {third})",
                f"(({choose(_TYPES.split(','))}){left})",
                f"({choose('-~!')}({left}))",
                f"f({left}, {right})",
                # gcc drops a read whose value is not used, and with it what a sanitizer checks
                f"(f2({left}, 0), {right})",
                choose(["(b++)", "(--b)", "(b = 3)", "sw(s1).x", "sc()", "(int)strlen(st)"]),
            ]
        )

    def _block(self, depth: int) -> str:
        return " ".join(self.statement(depth) for _ in range(self._random.randrange(1, 3)))

    def statement(self, depth: int = 0) -> str:
        """Write a statement."""
        choose, kind = self._random.choice, self._random.random()
        if kind < self._assignments or depth > 2:
            operator = choose("= = = += -= *= ^= |= &=".split())
            return f"{self._variable()} {operator} {self.expression(1)};"
        if kind < self._assignments + self._fixed_share:
            return choose(self._statements)
        condition, block, other = self.expression(1), self._block(depth + 1), self._block(depth + 1)
        self._loops += 1
        name, count = f"i{self._loops}", self._random.randrange(1, 4)
        leave = choose(["", f"if ({condition}) break;", f"if ({condition}) continue;"])
        return choose(
            [
                f"if ({condition}) {{ {block} }} else {{ {other} }}",
                f"for (int {name} = 0; {name} < {count}; {name}++) {{ {block} {leave} }}",
                f"switch ({condition}) {{ case 0: {block} case 7: break; default: {other} }}",
                f"{{ int {name} = {count}; do {{ {block} }} while (--{name} > 0); }}",
                f"{{ int {name} = 0; l{name}: {block} if ({name}++ < 2) goto l{name}; }}",
            ]
        )


def build_program(seed: int, kind: str = "all") -> str:
    """Write a program of a kind; `CLAIM` stands for what it asserts of its result `r`."""
    writer = _Writer(seed, kind)
    count = random.Random(seed).randrange(3, 9)
    return _TEXT.replace("BODY", "\n    ".join(writer.statement() for _ in range(count)))


def run_compiled(texts: Sequence[str], folder: Path) -> list[list[int | None]]:
    """Return the results of programs for all inputs; None for a run that a sanitizer ends."""
    function, end = "static unsigned long run(int n)", "int main(void)"
    parts = [texts[0].split(function)[0]]
    for number, text in enumerate(texts):
        body = text.split(function)[1].split(end)[0]
        parts.append(function.replace("run", f"run{number}") + body)
    table = ", ".join(f"run{number}" for number in range(len(texts)))
    parts.append(f"static unsigned long (*runs[])(int) = {{{table}}};")
    (folder / "p.c").write_text("".join(parts) + _MAIN.replace("COUNT", str(len(texts))))
    subprocess.run(["gcc", *_FLAGS, "p.c", "-o", "p"], cwd=folder, check=True)
    options = {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1:symbolize=0"}
    command = subprocess.run(["./p"], cwd=folder, capture_output=True, check=True, env=options)
    results: list[list[int | None]] = [[None] * 4 for _ in texts]
    for line in command.stdout.splitlines():
        program, argument, result = map(int, line.split())
        results[program][argument] = result
    return results
