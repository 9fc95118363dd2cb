"""The checked configuration, and the functions by which rules name inputs and parameters."""

import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

BASE = Path(workflow.basedir)

# Rules and their scripts use the package of this checkout, whether or not it is installed. Scripts
# run in processes of their own, which find it by PYTHONPATH.
sys.path.insert(0, str(BASE / "src"))
inherited = os.environ.get("PYTHONPATH")
os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [str(BASE / "src"), inherited])))

from llmchecker.utils.processes import install_sigint_handler

install_sigint_handler()
# so that jobs do the same before they import anything large
os.environ.update(LLMCHECKER_JOB="1")

from llmchecker.config import paths
from llmchecker.config.plan import TableRow
from llmchecker.config.config import Config
from llmchecker.interfaces.snakemake.code_dependencies import compute_code_digest
from llmchecker.interfaces.snakemake.check_params import (
    describe_check,
    describe_row,
    describe_tree,
)
from llmchecker.interfaces.snakemake.model_params import describe_decoding
from llmchecker.interfaces.snakemake.preflight import check_folders, check_inputs
from llmchecker.interfaces.snakemake.source_params import describe_dataset
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.errors import LLMCheckerError
from llmchecker.properties.quantifiers.interface import collect_ranges
from llmchecker.properties.registry import find_quantifier_files, find_quantifier_modules

# The package checks its schema itself. `snakemake.utils.validate` names no line, and Snakemake's
# YAML accepts duplicate keys and aliases that grow without bounds. No documented attribute of `workflow`
# has the files and values of the command line, or whether this process runs a job.
try:
    CONFIG = Config.read(
        *(workflow.overwrite_configfiles or ["config.yaml"]),
        changes=workflow.config_settings.config,
        # looked at once, and not by every job
        **({"validate": check_inputs} if workflow.is_main_process else {}),
    )
# not a WorkflowError, to which snakemake would add a line of this file
except LLMCheckerError as error:
    sys.exit(f"The configuration cannot run.\n{error}")


