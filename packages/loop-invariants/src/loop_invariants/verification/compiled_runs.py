"""Compiled runs of an original text: random inputs find a violation, sanitizers confirm it.

A compiled run of a billion iterations takes a second, so that random runs reach violations which
are too far for the interpreter and for ESBMC.

The text is untrusted. It is compiled only if it uses no functions but those of the text, of
benchmarks and of a short list. Before `main`, the harness forbids all system calls but those of
memory and output, so that a run can neither open a file nor start a process.
"""

import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from loop_invariants.frontend.original_text import OriginalText, find_compiled_functions
from loop_invariants.frontend.verifier_builtins import is_violation
from loop_invariants.ir.expressions import Semantics, format_type
from loop_invariants.ir.instrumentation import Property
from loop_invariants.limited_command import CommandRun, run_command
from loop_invariants.verification.esbmc import RunInputs
from loop_invariants.verification.harness import format_check
from loop_invariants.verification.result import CompiledViolation

_COUNT_FILE = "llmchecker_count"
"""File with the number of inputs that a run reads."""

_COMPILE_SECONDS = 20
_RUN_SECONDS = 20

_SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:symbolize=0",
    "UBSAN_OPTIONS": "symbolize=0",
}

_MAX_RUNS = 1 << 12
_MAX_INPUTS = 1 << 16
"""Maximum number of inputs of a random run."""

_MEMORY_CHECKS = "address,bounds,integer-divide-by-zero,null,shift-exponent"
_CHECKS = {
    Property.ASSERT: (f"-fsanitize={_MEMORY_CHECKS},vla-bound", "-fwrapv"),
    # Without these checks, a run out of range could go on to an error that C does not reach.
    Property.REACH: (f"-fsanitize={_MEMORY_CHECKS},vla-bound", "-fwrapv"),
    Property.NO_OVERFLOW: (f"-fsanitize={_MEMORY_CHECKS},signed-integer-overflow,shift",),
}
# A variable without a value is 0, so that it has the same value at each use.
_FLAGS = (
    "-w -g0 -fno-builtin -fno-strict-aliasing -std=gnu11 -fno-sanitize-recover=all "
    "-ftrivial-auto-var-init=zero -Wno-implicit-function-declaration"
).split()

_DEBUG_FLAGS = ("-g1", "-no-pie")
"""Flags with which the address of a call has a line."""

# In random runs, which need to be fast, an overflow or a value out of range ends the run.
_SEARCH_FLAGS = (
    "-O1",
    "-fsanitize=bounds,integer-divide-by-zero,null,shift-exponent",
    "-fsanitize-undefined-trap-on-error",
)
_OVERFLOW_TRAP = "-fsanitize=signed-integer-overflow,shift"

_EXTREMES = tuple(
    sign * (1 << bits) - offset for bits in (15, 31) for sign, offset in ((1, 1), (-1, 0))
)
"""The ends of the signed types of 16 and 32 bits."""

_VIOLATED, _ENDED = 86, 87
"""Exit statuses of a run: an error was called, an assumption failed."""

# A negative left operand of `<<`, and a wide right one, are no overflow here.
_OVERFLOW = re.compile(
    r"runtime error: (?:signed integer overflow|division by zero|.* cannot be represented)"
)
# The results of these operations differ from those of mathematical integers.
_INEXACT = re.compile(rf"{_OVERFLOW.pattern}|runtime error: left shift of negative")
_KINDS = {
    "index": r"runtime error: index |variable length array|buffer-(?:over|under)flow",
    "division": r"division ",
    "null": r"null pointer|SEGV|use-after|free on address|double-free|attempting free",
    "shift": r"shift exponent",
    "overflow": r"signed integer overflow|cannot be represented|left shift of",
}
"""Kinds of violations, by the words of a sanitizer's report."""

_REPORTED_LINE = re.compile(r"program\.c:(\d+):\d+: runtime error")

# A stack or a heap that is full is no violation: memory is unlimited in a proof.
_RANGE = re.compile(
    r"runtime error: |ERROR: AddressSanitizer: (?:attempting (?:double-)?free|SEGV"
    r"|(?:heap|stack|global|dynamic-stack)-(?:buffer-(?:over|under)flow|use-after-\w+))"
)
_FORBIDDEN = re.compile(r"\b(?:_*asm_*|__attribute(?:__)?|syscall|_Pragma)\b|#\s*pragma")

