"""Random loops with products, remainders and phases, and an assertion that may be wrong."""

import random

_NAMES = "abcd"


def loop_program(seed: int) -> str:
    """The C text of a program; equal seeds give equal texts."""
    source = random.Random(f"loop {seed}")
    names = _NAMES[: source.randint(2, 4)]

    def term() -> str:
        kind = source.random()
        if kind < 0.5:
            return source.choice(names)
        if kind < 0.8:
            return str(source.randint(0, 5))
        return f"{source.choice(names)} * {source.choice(names)}"

    def update() -> str:
        name = source.choice(names)
        step = source.choice((f"{name} + {term()}", f"{name} - {term()}", f"{name} + 2", term()))
        if source.random() < 0.15:
            step = f"{name} / 2"
        return f"{name} = {step};"

    def condition() -> str:
        kind = source.random()
        if kind < 0.3:
            return f"{source.choice(names)} % {source.randint(2, 4)} == {source.randint(0, 2)}"
        compared = source.choice(("<", "<=", ">", ">=", "==", "!="))
        return f"{source.choice(names)} {compared} {term()}"

    lines = [
        f"int {name} = {source.choice((0, 0, 1, 2, '__VERIFIER_nondet_int()'))};" for name in names
    ]
    lines += ["int i = 0;", "int n = __VERIFIER_nondet_int();", "__VERIFIER_assume(n < 20);"]
    body = [update() for _ in range(source.randint(1, 3))]
    if source.random() < 0.5:
        body.append(f"if ({condition()}) {{ {update()} }} else {{ {update()} }}")
    lines.append(f"while (i < n) {{ {' '.join(body)} i = i + 1; }}")
    first, second = source.choice(names), source.choice((*names, "i", "n"))
    lines.append(
        source.choice(
            (
                f"__VERIFIER_assert({first} >= {source.randint(-1, 1)});",
                f"__VERIFIER_assert({first} == {second} || n <= {source.randint(0, 2)});",
                f"__VERIFIER_assert({first} <= {second} + {source.randint(0, 3)});",
                f"__VERIFIER_assert({first} % 2 == {source.randint(0, 1)} || i > 0);",
                f"__VERIFIER_assert({condition()} || i == n || n < 0);",
            )
        )
    )
    declared = "int __VERIFIER_nondet_int(void);\nvoid __VERIFIER_assume(int);\n"
    declared += "void __VERIFIER_assert(int);\n"
    return declared + "int main(void) {\n" + "\n".join(lines) + "\n}\n"
