"""The notebooks of examples/: they run without a warning, and their outputs are those of a run."""

import os
from pathlib import Path

import nbformat
import pytest
from helpers.printed_text import alike

ROOT = Path(__file__).parents[2]
FIRST, SUITES = (ROOT / f"examples/{name}.ipynb" for name in ("first_steps", "suites"))
TOLERANCE = 0.02
"""How far a printed number may be off: a sample may differ where sums of float32 do."""

each_notebook = pytest.mark.parametrize("path", [FIRST, SUITES], ids=lambda path: path.stem)


def code_cells(notebook) -> list:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def read_stream(cell, name: str) -> str:
    """The text that a cell printed to a stream."""
    return "".join(output.text for output in cell.outputs if output.get("name") == name)


def count_images(cell) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


@each_notebook
def test_a_notebook_contains_a_complete_run(path):
    """All cells ran once, in order, without an error or a warning; none of them names a place on a
    machine."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert [read_stream(cell, "stderr") for cell in cells] == [""] * len(cells)
    # the text of an image could contain a short path by chance
    text = "".join(str(output) for output in outputs if "image/png" not in output.get("data", {}))
    assert str(ROOT) not in text
    assert "/site-packages/" not in text
    assert "/tmp/" not in text


def test_the_first_notebook_answers_the_questions_of_newcomers():
    """The queries are about refusals, JSON, a word that leaks, two nouns and two prompts."""
    cells = code_cells(nbformat.read(FIRST, as_version=4))
    code = "".join(cell.source for cell in cells)
    asked = ("refuses = 1", "json >= 1", "leak = 1", "gender < 0", "versus_start", "versus_system")
    assert [words for words in asked if words not in code] == []
    assert sum(map(count_images, cells)) >= 3


@pytest.mark.long
@pytest.mark.parametrize(
    "path",
    [FIRST, SUITES],
    ids=lambda path: path.stem,
)
def test_a_run_has_the_outputs_of_the_notebook(path, smollm2, monkeypatch):
    """SmolLM2 gives each printed text and each image of a notebook again, without a warning."""
    # the kernel is a process of its own, which imports the package of this checkout
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    # pyplot of the kernel shows images in the notebook
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.syspath_prepend(ROOT / "docs")
    from shown_outputs import NOTEBOOKS, run_notebook

    assert str(path.relative_to(ROOT)) in NOTEBOOKS
    again = run_notebook(path)
    shown_cells = code_cells(nbformat.read(path, as_version=4))
    for cell, shown in zip(code_cells(again), shown_cells, strict=True):
        text = read_stream(cell, "stdout")
        assert alike(text, read_stream(shown, "stdout"), TOLERANCE), (
            f"{cell.source}\nprints\n{text}"
        )
        assert read_stream(cell, "stderr") == ""
        assert count_images(cell) == count_images(shown), cell.source
