"""Decoding settings: the parameters of transformers' `generate`."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal

from llmchecker.errors import ConfigError, UnusableText, did_you_mean, explain_absence
from llmchecker.utils.printable_text import quote_value

AS_PUBLISHED: Final = "as_published"
"""Name for the settings in the model's own generation_config.json."""

GREEDY = "greedy"
"""Name for greedy decoding, which always selects the most probable token."""

NO_DECODING = f"is not {GREEDY}, {AS_PUBLISHED} or settings by name"
"""What messages say of a value that is no decoding."""

GRAMMAR_SETTINGS = ("json_schema", "regex", "grammar", "choice")
"""Settings that name the texts of which an answer is one."""

END_SETTINGS = ("end_tokens", "ignore_eos")
"""Settings that name the tokens that end an answer."""

SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "typical_p")
"""Settings that `generate` only applies when it samples."""

_PART_SETTINGS = (
    "encoder_repetition_penalty",
    "encoder_no_repeat_ngram_size",
    "frequency_penalty",
    "presence_penalty",
    "min_new_tokens",
)
"""Settings that read the prompt alone, or the tokens after it alone."""

_VALUE_KEYWORDS = ("const", "default", "enum", "examples")
"""Keywords of JSON Schema whose values contain no schemas."""
_MAX_SHOWN_PLACES = 3
"""Largest number of places of a schema in a note."""
_MAX_SHOWN_CHARACTERS = 60
"""Largest number of characters of a value in the name of a decoding."""


