"""Paths of all files of a run, relative to the directory of the run, and of the user's cache.

Each rule of the workflow contains the paths of its own outputs, for readers of the rule. All other
code, including the command line, uses the paths of this module. Paths are texts because Snakemake
compares parameters between runs, and compares texts.
"""

from pathlib import Path

import platformdirs

from llmchecker.config.plan import Check, TreeSpec, compute_short_hash, quantifiers_in
from llmchecker.config.project import MODELS_DIRECTORY

STORE_DIRECTORY = "results/distributions"
"""The directory of the distribution cache."""
_RESULT_CACHE = "results/cached"
"""The directory of results by fingerprint, from which jobs take those that they need again."""
PROMPTS_FILE = "resources/datasets/prompts.csv"
"""The prompts of the top-k statistics."""
PROVENANCE_FILE = "results/provenance.json"
"""The provenance of the results."""
_MAX_NAME_LENGTH = 100
"""Maximum length of a name within a file name; systems allow 255 in total."""


def find_user_cache() -> Path:
    """Return the cache folder of the user, such as `~/.cache/llmchecker`; it may be absent.

    Its files serve all projects on this machine.
    """
    return platformdirs.user_cache_path("llmchecker")


def model_directory(name: str) -> str:
    """Return the directory of a model."""
    return f"{MODELS_DIRECTORY}/{name}"


def texts_directory(name: str) -> str:
    """Return the directory of the stored answers of a model that returns texts alone."""
    return f"results/texts/{name}"


def judge_file(name: str, fingerprint: str) -> str:
    """Return the file of the stored probabilities of a judge."""
    return f"results/judges/{name}/{fingerprint}.jsonl"


def cached_results(stage: str, model: str) -> str:
    """Return the directory of the results of a stage on a model, by fingerprint."""
    return f"{_RESULT_CACHE}/{stage}/{model}"


def kept_cases(suite: str, model: str) -> str:
    """Return the file of the certain results of a suite on a model."""
    return f"{cached_results('suites', model)}/{suite}.jsonl"


def model_lock(name: str) -> str:
    """Return the lock of a model, which exists only if its source has no commit."""
    return f"config/locks/models/{name}.json"


def tree_file(tree: TreeSpec) -> str:
    """Return the file of a tree."""
    return f"results/trees/{tree}.parquet"


def tree_record(tree: TreeSpec) -> str:
    """Return the record of a tree's expansion."""
    return f"results/trees/{tree}.json"


def trees_mark(model: str) -> str:
    """Return the empty file that marks all trees of a model as current."""
    return f"results/trees/{model}.grown"


def shard_files(tree: TreeSpec, count: int) -> list[str]:
    """Return the files of the shards of a tree; the first shard has the number 1."""
    return [f"results/shards/{tree}/{number}-of-{count}.parquet" for number in range(1, count + 1)]


def scores_file(tree: TreeSpec, quantifier: str) -> str:
    """Return the file of a quantifier's scores on a tree."""
    return f"results/scores/{tree}/{quantifier}.parquet"


def scores_record(tree: TreeSpec, quantifier: str) -> str:
    """Return the record of the duration of scoring a tree."""
    return f"results/scores/{tree}/{quantifier}.json"


def scores_of_check(check: Check) -> list[str]:
    """Return the score files of a check, in the order of the quantifiers' names."""
    return [scores_file(check.tree, name) for name in quantifiers_in(check.query)]


def chain_file(check: Check, language: str) -> str:
    """Return the file of a check's Markov chain in a language, `prism` or `jani`.

    Queries on one tree with the same quantifiers share the file.
    """
    # A query without quantifiers contains at most the variable `step`.
    names = "-".join(quantifiers_in(check.query)) or "step"
    # A hash keeps a shortened name distinct.
    if len(names) > _MAX_NAME_LENGTH:
        names = f"{names[:_MAX_NAME_LENGTH]}-{compute_short_hash(names)}"
    return f"results/{language}/{check.tree}/{names}.{language}"


def verdict_file(check: Check) -> str:
    """Return the file of a check's verdict."""
    return f"results/checks/{check}.json"


def answer_file(check: Check) -> str:
    """Return the file of a check's answer for the whole model."""
    return f"results/answers/{check}.json"


def suite_file(name: str, model: str) -> str:
    """Return the file of the results of a suite on a model."""
    return f"results/suites/{name}/{model}.jsonl"


def suite_shard_files(name: str, model: str, count: int) -> list[str]:
    """Return the files of the shards of a suite's results, from number 1."""
    folder = f"results/suites/{name}/{model}"
    return [f"{folder}/{number}-of-{count}.jsonl" for number in range(1, count + 1)]
