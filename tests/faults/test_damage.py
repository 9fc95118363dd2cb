"""A damaged file is named and renamed by a job or by `repair`, and the next run makes it again."""

import os
import shutil

import pytest
from helpers.damage import flipped
from helpers.undisturbed import NAME, TREE, check_undisturbed

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
    "test_a_job_renames_a_damaged_input_and_the_same_command_makes_it_again": 11,
    "test_files_of_every_kind_that_were_damaged_at_once_are_made_again": 2 * len(FILES + SHOWN)
    + len(FILES)
    + 3,  # the prompts, each time
}
"""How many faults a test tries that tries more than one; docs/explanation/trust.md tells them."""


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
    """With a file of every kind damaged, one repair names each, and a run makes all again."""
    for name in names:
        damaged(project.directory / "results" / name, damage)
    damaged(project.directory / "resources/datasets/prompts.csv", damage)
    repaired = project.repair()
    assert repaired.returncode == 0, repaired.stdout
    for name in names:
        assert f"renamed to results/{name}.damaged: results/{name}: " in repaired.stdout
    mended(project)


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        (f"results/trees/{TREE}.parquet", "results/checks/**/*.json"),
        (f"results/trees/{TREE}.json", "results/checks/**/*.json"),
        (f"results/scores/{TREE}/gender.parquet", "results/checks/**/*.json"),
        (f"results/scores/{TREE}/gender.json", "results/checks/**/*.json"),
        (f"results/prism/{TREE}/gender.prism", "results/crosschecks/**/*.json"),
        (f"results/topk/{NAME}.parquet", "results/tables/figure3.csv"),
        ("results/provenance.json", "results/tables/table2.csv"),
        ("results/tables/table2.csv", "results/report.html"),
        ("results/figures/figure3.svg", "results/report.html"),
        ("resources/datasets/prompts.csv", f"results/topk/{NAME}.parquet"),
        (f"resources/models/{NAME}/source.json", f"results/trees/{TREE}.parquet"),
    ],
)
def test_a_job_renames_a_damaged_input_and_the_same_command_makes_it_again(
    name, lost, project, undisturbed
):
    """A job that meets a damaged file renames it, says so, and the second run succeeds."""
    path = project.directory / name
    damaged(path, lambda content: content[: len(content) // 2])
    content = path.read_bytes()
    if path.name == "prompts.csv":
        # the statistics that were stored need no prompts
        shutil.rmtree(project.directory / "results/distributions")
    for output in sorted(project.directory.glob(lost)):
        output.unlink()
    # as many cores as the undisturbed run had: the record of a tree has its number of threads
    command = ["--cores", "2", "--rerun-triggers", "mtime"]
    run = project.snakemake(*command)
    assert run.returncode != 0
    assert "Traceback" not in run.stdout
    made = path.parent if name.endswith("source.json") else path
    place = made.relative_to(project.directory)
    said = f"it is now {place}.damaged; run the same command again to recreate {place}"
    assert said in run.stdout
    logs = [log.read_text(encoding="utf-8") for log in project.found("logs/**/*.log")]
    assert any(said in log for log in logs)
    aside = made.with_name(f"{made.name}.damaged")
    assert (aside / "source.json" if aside.is_dir() else aside).read_bytes() == content
    again = project.snakemake(*command)
    assert again.returncode == 0, again.stdout
    check_undisturbed(project, undisturbed)


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
    model = f"resources/models/{NAME}"
    assert f"renamed to {model}.damaged: {model}/source.json: damaged" in project.repair().stdout
    mended(project)