@dataclass(frozen=True)
class Decoding:
    """Decoding settings, with the names and meanings of transformers' `generate`.

    The default of each setting has no effect. So an absent `top_k` truncates nothing, while
    `generate` uses 50 if neither its caller nor the model's file has a value.

    Attributes:
        do_sample: whether a token is sampled; if not, the most probable token follows.
        temperature: divisor of the logits; 0 is greedy decoding, as in the limit.
        top_k: number of most probable tokens that remain, with ties of the last; 0 for all.
        top_p: cumulative probability of the most probable tokens that remain.
        min_p: smallest probability of the remaining tokens, relative to the most probable token.
        typical_p: cumulative probability of the tokens with the most typical information that
            remain.
        repetition_penalty: factor by which logits of tokens in the text, start string included,
            shrink.
        encoder_repetition_penalty: factor by which logits of tokens in the start string grow.
        no_repeat_ngram_size: length of token sequences that never repeat within a text; 0 for no
            limit.
        encoder_no_repeat_ngram_size: length of token sequences of the start string that never
            follow; 0 for no limit.
        bad_words_ids: token sequences that are never completed.
        suppress_tokens: ids of tokens that never follow.
        frequency_penalty: what the logit of a token loses for each time that the answer has it.
        presence_penalty: what the logit of a token loses if the answer has it.
        logit_bias: pairs of a token id and what its logit gains.
        min_new_tokens: least number of tokens of an answer before its end.
        end_tokens: ids or texts of the tokens that end an answer; empty for those of the model.
        ignore_eos: whether no token ends an answer.
        json_schema: text of a JSON Schema that an answer satisfies, as llguidance reads it.
        regex: pattern that matches a whole answer.
        grammar: grammar in the Lark syntax of llguidance that has an answer.
        choice: the answers.

    Raises:
        ConfigError: a value is out of range, or another setting makes it meaningless.
    """

    do_sample: bool = True
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    encoder_repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    encoder_no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_new_tokens: int = 0
    end_tokens: tuple[int | str, ...] = ()
    ignore_eos: bool = False
    json_schema: str | None = None
    regex: str | None = None
    grammar: str | None = None
    choice: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("do_sample", "ignore_eos"):
            if not isinstance(value := getattr(self, name), bool):
                raise ConfigError(f"{name}: {quote_value(value)} is not true or false")
        _check_number(self, "temperature", lambda x: x >= 0, "at least 0")
        greedy_setting = "temperature: 0" if self.temperature == 0 else "do_sample: false"
        # one decoding has one form, so that its results are stored once
        if self.temperature == 0:
            object.__setattr__(self, "do_sample", False)
            object.__setattr__(self, "temperature", 1.0)
        for name in ("repetition_penalty", "encoder_repetition_penalty"):
            _check_number(self, name, lambda x: x > 0, "above 0")
        for name in ("top_p", "typical_p"):
            _check_number(self, name, lambda x: 0 < x <= 1, "above 0 and at most 1")
        _check_number(self, "min_p", lambda x: 0 <= x <= 1, "from 0 to 1")
        for name in ("frequency_penalty", "presence_penalty"):
            _check_number(self, name, lambda x: -2 <= x <= 2, "from -2 to 2")
        for token, bias in self.logit_bias:
            if not _is_natural_number(token):
                raise ConfigError(f"logit_bias: {quote_value(token)} is not a token id")
            if not _is_number(bias) or not -100 <= bias <= 100:
                raise ConfigError(f"logit_bias: {quote_value(bias)} is not from -100 to 100")
        # one bias has one form
        pairs = sorted((token, float(bias)) for token, bias in self.logit_bias)
        object.__setattr__(self, "logit_bias", tuple(pairs))
        for name in (
            *("top_k", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "min_new_tokens"),
        ):
            if not _is_natural_number(value := getattr(self, name)):
                raise ConfigError(
                    f"{name}: {quote_value(value)} is negative or not whole; use 0 for no limit"
                )
        for name, value in (("bad_words_ids", self.bad_words_ids), ("", (self.suppress_tokens,))):
            _check_tokens(name or "suppress_tokens", value)
        self._check_grammar()
        self._check_ends()
        # greedy decoding with a sampling setting would have no effect: report the contradiction
        if not self.do_sample:
            for name in SAMPLING_SETTINGS:
                if name in self.settings:
                    raise ConfigError(
                        f"{name}: no effect with {GREEDY} ({greedy_setting}); remove one of them"
                    )

    def _check_grammar(self) -> None:
        names = [name for name in GRAMMAR_SETTINGS if getattr(self, name) is not None]
        if len(names) > 1:
            raise ConfigError(f"{names[1]}: {names[0]} is set too; remove one")
        for name in ("json_schema", "regex", "grammar"):
            if not isinstance(value := getattr(self, name), str | None):
                raise ConfigError(f"{name}: {quote_value(value)} is not a text")
        choice = self.choice
        if choice is None:
            return
        if not isinstance(choice, tuple) or not all(isinstance(text, str) for text in choice):
            raise ConfigError(f"choice: {quote_value(_as_json(choice))} is not a list of texts")
        if not choice:
            raise ConfigError("choice: it has no text; add one")

    def _check_ends(self) -> None:
        ends = self.end_tokens
        if not isinstance(ends, tuple):
            raise ConfigError(f"end_tokens: {quote_value(ends)} is not a list of tokens")
        for token in ends:
            if not _is_natural_number(token) and not (isinstance(token, str) and token):
                raise ConfigError(f"end_tokens: {quote_value(token)} is not the id or text of one")
        # the texts of a grammar end by the model's own tokens
        names = (*END_SETTINGS, *GRAMMAR_SETTINGS)
        first, *others = [name for name in names if name in self.settings] or [""]
        if others and first not in GRAMMAR_SETTINGS:
            raise ConfigError(f"{first}: {others[0]} is set too; remove one")

    @classmethod
    def from_settings(
        cls, settings: "str | Mapping[str, Any] | Decoding", folder: Path | None = None
    ) -> "Decoding":
        """Parse settings from a configuration: `greedy`, or values by name.

        Args:
            settings: the settings. `json_schema` is a schema, its text, or a file with it.
            folder: the folder to which paths are relative; by default the current one.

        Raises:
            ConfigError: a name is unknown or a value is invalid.
        """
        if isinstance(settings, Decoding):
            return settings
        if settings == GREEDY:
            return cls(do_sample=False)
        if not isinstance(settings, Mapping):
            raise ConfigError(" ".join((quote_value(settings), NO_DECODING)))
        known_names = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known_names:
                if (reason := explain_absence(str(name))) is not None:
                    raise ConfigError(f"unknown key {name!r}: {reason}")
                hint = did_you_mean(str(name), known_names) or ";"
                raise ConfigError(
                    f"unknown key {name!r}{hint} known keys are {', '.join(known_names)}"
                )
        values: dict[str, Any] = {name: _freeze(value) for name, value in settings.items()}
        if "json_schema" in values:
            values["json_schema"] = _read_schema(settings["json_schema"], folder or Path())
        if "logit_bias" in values:
            values["logit_bias"] = _parse_bias(settings["logit_bias"])
        # the constructor checks the types of the values
        return cls(**values)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings with an effect, as JSON; equal settings give equal decoding."""
        settings = {
            field.name: _as_json(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
        if self.logit_bias:
            settings["logit_bias"] = {str(token): bias for token, bias in self.logit_bias}
        return settings

    @property
    def is_truncating(self) -> bool:
        """Whether few tokens keep a probability above 0 after most texts."""
        # temperature keeps every probability above 0
        return bool(self.settings.keys() & {"do_sample", *SAMPLING_SETTINGS} - {"temperature"})

    @property
    def compares_prompt(self) -> bool:
        """Whether the tokens of the start string have effects of their own."""
        # a grammar reads the continuation alone
        return bool(self.settings.keys() & {*_PART_SETTINGS, *GRAMMAR_SETTINGS})

    @property
    def grammar_setting(self) -> str | None:
        """Name of the setting with the grammar of the answers; None without one."""
        return next((name for name in GRAMMAR_SETTINGS if name in self.settings), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on answers: where the decoding is not what its words may suggest."""
        if self.json_schema is None:
            return ()
        places = list(_find_ordered_objects(json.loads(self.json_schema)))
        if not places:
            return ()
        more = f" and {len(places) - _MAX_SHOWN_PLACES} more" * (len(places) > _MAX_SHOWN_PLACES)
        return (
            "json_schema: the properties in "
            f"{', '.join(places[:_MAX_SHOWN_PLACES])}{more} have the order of the schema, as "
            "llguidance reads it; JSON Schema allows any",
        )

    def __bool__(self) -> bool:
        """Return whether any setting has an effect."""
        return bool(self.settings)

    def __str__(self) -> str:
        if self.settings == {"do_sample": False}:
            return GREEDY
        items = (f"{name} {_shorten(value)}" for name, value in self.settings.items())
        return ", ".join(items) or "temperature 1, uncut"

    def check_tokens(self, vocabulary_size: int, end_tokens: frozenset[int]) -> None:
        """Check that a model has the tokens in the settings.

        Args:
            vocabulary_size: number of tokens of the model.
            end_tokens: ids of the tokens that end a text, those of the settings if they have some.

        Raises:
            ConfigError: a token is out of range, or a bad word is an end token, which `generate`
                ignores.
        """
        entries = [("suppress_tokens", token) for token in self.suppress_tokens]
        entries += [("logit_bias", token) for token, _ in self.logit_bias]
        entries += [("end_tokens", token) for token in end_tokens if self.end_tokens]
        entries += [("bad_words_ids", token) for word in self.bad_words_ids for token in word]
        for name, token in entries:
            if token >= vocabulary_size:
                raise ConfigError(
                    f"{name}: {token} is not a token of the model; use 0 to {vocabulary_size - 1}"
                )
        for word in self.bad_words_ids:
            if len(word) == 1 and word[0] in end_tokens:
                raise ConfigError(
                    f"bad_words_ids: {word[0]} ends texts, so transformers ignores it; use "
                    "suppress_tokens"
                )


