"""The files of a new suite: a commented suite, and a GitHub workflow that runs it."""

import json
import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from llmchecker.config.deployment import Deployment, DeploymentName
from llmchecker.config.registry import Registry
from llmchecker.errors import ConfigError, SourceUnavailable
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.downloads import fetch_hub_snapshot
from llmchecker.models.sources.model_directory import TEMPLATE_FILES, has_chat_template
from llmchecker.utils.installation import find_github_repository

SUITE_NAME = "suite.yaml"
"""Name of the suite file."""
_WORKFLOW_NAME = ".github/workflows/llmchecker.yaml"
"""Name of the workflow file."""

_ACTION_FOLDER = ".github/actions/llmchecker"
"""Folder of the action in a repository that cannot use that of this package's repository."""

_MODEL_FOLDERS = ("*", "models/*", "resources/models/*")
"""Patterns of folders that may be a model."""

_SUITE = """\
# `llmchecker test suite.yaml` decides every requirement, certainly or with the confidence below.

model: {model}
length: 40                    # tokens
confidence: 0.99              # of all verdicts together
budget: {{ {budget} }}      # of each case
# system: "You are a helpful assistant."
# decoding: {{ temperature: 0.2, top_p: 0.9 }}

properties:                   # what queries and averages measure; columns of prompts in braces
  leaks: {{ type: words, words: [swordfish] }}
  # correct: {{ type: pattern, pattern: '(?i)\\b{{answer}}\\b' }}

cases:
  - name: madrid
    {prompt}
    require:
      - {{ not_icontains: "as an AI", at_least: 0.5 }}   # an assertion
      - "P<=0.5 [ F leaks > 0 ]"                       # or a query with a threshold

  # - name: questions
  #   prompts: questions.csv                      # columns user, answer and topic
  #   average: {{ accuracy: "mean P=? [ F correct > 0 ] >= 0.7" }}
  #   by: topic

# versus:                     # no worse than another model, prompt or decoding
#   system: "Answer briefly."
#   require: {{ accuracy: "difference >= -0.02" }}
"""
_USER = "user: Is Madrid in Spain? Answer yes or no.   # or start: a text to continue"
_START = "start: The capital of Spain is           # or user: a message, for a model with chats"

_WORKFLOW = """\
# Decides the requirements of the suite at each change. A pull request gets a comment with the
# verdicts and the differences from its base branch.
name: llmchecker
on: [push, pull_request]
permissions: {{ contents: read, pull-requests: write }}
jobs:
  suite:
    runs-on: ubuntu-latest
    env:
      HF_TOKEN: ${{{{ secrets.HF_TOKEN }}}}   # for a model of the hub that needs an account
    steps:
      - uses: actions/checkout@v4
      - uses: {action}
        with:
          suite: suite.yaml
{install}"""


def format_starter_suite(deployment: Deployment, name: DeploymentName) -> str:
    """Format a commented suite whose requirements nearly every model meets.

    Args:
        deployment: the model of the suite.
        name: its name in the suite.
    """
    model = deployment.model
    text: str = _SUITE.format(
        # JSON is YAML, in which a text needs quotes as a directory may have any name
        model=json.dumps(name, ensure_ascii=False),
        budget="answers: 500" if model.is_text_only else "passes: 2000",
        prompt=_USER if _answers_messages(deployment) else _START,
    )
    return text


def build_workflow_files(install_source: str) -> dict[str, bytes]:
    """Build the workflow, and the action that it uses, by the paths of the files.

    Args:
        install_source: `git+https://…@commit`, the address of a wheel, or the path of a wheel,
            which is copied. The action is that of the repository on GitHub, or else a copy.

    Raises:
        ConfigError: the wheel is absent.
    """
    repository = find_github_repository(install_source)
    if repository is not None:
        workflow: str = _WORKFLOW.format(action=repository, install="")
        return {_WORKFLOW_NAME: workflow.encode()}
    action = resources.files(__package__).joinpath("action.yml")
    files = {f"{_ACTION_FOLDER}/action.yml": action.read_bytes()}
    if "://" not in install_source:
        wheel = Path(install_source)
        if wheel.suffix != ".whl" or not wheel.is_file():
            raise ConfigError(
                f"--install: {wheel} is no wheel; name one, or write git+https://…@commit"
            )
        files[f"{_ACTION_FOLDER}/{wheel.name}"] = wheel.read_bytes()
        install_source = f"./{_ACTION_FOLDER}/{wheel.name}"
    install = f"          install: {json.dumps(install_source, ensure_ascii=False)}\n"
    workflow = _WORKFLOW.format(action=f"./{_ACTION_FOLDER}", install=install)
    return {_WORKFLOW_NAME: workflow.encode(), **files}


def find_model(registry: Registry, folder: Path) -> str:
    """Return the only model that a suite in a folder can use.

    Raises:
        ConfigError: there is no model, or more than one.
    """
    names: list[str] = [*(registry.models or _find_directories(folder))]
    if len(names) == 1:
        return names[0]
    found = f"there are {', '.join(names)}" if names else "no model is here"
    raise ConfigError(
        f"--model: {found}; name one: a directory, hf:owner/name, pypi:wheel==version or a server"
    )


def _find_directories(folder: Path) -> Iterator[str]:
    """Yield the paths of model directories in a folder."""
    for pattern in _MODEL_FOLDERS:
        for path in sorted(folder.glob(f"{pattern}/config.json")):
            if any(path.parent.glob("*.safetensors")):
                yield f".{os.sep}{path.parent.relative_to(folder)}"


def _answers_messages(deployment: Deployment) -> bool:
    """Return whether the model of a deployment has chats, as far as it can be known."""
    source = deployment.model.source
    if isinstance(source, ServerSource):
        if source.tokenizer is None:
            return source.api != "openai-completions"
        return has_chat_template(source.tokenizer.path)
    directory = deployment.model.directory
    if directory.is_dir():
        return has_chat_template(directory)
    origin = deployment.model.origin
    if origin.scheme == "hf" and origin.revision:
        try:
            files = fetch_hub_snapshot(origin.name, origin.revision, list(TEMPLATE_FILES))
        # the model may be fetched later, on another machine
        except SourceUnavailable:
            return True
        return has_chat_template(files)
    return True