def build_alternation(names):
    """Build a pattern that matches any of the names; without names it matches nothing."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


# A wildcard matches only what is configured, so that no path matches the outputs of two rules.
wildcard_constraints:
    model=build_alternation(CONFIG.models),
    semantics=build_alternation(CONFIG.invariants.semantics if CONFIG.invariants else []),
    start=build_alternation(CONFIG.start_strings),
    alpha=r"[0-9.e-]+",
    k=r"[0-9]+",
    L=r"[0-9]+",
    decoding=r"(_decoding-[0-9a-f]{8})?",
    number=r"[0-9]+",
    shards=r"[0-9]+",


TREE = "{model}/{start}/alpha{alpha}_k{k}_L{L}{decoding}"


def get_code(script, also=()):
    """A digest of the code that a script imports, as a param: a rule reruns when it changes.

    Rules that fetch have none: what was fetched is kept until its source changes.

    Args:
        script: its name in workflow/scripts, without the suffix.
        also: modules of the package that the script finds by a name in its data.
    """
    return compute_code_digest(BASE / f"workflow/scripts/{script}.py", also)


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


def get_model_lock(wildcards):
    """The lock of a model, as input; none for a source that names a commit."""
    locked = get_model(wildcards).source.source.needs_lock
    return paths.model_lock(wildcards.model) if locked else []


def get_prompts_lock(wildcards):
    """The lock of the prompts, as input; none for a source that names a commit."""
    return paths.PROMPTS_LOCK if CONFIG.prompts.dataset.source.needs_lock else []


def get_mem_mb(wildcards):
    return get_model(wildcards).mem_mb


def get_load_settings(model):
    """The arguments of `load_model` that describe the model, but for its directory."""
    return {"kind": model.kind, "dtype": model.dtype, "device": model.device}


def get_gpu(model):
    """GPUs that a job with the model needs: 1 or 0."""
    return int(model.device.startswith("cuda"))


def get_gpu_mem_mb(model):
    return model.gpu_mem_mb if get_gpu(model) else 0


def get_threads(wildcards):
    """Threads that grow the trees of a model: those configured, or a fair share of all cores."""
    growing = {check.tree.model for check in CONFIG.checks}
    return CONFIG.expansion.threads or max(1, workflow.cores // max(1, len(growing)))


def get_shards(tree):
    """The files of the shards of a tree; none for a tree that one job grows whole."""
    count = CONFIG.experiments.shards.get(tree, 0)
    return [paths.shard_file(tree, number + 1, count) for number in range(count)]


def get_tree(wildcards):
    """The tree that the wildcards of `TREE` stand for."""
    named = TREE.format(**dict(wildcards.items()))
    return next(tree for tree in CONFIG.trees(wildcards.model) if str(tree) == named)


def get_build_settings(model):
    """The settings by which `parse_model` loads a model and its trees are built."""
    settings = CONFIG.expansion
    return get_load_settings(model) | {
        "decoding": describe_decoding(model.decoding),
        "memory_bytes": settings.memory_bytes,
        "end_of_sequence": settings.end_of_sequence,
        "cache": {"directory": paths.STORE_DIRECTORY, "bytes": settings.max_cache_bytes},
    }


def get_build_minutes():
    """The minutes that a cluster grants a job that builds trees."""
    return max(1, round(CONFIG.expansion.most_hours * 60))


def get_start_strings():
    """The start strings by name, as plain values."""
    return {name: start_as_json(start) for name, start in CONFIG.start_strings.items()}


def get_tree_params(trees):
    """Trees as plain values, each with its name, its start string and the files of its shards."""
    starts = get_start_strings()
    return [
        describe_tree(tree)
        | {"name": str(tree), "text": starts[tree.start], "shards": get_shards(tree)}
        for tree in trees
    ]


def get_estimate_params(model):
    """The checks of a model that are estimated, as plain values with their start and samples."""
    starts = get_start_strings()
    return [
        describe_check(check) | {"text": starts[check.tree.start], "sampling": vars(sampling)}
        for check, sampling in CONFIG.estimated_checks(model)
    ]


def get_rows(rows, starts=None):
    """Rows of a table as plain values, with their start strings and the names of their models."""
    starts = starts or {name: str(start) for name, start in CONFIG.start_strings.items()}
    return [
        describe_row(row)
        | {
            "model": CONFIG.models[tree.model].display_name(tree.decoding),
            "text": starts[tree.start],
        }
        for row in rows
        for tree in [row.check.tree]
    ]


def get_figure4_rows():
    """The checks that Figure 4 shows, as rows of a table."""
    return [TableRow("Figure 4", "", check) for check in CONFIG.figure4]


def get_trees_mark(model):
    """The file that marks the trees of a model as complete; none if all are refined."""
    return paths.trees_mark(model) if CONFIG.truncated_trees(model) else []


def get_scores(model):
    """Pairs of a tree of the model and a quantifier that some query on that tree names."""
    return [(tree, name) for tree in CONFIG.trees(model) for name in CONFIG.quantifiers_of(tree)]


def get_quantifiers(model):
    """The quantifiers that some query on a tree of the model names."""
    return sorted({name for _, name in get_scores(model)})


def get_quantifier_files(model):
    """The files on which the scores of a model's trees depend."""
    names = get_quantifiers(model)
    return sorted(
        {file for name in names for file in find_quantifier_files(CONFIG.quantifiers[name])}
    )


def get_quantifier_modules(model):
    """The modules of the model's quantifiers; a change of another scores nothing again."""
    return find_quantifier_modules(CONFIG.quantifiers[name] for name in get_quantifiers(model))


def get_ranges(model):
    """The declared range of each of the model's quantifiers."""
    return collect_ranges({name: CONFIG.quantifiers[name] for name in get_quantifiers(model)})


def get_quantifier_settings(names):
    """The configured settings of quantifiers, by name."""
    return {name: config["quantifiers"][name] for name in names}


def get_estimates(checks):
    """The files of the estimates of some checks, as far as they are estimated."""
    return [paths.estimate_file(c) for c in checks if c in CONFIG.experiments.estimates]


def get_chains(model):
    """One check for each chain of a model: queries that name the same quantifiers share a chain."""
    return list({paths.chain_file(c, "prism"): c for c in CONFIG.checks_of(model)}.values())


def get_used_models():
    """The models that any result uses."""
    asked = {check.tree.model for check in CONFIG.checks}
    # the top-k statistics are made for every model, whether or not an experiment names it
    return [
        m
        for m in CONFIG.distribution_models.values()
        if CONFIG.prompts is not None or m.name in asked
    ]


FIGURES = ["figure3"] * (CONFIG.prompts is not None) + ["figure4"] * bool(CONFIG.figure4)


