"""The command `completion`: completion scripts for bash, zsh and fish.

    eval "$(llmchecker completion bash)"

shtab writes the scripts from the parser. They call `llmchecker models`, `starts` and `quantifiers`,
so that completion has the names of the configuration in the current directory.
"""

import argparse

import shtab

from llmchecker.interfaces.cli.commands import build_parser
from llmchecker.interfaces.cli.parser import COMMAND_HELP, SubParsers
from llmchecker.utils.exit_status import ExitStatus

_SHELLS = ("bash", "zsh", "fish")

_BASH = r"""
# not compgen -W, which would run commands in a name
_llmchecker_models() {
  llmchecker models --names 2>/dev/null | _llmchecker_match "$1"
}
_llmchecker_starts() {
  llmchecker starts --texts 2>/dev/null | _llmchecker_match "$1"
}
# completes the last word of a query
_llmchecker_queries() {
  local query="${1#[\"\']}" name
  local last="${query##*[!A-Za-z0-9_]}"
  llmchecker quantifiers --names 2>/dev/null | while IFS= read -r name; do
    [[ $name == "$last"* && $name != *[!A-Za-z0-9_]* ]] && printf '%s\n' "${query%"$last"}$name"
  done
}
# prints the lines that begin with a word, with the escapes that its opening quote needs
_llmchecker_match() {
  local word="${1#[\"\']}" line
  local quote="${1%"$word"}"
  case $quote in
    "'") word="${word//"'\\''"/"'"}" ;;
    *) word="${word//\\/}" ;;
  esac
  while IFS= read -r line; do
    [[ $line == "$word"* ]] || continue
    case $quote in
      "'") printf '%s\n' "${line//"'"/"'\\''"}" ;;
      '"') printf '%s\n' "$line" | sed 's/[\\$`"]/\\&/g' ;;
      *) printf '%q\n' "$line" ;;
    esac
  done
}
"""
_ZSH = r"""
_llmchecker_models() { compadd -- ${(f)"$(llmchecker models --names 2>/dev/null)"} }
_llmchecker_starts() { compadd -- ${(f)"$(llmchecker starts --texts 2>/dev/null)"} }
# completes the last word of a query
_llmchecker_queries() {
  compset -P '*[^A-Za-z0-9_]'
  compadd -- ${(f)"$(llmchecker quantifiers --names 2>/dev/null)"}
}
"""
_FISH = r"""
# completes the last word of a query
function _llmchecker_queries
  set -l query (commandline -ct | string trim -l -c '"\'')
  set -l head (string replace -r '[A-Za-z0-9_]*$' '' -- $query)
  for name in (llmchecker quantifiers --names 2>/dev/null)
    echo "$head$name"
  end
end
"""
_PREAMBLES = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

_COMPLETIONS = {
    "model": {
        "bash": "_llmchecker_models",
        "zsh": "_llmchecker_models",
        "fish": "(llmchecker models --names 2>/dev/null)",
    },
    "start": {
        "bash": "_llmchecker_starts",
        "zsh": "_llmchecker_starts",
        "fish": "(llmchecker starts --texts 2>/dev/null)",
    },
    "query": {
        "bash": "_llmchecker_queries",
        "zsh": "_llmchecker_queries",
        "fish": "(_llmchecker_queries)",
    },
    **dict.fromkeys(("config", "output", "path", "witness"), shtab.FILE),
    "directory": shtab.DIRECTORY,
}
"""The completion of each argument, by its name in the parsed arguments."""


def add_completion_command(commands: SubParsers) -> None:
    """Add the command `completion` to a command line."""
    completion = commands.add_parser(
        "completion",
        help=COMMAND_HELP["completion"],
        description="Print a script that completes commands, options, models, start strings and "
        'quantifiers. For bash, add to ~/.bashrc: eval "$(llmchecker completion bash)"',
    )
    completion.add_argument("shell", choices=_SHELLS, help="the shell")
    completion.set_defaults(run=_run_completion)


def _run_completion(arguments: argparse.Namespace) -> int:
    parser = build_parser()
    _set_completions(parser)
    print(shtab.complete(parser, arguments.shell, preamble=_PREAMBLES[arguments.shell]))
    return ExitStatus.SUCCESS


def _set_completions(parser: argparse.ArgumentParser) -> None:
    """Set the attribute that shtab reads on the arguments of all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _set_completions(command)
        elif action.dest in _COMPLETIONS:
            # an attribute of shtab
            vars(action)["complete"] = _COMPLETIONS[action.dest]
