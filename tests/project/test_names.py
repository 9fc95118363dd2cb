"""How definitions are named: one verb for one act."""

import ast

from helpers.parsed_source import parse_modules

OTHER_VERBS = ("demand", "require", "refuse", "ensure_no")
"""Verbs for what `check` names: to raise an error where a value is not as it must be."""
OTHER_LIMITS = ("MOST", "LARGEST", "DEEPEST", "LONGEST", "FEWEST", "SMALLEST", "ENOUGH", "AT_MOST")
"""Words for what `MAX` and `MIN` name."""


def functions() -> list[str]:
    """The names of all functions and methods of the packages, without dunder methods."""
    nodes = (node for module in parse_modules().values() for node in ast.walk(module))
    names = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    return [name for name in names if not name.startswith("__")]


def constants() -> list[str]:
    """The names of all constants of the packages' modules."""
    assignments = (node for module in parse_modules().values() for node in module.body)
    targets = (
        target
        for node in assignments
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_a_function_that_raises_where_a_value_is_wrong_is_named_check():
    """No second verb stands for the act that `check` names."""
    others = [name for name in functions() if name.strip("_").split("_")[0] in OTHER_VERBS]
    assert others == []


def test_limits_are_named_max_and_min():
    """No constant uses another word for an upper or lower limit."""
    limits = [name for name in constants() if name.strip("_").startswith(OTHER_LIMITS)]
    assert limits == []
