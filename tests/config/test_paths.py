"""Where results lie: people, documents and other tools find them by these names."""

import pytest

from llmchecker.config import paths
from llmchecker.config.plan import Check, TreeSpec
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import Truncation

TREE = TreeSpec("gpt2", "player", Truncation(0.8, 15, 5))
SHAPE = "gpt2/player/alpha0.8_k15_L5"
CHECK = Check(TREE, parse("P=? [ F similarity > 10 & gender > 0 ]"))
STEPS = Check(TREE, parse("P=? [ F step = 5 ]"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (paths.model_directory("gpt2"), "resources/models/gpt2"),
        (paths.model_lock("gpt2"), "config/locks/models/gpt2.json"),
        (paths.tree_file(TREE), f"results/trees/{SHAPE}.parquet"),
        (paths.tree_record(TREE), f"results/trees/{SHAPE}.json"),
        (paths.trees_mark("gpt2"), "results/trees/gpt2.grown"),
        (paths.shard_files(TREE, 3)[0], f"results/shards/{SHAPE}/1-of-3.parquet"),
        (paths.shard_files(TREE, 3)[2], f"results/shards/{SHAPE}/3-of-3.parquet"),
        (paths.scores_file(TREE, "gender"), f"results/scores/{SHAPE}/gender.parquet"),
        (paths.scores_record(TREE, "gender"), f"results/scores/{SHAPE}/gender.json"),
        (paths.chain_file(CHECK, "prism"), f"results/prism/{SHAPE}/gender-similarity.prism"),
        (paths.chain_file(STEPS, "jani"), f"results/jani/{SHAPE}/step.jani"),
    ],
)
def test_every_result_has_its_place(path, expected):
    """Trees, scores, chains and attempts have the paths that the documents name."""
    assert path == expected


def test_a_chain_of_many_quantifiers_has_a_name_that_systems_take():
    """However many quantifiers a query names, its chain has a short name, and one of its own."""
    names = [f"quantifier_number_{number}" for number in range(40)]
    queries = [" & ".join(f"{name} > 0" for name in names[skipped:]) for skipped in (0, 1)]
    files = {paths.chain_file(Check(TREE, parse(f"P=? [ F {q} ]")), "prism") for q in queries}
    assert len(files) == 2
    for file in files:
        assert file.startswith(f"results/prism/{SHAPE}/quantifier_number_")
        assert len(file.rpartition("/")[2]) < 130


def test_a_check_is_found_by_its_tree_and_query():
    """A verdict and its comparison lie below their tree; the scores of a check are in order."""
    assert paths.verdict_file(CHECK) == f"results/checks/{CHECK}.json"
    assert str(CHECK).startswith(f"{SHAPE}/P-eq-F-")
    expected = [f"results/scores/{SHAPE}/{name}.parquet" for name in ("gender", "similarity")]
    assert paths.scores_of_check(CHECK) == expected
    assert paths.scores_of_check(STEPS) == []
