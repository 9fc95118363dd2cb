"""docs/how-to/python.md: every line of Python runs as printed, and prints what stands there."""

import re
from pathlib import Path

import pytest
from helpers.printed_text import alike

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/python.md").read_text(encoding="utf-8")
MODEL = "resources/models/smollm2-135m"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.M | re.S)


@pytest.fixture
def is_real(tmp_path, monkeypatch, random_model) -> bool:
    """Whether the model that the page loads is SmolLM2, and not a small random one in its place."""
    real = (ROOT / MODEL).is_dir()
    place = tmp_path / MODEL
    place.parent.mkdir(parents=True)
    place.symlink_to(ROOT / MODEL if real else random_model("llama"), target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return real


@pytest.mark.long
def test_the_page_runs_as_printed(is_real, capsys):
    """Each block runs after those before it; where output is shown, SmolLM2 gives that output."""
    namespace: dict[str, object] = {}
    printed = ""
    for language, content in BLOCKS:
        if language == "python":
            capsys.readouterr()
            exec(compile(content, "docs/how-to/python.md", "exec"), namespace)
            printed = capsys.readouterr().out
        elif is_real:
            assert alike(printed, content), f"printed is:\n{printed}"


def test_every_block_is_python_or_what_it_prints():
    """No block is left out of what runs."""
    assert {language for language, _ in BLOCKS} == {"python", "text"}
    assert PAGE.count("```") == 2 * len(BLOCKS)
    assert not re.search(r"^ {4}\S", re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S), re.M)


def test_the_columns_of_a_frame_are_described():
    """The table names every column of a frame, in order."""
    import llmchecker as lc

    coin = lc.TableModel(["w", "a", "b"], lambda tokens: [0, 0.5, 0.5])
    frame = lc.grow(coin, "w", alpha=1, k=2, length=1).frame()
    assert re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.M) == list(frame.columns)
