"""Files of JSON lines survive kills, and other files are refused."""

import pytest

from llmchecker.errors import ConfigError, DamagedFile, UnusableDataset
from llmchecker.utils.json_lines import (
    JsonLines,
    append_line,
    read_lines,
    resume_lines,
    write_lines,
)


def test_appended_objects_are_read_up_to_a_line_that_a_kill_cut_short(tmp_path):
    """Whole lines are objects in their order; the rest of the last one is returned as text."""
    path = tmp_path / "a.jsonl"
    first, second = {"text": "one\u2028two", "number": 0.1}, {"empty": None}
    write_lines(path, [first])
    append_line(path, second)
    assert read_lines(path) == JsonLines((first, second))
    with path.open("a") as file:
        file.write('{"te')
    assert read_lines(path) == JsonLines((first, second), '{"te')


def test_a_run_that_resumes_a_file_appends_whole_lines(tmp_path):
    """A cut last line is removed, and a file of another kind stays as it was."""
    path = tmp_path / "a.jsonl"
    whole, cut = '{"number": 1}\n', '{"num'
    path.write_text(whole + cut)

    def parse(lines: JsonLines) -> list[int]:
        return [line["number"] for line in lines.objects]

    assert resume_lines(path, parse, "delete it") == [1]
    assert path.read_text() == whole
    path.write_text(other := '{"count": 1}\n{"num')
    with pytest.raises(DamagedFile, match=r"a\.jsonl: damaged .*; delete it"):
        resume_lines(path, parse, "delete it")
    assert path.read_text() == other


@pytest.mark.parametrize("text", ["a,b\n", "[]\n", "1\n", '{"a": 1}\n\n', "[" * 10**5 + "\n"])
def test_a_whole_line_without_an_object_is_refused(tmp_path, text):
    """Another file is refused with its name and line."""
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(UnusableDataset, match=r"a\.jsonl, line [12]: not "):
        read_lines(path)


def test_a_directory_in_place_of_a_file_is_named(tmp_path):
    """The error has the path and what the system reports."""
    with pytest.raises(ConfigError, match=f"{tmp_path}: it cannot be read"):
        read_lines(tmp_path)
    with pytest.raises(ConfigError, match=f"{tmp_path}: it cannot be written"):
        append_line(tmp_path, {})
