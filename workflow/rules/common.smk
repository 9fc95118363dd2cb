"""The checked configuration, and the functions by which rules name inputs and parameters."""

import os
import re
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

# the folder of this checkout, also for a run from another folder or of another Snakefile
BASE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).resolve().parents[1]

# Rules and their scripts use the packages of this checkout, whether or not they are installed.
# Scripts run in processes of their own, which find them by PYTHONPATH.
SOURCES = [str(BASE / "src"), str(BASE / "packages/loop-invariants/src")]
sys.path[:0] = SOURCES
inherited = os.environ.get("PYTHONPATH")
os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [*SOURCES, inherited])))

from llmchecker.utils.processes import install_sigint_handler

install_sigint_handler()
# so that jobs do the same before they import anything large
os.environ.update(LLMCHECKER_JOB="1")

from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.config.opening import build_cache, build_model_settings
from llmchecker.config.plan import TableRow, quantifiers_in
from llmchecker.errors import LLMCheckerError
from llmchecker.interfaces.snakemake.code_dependencies import compute_code_digest
from llmchecker.interfaces.snakemake.preflight import (
    begin_run,
    check_directory,
    check_folders,
    check_inputs,
    load_planned_suite,
    check_run,
)
from llmchecker.interfaces.snakemake.rule_params import (
    compute_quantifier_states,
    list_answers,
    list_checks,
    list_judges,
    list_rows,
    list_suite_models,
    list_suite_modules,
    list_trees,
)
from llmchecker.interfaces.snakemake.source_params import describe_dataset, describe_model_source
from llmchecker.properties.quantifiers.interface import collect_ranges
from llmchecker.properties.registry import find_quantifier_modules
from llmchecker.reporting.paper.claims import is_figure4
from llmchecker.reporting.query_wording import describe_answer

# The package checks its schema itself. `snakemake.utils.validate` names no line, and Snakemake's
# YAML accepts duplicate keys and aliases that grow without bounds. No documented attribute of
# `workflow` has the files and values of the command line, or whether this process runs a job.
CONFIG_FILES = [str(file) for file in workflow.overwrite_configfiles or ["config.yaml"]]
try:
    if not workflow.overwrite_configfiles:
        check_directory(BASE)
    # looked at once, and not by every job
    once = {"validate": check_inputs} if workflow.is_main_process else {}
    CONFIG = Config.read(*CONFIG_FILES, changes=workflow.config_settings.config, **once)
    if workflow.is_main_process:
        check_folders(CONFIG.models)
# not a WorkflowError, to which snakemake would add a line of this file
except LLMCheckerError as error:
    sys.exit(f"The run cannot begin.\n{error}")

TABLES = ["table1", "table2", "claims", "comparison", "audit"]
TABLES += ["suites"] * bool(CONFIG.suites)
FIGURES = ["figure3"] * (CONFIG.prompts is not None) + ["figure4"] * bool(CONFIG.figure4)


def build_alternation(names):
    """Build a pattern that matches any of the names; without names it matches nothing."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


# A wildcard matches only what is configured, so that no path matches the outputs of two rules.
wildcard_constraints:
    model=build_alternation(CONFIG.models),
    suite=build_alternation(CONFIG.suites),
    tree=build_alternation(str(tree).partition("/")[2] for tree in CONFIG.experiments.shards),
    number=r"[0-9]+",
    shards=r"[0-9]+",


def get_code(script, modules=(), files=()):
    """A digest of a script and all that it imports, as a param: a rule reruns when it changes.

    Rules that fetch have none: what was fetched is kept until its source changes.

    Args:
        script: its name in workflow/scripts, without the suffix.
        modules: modules that the script loads by a name in its data, such as quantifiers.
        files: files of this checkout that the script reads, relative to it. They are no inputs,
            because Snakemake compares the paths of inputs, and a copy has others.
    """
    path = BASE / f"workflow/scripts/{script}.py"
    return compute_code_digest(path, modules, [BASE / file for file in files])


def get_modules(names):
    """The modules of the package that define quantifiers, by their names."""
    return find_quantifier_modules(CONFIG.quantifiers[name] for name in names)


def get_quantifier_modules(model):
    """The modules of the package that define a model's quantifiers."""
    return get_modules(CONFIG.used_quantifiers(model))


