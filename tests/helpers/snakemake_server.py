"""Run snakemake for each line of standard input, in a fork that has all libraries.

`helpers.forked_snakemake` starts this file as a process of its own.
"""

import ast
import atexit
import concurrent.futures.thread
import gc
import importlib
import io
import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import traceback
import types
from multiprocessing.util import _exit_function
from pathlib import Path

import snakemake.cli
import torch
from snakemake_interface_report_plugins.registry import ReportPluginRegistry

_LIBRARIES = (
    *("docutils.core", "huggingface_hub", "jinja2", "jsonschema", "lark", "matplotlib.pyplot"),
    *("pandas", "psutil", "pyarrow.parquet", "pydantic", "regex", "requests", "safetensors.torch"),
    *("seaborn", "snakemake.script", "stormpy", "tabulate", "tokenizers"),
    *("transformers.cache_utils", "transformers.generation", "transformers.masking_utils"),
    *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    *("transformers.models.gpt2.modeling_gpt2", "transformers.models.llama.modeling_llama"),
)
"""The modules that a run or a job of it imports; no module of llmchecker is among them."""


class _JobFork(subprocess.Popen):
    """A command of snakemake; a script of a job runs in a fork of this process."""

    def _execute_child(self, args, *others) -> None:
        words = shlex.split(args)
        is_script = words[-2] == sys.executable and ".snakemake/scripts/" in words[-1]
        if not is_script:
            super()._execute_child(args, *others)
            return
        environment = others[5]
        self.pid = os.fork()
        if self.pid == 0:
            # nothing may return to the code of the parent
            try:
                os._exit(_run_script(words[-1], environment))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        self._child_created = True


def _run_script(script: str, environment: dict[str, str]) -> int:
    """Run a script as the main module of this process, and return its exit status."""
    _forget_parent(environment)
    sys.argv = [script]
    sys.path[:0] = [str(Path(script).parent), *environment["PYTHONPATH"].split(os.pathsep)]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = script
    status = 0
    try:
        exec(compile(Path(script).read_bytes(), script, "exec"), main.__dict__)
    except SystemExit as error:
        status = error.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    _exit_function()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _forget_parent(environment: dict[str, str]) -> None:
    """Make this fork of a run of snakemake like a Python that has just begun."""
    # what the parent has still to write is its own
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(stream, "wb", closefd=False)),
            "utf-8",
            line_buffering=stream == 2,
        )
        for stream in (1, 2)
    )
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(name, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    atexit._clear()
    # threads of the pool that runs the jobs, which this process does not have
    concurrent.futures.thread._threads_queues.clear()
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and logger.name.startswith(("root", "snakemake")):
            logger.handlers.clear()
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("llmchecker", "loop_invariants"):
            del sys.modules[name]
    sys.path[:] = _PATH
    importlib.invalidate_caches()


def _answer(request: dict) -> int:
    """Run snakemake in a fork, and return its exit status."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        for stream, path in enumerate([os.devnull, request["printed"], request["printed"]]):
            os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), stream)
        # the package has a function of the name of the module
        sys.modules["snakemake.shell"].sp = types.SimpleNamespace(
            **vars(subprocess) | {"Popen": _JobFork}
        )
        sys.argv = ["snakemake", *request["arguments"]]
        snakemake.cli.main()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _keep_parsed() -> None:
    """Keep the syntax trees of the package, which every run parses for the digests of its rules."""
    parse = ast.parse
    files = Path(__file__).parents[2].glob("src/**/*.py")
    parsed = {content: parse(content) for content in map(Path.read_bytes, files)}

    def find_or_parse(source, *others, **options):
        # a changed file of a project is not among those of the package
        kept = parsed.get(source) if isinstance(source, bytes) and not options else None
        return kept or parse(source, *others, **options)

    ast.parse = find_or_parse


# this file's folder holds helpers of tests, which no run may import
del sys.path[0]
_PATH = [*sys.path]
for _name in _LIBRARIES:
    importlib.import_module(_name)
ReportPluginRegistry()
_keep_parsed()
gc.freeze()
for _line in sys.stdin:
    print(_answer(json.loads(_line)), flush=True)
