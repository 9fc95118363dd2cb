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

from llmchecker.processes import tell_interrupts

tell_interrupts()
# so that jobs do the same before they import anything large
os.environ.update(LLMCHECKER_JOB="1")

from llmchecker.config import paths
from llmchecker.config.checks import TableRow
from llmchecker.config.configuration import Config
from llmchecker.config.dependencies import code_behind
from llmchecker.config.inputs import demand_folders, demand_inputs
from llmchecker.config.mending import mend
from llmchecker.trees.store import DistributionStore
from llmchecker.errors import LLMCheckerError
from llmchecker.quantifiers.quantifier import ranges_of
from llmchecker.scoring.registry import files_of, modules_without

try:
    CONFIG = Config.read(
        *(workflow.overwrite_configfiles or ["config.yaml"]),
        changes=workflow.config_settings.config,
        # looked at once, and not by every job
        **({"demand": demand_inputs} if workflow.is_main_process else {}),
    )
# not a WorkflowError, to which snakemake would add a line of this file
except LLMCheckerError as error:
    sys.exit(f"The configuration cannot run.\n{error}")


def one_of(names):
    """A pattern for any of some names; without names it matches nothing."""
    return "|".join(re.escape(name) for name in names) or "(?!)"


# A wildcard matches only what is configured, so that no path matches the outputs of two rules.
wildcard_constraints:
    model=one_of(CONFIG.models),
    semantics=one_of(CONFIG.invariants.semantics if CONFIG.invariants else []),
    start=one_of(CONFIG.start_strings),
    alpha=r"[0-9.e-]+",
    k=r"[0-9]+",
    L=r"[0-9]+",
    decoding=r"(_decoding-[0-9a-f]{8})?",
    number=r"[0-9]+",
    shards=r"[0-9]+",


TREE = "{model}/{start}/alpha{alpha}_k{k}_L{L}{decoding}"


def get_code(script, without=()):
    """The files of the package that, when they change, make the result of a script again.

    Args:
        script: its name in workflow/scripts, without the suffix.
        without: modules of the package that this rule does not depend on.
    """
    return [str(file) for file in code_behind(BASE / f"workflow/scripts/{script}.py", without)]


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


def get_loading(model):
    """The arguments of `load_model` that describe the model, but for its directory."""
    return {"kind": model.kind, "dtype": model.dtype, "device": model.device}


def get_gpu(model):
    """GPUs that a job with the model needs: 1 or 0."""
    return int(model.device.startswith("cuda"))


def get_gpu_mem_mb(model):
    return model.gpu_mem_mb if get_gpu(model) else 0


def get_threads():
    """Threads that grow the trees of a model: those configured, or a fair share of all cores."""
    growing = {check.tree.model for check in CONFIG.checks}
    # snakemake sets no cores with `--report` and `--summary`
    share = (workflow.resource_settings.cores or 1) // max(1, len(growing))
    return CONFIG.expansion.threads or max(1, share)


def get_shards(tree):
    """The files of the shards of a tree; none for a tree that one job grows whole."""
    count = CONFIG.experiments.shards.get(tree, 0)
    return [paths.shard_file(tree, number + 1, count) for number in range(count)]


def get_tree(wildcards):
    """The tree that the wildcards of `TREE` stand for."""
    named = TREE.format(**dict(wildcards.items()))
    return next(tree for tree in CONFIG.trees(wildcards.model) if str(tree) == named)


def get_growing(model):
    """The arguments of a `Grower` for a model, but for the directory and the threads."""
    settings = CONFIG.expansion
    return get_loading(model) | {
        "decoding": model.decoding,
        "memory_bytes": settings.memory_bytes,
        "end_of_sequence": settings.end_of_sequence,
        "store": DistributionStore(Path(paths.STORE_DIRECTORY), settings.store_bytes),
    }


def get_limits(model):
    """What every tree of a model must keep; of a type that Snakemake does not compare."""
    return CONFIG.expansion.limits(model.mem_mb)


def get_growing_minutes():
    """How long a cluster lets a job run that grows trees."""
    return max(1, round(CONFIG.expansion.most_hours * 60))


def get_start_strings(trees):
    """The start strings of some trees, by name."""
    return {tree.start: CONFIG.start_strings[tree.start] for tree in trees}


def get_start_texts():
    """The start strings by name, as tables show them."""
    return {name: str(start) for name, start in CONFIG.start_strings.items()}


def get_models_asked(rows):
    """What tables call the model of each row: its label, and the decoding that it is asked with."""
    trees = [row.check.tree for row in rows]
    return [CONFIG.models[tree.model].asked(tree.decoding) for tree in trees]


def get_rows_of_figure4():
    """The checks that Figure 4 shows, as rows of a table."""
    return [TableRow("Figure 4", "", check) for check in CONFIG.figure4]


def get_mark(model):
    """The mark that the trees of a model are those of the last run; none if all are refined."""
    return paths.trees_mark(model) if CONFIG.truncated(model) else []


