"""The examples of applications run from a copy of their folder, as their pages say."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess:
    """Run a command of Python in a folder, with the package of this checkout."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=os.environ
        | {
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "HF_HUB_OFFLINE": "1",
        },
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


@pytest.mark.long
def test_the_agent_is_gated_by_pytest(tmp_path):
    """Each requirement on the agent, also on its conversation, is a test that passes."""
    folder = Path(shutil.copytree(ROOT / "examples/python_agent", tmp_path / "agent"))
    done = run(folder, "pytest", "-p", "no:cacheprovider", "-rA")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_the_application_of_fastapi_is_gated(tmp_path):
    """The suite holds for the running application, with its documents and its user."""
    pytest.importorskip("fastapi", reason="the example needs fastapi and uvicorn")
    pytest.importorskip("uvicorn", reason="the example needs fastapi and uvicorn")
    folder = Path(shutil.copytree(ROOT / "examples/fastapi_app", tmp_path / "app"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    suite = folder / "suite.yaml"
    suite.write_text(suite.read_text().replace(":8000/", f":{port}/"))
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(100):
                with socket.socket() as client:
                    if client.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.2)
            done = run(folder, "llmchecker", "test", "suite.yaml")
        finally:
            server.terminate()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 hold" in done.stdout