@cache
def get_quantifier_states(model):
    """The digests of a model's quantifiers with their files, by name."""
    return compute_quantifier_states(CONFIG, model)


QUANTIFIER_STATES = {model: get_quantifier_states(model) for model in CONFIG.models}
if workflow.is_main_process:
    begin_run(CONFIG.sha256, QUANTIFIER_STATES)
else:
    try:
        check_run(CONFIG, QUANTIFIER_STATES)
    except LLMCheckerError as error:
        sys.exit(f"The run cannot go on.\n{error}")


def get_quantifier_settings(model):
    """The configured settings of a model's quantifiers, by name."""
    return {name: config["quantifiers"][name] for name in CONFIG.used_quantifiers(model)}


def flag_for_report(path, title, caption=None):
    """A table or figure as Snakemake's report shows it.

    Args:
        path: its file.
        title: its name in the report.
        caption: the name of its caption in workflow/report; by default that of the file.
    """
    folder, _, file = path.removeprefix("results/").partition("/")
    name, _, suffix = file.partition(".")
    return report(
        path,
        caption=f"../report/{caption or name}.rst",
        category="Programs" if name.startswith("invariants") else folder.capitalize(),
        labels={"table": title, "format": suffix} if folder == "tables" else {"figure": title},
    )


def flag_tables_for_report(name, title):
    """The files of a table on programs, of which the report shows the first."""
    return [flag_for_report(f"results/tables/{name}.csv", title), f"results/tables/{name}.md"]


def get_model(wildcards):
    return CONFIG.models[wildcards.model]


def get_tree(wildcards):
    """The tree that the wildcards `model` and `tree` name."""
    name = f"{wildcards.model}/{wildcards.tree}"
    return next(tree for tree in CONFIG.trees(wildcards.model) if str(tree) == name)


def load_configured_suite(name, model):
    return load_planned_suite(CONFIG, CONFIG.suites[name].file, model)


def get_suite(wildcards):
    """The suite that the wildcards `suite` and `model` name."""
    return load_configured_suite(wildcards.suite, wildcards.model)


def with_digests(directories):
    """Directories of models, as inputs of a rule.

    A directory has a time but no checksum, so Snakemake compares the digest next to it.
    """
    found = list(directories)
    return [*map(ancient, found), *(f"{directory}.sha256" for directory in found)]


def get_suite_models(wildcards):
    """The other models that the suite of the wildcards needs, as inputs of a rule."""
    suite = get_suite(wildcards)
    return with_digests(list_suite_models(CONFIG, suite, wildcards.model))


def get_suite_digests():
    """The digest of each suite of a model, by the file of its results."""
    return {
        paths.suite_file(name, model): load_configured_suite(name, model).digest
        for name, suite in CONFIG.suites.items()
        for model in suite.models or ()
    }


def get_model_settings(wildcards):
    """The arguments of a model, besides its directory and threads."""
    return build_model_settings(get_model(wildcards), CONFIG.expansion)


def get_model_resources(model=None):
    """The resources of a job with a model: the named one, or that of the wildcard."""

    def get_resource(name):
        return lambda wildcards: CONFIG.models[model or wildcards.model].job_resources[name]

    return {name: get_resource(name) for name in ("mem_mb", "gpu", "gpu_mem_mb")}


def get_threads(jobs):
    """Threads of each of several jobs with models: those configured, or a fair share of the cores."""
    return lambda wildcards: CONFIG.expansion.threads or max(1, workflow.cores // max(1, jobs))


def get_lock(source, path):
    """The lock of a source, as input; none for a source that names a commit."""
    return path if source.needs_lock else []


def get_invariants_results(wildcards):
    """Every table and figure on programs, which a configuration without programs lacks."""
    if "invariants" not in CONFIG.sections:
        raise WorkflowError(
            "The configuration has no section `invariants`, which names the programs to verify."
        )
    return [
        *rules.invariants_tables.output,
        *expand(rules.invariants_sets.output, figure=ATTEMPTS.figures),
        *rules.invariants_times.output,
        *rules.invariants_provable_table.output,
    ]
