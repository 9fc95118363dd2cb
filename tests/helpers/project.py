"""A project as a person has it: a directory with a configuration, from which snakemake is run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from helpers.forked_snakemake import run_snakemake

ROOT = Path(__file__).parents[2]
COPIED = (
    *("Snakefile", "environment.yml", "profiles", "src", "workflow"),
    *("packages/loop-invariants/src", "resources/published"),
)
GENDER = "P=? [ F gender > 0 ]"
BOTH = "P=? [ F gender > 0 & similarity > 10 ]"
LAST = "P=? [ F step = 2 ]"
START_STRINGS = {"awkward": '"He\'s", she\nsaid: \\ {x} $HOME | 100% 🙂👩‍👩‍👧 選手', "empty": ""}
MODELS = ("llama", "gpt2", "bert")
STAGES = ("trees", "scores", "prism", "checks", "crosschecks")
SCORING = {"scores", "answers"}
"""Scripts that score texts by the quantifiers that are asked, whatever the others do."""
LABELS = {model: f"{model} {{small}} 100%" for model in MODELS}
TREES = [(model, "awkward") for model in MODELS] + [("gpt2", "empty")]
ROWS = [("Awkward", "llama", BOTH), ("Empty", "gpt2", LAST)]
SHARDS = {"llama": 1, "gpt2": 2}
CHECKS = len(MODELS) + len(ROWS)
FIGURE = ("pdf", "png", "svg")
TABLE = ("csv", "md", "tex")
PROMPTS = ["I want you to act as a poet.", 'Say "no",\nthen leave.', "Wer bist du?"]

EMPTY = {
    "models": {"one": {"label": "One", "source": "path:one"}},
    "start_strings": {"player": "The player won because"},
    "quantifiers": {"gender": {}},
    "experiments": [
        {"label": "Player", "interest": "Gender", "start": "player", "models": ["one"]}
        | {"alpha": 0.8, "k": 3, "L": 2, "queries": [GENDER]}
    ],
}


class Project:
    """A directory from which a person runs snakemake, with a configuration of its own."""

    def __init__(self, directory: Path, config: dict) -> None:
        self.directory = directory
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, directory / name)
        self.write_config(config)

    def write_config(self, config: dict) -> None:
        text = yaml.safe_dump(config, allow_unicode=True, sort_keys=False)
        (self.directory / "config.yaml").write_text(text, encoding="utf-8")

    def snakemake(self, *arguments: str, hash_seed: str = "random") -> subprocess.CompletedProcess:
        """Run snakemake to its end; what it prints, to either stream, is in `stdout`."""
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": "", "PYTHONUTF8": "1"}
        return run_snakemake(
            ["--nocolor", *arguments], self.directory, environment, hash_seed=hash_seed
        )

    def repair(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run `llmchecker repair` to its end, as every target of make does before a run."""
        code = "from llmchecker.interfaces.cli.entry import run; run()"
        return subprocess.run(
            [sys.executable, "-c", code, "repair", *arguments],
            cwd=self.directory,
            env=os.environ | {"PYTHONPATH": str(self.directory / "src"), "PYTHONUTF8": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )

    def planned(self, *targets: str) -> dict[str, int]:
        """How many jobs of each rule the next run would have; empty when there is nothing to do."""
        run = self.snakemake("--dry-run", "--cores", "1", *targets)
        assert run.returncode == 0, run.stdout
        return {} if "Nothing to be done" in run.stdout else stats(run.stdout)

    @contextmanager
    def appended(self, file: str, text: str) -> Iterator[None]:
        """Change a file, and give it back as it was."""
        path = self.directory / file
        content, stat = path.read_bytes(), path.stat()
        path.write_bytes(content + text.encode())
        try:
            yield
        finally:
            path.write_bytes(content)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    @contextmanager
    def configured(self, config: dict) -> Iterator[None]:
        """Change the configuration, and give it back as it was."""
        before = yaml.safe_load((self.directory / "config.yaml").read_text(encoding="utf-8"))
        self.write_config(config)
        try:
            yield
        finally:
            self.write_config(before)

    def tree(self, model: str, start: str) -> Path:
        """The file of a tree."""
        return self.directory / f"results/trees/{model}/{start}/alpha0.8_k3_L2.parquet"

    def found(self, pattern: str) -> list[Path]:
        """The files among the results that match a pattern."""
        return sorted((self.directory / "results").glob(pattern))


def configuration(models: dict[str, Path], prompts: Path) -> dict:
    """Every kind of model, every kind of result, and as little computation as can be."""
    truncation = {"alpha": 0.8, "k": 3, "L": 2}
    return {
        "models": {
            name: {
                "label": LABELS[name],
                "source": f"path:{directory}",
                "kind": "masked" if name == "bert" else "causal",
                "mem_mb": 500,
            }
            for name, directory in models.items()
        },
        "start_strings": START_STRINGS,
        "quantifiers": {"gender": {}, "similarity": {"protected": ["Lolita, light of my life"]}},
        "topk": {"source": f"path:{prompts}", "column": "prompt", "maximum_k": 5},
        "experiments": [
            {"label": label, "interest": "Test", "start": label.lower(), "models": [model]}
            | truncation
            | {"shards": SHARDS[model], "queries": [query]}
            for label, model, query in ROWS
        ],
        "figure4": {"starts": ["awkward"], **truncation, "query": GENDER},
    }


def stats(printed: str) -> dict[str, int]:
    """How many jobs of each rule a run says that it has."""
    table = printed.split("Job stats:")[1].split("\n\n")[0]
    counts = dict(re.findall(r"^(\w+) +(\d+)$", table, flags=re.MULTILINE))
    return {rule: int(n) for rule, n in counts.items() if rule not in ("total", "all", "default")}


def jobs(stages: Iterable[str], models: Iterable[str] = MODELS) -> dict[str, int]:
    """A job for each model and stage."""
    return {f"{stage}_{model}": 1 for stage in stages for model in models}


def read_config(project: Project) -> dict:
    return yaml.safe_load((project.directory / "config.yaml").read_text(encoding="utf-8"))
