"""Settings of chat templates: the variables that a deployment gives to its template.

    template: { enable_thinking: false, date: 2026-11-28 }

Every setting but `date` is a variable of the template. `date` is the date of the prompt.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date as day_type
from datetime import timedelta
from typing import Any

from llmchecker.errors import ConfigError
from llmchecker.utils.printable_text import quote_value

_DATE = "date"
_RESERVED = (
    "add_generation_prompt",
    "chat_template",
    "continue_final_message",
    "conversation",
    "max_length",
    "messages",
    "padding",
    "return_dict",
    "return_tensors",
    "tokenize",
    "tokenizer_kwargs",
    "tools",
    "truncation",
)
"""Arguments of templates and of transformers' `apply_chat_template` that the program sets."""

_TRUTH_VALUES = ("true", "false")
_OTHER_DAYS = timedelta(days=401)
"""The distance of another date, with another day, month and year."""


@dataclass(frozen=True)
class TemplateSettings:
    """Settings of a chat template.

    Attributes:
        date: the date of prompts; None for the fixed one.
        text: the variables as a JSON object with sorted keys.
    """

    date: day_type | None = None
    text: str = "{}"

    @classmethod
    def parse(cls, value: object) -> "TemplateSettings":
        """Parse a mapping of settings.

        Raises:
            ConfigError: it is no mapping, a setting is the program's own, a value is no JSON or
                the text of a truth value, or the date is none.
        """
        if not isinstance(value, Mapping):
            raise ConfigError(
                f"{quote_value(value)} is no mapping; write {{enable_thinking: false}}"
            )
        for name, each in value.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise ConfigError(f"{quote_value(name)}: it is no name of a variable; rename it")
            if name in _RESERVED:
                raise ConfigError(f"{name}: the program sets it itself; remove it")
            if isinstance(each, str) and each.lower() in _TRUTH_VALUES:
                raise ConfigError(
                    f'{name}: "{each}" is a text, which a template reads as true; write '
                    f"{each.lower()} without quotes"
                )
        variables = {name: each for name, each in value.items() if name != _DATE}
        try:
            text = json.dumps(variables, sort_keys=True, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"a value is no JSON: {error}; write texts in quotes") from error
        return cls(_parse_date(value[_DATE]) if _DATE in value else None, text)

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of the template."""
        variables: dict[str, Any] = json.loads(self.text)
        return variables

    @property
    def as_json(self) -> dict[str, Any]:
        """All settings as JSON; empty without any."""
        return self.variables | self._date_entry

    def list_others(self, name: str) -> "list[TemplateSettings]":
        """Return settings that differ in one, by which a template shows that it reads it."""
        if name == _DATE:
            assert self.date is not None
            step = _OTHER_DAYS if self.date.year < day_type.max.year - 2 else -_OTHER_DAYS
            return [TemplateSettings(self.date + step, self.text)]
        variables = self.variables
        value = variables.pop(name)
        others = [variables]
        match value:
            case bool():
                others.append({**variables, name: not value})
            case int() | float():
                others.append({**variables, name: value + 1})
            case None:
                others.append({**variables, name: True})
            case _:
                # another text, or an empty list in place of one
                other = "\ue001" if isinstance(value, str) else type(value)()
                others.append({**variables, name: other})
        return [TemplateSettings.parse({**each, **self._date_entry}) for each in others]

    @property
    def _date_entry(self) -> dict[str, str]:
        return {} if self.date is None else {_DATE: self.date.isoformat()}

    def __bool__(self) -> bool:
        return bool(self.as_json)

    def __str__(self) -> str:
        return ", ".join(f"{name} {json.dumps(each)}" for name, each in self.as_json.items())


NO_SETTINGS = TemplateSettings()
"""The settings of a template as it is."""


def _parse_date(value: object) -> day_type:
    try:
        return value if type(value) is day_type else day_type.fromisoformat(str(value))
    except ValueError as error:
        raise ConfigError(f"date: {quote_value(value)} is no date; write 2026-11-28") from error
