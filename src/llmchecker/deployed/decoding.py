"""How next tokens are chosen where a model is deployed: what `generate` of transformers is told."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from llmchecker.errors import ConfigError, did_you_mean

AS_PUBLISHED = "as_published"
"""Stands for the settings of the model's own generation_config.json."""

GREEDY = "greedy"
"""Stands for the most probable token after every text."""

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p")
"""Settings that `generate` obeys only where it samples."""


@dataclass(frozen=True)
class Decoding:
    """What `generate` does with a model's logits before it draws a token, by the names it has.

    Each setting changes nothing by default. So a `top_k` that is not named cuts nothing, while
    `generate` takes 50 where neither its caller nor the model's file names one.

    Attributes:
        do_sample: whether a token is drawn; if not, the most probable one follows.
        temperature: by which logits are divided.
        top_k: how many of the most probable tokens are left, and those as probable as the last.
        top_p: the most probable tokens are left that hold this probability together.
        min_p: tokens are left that are at least this share as probable as the most probable one.
        typical_p: tokens of the most typical information are left that hold this probability.
        repetition_penalty: by which logits of tokens in the text, start string included, shrink.
        no_repeat_ngram_size: no sequence of so many tokens stands twice in a text.
        bad_words_ids: sequences of tokens that are never completed.
        suppress_tokens: tokens that never follow.

    Raises:
        ConfigError: a value out of its range, or a setting that another one makes meaningless.
    """

    do_sample: bool = True
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.do_sample, bool):
            raise ConfigError(f"do_sample is {self.do_sample!r}; it must be true or false")
        hint = "; the most probable token alone is what `greedy` stands for"
        _number(self, "temperature", lambda x: x > 0, "above 0", hint)
        _number(self, "repetition_penalty", lambda x: x > 0, "above 0")
        for name in ("top_p", "typical_p"):
            _number(self, name, lambda x: 0 < x <= 1, "above 0 and at most 1")
        _number(self, "min_p", lambda x: 0 <= x <= 1, "from 0 to 1")
        for name in ("top_k", "no_repeat_ngram_size"):
            if not _is_whole(value := getattr(self, name)):
                raise ConfigError(f"{name} is {value!r}; it must be a whole number, or 0 for none")
        for name, value in (("bad_words_ids", self.bad_words_ids), ("", (self.suppress_tokens,))):
            _tokens(name or "suppress_tokens", value)
        if not self.do_sample:
            for name in SAMPLING:
                if name in self.settings:
                    raise ConfigError(
                        f"{name} contradicts {GREEDY}, which is do_sample: false; "
                        "where nothing is drawn it changes nothing"
                    )

    @classmethod
    def of(cls, settings: "str | Mapping[str, Any] | Decoding") -> "Decoding":
        """Read the settings as a configuration has them: `greedy`, or values by name.

        Raises:
            ConfigError: an unknown name, or a value that cannot be used.
        """
        if isinstance(settings, Decoding):
            return settings
        if settings == GREEDY:
            return cls(do_sample=False)
        if not isinstance(settings, Mapping):
            raise ConfigError(
                f"decoding is {settings!r}; it must be {GREEDY}, {AS_PUBLISHED} or settings by name"
            )
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                hint = did_you_mean(str(name), known) or ";"
                raise ConfigError(f"unknown key {name!r}{hint} known keys are {', '.join(known)}")
        return cls(**{name: _frozen(value) for name, value in settings.items()})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that change something, as JSON has them; equal ones decode alike."""
        return {
            field.name: _as_json(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    @property
    def cuts(self) -> bool:
        """Whether it leaves few tokens a probability above 0, after most texts."""
        return bool(self.settings.keys() & {"do_sample", *SAMPLING} - {"temperature"})

    def __bool__(self) -> bool:
        """Whether any setting changes something."""
        return bool(self.settings)

    def __str__(self) -> str:
        if self.settings == {"do_sample": False}:
            return GREEDY
        named = (f"{name} {value}" for name, value in self.settings.items())
        return ", ".join(named) or "temperature 1, uncut"

    def require_tokens(self, vocabulary_size: int, end_tokens: frozenset[int]) -> None:
        """Check that the tokens that are named are tokens of a model.

        Raises:
            ConfigError: one is not, or a bad word is an end of texts, which `generate` ignores.
        """
        named = [("suppress_tokens", token) for token in self.suppress_tokens]
        named += [("bad_words_ids", token) for word in self.bad_words_ids for token in word]
        for name, token in named:
            if token >= vocabulary_size:
                raise ConfigError(
                    f"{name}: the model has no token {token}; it has {vocabulary_size}, from 0 on"
                )
        for word in self.bad_words_ids:
            if len(word) == 1 and word[0] in end_tokens:
                raise ConfigError(
                    f"bad_words_ids: {word[0]} ends texts, and transformers ignores such a word; "
                    "suppress_tokens keeps it from being written"
                )


Asked = Decoding | Literal["as_published"] | None
"""A decoding as a model may be asked with: None for temperature 1 and uncut."""


def read_decoding(entry: str | Mapping[str, Any] | Decoding) -> Asked:
    """Read a decoding as a configuration has it; None where it changes nothing.

    Raises:
        ConfigError: an unknown name, or a value that cannot be used.
    """
    return AS_PUBLISHED if entry == AS_PUBLISHED else Decoding.of(entry) or None


def decoding_as_json(decoding: Asked) -> Any:
    """The settings that change something; None for none."""
    return decoding.settings or None if isinstance(decoding, Decoding) else decoding


def _number(decoding: Decoding, name: str, fits: Any, wanted: str, hint: str = "") -> None:
    value = getattr(decoding, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not fits(value):
        raise ConfigError(f"{name} is {value!r}; it must be {wanted}{hint if value == 0 else ''}")
    object.__setattr__(decoding, name, float(value))  # 1 and 1.0 are one setting


def _tokens(name: str, value: object) -> None:
    """Check sequences of tokens, none of them empty but for the only one."""
    if not isinstance(value, tuple) or not all(isinstance(word, tuple) for word in value):
        raise ConfigError(f"{name} is {_as_json(value)!r}; it must be a list of lists of tokens")
    for word in value:
        if name == "bad_words_ids" and not word:
            raise ConfigError("bad_words_ids: a word has no token")
        for token in word:
            if not _is_whole(token):
                raise ConfigError(f"{name}: {token!r} is not the number of a token")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _as_json(value: object) -> object:
    return list(map(_as_json, value)) if isinstance(value, tuple) else value
