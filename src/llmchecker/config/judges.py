"""Judges of a configuration: quantifiers whose model is named as any other model.

    polite: { type: judge, model: smollm2-135m, question: "Is the text polite?" }

Wherever settings may name a judge, `create_quantifier_or_judge` creates the quantifier.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmchecker.config import paths
from llmchecker.config.models import ModelConfig
from llmchecker.config.registry_keys import ExpansionConfig
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.models.decoding.answer_reader import WHOLE_OUTPUT
from llmchecker.models.decoding.settings import AS_PUBLISHED, GREEDY, parse_decoding
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.servers.spending import Spending
from llmchecker.properties import registry
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import JudgesAnswers, Quantifier
from llmchecker.utils.file_state import check_unchanged, compute_checksums

if TYPE_CHECKING:
    from llmchecker.models.judges import JudgeAccess

_TYPE = "judge"


@dataclass(frozen=True)
class ConfiguredJudge:
    """The model of a judge, which its first use fetches and loads.

    Attributes:
        model: the model.
        expansion: the settings of models in this process.
        project: the folder to which paths of the model are relative.
    """

    model: ModelConfig
    expansion: ExpansionConfig = field(compare=False)
    project: Path = field(default_factory=Path.cwd, compare=False)

    def __repr__(self) -> str:
        return json.dumps(self.answer_settings, sort_keys=True, default=str)

    @property
    def answer_settings(self) -> dict[str, Any]:
        """All that determines its answers besides the content of the files, as JSON."""
        return _remove_decoding(self.model).answer_settings

    @property
    def name(self) -> str:
        """The label of the model."""
        return self.model.label

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of a local model or tokenizer; other sources have a checksum or a commit."""
        return tuple(self.model.source.local_files.values())

    def is_same(self, model: object) -> bool:
        """Return whether a model is the judge, with any decoding."""
        if isinstance(model, ModelConfig):
            own = self.model
            settings = own.source_record, own.kind, own.dtype
            return settings == (model.source_record, model.kind, model.dtype)
        return getattr(model, "name", None) == self.model.name

    def open_access(self) -> "JudgeAccess":
        """Open the access to the answers of the judge, of which one process has one."""
        spending = _spending.get()
        # a model that returns texts alone counts its answers in the spending of its run
        number = id(spending) if self.model.is_text_only else None
        # the models and stores of a configuration are in the folder of its project
        with contextlib.chdir(self.project):
            key = f"{self.project} {self!r} {self._state}", number
            if key not in _accesses:
                opened = _open_access(self.model, self.expansion, spending)
                check_unchanged(self._state)
                _accesses[key] = opened
        return _accesses[key]

    @cached_property
    def _state(self) -> dict[Path, str]:
        """The sha256 of each file of the judge at its first use, which is that of its answers."""
        return compute_checksums({path: path for path in self.files})


_accesses: dict[tuple[str, int | None], "JudgeAccess"] = {}
"""The judges in memory: several quantifiers may have one model."""
_spending: ContextVar[Spending] = ContextVar("_spending", default=Spending())  # noqa: B039
"""What the present run has spent."""


@contextlib.contextmanager
def charge_judges(spending: Spending) -> Iterator[None]:
    """Count the answers of judges in the block in the spending of a run, with its limits."""
    token = _spending.set(spending)
    try:
        yield
    finally:
        _spending.reset(token)
        # a judge keeps the spending in memory, so that no other one has its id
        for key in [key for key in _accesses if key[1] == id(spending)]:
            del _accesses[key]


def create_quantifier_or_judge(
    name: str,
    settings: Mapping[str, Any] | None,
    find_model: Callable[[Any], ModelConfig],
    expansion: ExpansionConfig,
) -> Quantifier:
    """Create the quantifier of a name, whose settings may name a judge.

    Args:
        name, settings: as in `properties.registry.create_quantifier`.
        find_model: finds the model of a name, and raises `ConfigError` if there is none.
        expansion: the settings of models in this process.

    Raises:
        ConfigError: as in `properties.registry.create_quantifier`, or the model cannot judge.
    """
    is_judge = isinstance(settings, Mapping) and settings.get("type", name) == _TYPE
    if settings is None or not is_judge or settings.get("model") is None:
        return registry.create_quantifier(name, settings)
    with prefix_errors(f"quantifier {name!r}"):
        model = find_model(settings["model"])
        source = model.source
        if model.kind == "masked":
            raise ConfigError(f"model: {model.name} is a masked model; a judge is a chat model")
        if isinstance(source, ServerSource) and source.api == "openai-completions":
            raise ConfigError(
                f"model: the api {source.api} of {model.name} accepts no messages; use openai-chat"
            )
    judge = ConfiguredJudge(model, expansion)
    return registry.create_quantifier(name, {**settings, "model": judge})


def add_judge_notes(asked: Property, model: object, *, is_measured: bool = False) -> Property:
    """Return a query whose answers name its judges.

    Args:
        asked: the query.
        model: the judged model: a `ModelConfig`, or a loaded model. There is a warning if a judge
            is this model, with any decoding.
        is_measured: whether the errors of the judges are in the confidence.
    """
    notes = list_judge_notes(asked.quantifiers.values(), model, is_measured=is_measured)
    return replace(asked, notes=(*asked.notes, *notes)) if notes else asked


def list_judge_notes(
    quantifiers: Iterable[Quantifier], model: object, *, is_measured: bool = False
) -> list[str]:
    """List the notes on answers about a model, as in `add_judge_notes`."""
    judges = [each for each in quantifiers if isinstance(each, JudgesAnswers)]
    notes = (judge.build_notes(model, is_measured=is_measured) for judge in judges)
    return list(dict.fromkeys(note for found in notes for note in found))


def list_judge_models(quantifiers: Iterable[Quantifier]) -> list[ModelConfig]:
    """List the models of the judges among quantifiers."""
    models = (getattr(quantifier, "model", None) for quantifier in quantifiers)
    return [model.model for model in models if isinstance(model, ConfiguredJudge)]


def _remove_decoding(model: ModelConfig) -> ModelConfig:
    """Return a judge without the settings that do not determine its grades."""
    # a judge with distributions grades by the probabilities of its first token before any decoding
    return model if model.is_text_only else replace(model, decoding=None, reader=WHOLE_OUTPUT)


def _open_access(
    model: ModelConfig, expansion: ExpansionConfig, spending: Spending
) -> "JudgeAccess":
    # imported here: a configuration is read without the packages of models
    from llmchecker.config.opening import open_lazily, open_texts
    from llmchecker.models.judges import StoredJudge, TextJudge, TokenJudge

    if model.is_text_only:
        if model.decoding is not None:
            return TextJudge(model.label, open_texts(model, spending))
        greedy = replace(model, decoding=parse_decoding(GREEDY))
        default = replace(model, decoding=AS_PUBLISHED)
        return TextJudge(model.label, *(open_texts(each, spending) for each in (greedy, default)))
    opened = open_lazily(_remove_decoding(model), expansion)
    judge = TokenJudge(opened.own_model)
    path = Path(paths.judge_file(model.name, opened.model_fingerprint[:32]))
    return StoredJudge(judge, path)
