"""What the rules share: the checked configuration and the functions that name inputs."""

import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

BASE = Path(workflow.basedir)

# rules and their scripts use the package of this checkout, installed or not
sys.path.insert(0, str(BASE / "src"))
inherited = os.environ.get("PYTHONPATH")
os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [str(BASE / "src"), inherited])))

from llmchecker.config import paths
from llmchecker.config.checks import TableRow
from llmchecker.config.configuration import Config
from llmchecker.config.dependencies import code_behind
from llmchecker.trees.store import DistributionStore
from llmchecker.errors import LLMCheckerError
from llmchecker.quantifiers.registry import QUANTIFIERS, files_of

try:
    CONFIG = Config.parse(config)
except LLMCheckerError as error:
    raise WorkflowError(f"The configuration cannot run.\n{error}") from None


def one_of(names):
    return "|".join(re.escape(name) for name in names) or "(?!)"


wildcard_constraints:
    model=one_of(CONFIG.models),
    semantics=one_of(CONFIG.invariants.semantics if CONFIG.invariants else []),
    start=one_of(CONFIG.start_strings),
    alpha=r"[0-9.e-]+",
    k=r"[0-9]+",
    L=r"[0-9]+",
    number=r"[0-9]+",
    shards=r"[0-9]+",


TREE = "{model}/{start}/alpha{alpha}_k{k}_L{L}"


def get_code(script, without=()):
    """The files of the package whose change makes the result of a script again."""
    return [str(file) for file in code_behind(BASE / f"workflow/scripts/{script}.py", without)]


def get_model(wildcards):
    return CONFIG.models[wildcards.model]


def get_model_lock(wildcards):
    """The lock of a model whose source names no commit."""
    locked = get_model(wildcards).source.source.needs_lock
    return paths.model_lock(wildcards.model) if locked else []


def get_prompts_lock(wildcards):
    """The lock of the prompts, where their source names no commit."""
    return paths.PROMPTS_LOCK if CONFIG.prompts.dataset.source.needs_lock else []


def get_mem_mb(wildcards):
    return get_model(wildcards).mem_mb


def get_loading(model):
    """How a model is loaded: what `loading.load_model` takes beside the directory."""
    return {"kind": model.kind, "dtype": model.dtype, "device": model.device}


def get_gpu(model):
    return int(model.device.startswith("cuda"))


def get_gpu_mem_mb(model):
    return model.gpu_mem_mb if get_gpu(model) else 0


def get_threads():
    """Threads that grow the trees of a model: as configured, or a fair share of all cores."""
    growing = {check.tree.model for check in CONFIG.checks}
    # `--report` and `--summary` know of no cores
    share = (workflow.resource_settings.cores or 1) // max(1, len(growing))
    return CONFIG.expansion.threads or max(1, share)


def get_shards(tree):
    """The files of the parts of a tree; none where one job grows it whole."""
    count = CONFIG.shards.get(tree, 0)
    return [paths.shard_file(tree, number + 1, count) for number in range(count)]


def get_growing(model):
    """How the trees of a model are grown: what a `Grower` takes beside directory and threads."""
    settings = CONFIG.expansion
    return get_loading(model) | {
        "memory_bytes": settings.memory_bytes,
        "end_of_sequence": settings.end_of_sequence,
        "store": DistributionStore(Path(paths.STORE_DIRECTORY), settings.store_bytes),
    }


def get_start_strings(model):
    """The start strings of a model's trees, by name."""
    return {tree.start: CONFIG.start_strings[tree.start] for tree in CONFIG.trees(model)}


def get_scores(model):
    """Every tree of a model with every quantifier in a query on it."""
    return [(tree, name) for tree in CONFIG.trees(model) for name in CONFIG.scored(tree)]


def get_quantifiers(model):
    """Every quantifier in a query on a tree of a model."""
    return sorted({name for _, name in get_scores(model)})


def get_quantifier_files(model):
    """The files on which the scores of a model's trees depend."""
    names = get_quantifiers(model)
    return sorted({file for name in names for file in files_of(CONFIG.quantifiers[name])})


def get_unasked_quantifiers(model):
    """Modules of the quantifiers that are in no query on a tree of a model."""
    return [f"quantifiers/{name}.py" for name in QUANTIFIERS if name not in get_quantifiers(model)]


