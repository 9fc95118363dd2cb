"""examples/first_steps.ipynb: it runs, and its outputs are those of a run."""

import os
from pathlib import Path

import nbformat
import pytest
from helpers.printed_text import alike
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples/first_steps.ipynb"
TOLERANCE = 0.02
"""How far a printed number may be off: a sample may differ where sums of float32 do."""


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell) -> str:
    """The printed text of a cell, without warnings of an environment's packages."""
    return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


def count_images(cell) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


@pytest.fixture(scope="module")
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_the_notebook_contains_a_complete_run(notebook):
    """All cells ran once, in order, without an error; none of them names a place on a machine."""
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert sum(map(count_images, cells)) >= 3
    # the text of an image could contain a short path by chance
    text = "".join(str(output) for output in outputs if "image/png" not in output.get("data", {}))
    assert str(ROOT) not in text
    assert "/site-packages/" not in text


def test_the_notebook_answers_the_questions_of_newcomers(notebook):
    """The queries are about refusals, JSON, a word that leaks, two nouns and two prompts."""
    code = "".join(cell.source for cell in code_cells(notebook))
    asked = ("refuses = 1", "json >= 1", "leak = 1", "gender < 0", "versus_start", "versus_system")
    assert [words for words in asked if words not in code] == []


@pytest.mark.long
def test_a_run_has_the_outputs_of_the_notebook(notebook, monkeypatch):
    """SmolLM2 gives each printed text and each image of the notebook again."""
    if not (ROOT / "resources/models/smollm2-135m").is_dir():
        pytest.skip("SmolLM2 has not been fetched")
    # the kernel is a process of its own, which imports the package of this checkout
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    # pyplot of the kernel shows images in the notebook
    monkeypatch.delenv("MPLBACKEND", raising=False)
    again = nbformat.read(NOTEBOOK, as_version=4)
    folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
    NotebookClient(again, timeout=1800, resources=folder).execute()
    for cell, shown in zip(code_cells(again), code_cells(notebook), strict=True):
        text = printed(cell)
        assert alike(text, printed(shown), TOLERANCE), f"{cell.source}\nprints\n{text}"
        assert count_images(cell) == count_images(shown), cell.source