_HARNESS = r"""
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void violate(void *place) {
    // The address comes before the token, which ends the output.
    char digits[24];
    int start = sizeof digits;
    unsigned long address = (unsigned long)place;
    do digits[--start] = '0' + address % 10; while (address /= 10);
    if (write(2, digits + start, sizeof digits - start)) {}
    if (write(2, "TOKEN", sizeof "TOKEN" - 1)) {}
    _exit(VIOLATED);
}

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void forbid_system_calls(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(write), ALLOW(writev), ALLOW(mmap), ALLOW(munmap), ALLOW(mprotect), ALLOW(madvise),
        ALLOW(brk), ALLOW(futex), ALLOW(exit), ALLOW(exit_group), ALLOW(getpid), ALLOW(gettid),
        ALLOW(sigaltstack), ALLOW(rt_sigaction), ALLOW(rt_sigprocmask), ALLOW(rt_sigreturn),
        ALLOW(sched_yield), ALLOW(fstat), ALLOW(newfstatat), ALLOW(clock_gettime),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(ENDED);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) _exit(ENDED);
}
"""

_GIVEN_INPUTS = r"""
#include <fcntl.h>
#include <sys/mman.h>

static const long long inputs[] = {INPUTS 0};
static unsigned long *position;

static long long next(void) {
    if (*position >= sizeof inputs / sizeof *inputs - 1) _exit(ENDED);
    return inputs[(*position)++];
}

static void keep(long long value) {}

static __attribute__((constructor)) void start(void) {
    // The file keeps the number of inputs that a run reads, however it ends.
    int file = open("COUNT_FILE", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof *position)) _exit(ENDED);
    position = mmap(0, sizeof *position, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (position == MAP_FAILED) _exit(ENDED);
    close(file);
    forbid_system_calls();
}
"""
"""The inputs of a replayed run, in order."""

_RANDOM_INPUTS = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

static const long long pool[] = {POOL 0};
static unsigned long long seed;
static struct { unsigned long count; long long values[MAX_INPUTS]; } *inputs;

static unsigned long long bits(void) {
    seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
    return seed;
}

static long long draw(void) {
    unsigned long long kind = bits() % 10, number = bits();
    if (kind < 3) return number % 2;
    if (kind < 7) return pool[number % (sizeof pool / sizeof *pool)];
    // A random bit length makes every order of magnitude equally likely.
    number >>= bits() % 64;
    return kind < 9 ? number : -number;
}

static long long next(void) {
    if (inputs->count == MAX_INPUTS) _exit(ENDED);
    return inputs->values[inputs->count++] = draw();
}

// The input is the value after its conversion to the type of its function.
static void keep(long long value) { inputs->values[inputs->count - 1] = value; }

