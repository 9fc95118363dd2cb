"""The paths of everything that a run fetches or makes, relative to the directory of the run.

Each rule of the workflow writes out the paths of its own outputs, so that one can read them there.
All other code that looks for these files asks this module, the command line too. Paths are text
because Snakemake compares parameters between runs, and text is among the types that it compares.
"""

from llmchecker.config.checks import Check, TreeSpec, quantifiers_in, short_hash

STORE_DIRECTORY = "results/distributions"
"""The directory of stored next-token distributions."""
PROMPTS_FILE = "resources/datasets/prompts.csv"
"""The prompts of the top-k statistics."""
PROMPTS_LOCK = "config/locks/datasets/prompts.json"
"""The lock of the prompts. It is made only if their source names no commit."""
PROVENANCE_FILE = "results/provenance.json"
"""How the results were made."""
LONGEST_NAME = 100
"""As many characters of what a file is named after as its name keeps; systems allow 255 in all."""


def model_directory(name: str) -> str:
    """The directory of a model."""
    return f"resources/models/{name}"


def model_lock(name: str) -> str:
    """The lock of a model. It is made only if the model's source names no commit."""
    return f"config/locks/models/{name}.json"


def tree_file(tree: TreeSpec) -> str:
    """The file of a tree."""
    return f"results/trees/{tree}.parquet"


def tree_record(tree: TreeSpec) -> str:
    """The record of how a tree was grown."""
    return f"results/trees/{tree}.json"


def trees_mark(model: str) -> str:
    """The empty file that says that all trees of a model are those of the last run."""
    return f"results/trees/{model}.grown"


def shard_file(tree: TreeSpec, number: int, count: int) -> str:
    """The file of a shard of a tree. Shards are numbered from 1."""
    return f"results/shards/{tree}/{number}-of-{count}.parquet"


def scores_file(tree: TreeSpec, quantifier: str) -> str:
    """The scores of the texts of a tree."""
    return f"results/scores/{tree}/{quantifier}.parquet"


def scores_record(tree: TreeSpec, quantifier: str) -> str:
    """The record of how long scoring a tree took."""
    return f"results/scores/{tree}/{quantifier}.json"


def scores_of_check(check: Check) -> list[str]:
    """The scores on which a check depends, in the order of the quantifiers' names."""
    return [scores_file(check.tree, name) for name in quantifiers_in(check.query)]


def chain_file(check: Check, language: str) -> str:
    """The file of a check's chain in a language, `prism` or `jani`.

    Queries on one tree that name the same quantifiers share the file.
    """
    names = "-".join(quantifiers_in(check.query)) or "step"
    if len(names) > LONGEST_NAME:
        names = f"{names[:LONGEST_NAME]}-{short_hash(names)}"
    return f"results/{language}/{check.tree}/{names}.{language}"


def verdict_file(check: Check) -> str:
    """The verdict of a check."""
    return f"results/checks/{check}.json"


def estimate_file(check: Check) -> str:
    """The estimate of a check."""
    return f"results/estimates/{check}.json"


def crosscheck_file(check: Check) -> str:
    """The result of comparing a verdict with Storm's own front end."""
    return f"results/crosschecks/{check}.json"


def masses_file(model: str) -> str:
    """The top-k statistics of a model."""
    return f"results/topk/{model}.parquet"


def attempts_file(experiment: str, semantics: str) -> str:
    """The attempts of an experiment on programs.

    Args:
        experiment: its name, followed by a slash and the model if it needs one.
        semantics: the name of the semantics of integers.
    """
    return f"results/invariants/{experiment}/{semantics}.json"


def answers_directory(model: str) -> str:
    """Where the answers of a served model are kept that proposes invariants."""
    return f"results/invariants/answers/{model}"


def provable_file(model: str) -> str:
    """How likely a model is to write a provable invariant."""
    return f"results/invariants/provable/{model}.json"


def proposals_file(model: str) -> str:
    """What a model proposed for the loops of the programs."""
    return f"results/invariants/proposals/{model}.json"
