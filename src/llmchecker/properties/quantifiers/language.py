"""Quantifier of the language of a text, by the package lingua.

A call of the library is the only form, since it reads all n-grams of a text anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from llmchecker.errors import ConfigError
from llmchecker.properties.quantifiers.interface import TEXT_PARTS, check_one_of, select_part
from llmchecker.utils.optional_packages import explain_missing_packages
from llmchecker.utils.printable_text import quote_value

if TYPE_CHECKING:
    from lingua import LanguageDetector


@dataclass(frozen=True)
class Language:
    """Whether a text is most probably in a language: 1 or 0.

    A text without letters is in no language. A few words are often in several languages, so a list
    of the possible ones makes the answer better.

    Attributes:
        code: the ISO 639-1 code of the language, such as `en`.
        among: the codes of all possible languages; empty for all that lingua knows.
        of: `continuation` reads the generated text alone, `text` the start string too.
        detector: lingua's detector.

    Raises:
        ConfigError: a code is unknown, or `among` has fewer than two languages or not the code.
        MissingTool: lingua is not installed.
    """

    code: str
    among: Sequence[str] = ()
    of: str = "continuation"
    detector: "LanguageDetector" = field(init=False, repr=False, compare=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 1

    def __post_init__(self) -> None:
        check_one_of("of", self.of, TEXT_PARTS)
        if not isinstance(self.among, list | tuple):
            raise ConfigError(
                f"among: the value is {quote_value(self.among)}; write a list of codes"
            )
        # a single possible language would be that of every text
        if self.among and (self.code not in self.among or len(set(self.among)) < 2):
            raise ConfigError(
                f"among: {quote_value(self.among)} lacks {self.code!r} or another code; add it"
            )
        among = tuple(self.among)
        for code in (self.code, *among):
            _check_code(code)
        object.__setattr__(self, "among", among)
        object.__setattr__(self, "detector", _build_detector(among))

    def __call__(self, start: str, continuation: str) -> int:
        language = self.detector.detect_language_of(select_part(start, continuation, self.of))
        return int(language is not None and language.iso_code_639_1.name.lower() == self.code)


def _check_code(code: object) -> None:
    known = {language.iso_code_639_1.name.lower() for language in _import_lingua().Language.all()}
    if code not in known:
        raise ConfigError(
            f"code: {quote_value(code)} is unknown; known are {', '.join(sorted(known))}"
        )


@cache
def _build_detector(codes: tuple[str, ...]) -> "LanguageDetector":
    """Build a detector, whose models take seconds to load."""
    lingua = _import_lingua()
    builder = lingua.LanguageDetectorBuilder
    if codes:
        languages = [
            language
            for language in lingua.Language.all()
            if language.iso_code_639_1.name.lower() in codes
        ]
        chosen = builder.from_languages(*languages)
    else:
        chosen = builder.from_all_languages()
    detector: LanguageDetector = chosen.build()
    return detector


def _import_lingua() -> ModuleType:
    # an optional package, which only this type needs
    with explain_missing_packages():
        return import_module("lingua")
