"""Which code makes which result again: every rule has as input all that its script imports."""

import re
from copy import deepcopy
from pathlib import Path

import pytest
from helpers.imports import SCRIPTS, imported_by, script_of, types_but
from helpers.project import EMPTY, SCORING, Project

from llmchecker.config import dependencies
from llmchecker.config.dependencies import ALWAYS, EXCEPTIONS, PACKAGE, WITHOUT_CODE, code_behind
from llmchecker.trees.fingerprints import ASKING_SERVERS, GROWING

KEEPING = {"trees/grower.py", "trees/outlook.py", "trees/store.py"}
"""What the jobs of trees need beside what determines a tree: it keeps what others computed, and
refuses what would be too large."""


def python_files(paths) -> set[str]:
    """The modules among files of the package, as paths below it; packages are no modules."""
    found = {str(path.relative_to(PACKAGE)) for path in map(Path, paths) if path.suffix == ".py"}
    return {path for path in found if not path.endswith("__init__.py")}


@pytest.mark.parametrize("name", SCRIPTS)
def test_code_is_what_the_bytecode_imports(name):
    """The code behind a script is what another walk of its imports finds, but for exceptions."""
    exceptions = {*ALWAYS, *EXCEPTIONS.get(name, ())}
    found = python_files(code_behind(SCRIPTS[name]))
    assert found == imported_by(SCRIPTS[name], exceptions)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_needed(name):
    """No exception outlives what it is about: each would be among the code but for it."""
    needed = imported_by(SCRIPTS[name], set())
    for path, reason in (ALWAYS | EXCEPTIONS[name]).items():
        assert any(module.startswith(path) for module in needed), path
        assert reason


def test_what_grows_a_tree_is_in_its_fingerprint():
    """The modules behind a part of a tree are those of its fingerprint, and what keeps answers."""
    expected = {*GROWING, *ASKING_SERVERS, *KEEPING}
    assert python_files(code_behind(SCRIPTS["shard"])) == expected
    assert python_files(code_behind(SCRIPTS["trees"])) == expected


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("invariants_provable", "checking/whole_model.py"),
        ("invariants_provable", "checking/solve.py"),
        ("invariants_provable", "chains/markov_chain.py"),
        ("invariants_provable", "quantifiers/provable.py"),
        ("report", "publication/tables.py"),
        ("report", "publication/templates/report.css"),
        ("scores", "proving/obligations.py"),
        ("scores", "reading/parsing.py"),
    ],
)
def test_imports_at_a_distance_count(name, module):
    """What a script needs through others, inside of functions too, is code behind it."""
    assert PACKAGE / module in code_behind(SCRIPTS[name])


def test_imports_of_every_form_are_found(tmp_path):
    """Imports in functions, branches, handlers and cases count; those for type checkers do not."""
    script = tmp_path / "script.py"
    script.write_text(
        "import llmchecker.files\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from llmchecker.chains import jani\n"
        "else:\n    from llmchecker.chains import prism\n"
        "def f():\n    with open('x'):\n        from llmchecker.queries import (\n"
        "            formulas as other,\n            valuations,\n        )\n"
        "try:\n    pass\nexcept OSError:\n    from llmchecker.checking.verdicts import Verdict\n"
        "match 1:\n    case 1:\n        import llmchecker.trees.text_tree as text_tree\n",
        encoding="utf-8",
    )
    found = {str(file.relative_to(PACKAGE)) for file in dependencies.imported_files(script)}
    assert found == {
        *("files.py", "chains/prism.py", "queries/formulas.py", "queries/valuations.py"),
        *("checking/verdicts.py", "trees/text_tree.py"),
    }


def test_every_data_file_of_the_package_is_known():
    """A file of the package that is no module is read by code that names it, or is a setting."""
    known = {file for pattern in dependencies.DATA.values() for file in PACKAGE.glob(pattern)}
    known |= set(PACKAGE.glob("quantifiers/word_lists/*"))  # an input of their own: `files_of`
    code = (".py", ".pyc", ".pyi", ".typed")  # the last two are for type checkers
    assert {f for f in PACKAGE.rglob("*") if f.is_file() and f.suffix not in code} == known


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, set[str]]:
    """For every rule of the workflow the files of the package that its jobs have as input."""
    config = deepcopy(EMPTY)
    config["models"]["one"]["source"] = "hf:owner/name"
    config["quantifiers"]["provable"] = {"program": "programs/counts.c"}
    (experiment,) = config["experiments"]
    experiment |= {"shards": 2, "queries": [*experiment["queries"], "P=? [ F provable = 2 ]"]}
    shape = {key: experiment[key] for key in ("alpha", "k", "L")}
    config["estimate"] = {"samples": 10}
    refined = {key: experiment[key] for key in ("label", "interest", "start", "L", "queries")}
    config["experiments"].append(refined | {"refine": {"passes": 10}})
    config["figure4"] = {"starts": ["player"], **shape, "query": experiment["queries"][0]}
    config["topk"] = {"source": "hf:owner/name", "file": "a.csv", "column": "prompt"}
    config["invariants"] = {"programs": "path:programs", "repair": {"rounds": 1}}
    directory = tmp_path_factory.mktemp("project")
    (directory / "programs").mkdir()
    (directory / "programs/counts.c").write_text(
        "#include <assert.h>\nint main() { int i = 0; while (i < 9) i++; assert(i == 9); }\n"
    )
    project = Project(directory, config)
    run = project.snakemake("--filegraph", "--cores", "1", "--", "all", "invariants")
    assert run.returncode == 0, run.stdout
    found = {}
    for block in run.stdout.split('<b><font point-size="18">')[1:]:
        name, _, files = block.partition("<")
        named = files.partition("output &rarr;")[0]
        found[name] = set(re.findall(rf">{directory}/src/llmchecker/([^<]+)<", named))
    return found


@pytest.mark.slow
def test_every_rule_has_its_code_as_input(inputs):
    """A job depends on the code behind its script, unless what it made is kept whatever changes."""
    unasked = types_but("gender", "provable")
    seen = set()
    for name, files in inputs.items():
        if name in ("all", "invariants"):
            continue
        script = script_of(name)
        seen.add(script)
        without = {*ALWAYS, *EXCEPTIONS.get(script, ()), *(unasked if script in SCORING else ())}
        modules = {file for file in files if file.endswith(".py")} - {"__init__.py"}
        if script in WITHOUT_CODE:
            assert not files, name
        else:
            assert modules == imported_by(SCRIPTS[script], without), name
    assert seen == set(SCRIPTS)
