"""Many rounds at once: the same state as round by round, and runs as long as a machine's."""

import random
from itertools import product as product_of

import pytest
from helpers.compiled import needs_gcc
from helpers.marks import long
from helpers.replay import fails_after_gcc

from loop_invariants.frontend.translation_unit import parse_program
from loop_invariants.interpreter.integer_sequences import (
    _interpolate,
    add,
    cumulative_sum,
    delay,
    evaluate_at,
    product,
    sign_changes,
)
from loop_invariants.interpreter.iteration_solver import MAX_ROUNDS, count_identical_iterations
from loop_invariants.interpreter.machine import Machine
from loop_invariants.interpreter.simulation import HeadState, RepeatedIterations, run_program
from loop_invariants.ir.expressions import Semantics, Type
from loop_invariants.ir.statements import Loop, Program

TYPES = ("signed char", "unsigned char", "_Bool", "short", "unsigned short", "int", "unsigned")
TYPES += ("long", "unsigned long")
NAMES = "abcd"


def progression(source: random.Random) -> tuple[int, ...]:
    return _interpolate([source.randint(-20, 20) for _ in range(source.randint(0, 5))])


@pytest.mark.parametrize("seed", range(50))
def test_progressions_are_what_they_are_round_by_round(seed):
    """Sums, products, delays and turns of random progressions agree with their values."""
    source = random.Random(seed)
    p, q = progression(source), progression(source)
    for k in range(12):
        assert evaluate_at(add(p, q), k) == evaluate_at(p, k) + evaluate_at(q, k)
        assert evaluate_at(product([p, q]), k) == evaluate_at(p, k) * evaluate_at(q, k)
        assert evaluate_at(delay(p), k) == evaluate_at(p, k - 1)
        assert evaluate_at(cumulative_sum(p), k) == sum(evaluate_at(p, j) for j in range(k))
    assert _interpolate([evaluate_at(p, k) for k in range(8)]) == p
    negative = [evaluate_at(p, k) < 0 for k in range(41)]
    assert sign_changes(p, 40) == [k for k in range(1, 41) if negative[k] != negative[k - 1]]


def test_a_turn_far_away_is_found():
    """The square of k is beyond ten to the thirty first when k is ten to the fifteen and one."""
    square = product([(0, 1), (0, 1)])
    assert sign_changes(add((10**30,), product([(-1,), square])), 2**64) == [10**15 + 1]


def random_loop(source: random.Random) -> str:
    """A loop over variables of random types whose rounds are often alike."""

    def value(depth: int = 1) -> str:
        kind = source.random()
        if depth == 0 or kind < 0.3:
            return source.choice((*NAMES, *NAMES, str(source.randint(-9, 300))))
        if kind < 0.35:
            return "__VERIFIER_nondet_int()"
        if kind < 0.42:
            return f"({source.choice(TYPES)})({value(depth - 1)})"
        if kind < 0.47:
            return f"{source.choice('-~')}{source.choice(NAMES)}"
        return f"({value(depth - 1)} {source.choice('+-+-*')} {value(depth - 1)})"

    def condition() -> str:
        left = value() if source.random() < 0.5 else f"{value()} % {source.randint(2, 4)}"
        comparison = f"{left} {source.choice(('<', '<=', '>', '>=', '==', '!='))} {value()}"
        if source.random() < 0.2:
            comparison += f" {source.choice(('&&', '||'))} {source.choice(NAMES)} > 3"
        return comparison

    def statement(depth: int) -> str:
        target = source.choice(NAMES)
        kind = source.random()
        if kind < 0.5 or depth == 0:
            return f"{target} = {target} {source.choice('+-')} {source.randint(1, 5)};"
        if kind < 0.7:
            return f"{target} = {value()};"
        if kind < 0.75:
            return f"{target} = {condition()} ? {value()} : {value()};"
        if kind < 0.8:
            return f"{target} = 0; while ({target} < 3) {{ {statement(0)} {target}++; }}"
        return f"if ({condition()}) {{ {statement(depth - 1)} }} else {{ {statement(depth - 1)} }}"

    declared = " ".join(
        f"{source.choice(TYPES)} {n} = (long)__VERIFIER_nondet_long();" for n in NAMES
    )
    body = " ".join(statement(2) for _ in range(source.randint(1, 4)))
    return (
        "int __VERIFIER_nondet_int(void); long __VERIFIER_nondet_long(void);\n"
        f"int main(void) {{ {declared}\nwhile ({condition()}) {{ {body} }} }}"
    )


