"""One flipped bit in a file that an answer is computed from is never believed."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.damage import flipped
from helpers.undisturbed import NAME, TREE

from llmchecker.checking.answer import Answer
from llmchecker.errors import LLMCheckerError
from llmchecker.models.sources.checksums import check_checksums, read_checksums
from llmchecker.models.sources.prompt_set import read_prompts
from llmchecker.properties.scores import _read_scores
from llmchecker.reporting.table_io import read_csv
from llmchecker.trees.distribution_cache import DistributionCache, PromptDistributions
from llmchecker.trees.text_tree import TextTree
from llmchecker.trees.top_k_mass import read_masses
from llmchecker.utils.atomic_files import (
    checksum_path,
    read_json_with_digest,
    read_with_checksum,
    write_json,
)

pytestmark = [pytest.mark.slow, pytest.mark.faults]

FLIPS = 100
WITH_CHECKSUM = ["prompts", "a PRISM file", "a JANI file", "a table"]
FILES_OF_A_MODEL = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
TREE_FILE = f"results/trees/{TREE}.parquet"


def _scores(path: Path) -> list[int]:
    project = path.parents[len(Path(f"results/scores/{TREE}/gender.parquet").parts) - 1]
    return _read_scores(TextTree.read(project / TREE_FILE), path).tolist()


def _stored(path: Path) -> list:
    """What the store knows from a folder with this file alone; nothing once it was dropped."""
    store = DistributionCache(path.parent.parent, 2**30)
    known = PromptDistributions(store, path.parent, (), 0.0)._distributions
    if not path.exists():
        raise LLMCheckerError("dropped")
    return sorted((suffix, *(column.tobytes() for column in known[suffix])) for suffix in known)


KINDS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a tree": (TREE_FILE, lambda path: TextTree.read(path).digest),
    "the record of a tree": (f"results/trees/{TREE}.json", read_json_with_digest),
    "scores": (f"results/scores/{TREE}/gender.parquet", _scores),
    "the record of scores": (f"results/scores/{TREE}/gender.json", read_json_with_digest),
    "stored distributions": ("results/distributions/*/*.parquet", _stored),
    "top-k masses": (f"results/topk/{NAME}.parquet", lambda path: read_masses(path).to_csv()),
    "prompts": ("resources/datasets/prompts.csv", lambda path: read_prompts(path, "prompt")),
    "a verdict": ("results/checks/**/*.json", Answer.read),
    "a crosscheck": ("results/crosschecks/**/*.json", read_json_with_digest),
    "how a run was made": ("results/provenance.json", read_json_with_digest),
    "a PRISM file": (f"results/prism/{TREE}/gender.prism", read_with_checksum),
    "a JANI file": (f"results/jani/{TREE}/gender.jani", read_with_checksum),
    "a table": ("results/tables/table2.csv", lambda path: read_csv(path).to_csv()),
    "a figure": ("results/figures/figure3.svg", read_with_checksum),
}


CASES = {
    "test_a_flipped_bit_is_refused": FLIPS * len(KINDS),
    "test_a_flipped_bit_of_a_checksum_changes_nothing": FLIPS * len(WITH_CHECKSUM),
    "test_a_flipped_bit_of_a_model_is_refused_when_it_is_loaded": FLIPS * len(FILES_OF_A_MODEL),
    "test_a_flipped_bit_of_a_models_record_never_vouches_for_other_files": FLIPS,
}
"""How many faults a test tries that tries more than one; docs/explanation/trust.md tells them."""


def found(project: Path, pattern: str) -> Path:
    files = [
        path
        for path in sorted(project.glob(pattern))
        if "masses" not in path.name and path.is_file()
    ]
    return files[0]


def unseen(path: Path, read: Callable[[Path], object], bits: random.Random) -> list[int]:
    """The bits of a file that, flipped one at a time, change what is read without an error."""
    contents, true = path.read_bytes(), read(path)
    missed = []
    for bit in bits.sample(range(8 * len(contents)), min(FLIPS, 8 * len(contents))):
        path.write_bytes(flipped(contents, bit))
        try:
            if read(path) != true:
                missed.append(bit)
        except LLMCheckerError:
            continue
        finally:
            path.write_bytes(contents)
    return missed


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_refused(kind, project):
    """No flipped bit of a file changes what is read of it: the file is refused by its name."""
    pattern, read = KINDS[kind]
    assert unseen(found(project.directory, pattern), read, random.Random(kind)) == []


@pytest.mark.parametrize("kind", WITH_CHECKSUM)
def test_a_flipped_bit_of_a_checksum_changes_nothing(kind, project):
    """A checksum beside a file that was damaged itself never makes the file read otherwise."""
    pattern, read = KINDS[kind]
    path = found(project.directory, pattern)
    assert unseen(checksum_path(path), lambda _: read(path), random.Random(kind)) == []


@pytest.fixture
def fetched(tmp_path, random_model) -> Path:
    """A model whose files were recorded when they came."""
    directory = shutil.copytree(random_model("llama"), tmp_path / "fetched")
    write_json({"files": read_checksums(directory)}, directory / "source.json")
    return directory


@pytest.mark.parametrize("name", FILES_OF_A_MODEL)
def test_a_flipped_bit_of_a_model_is_refused_when_it_is_loaded(name, fetched):
    """Whatever bit of a model's files changed, the model does not load."""
    bits = random.Random(name)
    assert unseen(fetched / name, lambda _: check_checksums(fetched), bits) == []


def test_a_flipped_bit_of_a_models_record_never_vouches_for_other_files(fetched):
    """With a damaged record a model is refused, or its files are known by what they hold."""
    record = fetched / "source.json"
    assert unseen(record, lambda _: check_checksums(fetched), random.Random(1)) == []