def get_scores(model):
    """Pairs of a tree of the model and a quantifier that some query on that tree names."""
    return [(tree, name) for tree in CONFIG.trees(model) for name in CONFIG.scored(tree)]


def get_quantifiers(model):
    """The quantifiers that some query on a tree of the model names."""
    return sorted({name for _, name in get_scores(model)})


def get_quantifier_files(model):
    """The files on which the scores of a model's trees depend."""
    names = get_quantifiers(model)
    return sorted({file for name in names for file in files_of(CONFIG.quantifiers[name])})


def get_unasked_quantifiers(model):
    """Modules of the other quantifiers; a change of one must not score the model's trees again."""
    return modules_without(CONFIG.quantifiers[name] for name in get_quantifiers(model))


def get_ranges(model):
    """The declared range of each of the model's quantifiers."""
    return ranges_of({name: CONFIG.quantifiers[name] for name in get_quantifiers(model)})


def get_settings(names):
    """What the configuration says of some quantifiers."""
    return {name: config["quantifiers"][name] for name in names}


def get_estimates(checks):
    """The files of the estimates of some checks, as far as they are estimated."""
    return [paths.estimate_file(c) for c in checks if c in CONFIG.experiments.estimates]


def get_chains(model):
    """One check for each chain of a model: queries that name the same quantifiers share a chain."""
    return list({paths.chain_file(c, "prism"): c for c in CONFIG.checks_of(model)}.values())


def get_used_models():
    """The models that have a part in any result."""
    asked = {check.tree.model for check in CONFIG.checks}
    # the top-k statistics are made for every model, whether or not an experiment names it
    return [m for m in CONFIG.tellers.values() if CONFIG.prompts is not None or m.name in asked]


DRAWN = ["figure3"] * (CONFIG.prompts is not None) + ["figure4"] * bool(CONFIG.figure4)


def get_all_results():
    """Every result that people read. Each is listed, so that one that was deleted is made again."""
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
    """What other results are made of, besides trees; made again if it was lost or damaged."""
    models = [model.name for model in get_used_models()]
    scored = [pair for model in models for pair in get_scores(model)]
    return [
        *(paths.tree_record(check.tree) for check in CONFIG.checks),
        *(paths.scores_file(*pair) for pair in scored),
        *(paths.scores_record(*pair) for pair in scored),
        *(map(paths.masses_file, models) if CONFIG.prompts is not None else []),
    ]


def get_kept_files():
    """What this run keeps of an earlier one if it is not damaged."""
    shards = [Path(file) for tree in CONFIG.experiments.shards for file in get_shards(tree)]
    files = [paths.PROMPTS_FILE, *get_all_results(), *shards]
    files += [shard.with_suffix(".json") for shard in shards]
    if CONFIG.invariants is not None:
        files += get_invariants_results(None) + get_outcomes_on_programs()
    return dict.fromkeys(map(str, files))


def get_proposing_threads():
    """Threads that ask a model for invariants: the configured number, or a share of half the cores.

    The other half of the cores runs the experiments that need no model.
    """
    share = (workflow.resource_settings.cores or 1) // (2 * len(CONFIG.invariants.models))
    return CONFIG.expansion.threads or max(1, share)


def get_attempting():
    """The fields of a `Setting` but for the semantics: what an attempt on a program may cost."""
    section = CONFIG.invariants
    return {
        "seconds": section.seconds,
        "tool_seconds": section.tool_seconds,
        "candidates": section.asking.candidates,
        "seed": section.asking.seed,
    }


def is_served(wildcards):
    """Whether a server proposes, which tells no probabilities; not so without a model."""
    name = getattr(wildcards, "model", None)
    return name is not None and CONFIG.models[name].kind != "causal"


def get_repairs(name):
    """The attempts with rounds of repair by a model; none if there are no rounds."""
    return get_attempts(f"repairs/{name}") if CONFIG.invariants.repairing.rounds else []


def get_writing_models():
    """The models that can write on after a prompt: the causal ones."""
    return [model.name for model in CONFIG.models.values() if model.kind == "causal"]


def get_attempts(experiment):
    """The files of attempts of an experiment, one for each semantics.

    Args:
        experiment: its name, followed by a slash and the model if it needs one.
    """
    return [paths.attempts_file(experiment, name) for name in CONFIG.invariants.semantics]


def get_outcomes_on_programs():
    """The files from which the tables and figures on programs are made."""
    models = CONFIG.invariants.models
    places = [
        "baselines",
        "tools",
        *(f"{kind}/{m}" for kind in ("variants", "sources") for m in models),
    ]
    return [
        *(file for place in places for file in get_attempts(place)),
        *(file for name in models for file in get_repairs(name)),
        *map(paths.proposals_file, models),
        *map(paths.provable_file, [name for name in models if name in get_writing_models()]),
    ]


def get_attempts_of_method():
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


def get_figures_of_sets():
    """For each figure of the programs that the same ways verify, the attempts that it draws."""
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