DecodingChoice = Decoding | Literal["as_published"] | None
"""Decoding of a model; None for temperature 1 without truncation."""


def parse_decoding(
    entry: str | Mapping[str, Any] | Decoding, folder: Path | None = None
) -> DecodingChoice:
    """Parse a decoding from a configuration; return None if it has no effect.

    Args:
        entry, folder: as in `Decoding.from_settings`.

    Raises:
        ConfigError: a name is unknown or a value is invalid.
    """
    if entry == AS_PUBLISHED:
        return AS_PUBLISHED
    return Decoding.from_settings(entry, folder) or None


def decoding_as_json(decoding: DecodingChoice) -> Any:
    """Return the settings with an effect as JSON; None without any."""
    return decoding.settings or None if isinstance(decoding, Decoding) else decoding


def list_model_notes(model: object) -> tuple[str, ...]:
    """List the notes on the weights and the decoding of a model; empty without any."""
    # a model of a user has neither
    decoder, weight_note = getattr(model, "decoder", None), getattr(model, "weight_note", "")
    decoding_notes = () if decoder is None else decoder.decoding.notes
    return (*((weight_note,) if weight_note else ()), *decoding_notes)


def check_thinking(model: object) -> None:
    """Check that the decoding of a model allows it to end a thought that the prompt begins.

    Raises:
        UnusableText: it has a grammar, which describes all that the model writes.
    """
    decoder = getattr(model, "decoder", None)
    name = None if decoder is None else decoder.decoding.grammar_setting
    if name is not None:
        raise UnusableText(
            f"decoding: {name}: the prompt begins a thought, which the grammar does not have; "
            "set `enable_thinking: false` in `template`"
        )


