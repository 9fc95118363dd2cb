"""Which code makes which result again: every rule has a digest of all that its script imports."""

import json
import shutil
from copy import deepcopy
from pathlib import Path

import pytest
from helpers.imports import SCRIPTS, imported_by, script_of
from helpers.installed import install
from helpers.parsed_source import SOURCES, find_file, name_file
from helpers.project import EMPTY, ROOT, SCORING, Project

from llmchecker.interfaces.snakemake import code_dependencies
from llmchecker.interfaces.snakemake.code_dependencies import (
    compute_code_digest,
    source_files_of,
)
from llmchecker.models.fingerprint import SERVER_MODULES
from llmchecker.properties.registry import BUILTIN_TYPES
from llmchecker.trees.builder import TREE_MODULES

KEEPING = {
    *("llmchecker/trees/builder.py", "llmchecker/models/lazy_model.py"),
    *("llmchecker/trees/growth_forecast.py", "llmchecker/trees/distribution_cache.py"),
    "llmchecker/interfaces/snakemake/tree_jobs.py",
}
"""Modules of the jobs of trees that do not determine a tree: they keep what others computed, and
refuse what would be too large."""

OF_NO_DISTRIBUTION = {
    "llmchecker/errors.py": "says why there is no result",
    "llmchecker/utils/": "logs, processes and files; others decide what is in a tree",
    "llmchecker/models/sources/": "what was fetched is in a fingerprint by its checksums",
    "llmchecker/models/transformers/checkpoint_checks.py": "refuses models, computes nothing",
    "llmchecker/models/interface.py": "says what a model offers, and computes nothing",
    "llmchecker/models/fingerprint.py": "compares what the other modules are",
    "llmchecker/models/run_metadata.py": "tells how a tree was made",
    "llmchecker/trees/sealed_parquet.py": "how tables of numbers are written and read",
    "llmchecker/trees/text_tree.py": "holds and checks a tree; others decide what is in it",
}
"""Modules behind the jobs of trees that no fingerprint of a tree has, each with its reason."""

PROVABLE = "loop_invariants.experiments.provable_quantifier"
"""The module of a type of an installed package."""

CACHED = ("_list_packages", "_find_root", "_find_file", "find_imported_files")
"""Functions of the code's digest that keep what they found."""

FETCHED = ("config/", "resources/")
"""The folders of what is fetched: it is kept until its source changes, whatever code changes."""


def python_files(paths) -> set[str]:
    """The modules among files of the packages, from their packages on; packages are no modules."""
    found = {name_file(path) for path in map(Path, paths) if path.suffix == ".py"}
    return {path for path in found if not path.endswith("__init__.py")}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SCRIPTS)
def test_code_is_what_the_bytecode_imports(name):
    """The code behind a script is what another walk of its imports finds."""
    assert python_files(source_files_of(SCRIPTS[name])) == imported_by(SCRIPTS[name], set())


@pytest.mark.parametrize("name", ["shard", "trees"])
def test_what_grows_a_tree_is_in_its_fingerprint(name):
    """The modules behind a part of a tree are those of its fingerprint, and what keeps answers."""
    behind = imported_by(SCRIPTS[name], set(OF_NO_DISTRIBUTION))
    own = {f"llmchecker/{module}" for module in (*TREE_MODULES, *SERVER_MODULES)}
    assert behind - {"llmchecker/trees/top_k_mass.py"} == own | KEEPING


@pytest.mark.few(2)
@pytest.mark.parametrize("path", OF_NO_DISTRIBUTION)
def test_every_exception_of_the_fingerprint_is_needed(path):
    """No exception outlives what it is about: each is behind the jobs of trees."""
    assert any(module.startswith(path) for module in imported_by(SCRIPTS["shard"], set()))


def test_statistics_do_not_depend_on_what_grows_trees():
    """The top-k statistics ask a model without the code that grows trees."""
    behind = python_files(source_files_of(SCRIPTS["topk"]))
    growing = ("expansion.py", "shards.py", "builder.py")
    assert not behind & {f"llmchecker/trees/{module}" for module in growing}


