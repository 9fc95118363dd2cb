"""What gives compiled programs their inputs, and tells how they end: C code to put before them."""

BORDERS = (0, 1, -1, 2, 3, 5, 100, 127, 128, 255, 32767, 65535, 2**31 - 1, -(2**31), 2**32, -99)
"""Numbers to draw, small ones and some near the borders of types."""

GIVEN_INPUTS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static const long *input;
static int left;
static long next(void) { return left-- > 0 ? *input++ : 7; }
long long __VERIFIER_nondet_longlong(void) { return next(); }
int undefined(int value) { return next(); }
int __VERIFIER_nondet_int(void) { return next(); }
unsigned __VERIFIER_nondet_uint(void) { return next(); }
char __VERIFIER_nondet_char(void) { return next(); }
unsigned char __VERIFIER_nondet_uchar(void) { return next(); }
short __VERIFIER_nondet_short(void) { return next(); }
unsigned short __VERIFIER_nondet_ushort(void) { return next(); }
long __VERIFIER_nondet_long(void) { return next(); }
unsigned long __VERIFIER_nondet_ulong(void) { return next(); }
_Bool __VERIFIER_nondet_bool(void) { return next() & 1; }
static void end(const char *how) { puts(how); fflush(stdout); _exit(0); }
void __VERIFIER_assert(int c) { if (!c) end("failed"); }
void __VERIFIER_assume(int c) { if (!c) end("stopped"); }
void assume_abort_if_not(int c) { if (!c) end("stopped"); }
void __assert_fail(const char *a, const char *b, unsigned c, const char *d) { end(ASSERTED); }
void reach_error(void) { end("failed"); }
void on_abort(void) { end("stopped"); }
#define abort on_abort
"""
"""Inputs are the `left` numbers at `input`; a false assertion prints `ASSERTED`, a literal."""
