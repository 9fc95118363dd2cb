"""A file that was damaged is named, and the next run makes it again."""

import os

import pytest
from helpers.damage import flipped
from helpers.undisturbed import NAME, TREE

pytestmark = [pytest.mark.slow, pytest.mark.faults]

FILES = [
    *(f"trees/{TREE}.parquet", f"trees/{TREE}.json"),
    *(f"scores/{TREE}/gender.parquet", f"scores/{TREE}/gender.json"),
    *(f"prism/{TREE}/gender.prism", f"jani/{TREE}/gender.jani", f"topk/{NAME}.parquet"),
    *("provenance.json", "tables/table2.csv", "tables/figure3.csv", "figures/figure3.svg"),
]
SHOWN = ["figures/figure4.png", "figures/figure4.pdf", "report.html"]
"""What only people read: it is looked at whether it is whole, not at every bit."""

CASES = {
    "test_files_of_every_kind_that_were_damaged_at_once_are_made_again": 2 * len(FILES + SHOWN)
    + len(FILES)
    + 3  # the prompts, each time
}
"""How many faults a test tries that tries more than one; docs/trust.md tells them."""


def damaged(path, damage) -> None:
    """Change a file as a failing disk does: its time stays."""
    content, stat = path.read_bytes(), path.stat()
    path.write_bytes(damage(content))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    ("damage", "names"),
    [
        pytest.param(lambda content: content[: len(content) // 2], FILES + SHOWN, id="cut"),
        pytest.param(lambda content: b"", FILES + SHOWN, id="emptied"),
        pytest.param(
            lambda content: flipped(content, len(content) * 4), FILES, id="one bit flipped"
        ),
    ],
)
def test_files_of_every_kind_that_were_damaged_at_once_are_made_again(
    damage, names, project, mended
):
    """With a file of every kind damaged, one command names each and makes all again."""
    for name in names:
        damaged(project.directory / "results" / name, damage)
    damaged(project.directory / "resources/datasets/prompts.csv", damage)
    planned = project.snakemake("--dry-run", "--cores", "1")
    assert "Traceback" not in planned.stdout
    for name in names:
        assert f"made again: results/{name} is" in planned.stdout
    mended(project)


def test_a_cache_that_was_damaged_is_dropped(project, mended):
    """Stored distributions that were damaged are dropped with a word, and computed again."""
    for path in project.found("distributions/*/*.parquet"):
        damaged(path, lambda content: content[:100])
    (project.directory / f"results/trees/{TREE}.parquet").unlink()
    run = project.snakemake("--cores", "2")
    assert run.returncode == 0, run.stdout
    assert "not used, and deleted: results/distributions/" in run.stdout
    mended(project)


def test_a_record_of_a_model_that_was_cut_makes_the_model_be_fetched_again(project, mended):
    """Weights that nothing vouches for are not used; the model is fetched again."""
    damaged(project.directory / f"resources/models/{NAME}/source.json", lambda content: content[:9])
    planned = project.snakemake("--dry-run", "--cores", "1")
    assert f"fetched again: resources/models/{NAME}/source.json is not" in planned.stdout
    mended(project)
