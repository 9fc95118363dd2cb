"""The benchmark's arithmetic, and that one run of it writes every figure that it defines."""

import contextlib
import json
import math
import os
import re
import subprocess
from types import SimpleNamespace

import bench
import narrowing
import overhead
import pandas as pd
import plain_sampling
import plots
import pytest
import yaml
from helpers.figure_names import find_mismatches
from helpers.forked_snakemake import open_snakemake
from overhead import Job, Run

MODEL = "tiny"
CONFIG = {
    "start_strings": {"player": "The player won because"},
    "quantifiers": {
        "gender": {},
        "similarity": {"protected": ["Lolita, light of my life"]},
        "polarity": {},
        "readability": {},
    },
    "experiments": [
        {
            "label": "Player",
            "interest": "Test",
            "start": "player",
            "alpha": 0.8,
            "k": 3,
            "L": length,
            "queries": ["P=? [ F gender > 0 ]"],
        }
        for length in (2, 3)
    ],
}
REQUIRED = [
    f"expansion.{MODEL}.share_of_peak",
    f"expansion.{MODEL}.speedup_over_reference",
    "cache.forward_passes_saved_share",
    "estimate.player.width_ratio_to_sampling",
    *(f"host.{name}.L40.passes_per_second" for name in ("words", "pattern", "json")),
    *(f"seconds.{MODEL}.L{length}.width_ratio" for length in (5, 40)),
    f"estimate.{MODEL}.passes_share_of_growing",
    f"estimate.{MODEL}.passes_share_of_generate",
    "refine.player.width_ratio_to_paper",
    "quantify.gender.vocabulary_texts_per_second",
    *(f"quantify.{name}.texts_per_second" for name in CONFIG["quantifiers"]),
    "check.seconds.4e2",
    "check.seconds.8e2",
    "check.read_seconds.8e2",
    "check.processor_seconds.8e2",
    "check.seconds_ratio",
    "check.peak_gb.8e2",
    "check.exponent",
    "prism.exponent",
    "bounds.cost_ratio",
    "workflow.overhead_share",
]
PRINTED = """\
Building DAG of jobs...
[Sun Jan 1 00:00:00 2026]
Job 3: Growing the trees of A
Job 4: Growing the trees of B
12:00:01 Job 9: is what a job logs
Finished jobid: 4 (Rule: trees_b)
1 of 4 steps (25%) done
Finished jobid: 3 (Rule: trees_a)
2 of 4 steps (50%) done
Job 1: Table I
Finished jobid: 1 (Rule: table1)
3 of 4 steps (75%) done
Finished jobid: 0 (Rule: all)
4 of 4 steps (100%) done
""".splitlines()
TIMES = [1, 2, 2, 3, 4, 7, 7, 12, 12, 13, 15, 15, 16, 16]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_jobs_are_read_from_what_snakemake_prints():
    """A job runs from the line that names it to the line that says that it has finished."""
    assert overhead.jobs(zip(TIMES, PRINTED, strict=True)) == [
        Job("trees_b", 3, 7),
        Job("trees_a", 2, 12),
        Job("table1", 13, 15),
    ]


def test_a_job_that_is_not_found_is_an_error():
    """What snakemake prints in another form is not taken for a run with fewer jobs."""
    lines = [line for line in PRINTED if "table1" not in line]
    with pytest.raises(ValueError, match="ran 3 jobs, of which 2 were found"):
        overhead.jobs(enumerate(lines))


def test_overhead_is_what_is_neither_work_nor_idle(tmp_path):
    """On 2 cores for 20 s, made-up logs of 3 jobs divide 40 s as counted by hand.

    Job a has 2 threads for 6 s, of which it works 5; job b follows after 1 s, has 1 thread for 8 s
    and works 6; a table takes 2 of these seconds and works 0.5. So the jobs take 12 + 8 + 2 core
    seconds, of which they work 10 + 6 + 0.5; 6 s pass without a job, 12 core seconds; 6 are left.
    """
    results = tmp_path / "results"
    write(results / "logs/trees/a.log", "12:00:00 grown\n12:00:01 worked 5.00 s\n")
    write(results / "logs/scores/b.log", "12:00:01 worked 6.00 s\n")
    write(results / "logs/tables/table1.log", "12:00:01 worked 0.50 s\n")
    for path, rule, threads in [("trees/a", "trees_a", 2), ("scores/b", "scores_b", 1)]:
        text = f"s\trule_name\tthreads\n1.0\t{rule}\t{threads}\n"
        write(results / f"benchmarks/{path}.tsv", text)
    jobs = (Job("trees_a", 2, 8), Job("scores_b", 9, 17), Job("table1", 10, 12))
    figures = overhead.measure(tmp_path, Run(jobs, seconds=20), cores=2)
    assert figures == pytest.approx(
        {
            "cores": 2,
            "seconds": 20,
            "work_share": 16.5 / 40,
            "overhead_share": (22 - 16.5 + 12) / 40,
            "between_jobs_share": 12 / 40,
            "idle_share": 6 / 40,
        }
    )