def test_a_digest_is_one_of_names_and_contents(tmp_path, monkeypatch):
    """Another place and another time of the same files give the same digest, a changed byte not."""
    script = SCRIPTS["prism"]
    expected = compute_code_digest(script)
    copied = tmp_path / "elsewhere"
    for source in SOURCES:
        shutil.copytree(source, copied, dirs_exist_ok=True)
    packages = ("llmchecker", "loop_invariants")
    monkeypatch.setattr(
        code_dependencies, "_find_root", lambda package: copied if package in packages else None
    )
    for function in (code_dependencies.find_imported_files, code_dependencies._find_file):
        function.cache_clear()
    try:
        (copied / "llmchecker/trees/text_tree.py").touch()
        assert compute_code_digest(script) == expected
        with (copied / "llmchecker/trees/expansion.py").open("a") as file:
            file.write("# changed")
        assert compute_code_digest(script) == expected
        with (copied / "llmchecker/trees/text_tree.py").open("a") as file:
            file.write("# changed")
        code_dependencies._compute_sha256.cache_clear()
        assert compute_code_digest(script) != expected
    finally:
        for function in (code_dependencies.find_imported_files, code_dependencies._find_file):
            function.cache_clear()


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("invariants_provable", "llmchecker/checking/bounds.py"),
        ("invariants_provable", "llmchecker/checking/check.py"),
        ("invariants_provable", "llmchecker/checking/markov/scored_tree.py"),
        ("invariants_provable", "loop_invariants/experiments/provable_quantifier.py"),
        ("report", "llmchecker/reporting/tables.py"),
        ("report", "llmchecker/reporting/templates/report.css"),
    ],
)
def test_imports_at_a_distance_count(name, module):
    """What a script needs through others, inside of functions too, is code behind it."""
    assert find_file(module) in source_files_of(SCRIPTS[name])


def test_what_a_module_named_in_data_imports_counts():
    """A type of quantifier that the registry names counts with all that its module imports."""
    behind = set(source_files_of(SCRIPTS["scores"], [PROVABLE]))
    assert find_file("loop_invariants/verification/verification_conditions.py") in behind
    assert find_file("loop_invariants/frontend/translation_unit.py") in behind
    assert not behind <= set(source_files_of(SCRIPTS["scores"]))


def test_the_modules_of_an_installed_type_count(tmp_path, monkeypatch):
    """The modules of an installed package that registers a type count, with their imports."""
    (tmp_path / "loud_of_test").mkdir()
    (tmp_path / "loud_of_test/__init__.py").write_text("import llmchecker.utils.number_format\n")
    (tmp_path / "loud_of_test/types.py").write_text("import loud_of_test\n")
    install(tmp_path, "loud", "[llmchecker.quantifiers]\nloud = loud_of_test.types:Loud\n")
    monkeypatch.syspath_prepend(tmp_path)
    caches = [getattr(code_dependencies, name) for name in CACHED]
    try:
        [function.cache_clear() for function in caches]
        behind = source_files_of(SCRIPTS["lock"], ["loud_of_test.types"])
        assert {file.relative_to(tmp_path) for file in behind if file.is_relative_to(tmp_path)} == {
            Path("loud_of_test/__init__.py"),
            Path("loud_of_test/types.py"),
        }
        assert find_file("llmchecker/utils/number_format.py") in behind
        before = compute_code_digest(SCRIPTS["lock"], ["loud_of_test.types"])
        assert before != compute_code_digest(SCRIPTS["lock"])
    finally:
        [function.cache_clear() for function in caches]


def test_imports_of_every_form_are_found(tmp_path):
    """Imports in functions, branches, handlers and cases count; those for type checkers do not."""
    script = tmp_path / "script.py"
    script.write_text(
        "import llmchecker.utils.atomic_files\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from llmchecker.checking.markov import jani\n"
        "else:\n    from llmchecker.checking.markov import prism\n"
        "def f():\n    with open('x'):\n        from llmchecker.properties.logic import (\n"
        "            ast as other,\n            valuations,\n        )\n"
        "try:\n    pass\nexcept OSError:\n    from llmchecker.checking.answer import Answer\n"
        "match 1:\n    case 1:\n        import llmchecker.trees.text_tree as text_tree\n",
        encoding="utf-8",
    )
    found = set(map(name_file, code_dependencies.find_imported_files(script)))
    assert found == {
        *(
            "llmchecker/utils/atomic_files.py",
            "llmchecker/checking/markov/prism.py",
            "llmchecker/properties/logic/ast.py",
            "llmchecker/properties/logic/valuations.py",
        ),
        *("llmchecker/checking/answer.py", "llmchecker/trees/text_tree.py"),
    }


def test_every_data_file_of_the_packages_is_known():
    """A file of the packages that is no module is read by code that names it, or is a setting."""
    # the lists of words are an input of their own: `find_quantifier_files`
    words = "llmchecker/properties/quantifiers/gender_words/*"
    patterns = (words, *code_dependencies._DATA_FILES.values())
    known = {file for pattern in patterns for source in SOURCES for file in source.glob(pattern)}
    code = (".py", ".pyc", ".pyi", ".typed")  # the last two are for type checkers
    packages = [file.parent for source in SOURCES for file in source.glob("*/__init__.py")]
    files = {file for package in packages for file in package.rglob("*")}
    assert {f for f in files if f.is_file() and f.suffix not in code} == known


