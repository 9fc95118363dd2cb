"""Quantifier of tool calls: all valid, one invalid, or none."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.models.decoding.answer_format import AnswerFormat
from llmchecker.models.decoding.answer_reader import OUTPUT
from llmchecker.models.decoding.call_formats import ToolCall
from llmchecker.utils.printable_text import quote_value

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


@dataclass(frozen=True)
class ToolCalls:
    """Score 2 if a text calls tools and all calls are valid, 1 if one is invalid, 0 without a call.

    A call is valid if it is in the format of the model, one of the tools has its name, and its
    arguments are an object that satisfies the schema of the tool. Text around marked calls is
    ignored, and so is the thought before them. Of a model without a chat template calls in any
    known format are read; without a mark the whole text must be a call, or a list of calls.

    Attributes:
        tools: the JSON Schema of the arguments of each tool, by name.
        validators: the validators of the schemas.
        answer_format: the format of the model's answers.

    Raises:
        ConfigError: there is no tool, or a schema is unusable as in `JsonText`.
    """

    tools: Mapping[str, Any]
    validators: "Mapping[str, Validator]" = field(init=False, repr=False, compare=False)
    answer_format: AnswerFormat = field(default=AnswerFormat(), init=False, repr=False)

    minimum: ClassVar[int | None] = 0
    maximum: ClassVar[int | None] = 2
    of: ClassVar[str] = OUTPUT

    def __post_init__(self) -> None:
        # imported here: it takes a tenth of a second, and most runs need no JSON
        from llmchecker.properties.quantifiers.json_schema import build_validator

        if not isinstance(self.tools, Mapping) or not self.tools:
            raise ConfigError(
                f"tools: {quote_value(self.tools)} has no tools; write a mapping of names to "
                "JSON Schemas"
            )
        for name in self.tools:
            if not isinstance(name, str) or not name:
                raise ConfigError(f"tools: {quote_value(name)} is no name of a tool; write a text")
        with prefix_errors("tools"):
            validators = {name: build_validator(name, each) for name, each in self.tools.items()}
        object.__setattr__(self, "validators", validators)

    def read_as(self, answer_format: AnswerFormat) -> "ToolCalls":
        """Return the quantifier that reads answers in a format.

        Raises:
            UnusableText: the calls of the format cannot be read.
        """
        answer_format.check_calls()
        bound = copy(self)
        object.__setattr__(bound, "answer_format", answer_format)
        return bound

    def __call__(self, start: str, continuation: str) -> int:
        del start  # a template may show calls as examples
        calls = self.answer_format.read_calls(continuation, self.tools)
        if not calls:
            return 0
        return 2 if all(map(self._is_valid, calls)) else 1

    def _is_valid(self, call: ToolCall) -> bool:
        if call.name not in self.validators or not isinstance(call.arguments, dict):
            return False
        try:
            return self.validators[call.name].is_valid(call.arguments)
        # a number beyond all floats, or arguments as deep as no tool reads them
        except (OverflowError, RecursionError):
            return False
