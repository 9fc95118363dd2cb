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

from llmchecker import fingerprints
from llmchecker.config import Config, quantifiers_in, read_yaml
from llmchecker.errors import LLMCheckerError
from llmchecker.quantifiers import files_of

try:
    CONFIG = Config.parse(config, read_yaml(BASE / "workflow/schemas/config.schema.yaml"))
except LLMCheckerError as error:
    raise WorkflowError(f"The configuration cannot run.\n{error}") from None


def one_of(names):
    return "|".join(re.escape(name) for name in names) or "(?!)"


wildcard_constraints:
    model=one_of(CONFIG.models),
    start=one_of(CONFIG.start_strings),
    alpha=r"[0-9.e-]+",
    k=r"[0-9]+",
    L=r"[0-9]+",
    quantifier=one_of(CONFIG.quantifiers),
    query=one_of(CONFIG.queries),


TREE = "{model}/{start}/alpha{alpha}_k{k}_L{L}"


def code(*modules):
    """Modules whose change must invalidate a result."""
    return [str(BASE / "src/llmchecker" / module) for module in modules]


def get_model(wildcards):
    return CONFIG.models[wildcards.model]


def get_model_lock(wildcards):
    """The lock of a model whose source names no commit."""
    locked = get_model(wildcards).source.source.needs_lock
    return f"config/locks/models/{wildcards.model}.json" if locked else []


def get_prompts_lock(wildcards):
    """The lock of the prompts, where their source names no commit."""
    return "config/locks/datasets/prompts.json" if CONFIG.prompts.dataset.source.needs_lock else []


def get_mem_mb(wildcards):
    return get_model(wildcards).mem_mb


def get_loading(model):
    """How a model is loaded: what `language_models.load` takes beside the directory."""
    return {"kind": model.kind, "dtype": model.dtype, "device": model.device}


def get_gpu(model):
    return int(model.device.startswith("cuda"))


def get_gpu_mem_mb(model):
    return model.gpu_mem_mb if get_gpu(model) else 0


def get_threads():
    """Threads that grow the trees of a model: as configured, or a fair share of all cores."""
    share = (workflow.cores or 1) // max(1, len(CONFIG.models))
    return CONFIG.expansion.threads or max(1, share)


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


def get_query(wildcards):
    return CONFIG.queries[wildcards.query]


def get_prism_scores(wildcards):
    """Scores by every quantifier of the PRISM file, whose name joins theirs."""
    names = [name for name in wildcards.quantifiers.split("-") if name != "step"]
    return expand(f"results/scores/{TREE}/{{name}}.parquet", name=names, **wildcards)


def get_ranges(wildcards):
    """The declared range of every quantifier in the query."""
    names = quantifiers_in(get_query(wildcards))
    return {
        name: (CONFIG.quantifiers[name].minimum, CONFIG.quantifiers[name].maximum) for name in names
    }


def get_check_scores(wildcards):
    """Scores by every quantifier in the query."""
    names = quantifiers_in(get_query(wildcards))
    return expand(f"results/scores/{TREE}/{{name}}.parquet", name=names, **wildcards)


def get_check_scored(wildcards):
    """The times that scoring took, beside the scores."""
    return [path.removesuffix(".parquet") + ".json" for path in get_check_scores(wildcards)]


def get_prism(wildcards, language="prism"):
    """The PRISM file with just the quantifiers of the query."""
    names = "-".join(quantifiers_in(get_query(wildcards))) or "step"
    return expand(f"results/{language}/{TREE}/{{names}}.{language}", names=names, **wildcards)


def get_jani(wildcards):
    """The JANI file with just the quantifiers of the query."""
    return get_prism(wildcards, language="jani")


def get_all_results():
    """Every file for people by name, so that one that was deleted is made again."""
    drawn = ["figure3"] * (CONFIG.prompts is not None) + ["figure4"] * bool(CONFIG.figure4)
    return [
        *expand(
            "results/tables/table{number}.{format}", number=[1, 2], format=["csv", "md", "tex"]
        ),
        "results/tables/witnesses.md",
        *expand("results/tables/audit.{format}", format=["csv", "md"]),
        *expand("results/tables/comparison.{format}", format=["csv", "md", "tex"]),
        *expand("results/tables/{name}.csv", name=drawn),
        *expand("results/figures/{name}.{format}", name=drawn, format=["pdf", "svg", "png"]),
        *expand("results/crosschecks/{check}.json", check=CONFIG.checks),
    ]