def first(source: random.Random) -> int:
    """A small number, or one that is soon where a type ends."""
    border = source.choice((0, 0, 0, 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**63))
    return source.choice((1, -1)) * border + source.randint(-99, 200)


def recorded(program: Program, semantics: Semantics, source: random.Random):
    """The states at the heads of the first loop, and what is drawn after each: always the same."""
    states: list[dict] = []
    drawn: list[list[int]] = [[]]
    numbers = [source.randint(-40, 130) for _ in range(20)]
    machine = Machine(program, semantics, 400)

    def value(type_: Type, name: str) -> int:
        number = numbers[len(drawn[-1]) % 20] if states else first(source)
        drawn[-1].append(max(type_.min_value, min(type_.max_value, number)))
        return drawn[-1][-1]

    def head(loop: Loop, iteration: int, state: dict) -> None:
        if loop == program.loops[0]:
            states.append(dict(state))
            drawn.append([])

    machine.draw, machine.on_head = value, head
    machine.run(machine.draw_state())
    return states, drawn[1:]


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("block", [0, *long(*range(1, 8))])
def test_rounds_passed_at_once_are_those_made_one_by_one(semantics, block):
    """The state after some rounds of random loops is that of the machine, round by round."""
    compared = 0
    for seed in range(40 * block, 40 * block + 40):
        source = random.Random(f"loop {seed}")
        compared += check_alike(random_loop(source), semantics, source)
    assert compared > 100


SUBTLE = (
    "int x = 2147483600; long y = 0; while (1) { y = y + x; x = x + 7; }",
    "int x = 2147483600; long y = 0; while (1) { y = x; x = x + 7; }",
    "int x = -2147483600; long y = 0; while (1) { y = 3 * (long)x; x = x - 7; }",
    "unsigned x = 4294967200u; long y = 0; while (1) { y = y + x; x = x + 7; }",
    "unsigned x = 4294967200u; long y = 0; while (1) { y = (int)x; x = x + 7; }",
    "unsigned x = 70; long y = 0; while (1) { y = x; x = x - 7; }",
    "signed char x = 100; int y = 0; while (1) { y = y + x; x = x + 3; }",
    "unsigned char x = 100; int y = 0; while (1) { y = (signed char)x; x = x + 3; }",
    "long x = 2147483600; int y = 0; while (1) { y = x; x = x + 7; }",
    "long x = 4294967200; _Bool y = 0; while (1) { y = (unsigned)x; x = x + 8; }",
    "int x = 71, y = 0; while (1) { y = y + x % 2; x = x - 2; }",
    "int x = -71, y = 0; while (1) { y = x % 5; x = x + 10; }",
    "int x = 71, y = 0; while (1) { if (x % 2 == 1) y = y + 3; x = x - 4; }",
    "int x = 71, y = 0; while (1) { y = x % 3; x = x - 2; }",
    "int x = 5, y = 0; while (1) { if (x == 5) y = y + 3; x = x - 1; }",
    "int x = 5, y = 0; while (1) { if (x == 5) y = y + 3; x = x + 1; }",
    "int x = 5, y = 0; while (1) { if (x != 5) y = y + 3; x = x + 1; if (x > 30) x = 0; }",
    "int x = 90, y = 0; while (1) { if (x != 5) y = y + 3; x = x - 1; }",
    "int x = 90, y = 0; while (1) { if (x > 5) y = y + 3; x = x - 1; }",
    "int x = 0, y = 0; while (1) { if (x <= 35) y = y + 3; x = x + 1; }",
    "int x = 0, y = 0; while (1) { if (x < 35) y = y + 3; x = x + 1; }",
    "int x = 40, y = 0; while (1) { if (x >= 5u) y = y + 3; x = x - 1; }",
    "int x = 40, y = 0; while (1) { if (x < 35u) y = y + 3; x = x - 1; }",
    "int x = 40; long y = 0; while (1) { y = x > 7 ? -1 : 1u; x = x - 1; }",
    "unsigned x = 9; long y = 0; while (1) { y = -x; x = x - 1; }",
    "unsigned char x = 9; long y = 0; while (1) { y = ~x; x = x - 1; }",
)


@pytest.mark.few(13)
@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize("text", SUBTLE)
def test_rounds_that_stop_being_alike_are_not_passed(text, semantics):
    """Where numbers wrap around, remainders change their sign and comparisons turn, rounds end."""
    source = random.Random(text)
    assert check_alike(f"int main(void) {{ {text} }}", semantics, source) > 0


