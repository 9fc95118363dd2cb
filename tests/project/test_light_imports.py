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