def test_a_log_without_its_last_line_is_an_error(tmp_path):
    """A job that does not say how long it worked is not taken for one that did not work."""
    write(tmp_path / "a.log", "12:00:00 grown\n")
    with pytest.raises(ValueError, match="does not say"):
        overhead.worked(tmp_path / "a.log")


def test_a_measurement_has_a_process_of_its_own(tmp_path):
    """A function is called in a new process, in the directory that is given."""
    assert bench.in_own_process(os.getcwd, directory=tmp_path) == str(tmp_path)
    assert bench.in_own_process(os.getpid, directory=tmp_path) != os.getpid()


@pytest.mark.parametrize(
    ("states", "name"), [(1_000, "1e3"), (3_000, "3e3"), (10**7, "1e7"), (12_345, "1.2345e4")]
)
def test_states_are_named_by_their_power(states, name):
    """A number of states in a figure's name reads back as the number."""
    assert bench.power(states) == name
    assert float(name) == states


def test_panels_of_widths_have_words_for_titles():
    """Above each panel of width.png is the event of its query, and no operator."""
    columns = {"model": MODEL, "passes": 10, "width": 0.5}
    rows = [
        columns | {"query": query, "way": way}
        for query in plain_sampling.FORMULAS
        for way in narrowing.WAYS
    ]
    figure = plots.draw_width(pd.DataFrame(rows), length=5)
    titles = [panel.get_title().replace("\n", " ") for panel in figure.axes]
    assert titles[0] == "More male than female words within 5 tokens"
    assert len(set(titles)) == len(plain_sampling.FORMULAS)
    assert not re.search(r"[?=<>\[\]]", "".join(titles))


def call_here(function, *arguments, directory):
    """Call a function in a directory, in this process: another one would import all again."""
    with contextlib.chdir(directory):
        return function(*arguments)


@pytest.fixture(scope="module")
def written(tmp_path_factory, random_model):
    """What a quick run writes for a small random model."""
    forking = SimpleNamespace(**vars(subprocess) | {"Popen": open_snakemake})
    directory = tmp_path_factory.mktemp("bench")
    model = {"label": "Tiny", "source": f"path:{random_model('llama')}", "mem_mb": 500}
    config = directory / "config.yaml"
    config.write_text(yaml.safe_dump({"models": {MODEL: model}, **CONFIG}), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "in_own_process", call_here)
        patch.setattr(overhead, "subprocess", forking)
        bench.main(["--quick", "--config", str(config), "--output", str(directory / "out")])
    return directory / "out"


@pytest.mark.long
@pytest.mark.slow
def test_a_run_writes_all_figures(written):
    """benchmarks.json is one flat object of finite numbers, and nothing else is left behind."""
    found = json.loads((written / "benchmarks.json").read_text(encoding="utf-8"))
    assert set(REQUIRED) <= set(found)
    assert all(math.isfinite(value) for value in found.values())
    names = {path.name for path in written.iterdir()}
    assert names == {
        *("benchmarks.json", "benchmarks.md", "cost.svg", "cost.svg.sha256", "cost.png"),
        *("width.svg", "width.svg.sha256", "width.png", "width.csv"),
    }


@pytest.mark.long
@pytest.mark.slow
def test_shares_of_the_workflow_are_of_one_whole(written):
    """Work, overhead and idleness make up the time of all cores."""
    found = json.loads((written / "benchmarks.json").read_text(encoding="utf-8"))
    shares = [found[f"workflow.{name}_share"] for name in ("work", "overhead", "idle")]
    assert sum(shares) == pytest.approx(1)
    assert all(share >= 0 for share in shares)


@pytest.mark.long
@pytest.mark.slow
def test_a_forward_pass_is_saved_where_a_tree_holds_another(written):
    """Of two trees of 1 + 3 and 1 + 3 + 9 texts at most, the larger pays for both."""
    found = json.loads((written / "benchmarks.json").read_text(encoding="utf-8"))
    assert 0 < found["cache.forward_passes_saved_share"] < 0.5


@pytest.mark.long
@pytest.mark.slow
def test_every_figure_is_defined_and_every_definition_is_of_a_figure(written):
    """Each name in benchmarks.json fits one of the names that benchmarks.md explains, and back."""
    found = json.loads((written / "benchmarks.json").read_text(encoding="utf-8"))
    text = (written / "benchmarks.md").read_text(encoding="utf-8")
    defined = re.findall(r"^- `(.+?)`: ", text, flags=re.MULTILINE)
    assert not find_mismatches(found, defined)
    assert all(f"| `{figure}` |" in text for figure in found)
