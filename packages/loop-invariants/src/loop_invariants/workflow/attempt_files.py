"""Files of attempts on programs that the tables and figures on invariants read."""

from collections.abc import Mapping
from dataclasses import dataclass

from llmchecker.config.config import Config


@dataclass(frozen=True)
class AttemptFiles:
    """The files of attempts that each table and figure on invariants reads.

    Attributes:
        variants: by label of a model, the attempts with each variant of the prompt.
        sources: by label of a model, the attempts with each combination of sources.
        tools: the attempts of tools.
        method: the attempts to compare with tools: those with proposals of the first model.
        figures: by name of a figure of jointly verified programs, the attempts that it shows.
    """

    variants: Mapping[str, list[str]]
    sources: Mapping[str, list[str]]
    tools: list[str]
    method: list[str]
    figures: Mapping[str, list[str]]


def find_attempt_files(config: Config) -> AttemptFiles:
    """Return the files of attempts of a configuration with the section `invariants`."""
    section = config.sections["invariants"]
    models = section.models

    def files_of(*experiments: str) -> list[str]:
        return [_name_file(e, name) for e in experiments for name in section.semantics]

    labels = {model: config.models[model].label for model in models}
    tools = files_of("tools")
    return AttemptFiles(
        variants={labels[model]: files_of(f"variants/{model}") for model in models},
        sources={labels[model]: files_of("baselines", f"sources/{model}") for model in models},
        tools=tools,
        method=files_of(f"sources/{models[0]}"),
        figures={f"variants_{model}": files_of(f"variants/{model}") for model in models}
        | {"tools": tools},
    )


def _name_file(experiment: str, semantics: str) -> str:
    """Return the file of the attempts of an experiment.

    Args:
        experiment: the name of the experiment, followed by a slash and the model, if any.
        semantics: the name of the semantics of integers.
    """
    return f"results/invariants/{experiment}/{semantics}.json"
