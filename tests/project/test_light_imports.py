"""What reads configurations and results waits for no package that takes seconds to import."""

import subprocess
import sys

import pytest

LIGHT = """
import sys
from llmchecker.config import config
from llmchecker.reporting import figures, html_report, provenance, tables
from llmchecker.reporting.paper import comparison
from llmchecker.properties.registry import create_quantifier
for name in ("gender", "polarity", "readability"):
    create_quantifier(name)
print([name for name in sys.argv[1:] if name in sys.modules])
"""


@pytest.mark.long
def test_tables_figures_and_configurations_load_no_heavy_package():
    """What reads a configuration or results loads no model, model checker or lexicon."""
    heavy = ("torch", "transformers", "stormpy", "z3", "textblob", "textstat")
    run = subprocess.run(
        [sys.executable, "-c", LIGHT, *heavy], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


LOCAL = """
import sys
from llmchecker.checking import runs
from llmchecker.models.transformers import load
print([name for name in sys.argv[1:] if name in sys.modules])
"""


@pytest.mark.long
def test_a_local_model_loads_no_client_of_servers():
    """A question to a local model waits for no schema and no client of a server."""
    clients = [f"llmchecker.models.servers.{name}" for name in ("schema", "http_client", "apis")]
    run = subprocess.run(
        [sys.executable, "-c", LOCAL, *clients], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