def get_all_results():
    """Every result for readers. Each is listed, so that a deleted one is rebuilt."""
    return [
        *expand(
            "results/tables/table{number}.{format}", number=[1, 2], format=["csv", "md", "tex"]
        ),
        "results/tables/witnesses.md",
        *expand("results/tables/audit.{format}", format=["csv", "md"]),
        *expand("results/tables/comparison.{format}", format=["csv", "md", "tex"]),
        *expand("results/tables/{name}.csv", name=FIGURES),
        *expand("results/figures/{name}.{format}", name=FIGURES, format=["pdf", "svg", "png"]),
        *(paths.tree_file(check.tree) for check in CONFIG.checks),
        *get_intermediates(),
        *(
            paths.chain_file(check, language)
            for check in CONFIG.checks
            for language in ("prism", "jani")
        ),
        *map(paths.verdict_file, CONFIG.checks),
        *get_estimates(CONFIG.checks),
        *map(paths.crosscheck_file, CONFIG.checks),
        paths.PROVENANCE_FILE,
        "results/report.html",
    ]


def get_intermediates():
    """The inputs of other results, except trees; rebuilt if lost or damaged."""
    models = [model.name for model in get_used_models()]
    scored = [pair for model in models for pair in get_scores(model)]
    return [
        *(paths.tree_record(check.tree) for check in CONFIG.checks),
        *(paths.scores_file(*pair) for pair in scored),
        *(paths.scores_record(*pair) for pair in scored),
        *(map(paths.masses_file, models) if CONFIG.prompts is not None else []),
    ]


def get_proposal_threads(wildcards):
    """Threads that ask a model for invariants: the configured number, or a share of half the cores.

    The other half of the cores runs the experiments that need no model.
    """
    models = len(CONFIG.invariants.models)
    return CONFIG.expansion.threads or max(1, workflow.cores // (2 * models))


def get_attempt_settings():
    """The limits of an attempt on a program: `ExperimentSettings` without the semantics."""
    section = CONFIG.invariants
    return {
        "seconds": section.seconds,
        "tool_seconds": section.tool_seconds,
        "candidates": section.proposal_settings.candidates,
        "seed": section.proposal_settings.seed,
    }


def is_served(wildcards):
    """Whether a server proposes, which returns no probabilities; false without a model."""
    name = getattr(wildcards, "model", None)
    return name is not None and CONFIG.models[name].kind != "causal"


def get_repairs(name):
    """The attempts with rounds of repair by a model; none if there are no rounds."""
    return get_attempts(f"repairs/{name}") if CONFIG.invariants.repair_settings.rounds else []


def get_causal_models():
    """The names of the causal models, which can continue a prompt."""
    return [model.name for model in CONFIG.models.values() if model.kind == "causal"]


def get_attempts(experiment):
    """The files of attempts of an experiment, one for each semantics.

    Args:
        experiment: its name, followed by a slash and the model if it needs one.
    """
    return [paths.attempts_file(experiment, name) for name in CONFIG.invariants.semantics]


def get_method_attempts():
    """The attempts that are compared with tools: those with proposals of the first model."""
    return get_attempts(f"sources/{CONFIG.invariants.models[0]}")


def get_variants_by_label():
    """For each model's label, the attempts with every variant of the prompt."""
    names = CONFIG.invariants.models
    return {CONFIG.models[name].label: get_attempts(f"variants/{name}") for name in names}


def get_sources_by_label():
    """For each model's label, the attempts with every combination of sources."""
    return {
        CONFIG.models[name].label: [
            *get_attempts("baselines"),
            *get_attempts(f"sources/{name}"),
            *get_repairs(name),
        ]
        for name in CONFIG.invariants.models
    }


def get_set_figures():
    """For each figure of jointly verified programs, the attempts that it draws."""
    names = CONFIG.invariants.models
    of_models = {f"variants_{name}": get_attempts(f"variants/{name}") for name in names}
    return of_models | {"tools": get_attempts("tools")}


def get_invariants_results(wildcards):
    """Every table and figure on programs.

    Raises:
        WorkflowError: the configuration names no programs.
    """
    if CONFIG.invariants is None:
        raise WorkflowError(
            "The configuration has no section `invariants`, which names the programs to verify."
        )
    tables = ("variants", "used", "tools", "sources", "provable")
    figures = [*get_set_figures(), "times"]
    return [
        *expand("results/tables/invariants_{name}.{format}", name=tables, format=["csv", "md"]),
        *expand("results/tables/invariants_figure_{name}.csv", name=figures),
        *expand(
            "results/figures/invariants_{name}.{format}",
            name=figures,
            format=["pdf", "svg", "png"],
        ),
    ]
