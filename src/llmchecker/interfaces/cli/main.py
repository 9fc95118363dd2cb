"""The command line: one query on one model, without a run of the workflow.

    llmchecker check "P=? [ F gender > 0 ]" --start "The player won because"
    llmchecker check "P=? [ F gender > 0 ]" --model smollm2-135m --start "The player won because" \\
        --alpha 0.8 --k 15 --length 3
    llmchecker tree --query "P=? [ F gender > 0 ]" --model smollm2-135m \\
        --start "The player won because" --alpha 0.8 --k 5 --length 2 --output tree.svg
    llmchecker init --from promptfooconfig.yaml
    llmchecker test suite.yaml --junit results.xml
    llmchecker repair --dry-run
    llmchecker models

Standard output contains the answer only; progress, logs and errors go to standard error. On a
terminal, answers have colours and drawn intervals; in a pipe or a file they are plain text. The
exit status of `check` is 0 for a number and for a query that holds, 1 for a violated query and 2
for an unknown one. `test` exits with 0 if all requirements hold, 1 if some are violated, and 2 if
some are unknown. An error has 3, and an interrupt 130. `compare` exits with 0 if the sides are
decided, and else with 2. `repair --dry-run` exits with 1 if repairs are necessary.

Installed packages add commands, as loop_invariants adds `verify`; see `commands`.

A config defines models, quantifiers and the settings of trees. Its paths, and the paths of models
and trees, are relative to the project. The project is the checkout that contains the config, or
else the config's folder.
"""

import sys
from collections.abc import Sequence

from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.parser import run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Raises:
        SystemExit: from argparse, with 0 for --help and 3 for arguments that do not parse.
    """
    arguments = sys.argv[1:] if argv is None else argv
    return run_command(build_parser(arguments[:1]), arguments)
