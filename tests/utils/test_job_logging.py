"""What a job says while it runs and when it fails."""

import errno
import logging
from pathlib import Path

import httpx2
import pytest

from llmchecker.errors import ChecksumMismatch, DamagedFile
from llmchecker.utils.atomic_files import read_with_digest
from llmchecker.utils.job_logging import build_node_progress, build_status_log, job_log, shell_log


@pytest.fixture(autouse=True)
def root_logger():
    """Give the root logger back as it was: a job sets it up for its whole process."""
    root, kept = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    root.handlers[:] = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = kept
    root.setLevel(level)


def test_a_log_goes_to_the_file_and_to_standard_error(tmp_path, capsys):
    """What a job logs is in its file, whose folder is made, and is seen live."""
    path = tmp_path / "logs/trees/a.log"
    with job_log(path):
        logging.info("grown: 日本語")
        assert "grown: 日本語" in path.read_text(encoding="utf-8")
    assert "grown: 日本語" in capsys.readouterr().err


def test_a_log_is_of_one_run(tmp_path):
    """The log of an earlier run is replaced."""
    path = tmp_path / "a.log"
    path.write_text("earlier")
    with job_log(path):
        logging.info("now")
    assert "earlier" not in path.read_text()


def test_an_error_of_the_package_ends_the_job_with_its_message(tmp_path, capsys):
    """An error that explains itself ends the job with exit status 1 and without a traceback."""
    path = tmp_path / "a.log"
    with pytest.raises(SystemExit) as ended, job_log(path):
        raise ChecksumMismatch("path:model: expected sha256 aa, got bb")
    assert ended.value.code == 1
    for output in (path.read_text(), capsys.readouterr().err):
        assert "error: path:model: expected sha256 aa, got bb\n" in output
        assert "Traceback" not in output
        assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("can't start new thread"), "memory: not enough: can't start new"),
        (ImportError("torch.so: failed to map segment"), "memory: not enough: torch.so"),
        (RuntimeError("std::bad_alloc"), "memory: not enough: std::bad_alloc"),
        (
            SystemError("error return without exception set"),
            "memory: not enough: error return",
        ),
        (MemoryError(), "memory: not enough; free memory"),
        (
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory"
            ),
            "memory: not enough: ",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "a.bin"),
            "a.bin: cannot be used: No space",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "a"), "a: cannot be used: Permission"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "output: closed before everything"),
    ],
)
def test_a_limit_of_the_machine_is_one_sentence(error, told, tmp_path):
    """What the machine has no room, memory or right for ends a job with one line, wherever met."""
    path = tmp_path / "a.log"
    with pytest.raises(SystemExit), job_log(path):
        raise error
    (line,) = path.read_text().splitlines()
    assert told in line


def test_an_interrupt_is_one_line(tmp_path):
    """Ctrl-C ends a job with one line and the usual exit status."""
    path = tmp_path / "a.log"
    with pytest.raises(SystemExit) as ended, job_log(path):
        raise KeyboardInterrupt
    assert ended.value.code == 130
    assert path.read_text().splitlines()[0].endswith(" interrupted")


def test_a_log_that_cannot_be_written_costs_no_result(tmp_path, capsys):
    """A job whose log has no place works all the same, and says so."""
    (tmp_path / "logs").write_text("in the way")
    with job_log(tmp_path / "logs/a.log"):
        logging.info("worked on")
    assert "the log cannot be written" in (told := capsys.readouterr().err)
    assert "worked on" in told


def test_any_other_error_keeps_its_traceback(tmp_path):
    """An error that nobody foresaw is logged with its traceback and goes on its way."""
    path = tmp_path / "a.log"
    with pytest.raises(ZeroDivisionError), job_log(path):
        1 / 0  # noqa: B018
    assert "Traceback" in path.read_text()
    assert "ZeroDivisionError" in path.read_text()


def test_the_last_line_tells_the_work(tmp_path, monkeypatch):
    """What blocks of work take is added up, with seconds that are known from elsewhere."""
    ticks = iter([0.0, 1.5, 10.0, 10.25])
    monkeypatch.setattr("llmchecker.utils.job_logging.time.monotonic", lambda: next(ticks))
    path = tmp_path / "a.log"
    with job_log(path) as work:
        for _ in range(2):
            with work():
                pass
        work.seconds += 3
    assert path.read_text().splitlines()[-1].endswith(" worked 4.75 s")