def get_ranges(model):
    """The declared range of every quantifier in a query on a tree of a model."""
    return {
        name: (CONFIG.quantifiers[name].minimum, CONFIG.quantifiers[name].maximum)
        for name in get_quantifiers(model)
    }


def get_chains(model):
    """For every chain of a model that is written to files, one of its checks."""
    return list({paths.chain_file(c, "prism"): c for c in CONFIG.checks_of(model)}.values())


def get_used_models():
    """The models that have a part in any result."""
    asked = {check.tree.model for check in CONFIG.checks}
    return [m for m in CONFIG.models.values() if CONFIG.prompts is not None or m.name in asked]


DRAWN = ["figure3"] * (CONFIG.prompts is not None) + ["figure4"] * bool(CONFIG.figure4)


def get_all_results():
    """Every file for people by name, so that one that was deleted is made again."""
    return [
        *expand(
            "results/tables/table{number}.{format}", number=[1, 2], format=["csv", "md", "tex"]
        ),
        "results/tables/witnesses.md",
        *expand("results/tables/audit.{format}", format=["csv", "md"]),
        *expand("results/tables/comparison.{format}", format=["csv", "md", "tex"]),
        *expand("results/tables/{name}.csv", name=DRAWN),
        *expand("results/figures/{name}.{format}", name=DRAWN, format=["pdf", "svg", "png"]),
        *(paths.tree_file(check.tree) for check in CONFIG.checks),
        *(
            paths.chain_file(check, language)
            for check in CONFIG.checks
            for language in ("prism", "jani")
        ),
        *map(paths.verdict_file, CONFIG.checks),
        *map(paths.crosscheck_file, CONFIG.checks),
        paths.PROVENANCE_FILE,
        "results/report.html",
    ]


def get_proposing_threads():
    """Threads that ask a model for invariants: as configured, or its share of half the cores.

    The other half has enough to do that needs no model.
    """
    share = (workflow.resource_settings.cores or 1) // (2 * len(CONFIG.invariants.models))
    return CONFIG.expansion.threads or max(1, share)


def get_attempting():
    """What every attempt on a program may cost: a `Setting` without the semantics."""
    section = CONFIG.invariants
    return {
        "seconds": section.seconds,
        "tool_seconds": section.tool_seconds,
        "candidates": section.asking.candidates,
        "seed": section.asking.seed,
    }


def get_writing_models():
    """The models that can write an invariant after a prompt."""
    return [model.name for model in CONFIG.models.values() if model.kind == "causal"]


def get_attempts(experiment):
    """The attempts of an experiment in every semantics; one that needs a model names it."""
    return [paths.attempts_file(experiment, name) for name in CONFIG.invariants.semantics]


def get_attempts_of_method():
    """The attempts that are compared with tools: those with the first model's proposals."""
    return get_attempts(f"sources/{CONFIG.invariants.models[0]}")


def get_variants_by_label():
    """The attempts with every variant of the prompt by what to call the model."""
    names = CONFIG.invariants.models
    return {CONFIG.models[name].label: get_attempts(f"variants/{name}") for name in names}


def get_sources_by_label():
    """The attempts with every combination of sources by what to call the model."""
    return {
        CONFIG.models[name].label: get_attempts("baselines") + get_attempts(f"sources/{name}")
        for name in CONFIG.invariants.models
    }


def get_figures_of_sets():
    """The figures of programs that the same ways verify, and their attempts."""
    names = CONFIG.invariants.models
    of_models = {f"variants_{name}": get_attempts(f"variants/{name}") for name in names}
    return of_models | {"tools": get_attempts("tools")}


def get_invariants_results(wildcards):
    """Every table and figure on programs by name."""
    if CONFIG.invariants is None:
        raise WorkflowError(
            "The configuration has no section `invariants`, which names the programs to verify."
        )
    tables = ("variants", "used", "tools", "sources", "provable")
    figures = [*get_figures_of_sets(), "times"]
    return [
        *expand("results/tables/invariants_{name}.{format}", name=tables, format=["csv", "md"]),
        *expand("results/tables/invariants_figure_{name}.csv", name=figures),
        *expand(
            "results/figures/invariants_{name}.{format}",
            name=figures,
            format=["pdf", "svg", "png"],
        ),
    ]
