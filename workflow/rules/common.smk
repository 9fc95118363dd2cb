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


def get_bounds(wildcards):
    return {
        "alpha": float(wildcards.alpha),
        "k": int(wildcards.k),
        "length": int(wildcards.L),
    }


def get_model(wildcards):
    return CONFIG.models[wildcards.model]


def get_loading(wildcards):
    """How a model is loaded: what `language_models.load` takes beside the directory."""
    model = get_model(wildcards)
    return {"kind": model.kind, "dtype": model.dtype, "device": model.device}


def get_mem_mb(wildcards):
    return get_model(wildcards).mem_mb


def get_gpu(wildcards):
    return int(get_model(wildcards).device.startswith("cuda"))


def get_quantifier_files(wildcards):
    return files_of(CONFIG.quantifiers[wildcards.quantifier])


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


def get_prism(wildcards):
    """The PRISM file with just the quantifiers of the query."""
    names = "-".join(quantifiers_in(get_query(wildcards))) or "step"
    return expand(f"results/prism/{TREE}/{{names}}.prism", names=names, **wildcards)


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
        *expand("results/crosschecks/{check}.json", check=CONFIG.checks),
        "results/report.html",
    ]