def test_progress_is_nodes_done_and_nodes_a_second(tmp_path):
    """Reports are at least 5 seconds apart and count the nodes of all steps since the beginning."""
    now = [100.0]
    path = tmp_path / "a.log"
    with job_log(path):
        log = build_status_log("smollm2 player", lambda: now[0])
        report = build_node_progress(log, lambda: now[0])
        for seconds, step, done, total in [
            (1, 1, 1, 1),
            (4, 2, 9, 9),
            (10, 3, 40, 90),
            (14, 3, 60, 90),
            (20, 3, 90, 90),
            (30, 4, 200, 810),
        ]:
            now[0] = 100.0 + seconds
            report(step, done, total)
    lines = [line.split(" ", 1)[1] for line in path.read_text().splitlines()]
    assert lines == [
        "smollm2 player: step 3, 40 of 90 nodes, 5 nodes/s",
        "smollm2 player: step 3, 90 of 90 nodes, 5 nodes/s",
        "smollm2 player: step 4, 200 of 810 nodes, 10 nodes/s",
        "worked 0.00 s",
    ]


def test_a_status_is_logged_at_most_once_an_interval(tmp_path):
    """Reports of a status within 5 seconds after the last one are left out."""
    now = [100.0]
    path = tmp_path / "a.log"
    with job_log(path):
        report = build_status_log("player", lambda: now[0])
        for seconds in (1, 4, 6, 8, 11.5):
            now[0] = 100.0 + seconds
            report(f"after {seconds} s")
    lines = [line.split(" ", 1)[1] for line in path.read_text().splitlines()]
    assert lines == ["player: after 6 s", "player: after 11.5 s", "worked 0.00 s"]


def test_requests_are_no_part_of_a_log(tmp_path, capsys):
    """The client of the hub logs every request, which would drown what a job says."""
    answering = httpx2.MockTransport(lambda request: httpx2.Response(200))
    with job_log(tmp_path / "a.log"), httpx2.Client(transport=answering) as asking:
        assert asking.get("http://127.0.0.1/").status_code == 200
        logging.info("grown")
    assert "HTTP" not in capsys.readouterr().err
    with shell_log(), httpx2.Client(transport=answering) as asking:
        asking.get("http://127.0.0.1/")
    assert "HTTP" not in capsys.readouterr().err


def test_a_damaged_result_is_renamed(tmp_path, monkeypatch, capsys):
    """A damaged result gets a new name each time, and the log and the terminal name both."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    for aside in ("results/a.json.damaged", "results/a.json.damaged-2"):
        Path("results/a.json").write_text(aside)
        with pytest.raises(SystemExit, match="1"), job_log("logs/a.log"):
            read_with_digest("results/a.json")
        assert not Path("results/a.json").exists()
        assert Path(aside).read_text() == aside
        said = f"it is now {aside}; run the same command again to recreate results/a.json"
        assert said in Path("logs/a.log").read_text()
        assert said in capsys.readouterr().err


def test_a_result_that_another_job_renamed_is_named(tmp_path, monkeypatch, capsys):
    """A job that no longer finds a damaged result says so, without a traceback."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path("results/a.json.damaged").write_text("{")
    with pytest.raises(SystemExit, match="1"), job_log("logs/a.log"):
        read_with_digest("results/a.json")
    assert "results/a.json: damaged; it is now results/a.json.damaged" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["own.json", "../own.json", "resources/models/m/config.json"])
def test_a_damaged_file_that_no_rule_makes_stays(name, tmp_path, monkeypatch):
    """A job renames no file that the same command would not make again."""
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("{")
    with pytest.raises(SystemExit, match="1"), job_log("logs/a.log"):
        read_with_digest(name)
    assert Path(name).read_text() == "{"


def test_a_models_damaged_record_renames_the_model(tmp_path, monkeypatch):
    """The weights of a model without a whole record are kept, and fetched again."""
    monkeypatch.chdir(tmp_path)
    model = Path("resources/models/m")
    model.mkdir(parents=True)
    (model / "source.json").write_text("{")
    with pytest.raises(SystemExit, match="1"), job_log("logs/a.log"):
        raise DamagedFile("cut", model / "source.json")
    assert not model.exists()
    assert Path("resources/models/m.damaged/source.json").read_text() == "{"
