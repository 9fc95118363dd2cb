"""C programs compiled with gcc and run on random inputs: what no proof may contradict.

The program is compiled as it stands. Beside it lies a harness in a file of its own: it gives the
functions of verification benchmarks their meaning, where the program does not define them, and runs
`main` in a process of its own for each seed. It shares no code with the package.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from loop_invariants.ir.expressions import Semantics

GCC = shutil.which("gcc")
OBJCOPY = shutil.which("objcopy")

needs_gcc = pytest.mark.skipif(GCC is None or OBJCOPY is None, reason="there is no gcc")

_CHECKS = "address,bounds,integer-divide-by-zero,vla-bound"
_FLAGS = {
    # What overflows wraps around.
    Semantics.INT32: ["-fwrapv", f"-fsanitize={_CHECKS}"],
    # A run in which something overflows says nothing about mathematical integers, and is ended.
    Semantics.INTEGERS: [f"-fsanitize={_CHECKS},signed-integer-overflow"],
}
# An array that is longer than the stack is none either: memory has no end in a proof.
_NO_VIOLATION = ("signed integer overflow", "cannot be represented", "stack-overflow")

_HARNESS = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define WEAK __attribute__((weak))

int program_main(void);

static unsigned long long state;

static unsigned long long bits(void) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state;
}

static long long drawn(int width) {
    static const long long near[] = {0, 1, 1, -1, 2, 3, 5, 10, 100};
    unsigned long long kind = bits() % 10;
    if (kind < 6) return near[bits() % 9];
    if (kind < 8) return (long long)(bits() % 40) - 10;
    if (kind < 9) return -(1LL << (width - 1)) + (long long)(bits() % 2);
    return (long long)bits();
}

static void violated(void) {
    static const char told[] = "violated\n";
    if (write(2, told, sizeof told - 1)) {}
    _exit(0);
}

WEAK int __VERIFIER_nondet_int(void) { return drawn(32); }
WEAK unsigned __VERIFIER_nondet_uint(void) { return drawn(32); }
WEAK long __VERIFIER_nondet_long(void) { return drawn(64); }
WEAK unsigned long __VERIFIER_nondet_ulong(void) { return drawn(64); }
WEAK short __VERIFIER_nondet_short(void) { return drawn(16); }
WEAK unsigned short __VERIFIER_nondet_ushort(void) { return drawn(16); }
WEAK char __VERIFIER_nondet_char(void) { return drawn(8); }
WEAK unsigned char __VERIFIER_nondet_uchar(void) { return drawn(8); }
WEAK _Bool __VERIFIER_nondet_bool(void) { return bits() & 1; }
WEAK void __VERIFIER_assume(int condition) { if (!condition) _exit(0); }
WEAK void __ESBMC_assume(int condition) { if (!condition) _exit(0); }
WEAK void assume_abort_if_not(int condition) { if (!condition) _exit(0); }
WEAK void __VERIFIER_assert(int condition) { if (!condition) violated(); }
WEAK void __ESBMC_assert(int condition, const char *message) { if (!condition) violated(); }
WEAK void assert(int condition) { if (!condition) violated(); }
WEAK void reach_error(void) { violated(); }
WEAK void __VERIFIER_error(void) { violated(); }
WEAK void __assert_fail(const char *a, const char *b, unsigned c, const char *d) { violated(); }

/* What is not initialised has any value. */
static __attribute__((noinline, no_sanitize("address"))) void litter(void) {
    volatile int some[4096];
    for (int i = 0; i < 4096; i++) some[i] = drawn(32);
}

int main(int count, char **arguments) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int seed = 1; seed <= atoi(arguments[1]); seed++) {
        int process = fork();
        if (process == 0) {
            struct itimerval most = {{0, 0}, {0, 30000}};
            state = 0x9E3779B97F4A7C15ULL * seed;
            for (int i = 0; i < 8; i++) bits();
            setitimer(ITIMER_REAL, &most, 0);
            litter();
            program_main();
            _exit(0);
        }
        int status;
        waitpid(process, &status, 0);
        if (WIFSIGNALED(status)) {
            int signal = WTERMSIG(status);
            if (signal == SIGFPE || signal == SIGSEGV || signal == SIGBUS || signal == SIGILL)
                fputs("violated\n", stderr);
        }
        fprintf(stderr, "--- %d\n", seed);
    }
    return 0;
}
"""


def violations(source: str, semantics: Semantics, folder: Path, runs: int = 60) -> int | None:
    """In how many runs an assertion fails, something traps, or an index is out of range.

    Returns:
        None if gcc does not compile the program.
    """
    (folder / "program.c").write_bytes(source.encode())
    (folder / "harness.c").write_text(_HARNESS)
    flags = ["-w", "-O0", "-fno-builtin", "-fno-sanitize-recover=all", *_FLAGS[semantics]]
    if _call([GCC, *flags, "-c", "program.c"], folder).returncode:
        return None
    _call([OBJCOPY, "--redefine-sym", "main=program_main", "program.o"], folder, check=True)
    done = _call([GCC, *flags, "program.o", "harness.c", "-o", "program"], folder)
    if done.returncode:
        return None
    told = _call(["./program", str(runs)], folder).stderr
    return sum(_is_violation(of_run) for of_run in told.split("--- ")[:-1])


def _is_violation(told: str) -> bool:
    if any(word in told for word in _NO_VIOLATION):
        return False
    return any(word in told for word in ("violated", "runtime error", "AddressSanitizer"))


def _call(command: list, folder: Path, check: bool = False) -> subprocess.CompletedProcess:
    return subprocess.run(
        command,
        cwd=folder,
        check=check,
        capture_output=True,
        text=True,
        errors="replace",
        env={"PATH": "/usr/bin:/bin", "ASAN_OPTIONS": "detect_leaks=0"},
    )