def parse_end_tokens(value: int | list[int] | None) -> frozenset[int] | None:
    """Parse the `eos_token_id` of a model's configuration, such as 2 or [1, 106].

    None means that the configuration does not define it. A negative id is no token, so that no text
    ends, as in `generate`.
    """
    if value is None:
        return None
    tokens = value if isinstance(value, list) else [value]
    return frozenset(token for token in tokens if token >= 0)


def _check_number(decoding: Decoding, name: str, is_valid: Any, requirement: str) -> None:
    value = getattr(decoding, name)
    if not _is_number(value) or not is_valid(value):
        raise ConfigError(f"{name}: {quote_value(value)} is not {requirement}")
    object.__setattr__(decoding, name, float(value))  # 1 and 1.0 are one setting


def _check_tokens(name: str, value: object) -> None:
    """Check sequences of tokens; only `suppress_tokens` may be empty."""
    if not isinstance(value, tuple) or not all(isinstance(word, tuple) for word in value):
        raise ConfigError(
            f"{name}: {quote_value(_as_json(value))} is not a list of lists of tokens"
        )
    for word in value:
        if name == "bad_words_ids" and not word:
            raise ConfigError("bad_words_ids: a word has no token; remove it")
        for token in word:
            if not _is_natural_number(token):
                raise ConfigError(f"{name}: {quote_value(token)} is not a token id")


def _is_number(value: Any) -> bool:
    # `bool` is a subclass of int
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _is_natural_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _freeze(value: object) -> object:
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


def _as_json(value: object) -> object:
    return list(map(_as_json, value)) if isinstance(value, tuple) else value


def _parse_bias(value: object) -> tuple[tuple[Any, Any], ...]:
    """Parse biases by token id, which is a text in JSON."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"logit_bias: {quote_value(value)} is not a bias by token id")
    return tuple(
        (int(token) if isinstance(token, str) and token.isdecimal() else token, bias)
        for token, bias in value.items()
    )


def _read_schema(value: object, folder: Path) -> str:
    """Return the text of a JSON Schema; the order of its properties remains.

    Args:
        value: the schema, its text, or the path of a file with it.
        folder: the folder to which a path is relative.
    """
    text = value
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        try:
            text = (folder / Path(value).expanduser()).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError(f"json_schema: {value!r} cannot be read: {error}") from error
    try:
        schema = json.loads(text) if isinstance(text, str) else text
        if not isinstance(schema, Mapping):
            raise ConfigError(f"json_schema: {quote_value(schema)} is not an object")
        # a YAML file may contain dates
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"json_schema: it is not JSON: {error}") from error


def _find_ordered_objects(schema: object, place: str = "#") -> Iterator[str]:
    """Yield the JSON pointers of the parts of a schema with several named properties."""
    parts: Iterable[tuple[object, object]] = ()
    if isinstance(schema, dict):
        names = schema.get("properties")
        if isinstance(names, dict) and len(names) > 1:
            yield place
        # values are no schemas
        parts = ((key, part) for key, part in schema.items() if key not in _VALUE_KEYWORDS)
    elif isinstance(schema, list):
        parts = enumerate(schema)
    for key, part in parts:
        yield from _find_ordered_objects(part, f"{place}/{key}")


def _shorten(value: object) -> str:
    """Return a value of a setting for names; the digest of a long one keeps names different."""
    text = str(value)
    if len(text) <= _MAX_SHOWN_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{text[:_MAX_SHOWN_CHARACTERS]}… ({digest})"
