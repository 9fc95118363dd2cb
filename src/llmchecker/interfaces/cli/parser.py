"""The parser of the command line, and the run of a parsed command.

The module imports no package that loads slowly, so that lists and help appear at once.
"""

import argparse
import os
import shlex
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from llmchecker.errors import did_you_mean, explain_absence
from llmchecker.utils import job_logging
from llmchecker.utils.error_messages import find_user_message
from llmchecker.utils.exit_status import ExitStatus
from llmchecker.utils.processes import is_interrupt

COMMAND_HELP = {
    "check": "check one query on the texts of a model",
    "tree": "draw the text tree of a model",
    "compare": "compare two models, texts or decodings by one query",
    "test": "decide the requirements of a suite",
    "watch": "compare a suite day after day with its results at release",
    "judge-check": "measure a judge on labelled texts",
    "init": "write a suite and a workflow that runs it",
    "repair": "remove remains of killed runs and damaged files",
    "completion": "print the completion script of a shell",
    "models": "list the models of the configuration",
    "starts": "list the start strings of the configuration",
    "quantifiers": "list the quantifiers of the configuration and all types",
    "queries": "show the query language with examples",
    "summary": "show the main result of a run and the path of its report",
}
"""The line of each command of this package in the list of commands, in the order of the list."""


SubParsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The commands of a parser, to which each command is added."""


class _StoreOnce(argparse.Action):
    """The storing of a single value, which rejects a second one.

    argparse itself keeps the last value, so that a user would not notice the lost first one.

    Args:
        repeat_fix: what to do about a second value, for the message; `{values}` are both.
        arguments, keywords: as of `argparse.Action`.
    """

    def __init__(self, *arguments: Any, repeat_fix: str = "keep one", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._repeat_fix = repeat_fix
        self._stored_in: Callable[[], argparse.Namespace | None] = lambda: None

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the value; a parser with another namespace begins anew."""
        # a positional argument cannot be given twice
        if option_string is not None and self._stored_in() is namespace:
            first, second = map(_join, (getattr(namespace, self.dest), values))
            fix = self._repeat_fix.replace("{values}", f"{first} {second}")
            parser.error(f"{self.option_strings[-1]}: given twice, {first} and {second}; {fix}")
        setattr(namespace, self.dest, values)
        self._stored_in = weakref.ref(namespace)


def _join(value: Any) -> str:
    """Return the value of an option, or its values, as a shell reads them."""
    return shlex.join(map(str, value if isinstance(value, list) else [value]))


class ArgumentParser(argparse.ArgumentParser):
    """A parser whose status for wrong arguments is that of an error, not of an answer."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        # the action of an option without a named one
        for action in (None, "store"):
            self.register("action", action, _StoreOnce)
        # argparse reports what no command uses as an error of the whole, which lists no options
        self.set_defaults(parser=self)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Reject a value that is no choice, with the closest choice; see `argparse`."""
        is_unknown = action.choices is not None and value not in action.choices
        hint = did_you_mean(str(value), map(str, action.choices or ())) if is_unknown else ""
        if hint:
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")
        super()._check_value(action, value)

    def reject(self, unknown: Sequence[str]) -> NoReturn:
        """Print the arguments that the command does not have, with the closest option, and exit."""
        reason = explain_absence(unknown[0])
        hint = did_you_mean(unknown[0], self._option_string_actions)
        hint = hint if reason is None else f": {reason}"
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def error(self, message: str) -> NoReturn:
        """Print the message and the command that prints all arguments, and exit.

        The usage of `check` has 40 lines, below which the message is hard to find.
        """
        see = " See" if message.endswith("?") else "; see"
        self.exit(ExitStatus.ERROR, f"{self.prog}: error: {message}{see} {self.prog} --help\n")


def format_examples(*lines: str) -> dict[str, Any]:
    """Return the arguments of a parser whose help ends with examples."""
    epilog = "\n".join(["examples:", *(f"  {line}" for line in lines)])
    return {"epilog": epilog, "formatter_class": _ExamplesFormatter}


class _ExamplesFormatter(argparse.HelpFormatter):
    """A formatter that wraps the description and keeps the lines of the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


def run_command(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> int:
    """Run the command of the arguments and return its exit status.

    Without a command, list the commands.

    Raises:
        SystemExit: from argparse, with 0 for --help and 3 for arguments that do not parse.
    """
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        arguments.parser.reject(unknown)
    if not hasattr(arguments, "run"):
        parser.print_help()
        return ExitStatus.SUCCESS
    with job_logging.shell_log():
        try:
            status: int = arguments.run(arguments)
            sys.stdout.flush()  # raises for a closed pipe here, not when Python ends
            return status
        except (KeyboardInterrupt, Exception) as error:
            # A subcommand may raise the interrupt as the cause of another error.
            if is_interrupt(error):
                print("interrupted", file=sys.stderr)
                return ExitStatus.INTERRUPTED
            # An error without a message for users is unexpected and keeps its traceback.
            if (message := find_user_message(error)) is None:
                # Python's own status for it would be that of a violated query.
                traceback.print_exception(error)
                return ExitStatus.ERROR
            print(f"error: {message}", file=sys.stderr)
            if isinstance(error, BrokenPipeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python flushes to it at exit
            return ExitStatus.ERROR