LISTING = """
import json
from dataclasses import fields, is_dataclass
from pathlib import PosixPath
from pydantic import BaseModel
include: "Snakefile"
def is_compared(value, within=False):
    if isinstance(value, dict):
        return all(is_compared(each, True) for each in (*value, *value.values()))
    if type(value) in (list, tuple):
        return all(is_compared(each, True) for each in value)
    # outside of a list, tuple or dict, Snakemake compares no other value
    if within and is_dataclass(value):
        values = {each.name: getattr(value, each.name) for each in fields(value)}
        return value.__dataclass_params__.frozen and is_compared(values)
    if within and isinstance(value, BaseModel):
        return value.model_config.get("frozen") and is_compared(dict(value))
    return type(value) in (str, int, float, bool, type(None)) or within and type(value) is PosixPath
listed = {
    each.name: {
        "outputs": list(each.output),
        "code": each.params.get("code"),
        "captions": each.params.get("captions") or [],
        "others": [repr(v) for v in each.params if not is_compared(v) and not callable(v)],
    }
    for each in workflow.rules
}
print("RULES", json.dumps(listed))
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory) -> dict[str, dict]:
    """For every rule of the workflow its outputs and the digest of the code behind it."""
    config = deepcopy(EMPTY)
    config["models"]["one"]["source"] = "hf:owner/name"
    config["quantifiers"]["provable"] = {"program": "programs/counts.c"}
    (experiment,) = config["experiments"]
    experiment |= {"shards": 2, "queries": [*experiment["queries"], "P=? [ F provable = 2 ]"]}
    shape = {key: experiment[key] for key in ("alpha", "k", "L")}
    config["answer"] = {"passes": 10}
    unbounded = {key: experiment[key] for key in ("label", "interest", "start", "L", "queries")}
    config["experiments"].append(unbounded)
    config["figure4"] = {"starts": ["player"], **shape, "query": experiment["queries"][0]}
    config["topk"] = {"source": "hf:owner/name", "file": "a.csv", "column": "prompt"}
    config["invariants"] = {"programs": "path:programs"}
    config["suites"] = {"words": {"file": "suite.yaml", "shards": 2}}
    directory = tmp_path_factory.mktemp("project")
    (directory / "suite.yaml").write_text(
        "model: one\ncases: [{start: The, require: 'P>=0.5 [ F gender > 0 ]'}]\n"
    )
    (directory / "programs").mkdir()
    (directory / "programs/counts.c").write_text(
        "#include <assert.h>\nint main() { int i = 0; while (i < 9) i++; assert(i == 9); }\n"
    )
    project = Project(directory, config)
    (directory / "listing.smk").write_text(LISTING, encoding="utf-8")
    run = project.snakemake("--snakefile", "listing.smk", "--list-rules")
    assert run.returncode == 0, run.stdout
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("RULES "))
    return json.loads(line.removeprefix("RULES "))


PUBLISHED = {
    "audit": ("resources/published/table2.csv",),
    "comparison": tuple(
        f"resources/published/{name}.csv" for name in ("table2", "figure3", "figure4")
    ),
    "invariants_tables": ("resources/published/invariants.csv",),
}
"""The published tables that scripts read, by the name of the script."""


@pytest.mark.long
@pytest.mark.slow
def test_every_rule_has_a_digest_of_its_code(rules):
    """A job depends on the code behind its script, unless it fetches what is then kept."""
    seen = set()
    for name, rule in rules.items():
        if name in ("all", "default", "invariants"):
            continue
        script = script_of(name)
        seen.add(script)
        if all(output.startswith(FETCHED) for output in rule["outputs"]):
            assert rule["code"] is None, name
        else:
            also = [BUILTIN_TYPES["gender"].module, PROVABLE] if script in SCORING else []
            data = [ROOT / file for file in (*PUBLISHED.get(script, ()), *rule["captions"])]
            assert rule["code"] == compute_code_digest(SCRIPTS[script], also, data), name
    assert seen == set(SCRIPTS)


@pytest.mark.long
@pytest.mark.slow
def test_params_are_values_that_snakemake_compares(rules):
    """No param is an object whose changes Snakemake would not notice."""
    assert {name: rule["others"] for name, rule in rules.items() if rule["others"]} == {}