// Each run is a child process, which returns from here to `main`. The time limits are a universal
// strategy (Luby, Sinclair and Zuckerman 1993), since the time that a violation takes is unknown.
// Only a run that its limit ended goes on to the next limit: long limits are rare, and a failed
// assumption must not use them up.
static __attribute__((constructor)) void start(void) {
    inputs = mmap(0, sizeof *inputs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (inputs == MAP_FAILED) _exit(ENDED);
    for (unsigned run = 1, late = 1; run <= MAX_RUNS; run++) {
        struct rusage usage;
        getrusage(RUSAGE_CHILDREN, &usage);
        long remaining = MICROSECONDS - usage.ru_utime.tv_sec * 1000000 - usage.ru_utime.tv_usec;
        if (remaining <= 0) _exit(ENDED);
        // Without an input all runs are equal, so that the second one gets all of the time.
        long limit = run > 1 && !inputs->count ? remaining : 10000 * (late & -late);
        if (limit > remaining) limit = remaining;
        inputs->count = 0;
        int child = fork(), status;
        if (child < 0) _exit(ENDED);
        if (!child) {
            struct itimerval timer = {{0, 0}, {limit / 1000000, limit % 1000000}};
            setitimer(ITIMER_PROF, &timer, 0);
            if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
                _exit(ENDED);
            seed = 0x9E3779B97F4A7C15ULL * run;
            forbid_system_calls();
            return;
        }
        if (waitpid(child, &status, 0) < 0) _exit(ENDED);
        if (WIFEXITED(status) && WEXITSTATUS(status) == VIOLATED) {
            for (unsigned long i = 0; i < inputs->count; i++)
                fprintf(stderr, "%lld\n", inputs->values[i]);
            _exit(VIOLATED);
        }
        int is_late = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
        if (!inputs->count && !is_late) _exit(ENDED);
        late += is_late;
    }
    _exit(ENDED);
}
"""
"""Random inputs, and a process that starts all runs."""


def is_replayable(text: OriginalText) -> bool:
    """Return whether gcc is installed, and a text uses known functions only."""
    known = find_compiled_functions(text.error_names)
    sources = (text.source, *text.sibling_files.values())
    return (
        shutil.which("gcc") is not None
        and text.called_functions
        - text.defined_functions
        - set(text.inputs)
        - set(text.changing_functions)
        <= known
        and not any(_FORBIDDEN.search(_remove_attributes(source)) for source in sources)
    )


def _remove_attributes(source: str) -> str:
    """Remove the attributes of the C library's declarations, without an effect here."""
    names = r"_*(?:nothrow|leaf|noreturn|const|pure|nonnull|malloc|warn_unused_result)_*"
    pattern = rf"__attribute(?:__)?\s*\(\(\s*{names}(?:\s*,\s*{names})*\s*\)\)"
    return re.sub(pattern, "", source)


def replay_with_gcc(
    text: OriginalText, inputs: RunInputs, semantics: Semantics = Semantics.INT32
) -> CompiledViolation | None:
    """Return the violation of a compiled text with these inputs; None without one.

    A run that needs further inputs ends without a violation.

    Args:
        text: the text.
        inputs: the inputs of the run.
        semantics: semantics of its integers; over mathematical integers, an overflow ends the run.
    """
    if not is_replayable(text):
        return None
    # No program knows the token, so that its own exit status is no violation.
    token = secrets.token_hex(16)
    values = "".join(f"{value}LL, " for value in inputs.values)
    flags = [*_CHECKS[text.required_property]]
    if semantics is Semantics.INTEGERS:
        # Where overflow is defined, nothing checks it.
        flags += ["-fno-wrapv", _OVERFLOW_TRAP]
    given = _GIVEN_INPUTS.replace("INPUTS", values).replace("COUNT_FILE", _COUNT_FILE)
    harness = _build_harness(text, given, token)
    run, count, line = _run_with_harness(text, harness, [*flags, *_DEBUG_FLAGS], _RUN_SECONDS)
    read_values = inputs.values[:count]
    if run.status == _VIOLATED and run.output.endswith(token):
        if text.required_property is Property.NO_OVERFLOW:
            return None
        return CompiledViolation("assertion", line, read_values)
    # Other exit statuses may come from the program itself, so the report must agree.
    pattern = {Property.ASSERT: _RANGE, Property.NO_OVERFLOW: _OVERFLOW}.get(text.required_property)
    if semantics is Semantics.INTEGERS and _INEXACT.search(run.output):
        return None
    if run.status != 1 or pattern is None or not pattern.search(run.output):
        return None
    kind = next((name for name, words in _KINDS.items() if re.search(words, run.output)), "index")
    reported_line = _REPORTED_LINE.search(run.output)
    return CompiledViolation(kind, int(reported_line[1]) if reported_line else 0, read_values)


def find_violating_inputs(
    text: OriginalText, semantics: Semantics, seconds: float
) -> RunInputs | None:
    """Find inputs with which a compiled text probably violates an assertion, by random runs.

    Args:
        text: the text.
        semantics: semantics of its integers; over mathematical integers, an overflow ends a run.
        seconds: maximum processor seconds of all runs together.

    Returns:
        The inputs, which `replay_with_gcc` confirms; None if no run violates an assertion.
    """
    if not is_replayable(text) or text.required_property is Property.NO_OVERFLOW:
        return None
    literals = {int(digits) for digits in re.findall(r"\b\d{1,18}\b", text.source)}
    neighbours = sorted({number + offset for number in literals for offset in (-1, 0, 1)})
    pool = (*range(-3, 11), *neighbours, *(-number for number in neighbours), *_EXTREMES)
    inputs = _RANDOM_INPUTS.replace("POOL", "".join(f"{number}LL, " for number in pool))
    inputs = inputs.replace("MAX_RUNS", str(_MAX_RUNS)).replace("MAX_INPUTS", str(_MAX_INPUTS))
    inputs = inputs.replace("MICROSECONDS", f"{int(1_000_000 * seconds)}L")
    flags = [*_SEARCH_FLAGS, _OVERFLOW_TRAP if semantics is Semantics.INTEGERS else "-fwrapv"]
    run, *_ = _run_with_harness(text, _build_harness(text, inputs, ""), flags, seconds)
    return RunInputs(tuple(map(int, run.output.split()))) if run.status == _VIOLATED else None


def _run_with_harness(
    text: OriginalText, harness: str, flags: Sequence[str], seconds: float
) -> tuple[CommandRun, int, int]:
    """Compile a text with a harness and run it.

    The run has no status without an executable, since gcc may reject a text that a tool accepts.

    Returns:
        The run, whose output is its report of errors, the number of its inputs, and the line of the
        call that violates the property; 0 without one.
    """
    files = {**text.sibling_files, "program.c": text.marked_source, "llmchecker_harness.c": harness}
    with tempfile.TemporaryDirectory(prefix="llmchecker-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_text(content, encoding="utf-8")
        command = ["gcc", *_FLAGS, *flags, "program.c", "llmchecker_harness.c", "-o", "program"]
        compiled = run_command([*command, "-lm"], folder, _COMPILE_SECONDS)
        if compiled.status != 0:
            return compiled, 0, 0
        run = run_command([f"{folder}/program"], folder, seconds, _SANITIZER_OPTIONS)
        count_file = Path(folder) / _COUNT_FILE
        count = count_file.read_bytes() if count_file.is_file() else b""
        return run, int.from_bytes(count[:8], sys.byteorder), _find_line(run, folder)


def _find_line(run: CommandRun, folder: str) -> int:
    """Return the line of the call whose return address ends a run's output, before the token."""
    address = re.search(r"(\d+)[0-9a-f]{32}$", run.output)
    if run.status != _VIOLATED or address is None:
        return 0
    command = ["addr2line", "-e", "program", f"{int(address[1]) - 1:#x}"]
    place = re.search(r"program\.c:(\d+)", run_command(command, folder, _RUN_SECONDS).output)
    return int(place[1]) if place else 0


def _build_harness(text: OriginalText, inputs: str, token: str) -> str:
    """Build the definitions of the functions that a text leaves undefined, for gcc.

    Args:
        text: the text.
        inputs: C text that defines `next`, and begins a run.
        token: text that a run writes at a violation.
    """
    harness = (_HARNESS + inputs).replace("TOKEN", token)
    lines = [harness.replace("ENDED", str(_ENDED)).replace("VIOLATED", str(_VIOLATED))]
    lines += [
        f"extern {format_type(type_)} {name};"
        for name, type_ in text.external_variables.items()
        if text.changing_functions
    ]
    changes = " ".join(f"{name} = next();" for name in text.external_variables)
    for name, type_ in {**text.inputs, **text.changing_functions}.items():
        own_changes = changes if name in text.changing_functions else ""
        if type_ is None:
            lines.append(f"void {name}(void) {{ {own_changes} }}")
        else:
            result = format_type(type_)
            lines.append(
                f"{result} {name}(void) {{ {result} r = next(); keep(r); {own_changes} return r; }}"
            )
    undefined = text.called_functions - text.defined_functions
    if "rand" in undefined:
        lines.append("int rand(void) { int r = next() & 0x7fffffff; keep(r); return r; }")
    for name in sorted(undefined | {"__assert_fail"} - text.defined_functions):
        is_reported = is_violation(name, text.required_property)
        end = "violate(__builtin_return_address(0));" if is_reported else f"_exit({_ENDED});"
        if name == "__assert_fail":
            lines.append(
                "void __assert_fail(const char *a, const char *b, unsigned c, const char *d) "
                f"{{ {end} }}"
            )
        else:
            lines += format_check(text, name, f"if (!c) {end}", end, f"if (!c) _exit({_ENDED});")
    return "\n".join((*lines, ""))
