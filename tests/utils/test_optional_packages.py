"""What is missing is named with the command that installs it."""

import subprocess
import sys

import pytest

from llmchecker.errors import MissingTool
from llmchecker.utils.error_messages import find_user_message
from llmchecker.utils.optional_packages import EXTRAS, explain_missing_packages

WITHOUT = """
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None
"""
CORE = """
import llmchecker as lc
from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli import arguments, check_command, suite_command, tree_cache
from llmchecker.suites import html_page, runner
for name in lc.__all__:
    getattr(lc, name)
model = lc.TableModel(["So", " he", " she"], lambda tokens: [0.0, 0.5, 0.5], frozenset())
tree = lc.grow(model, "So", alpha=1, k=2, length=1)
answer = lc.check("P=? [ F gender > 0 ]", tree)
print(answer.bounded)
tree.draw(answer)._repr_html_()
try:
    answer.plot()
except lc.errors.MissingTool as error:
    print(error)
print([name for name in sys.modules if name == "llmchecker.models.servers.http_client"])
"""


def run_without(code: str, *packages: str) -> list[str]:
    """Run code in a process that can import none of the packages; return what it prints."""
    command = [sys.executable, "-c", WITHOUT + code, *packages]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.long
def test_the_core_works_without_optional_packages():
    """A query is answered with no optional package; a plot names the command that installs one."""
    # newer versions of huggingface-hub need the system's certificates themselves
    blocked = EXTRAS.keys() - {"truststore"}
    value, plot, client = run_without(CORE, *blocked)
    assert (value, client) == ("0.5", "[]")
    message = "matplotlib: the package is missing; run pip install 'llmchecker[workflow]'"
    assert plot == message


@pytest.mark.long
def test_what_needs_no_storm_works_without_it():
    """Without stormpy, trees grow, the help is printed, and a check names what to install."""
    code = """
import llmchecker as lc
from llmchecker.interfaces.cli.main import main
from llmchecker.utils.error_messages import find_user_message
model = lc.TableModel(["So", " he", " she"], lambda tokens: [0.0, 0.5, 0.5], frozenset())
tree = lc.grow(model, "So", alpha=1, k=2, length=1)
print(len(tree))
main([])
try:
    lc.check("P=? [ F gender > 0 ]", tree)
except ImportError as error:
    print(find_user_message(error))
"""
    states, *usage, message = run_without(code, "stormpy")
    assert states == "3"
    assert usage[0].startswith("usage: llmchecker")
    assert message.startswith("stormpy: the package is missing; run pip install 'stormpy")


@pytest.mark.parametrize("package", EXTRAS)
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch):
    """Both the error for Python and the message of the shell have the command."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingTool) as error, explain_missing_packages():
        __import__(package)
    message = str(error.value)
    assert message.startswith(f"{package}: ")
    assert f"pip install 'llmchecker[{EXTRAS[package]}]'" in message
    assert find_user_message(error.value.__cause__) == message


def test_other_imports_that_fail_keep_their_errors():
    """A module that no extra installs is no matter of an extra."""
    with pytest.raises(ModuleNotFoundError), explain_missing_packages():
        import matplotlib.no_such_module  # noqa: F401
    assert find_user_message(ImportError("cannot import name", name="lingua")) is None


def test_a_model_on_a_server_needs_the_client(tmp_path):
    """Without the client, fetching a model on a server names the extra; nothing is written."""
    code = f"""
from llmchecker.errors import MissingTool
from llmchecker.models.fetch import ensure_model
from llmchecker.models.servers.settings import parse_server_source
from llmchecker.models.sources.source_spec import parse_source
keys = {{"api": "openai-chat", "model": "small"}}
source = parse_server_source(parse_source("server:http://localhost:1"), keys)
try:
    ensure_model(source, "{tmp_path}/model", "{tmp_path}/lock")
except MissingTool as error:
    print(error)
"""
    (message,) = run_without(code, "aiohttp")
    assert message.endswith("run pip install 'llmchecker[servers]'")
    assert list(tmp_path.iterdir()) == []
