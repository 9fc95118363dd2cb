"""Jobs refuse inputs that were computed from other files than those of their run."""

from pathlib import Path

import pytest
from helpers.changes import flip, overwrite

from llmchecker.checking.answer import Answer
from llmchecker.config import paths
from llmchecker.config.plan import Check, TreeSpec
from llmchecker.errors import ChecksumMismatch
from llmchecker.interfaces.snakemake.check_jobs import answer_checks
from llmchecker.interfaces.snakemake.score_jobs import score_trees
from llmchecker.models.lazy_model import LazyModel
from llmchecker.models.sources.checkpoints import ModelSource, fetch_checkpoint
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifier_state import hash_quantifiers
from llmchecker.properties.registry import create_quantifier
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.shards import Shard
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.job_logging import Stopwatch
from llmchecker.utils.result_cache import ResultCache

SHAPE = Truncation(0.5, 2, 2)
START = "The player"
CHECK = Check(TreeSpec("one", "s", SHAPE), parse("P=? [ F found > 0 ]"))
TREE = paths.tree_file(CHECK.tree)
SCORES = (paths.scores_file(CHECK.tree, "found"), paths.scores_record(CHECK.tree, "found"))


class Project:
    """A tree of a model behind a path, and a word list, in the current folder."""

    def __init__(self, random_model) -> None:
        self.original = Path("original")
        self.original.mkdir()
        for file in random_model("gpt2").iterdir():
            (self.original / file.name).write_bytes(file.read_bytes())
        self.words = Path("list.txt")
        self.words.write_text("the\n")
        self.fetch()
        self.builder().build(TREE, START, SHAPE, lambda *_: None)
        self.quantifiers = self.create()
        self.states = hash_quantifiers(self.quantifiers)

    def fetch(self) -> None:
        source = ModelSource(parse_source("path:original"))
        fetch_checkpoint(source, paths.model_directory("one"))

    def create(self) -> dict:
        settings = {"type": "words", "file": str(self.words)}
        return {"found": create_quantifier("found", settings)}

    def builder(self) -> TreeBuilder:
        directory = Path(paths.model_directory("one"))
        model = LazyModel(directory, "causal", "float32", "cpu", 1, 10**9)
        return TreeBuilder(model, DistributionCache(Path("cache"), 10**9))

    def score(self, states: dict | None = None) -> None:
        states = states or self.states
        cache = ResultCache(Path("cached"))
        codes, work = {"found": "code"}, Stopwatch()
        score_trees([TREE], ["found"], self.quantifiers, states, codes, [SCORES], cache, work)

    def check(self, states: dict | None = None) -> Answer:
        ranges = {"found": (0, None)}
        states = states or self.states
        outputs, work = ["answer.json"], Stopwatch()
        answer_checks([CHECK], [()], [{}], ranges, states, "code", outputs, work)
        return Answer.read("answer.json")


@pytest.fixture
def project(tmp_path, monkeypatch, random_model) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(random_model)


def test_jobs_with_unchanged_inputs_give_an_answer(project):
    """A new time of the inputs changes nothing."""
    project.words.touch()
    project.score()
    assert project.check().bounded is not None


def test_scores_of_a_changed_list_are_refused(project):
    """The job of scores and that of checks each name the file, whatever its size and time."""
    project.score()
    flip(project.words)
    with pytest.raises(ChecksumMismatch, match=r"'found': a file changed .*list\.txt"):
        project.score()
    states = hash_quantifiers(project.create())
    with pytest.raises(ChecksumMismatch, match=r"found.*json: scores of a quantifier whose files"):
        project.check(states)


def test_a_tree_of_other_weights_is_refused(project):
    """A check of the old tree next to the new model names the tree and the changed file."""
    project.score()
    flip(project.original / "model.safetensors")
    project.fetch()
    with pytest.raises(ChecksumMismatch, match=rf"{TREE[:-8]}.*another model\.safetensors"):
        project.check()
    assert not project.builder().is_cached(TREE, START, SHAPE)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "generation_config.json"])
def test_a_job_does_not_use_a_model_that_changed_after_it_was_fetched(project, monkeypatch, name):
    """Neither a stored tree nor a new one is of another model than that of the run."""
    monkeypatch.setenv("LLMCHECKER_JOB", "1")
    assert project.builder().is_cached(TREE, START, SHAPE)
    content = (project.original / name).read_bytes()
    overwrite(project.original / name, content[:-1] + b" ")
    if content.endswith(b" "):
        overwrite(project.original / name, content + b" ")
    for use in (
        lambda: project.builder().is_cached(TREE, START, SHAPE),
        lambda: project.builder().build(TREE, START, SHAPE, lambda *_: None),
    ):
        with pytest.raises(ChecksumMismatch, match=rf"{name}: the file changed after"):
            use()


def test_shards_of_two_models_are_not_merged(project):
    """A shard that was grown with the old weights is named."""
    files = [f"{number}.parquet" for number in range(2)]
    for number, file in enumerate(files):
        shard = Shard(number, 2)
        project.builder().build(file, START, SHAPE, lambda *_: None, shard)
        if number == 0:
            flip(project.original / "model.safetensors")
            project.fetch()
    with pytest.raises(ChecksumMismatch, match=r"0\.parquet: grown with another model"):
        project.builder().merge("merged.parquet", START, files)
