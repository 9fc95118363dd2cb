"""The quantifier that is a class in a file of the person who asks."""

import sys
import traceback
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any

from llmchecker.errors import ConfigError, did_you_mean
from llmchecker.quantifiers.quantifier import Quantifier

ANY_ERROR = (Exception, SystemExit)
"""What code that is not from this package may raise; what `sys.exit` raises is no Exception."""


@dataclass(frozen=True)
class OwnClass:
    """A class of a Python file, made without arguments, as a quantifier.

    The class declares its range by the attributes `minimum` and `maximum`, None for no limit, and
    is called with start string and continuation. The file is code that runs with all rights of the
    person who runs it. So it runs only where a config says so by this type.

    Attributes:
        file: the path of the file.
        class_: the name of the class; the setting is called `class`.
        minimum, maximum: what the class declares.
        made: an instance of the class.

    Raises:
        ConfigError: the file cannot be read or raises, has no such class, the class cannot be made,
            or it declares no range. When it scores: it raises, or its score is no integer within
            its range.
    """

    file: Path
    class_: str
    minimum: int | None = field(init=False)
    maximum: int | None = field(init=False)
    made: Quantifier = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.file, str | Path):
            raise ConfigError(f"file is {self.file!r}, not the path of a Python file")
        if not isinstance(self.class_, str):
            raise ConfigError(f"class is {self.class_!r}, not the name of a class")
        file = Path(self.file)
        made = _made(file, self.class_)
        object.__setattr__(self, "file", file)
        object.__setattr__(self, "made", made)
        for name, value in zip(("minimum", "maximum"), declared_range(made), strict=True):
            object.__setattr__(self, name, value)

    def __call__(self, start: str, continuation: str) -> int:
        who, text = f"{self.class_} of {self.file}", start + continuation
        try:
            score = self.made(start, continuation)
        except ANY_ERROR as error:
            told = raised(error, self.file)
            raise ConfigError(f"{who} raised {told} on the text {text!r}") from error
        if not isinstance(score, Integral) or isinstance(score, bool):
            raise ConfigError(f"{who} scored {text!r} with {score!r}, which is not an integer")
        score, low, high = int(score), self.minimum, self.maximum
        if (low is not None and score < low) or (high is not None and score > high):
            raise ConfigError(
                f"{who} scored {text!r} with {score}, outside its range {low} to {high}"
            )
        return score


def declared_range(quantifier: Any) -> tuple[int | None, int | None]:
    """The range that a quantifier declares, which is not from this package.

    Raises:
        ConfigError: it declares none, or none that holds a number.
    """
    who = type(quantifier).__name__
    found = []
    for name in ("minimum", "maximum"):
        if not hasattr(quantifier, name):
            raise ConfigError(
                f"{who} has no {name}; a class of quantifiers declares minimum and maximum, as "
                "integers or None for no limit"
            )
        value = getattr(quantifier, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise ConfigError(f"{name} of {who} is {value!r}, neither an integer nor None")
        found.append(value)
    low, high = found
    if low is not None and high is not None and low > high:
        raise ConfigError(f"{who} declares the minimum {low} above the maximum {high}")
    return low, high


def raised(error: BaseException, file: Path | None = None) -> str:
    """An error of code that is not from this package, in a few words, and where in a file it was.

    Args:
        error: what was raised.
        file: the file of that code.
    """
    told = f"{type(error).__name__}: {error}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"{told} (line {lines[-1]})" if lines else told


def _made(file: Path, name: str) -> Quantifier:
    """An instance of the class of that name in a file."""
    module = _run(file)
    found = getattr(module, name, None)
    if not isinstance(found, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        hint = did_you_mean(name, classes) or f"; it has {', '.join(classes) or 'none'}"
        raise ConfigError(f"class: {file} has no class {name!r}{hint}")
    if "__call__" not in dir(found):
        raise ConfigError(f"class: {name} of {file} has no __call__(self, start, continuation)")
    try:
        return found()
    except ANY_ERROR as error:
        raise ConfigError(
            f"class: {name} of {file} cannot be made without arguments; it raised "
            f"{raised(error, file)}"
        ) from error


def _run(file: Path) -> ModuleType:
    """The module that a file is, run anew: no bytecode is kept, which could be older."""
    try:
        source = file.read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigError(f"file is {str(file)!r}, which cannot be read: {error}") from error
    module = ModuleType(f"llmchecker_own_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # where dataclasses look for their module
    try:
        exec(compile(source, str(file), "exec"), vars(module))
    except ANY_ERROR as error:
        raise ConfigError(f"file: {file} raised {raised(error, file)}") from error
    return module
