"""Runs of an original text with given inputs, compiled by gcc with sanitizers.

The text is untrusted. It is compiled only if it uses no functions but those of the text, of
benchmarks and of a short list. Before `main`, the harness forbids all system calls but those of
memory and output, so that a run can neither open a file nor start a process.
"""

import contextlib
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from llmchecker.utils.processes import DieWithParent
from loop_invariants.frontend.original_text import OriginalText
from loop_invariants.frontend.preprocessing.translation_phases import (
    ERROR_FUNCTION,
    FAILURE_FUNCTIONS,
    STOP_FUNCTIONS,
)
from loop_invariants.frontend.text_facts import MODELLED_FUNCTIONS
from loop_invariants.frontend.verifier_builtins import ASSERT_FUNCTIONS, ASSUME_FUNCTIONS
from loop_invariants.ir.expressions import INT, format_type
from loop_invariants.ir.instrumentation import Property
from loop_invariants.verification.esbmc import RunInputs
from loop_invariants.verification.harness import is_violation

_COMPILE_SECONDS = 20
_RUN_SECONDS = 5

_MEMORY_CHECKS = "address,bounds,integer-divide-by-zero,null,shift-exponent"
_CHECKS = {
    Property.ASSERT: (f"-fsanitize={_MEMORY_CHECKS},vla-bound", "-fwrapv"),
    # Without these checks, a run out of range could go on to an error that C does not reach.
    Property.REACH: (f"-fsanitize={_MEMORY_CHECKS},vla-bound", "-fwrapv"),
    Property.NO_OVERFLOW: (f"-fsanitize={_MEMORY_CHECKS},signed-integer-overflow,shift",),
}
_FLAGS = (
    "-w -O0 -g0 -fno-builtin -std=gnu11 -fno-sanitize-recover=all "
    "-Wno-implicit-function-declaration"
).split()

_VIOLATED, _ENDED = 86, 87
"""Exit statuses of a run: an error was called, an assumption failed."""

# A negative left operand of `<<`, and a wide right one, are no overflow here.
_OVERFLOW = re.compile(
    r"runtime error: (?:signed integer overflow|division by zero|.* cannot be represented)"
)
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
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static const long long inputs[] = {INPUTS 0};
static unsigned long position;

static void violate(void) {
    if (write(2, "TOKEN", sizeof "TOKEN" - 1)) {}
    _exit(VIOLATED);
}

static long long next(void) {
    if (position >= sizeof inputs / sizeof *inputs - 1) _exit(ENDED);
    return inputs[position++];
}

static __attribute__((constructor)) void forbid_system_calls(void) {
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


@dataclass(frozen=True)
class _ReplayLimits(DieWithParent):
    """Limits of a replayed run: time, no files, no core."""

    seconds: int = _RUN_SECONDS

    def __call__(self) -> None:
        super().__call__()
        resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def is_replayable(text: OriginalText) -> bool:
    """Return whether gcc is installed, and a text uses known functions only."""
    known = (
        MODELLED_FUNCTIONS
        | ASSERT_FUNCTIONS
        | ASSUME_FUNCTIONS
        | FAILURE_FUNCTIONS
        | STOP_FUNCTIONS
        | text.error_names.functions
    )
    sources = (text.source, *text.sibling_files.values())
    return (
        shutil.which("gcc") is not None
        and text.called_functions - text.defined_functions - set(text.inputs) <= known
        and not any(_FORBIDDEN.search(_remove_attributes(source)) for source in sources)
    )


def _remove_attributes(source: str) -> str:
    """Remove the attributes of the C library's declarations, without an effect here."""
    names = r"_*(?:nothrow|leaf|noreturn|const|pure|nonnull|malloc|warn_unused_result)_*"
    pattern = rf"__attribute(?:__)?\s*\(\(\s*{names}(?:\s*,\s*{names})*\s*\)\)"
    return re.sub(pattern, "", source)


def replay_with_gcc(text: OriginalText, inputs: RunInputs) -> bool:
    """Return whether a compiled text violates its property with these inputs.

    A run that needs further inputs ends without a violation.

    Args:
        text: the text.
        inputs: the inputs of the run.
    """
    if not is_replayable(text):
        return False
    with tempfile.TemporaryDirectory(prefix="llmchecker-") as folder:
        files = {**text.sibling_files, "program.c": text.marked_source}
        # No program knows the token, so that its own exit status is no violation.
        token = secrets.token_hex(16)
        files["llmchecker_harness.c"] = _build_harness(text, inputs, token)
        for name, content in files.items():
            (Path(folder) / name).write_text(content, encoding="utf-8")
        flags = [*_FLAGS, *_CHECKS[text.required_property]]
        command = ["gcc", *flags, "program.c", "llmchecker_harness.c", "-o", "program"]
        try:
            compiled = subprocess.run(
                command, cwd=folder, capture_output=True, timeout=_COMPILE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        # gcc may reject a text that a tool accepts.
        return compiled.returncode == 0 and _violates(Path(folder), text.required_property, token)


def _violates(folder: Path, required_property: Property, token: str) -> bool:
    """Run the compiled program, and return whether it violates the property."""
    process = subprocess.Popen(
        ["./program"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={"ASAN_OPTIONS": "detect_leaks=0:symbolize=0", "UBSAN_OPTIONS": "symbolize=0"},
        start_new_session=True,
        preexec_fn=_ReplayLimits(),
    )
    try:
        report = process.communicate(timeout=2 * _RUN_SECONDS)[1]
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode == _VIOLATED and report.endswith(token):
        return required_property is not Property.NO_OVERFLOW
    # Other exit statuses may come from the program itself, so the report must agree.
    pattern = {Property.ASSERT: _RANGE, Property.NO_OVERFLOW: _OVERFLOW}.get(required_property)
    return process.returncode == 1 and pattern is not None and bool(pattern.search(report))


def _build_harness(text: OriginalText, inputs: RunInputs, token: str) -> str:
    """Build the definitions of the functions that a text leaves undefined, for gcc."""
    values = "".join(f"{value}LL, " for value in inputs.values)
    harness = _HARNESS.replace("INPUTS", values).replace("TOKEN", token)
    lines = [harness.replace("ENDED", str(_ENDED)).replace("VIOLATED", str(_VIOLATED))]
    lines += [
        f"{format_type(type_)} {name}(void) {{ return next(); }}"
        for name, type_ in text.inputs.items()
    ]
    names = text.error_names
    undefined = text.called_functions - text.defined_functions
    for name in sorted(undefined | {"__assert_fail"} - text.defined_functions):
        end = "violate();" if is_violation(name, text.required_property) else f"_exit({_ENDED});"
        parameter = format_type(text.check_types.get(name, INT))
        if name == "__assert_fail":
            lines.append(
                "void __assert_fail(const char *a, const char *b, unsigned c, const char *d) "
                f"{{ {end} }}"
            )
        elif name in ASSERT_FUNCTIONS | names.assertions:
            lines.append(f"void {name}({parameter} c) {{ if (!c) {end} }}")
        elif name in FAILURE_FUNCTIONS | names.failures:
            result = "int" if name == ERROR_FUNCTION else "void"
            # After a failure no statement is reached, so that the result needs no value.
            lines.append(f"{result} {name}(void) {{ {end} }}")
        elif name in ASSUME_FUNCTIONS | names.assumptions:
            lines.append(f"void {name}({parameter} c) {{ if (!c) _exit({_ENDED}); }}")
    return "\n".join((*lines, ""))