def check_alike(text: str, semantics: Semantics, source: random.Random) -> int:
    """Check rounds of a program's loop that are passed at once; how many were, two or more."""
    program = parse_program(text, "loop")
    states, drawn = recorded(program, semantics, source)
    compared = 0
    for start, period in product_of((0, 2, 7, 40, 150), (1, 2, 3)):
        if start >= len(states):
            continue
        draws = [value for of_round in drawn[start : start + period] for value in of_round]
        rounds = count_identical_iterations(
            program, semantics, program.loops[0], states[start], draws, period
        )
        seen = (len(states) - 1 - start) // period
        for times in range(1, min(rounds.max_count, seen) + 1):
            after = {**states[start], **rounds.compute_values(times)}
            assert after == states[start + times * period], (text, start, period, times)
            compared += times > 1
    return compared


HEADER = """int __VERIFIER_nondet_int(void); long __VERIFIER_nondet_long(void);
void __VERIFIER_assume(int condition); void __VERIFIER_assert(int condition);
int main(void) { int n = __VERIFIER_nondet_int(), x = __VERIFIER_nondet_int(), y = 0;
"""
LONG = {
    "a sum wraps around": (
        "x = 0; while (x < n) { y = y + x; x++; } __VERIFIER_assert(y >= 0);",
        [Semantics.INT32],
    ),
    "a counter wraps around": (
        "__VERIFIER_assume(x > 0 && x < 100); while (__VERIFIER_nondet_int()) x = x + 3; "
        "__VERIFIER_assert(x >= 0);",
        [Semantics.INT32],
    ),
    "two phases": (
        "x = 0; y = 500000000; while (x < 1000000000) { if (x >= 500000000) y = y + 2; x++; } "
        "__VERIFIER_assert(y != 1500000000);",
        list(Semantics),
    ),
    "rounds in turn": (
        "x = 0; while (x < 300000001) { if (x % 2 == 0) y++; else n = y; x++; } "
        "__VERIFIER_assert(y != 150000001);",
        list(Semantics),
    ),
    "an unsigned counter": (
        "unsigned u = 0; do { u--; y += 2; } while (u != 5); __VERIFIER_assert(y != -10);",
        [Semantics.INT32],
    ),
    "a wide number": (
        "long w = 0; while (w < 3000000000) w = w + 2; __VERIFIER_assert(w != 3000000000);",
        list(Semantics),
    ),
    "a loop in a loop": (
        "int i = 0; while (i < 100000000) { int j = 0; while (j < 3) { j++; y++; } i++; } "
        "__VERIFIER_assert(y != 300000000);",
        list(Semantics),
    ),
}


@pytest.mark.long
@needs_gcc
@pytest.mark.parametrize(
    ("name", "semantics"), [(name, s) for name, (_, over) in LONG.items() for s in over]
)
def test_a_violation_after_very_many_rounds_is_one_of_the_compiled_program(
    name, semantics, tmp_path
):
    """The run that is found has 100,000 rounds or more, in which gcc's program fails too."""
    source = f"{HEADER}{LONG[name][0]} }}"
    failure = run_program(parse_program(source, "long"), semantics).failure
    repeated = [event for event in failure.trace if isinstance(event, RepeatedIterations)]
    assert sum(event.period * event.times for event in repeated) > 100_000
    assert len(failure.trace) < 2_000
    assert fails_after_gcc(source, semantics, failure.trace, tmp_path)


def test_a_trace_tells_the_heads_before_and_after_repeated_rounds():
    """What is repeated stands between the loop's heads, whose values differ by so many rounds."""
    source = f"{HEADER}x = 0; while (x < 1000000000) x++; __VERIFIER_assert(x < 1000000000); }}"
    trace = run_program(parse_program(source, "long"), Semantics.INTEGERS).failure.trace
    place = next(n for n, event in enumerate(trace) if isinstance(event, RepeatedIterations))
    before, repeated, after = trace[place - 1 : place + 2]
    assert isinstance(before, HeadState)
    assert isinstance(after, HeadState)
    assert before.line == repeated.line == after.line
    assert after.values["x"] - before.values["x"] == repeated.period * repeated.times
    assert before.values["x"] > 0


def test_without_an_end_some_rounds_are_passed():
    """Rounds that nothing ends have no number: fewer than that are passed."""
    program = parse_program(f"{HEADER}while (1) y = y + n; }}", "endless")
    state = {"n": 7, "x": 0, "y": 0}
    rounds = count_identical_iterations(program, Semantics.INTEGERS, program.loops[0], state, [])
    assert rounds.max_count == MAX_ROUNDS
    assert rounds.compute_values(10**12) == {"y": 7 * 10**12}
