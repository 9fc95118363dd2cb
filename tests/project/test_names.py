"""How definitions are named: verbs for acts, nouns for values, one verb for one act."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/llmchecker"
MAX_SHARE = 0.05
NO_PARTICIPLES = frozenset("embed exceed feed need proceed red seed shed speed succeed".split())
"""Words that end like a participle, and are a verb or a noun."""
PARTICIPLES = frozenset(
    """
    begun bound broken brought built caught chosen cut done drawn driven fallen forgotten found
    given gone grown heard held hidden kept known laid left lent lost made meant met paid proven
    put said seen sent shown shut spent stood taken taught thought thrown told torn understood
    woken won worn written
    """.split()
)
PREPOSITIONS = frozenset(
    """
    about above across after against alike alone along among apart around aside at away before
    behind below beneath beside besides between beyond by down during except for forever in inside
    into like near of off on onto out outside over past perhaps since so than that then there
    through throughout till together toward under until up upon what when where whether which
    while whose within without
    """.split()
)
OTHER_VERBS = ("demand", "require", "refuse", "ensure_no")
"""Verbs for what `check` names: to raise an error where a value is not as it must be."""
OTHER_LIMITS = ("MOST", "LARGEST", "DEEPEST", "LONGEST", "FEWEST", "SMALLEST", "ENOUGH", "AT_MOST")
"""Words for what `MAX` and `MIN` name."""


def modules() -> Iterator[ast.Module]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def functions() -> list[str]:
    """The names of all functions and methods of the package, without dunder methods."""
    nodes = (node for module in modules() for node in ast.walk(module))
    names = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    return [name for name in names if not name.startswith("__")]


def constants() -> list[str]:
    """The names of all constants of the package's modules."""
    assignments = (node for module in modules() for node in module.body)
    targets = (
        target
        for node in assignments
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]


def is_bare(name: str) -> bool:
    """Whether a name begins with a participle or a preposition in place of a verb or a noun."""
    word = name.strip("_").split("_")[0]
    is_participle = word in PARTICIPLES or (word.endswith("ed") and word not in NO_PARTICIPLES)
    return is_participle or word in PREPOSITIONS


@pytest.mark.parametrize("name", ["told", "_drawn", "after", "among_told", "written_whole"])
def test_a_bare_participle_or_preposition_is_recognised(name):
    """The measure finds names that are neither a verb nor a noun."""
    assert is_bare(name)


@pytest.mark.parametrize("name", ["read_prompt", "is_cut", "_seed", "listing", "with_decoding"])
def test_verbs_questions_and_nouns_are_not_bare(name):
    """The measure accepts verbs, questions and nouns."""
    assert not is_bare(name)


def test_few_functions_are_named_by_a_bare_participle_or_preposition():
    """Fewer than 5 in 100 functions of the package have a name that is neither verb nor noun."""
    names = functions()
    bare = sorted(filter(is_bare, names))
    assert len(bare) < MAX_SHARE * len(names), bare


def test_a_function_that_raises_where_a_value_is_wrong_is_named_check():
    """No second verb stands for the act that `check` names."""
    others = [name for name in functions() if name.strip("_").split("_")[0] in OTHER_VERBS]
    assert others == []


def test_limits_are_named_max_and_min():
    """No constant uses another word for an upper or lower limit."""
    limits = [name for name in constants() if name.strip("_").startswith(OTHER_LIMITS)]
    assert limits == []
