"""Quantifiers of user-defined classes in Python files."""

import ast
import sys
import traceback
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any

from llmchecker.errors import ConfigError, did_you_mean
from llmchecker.properties.quantifiers.interface import BatchQuantifier, Quantifier
from llmchecker.properties.transducers.interface import (
    HasTransducer,
    NarrowsRange,
    TokenTransducer,
)
from llmchecker.utils.printable_text import quote_value

FOREIGN_ERRORS = (Exception, SystemExit)
"""Expected exceptions of code outside this package, including `sys.exit`."""


@dataclass(frozen=True)
class OwnClass:
    """Quantifier from a class of a Python file, constructed without arguments.

    The class declares its range by the attributes `minimum` and `maximum`, None for no limit. Its
    instance is called with start string and continuation. It may offer an incremental form by the
    method `build_transducer`, and score batches by the method `score_batch`. The file runs with all
    rights of the user, so it runs only if a configuration requests it by this type.

    Attributes:
        file: path of the file.
        class_: str, name of the class; the setting's key is `class`.
        minimum, maximum: int or None, the declared range.
        files: paths of further files on which the scores depend: modules next to the file that it
            imports, and paths among the attributes of the instance.
        instance: the instance of the class.

    Raises:
        ConfigError: the file cannot be read or raises, or lacks the class. The class cannot be
            constructed or declares no range. On a call: it raises.
    """

    file: Path
    class_: str
    minimum: int | None = field(init=False)
    maximum: int | None = field(init=False)
    files: tuple[Path, ...] = field(init=False, repr=False, compare=False)
    instance: Quantifier = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.file, str | Path):
            raise ConfigError(f"file: {quote_value(self.file)} is not the path of a Python file")
        if not isinstance(self.class_, str):
            raise ConfigError(f"class: {quote_value(self.class_)} is not the name of a class")
        file = Path(self.file)
        instance = _create_instance(file, self.class_)
        # frozen dataclass: only `object.__setattr__` can set derived fields
        object.__setattr__(self, "file", file)
        object.__setattr__(self, "instance", instance)
        values = getattr(instance, "__dict__", {}).values()
        further_files = (
            *_find_imported_files(file, set()),
            *[value for value in values if isinstance(value, Path) and value.is_file()],
        )
        object.__setattr__(self, "files", further_files)
        for name, value in zip(("minimum", "maximum"), read_declared_range(instance), strict=True):
            object.__setattr__(self, name, value)
        # the method makes this a `BatchQuantifier`, which is called on visited texts only
        if isinstance(instance, BatchQuantifier):
            object.__setattr__(self, "score_batch", self._score_batch)

    def __call__(self, start: str, continuation: str) -> int:
        try:
            return self.instance(start, continuation)
        except FOREIGN_ERRORS as error:
            problem = (
                f"{format_foreign_error(error, self.file)} on the text {start + continuation!r}"
            )
            raise ConfigError(f"{self._label}: it raised {problem}") from error

    def _score_batch(self, texts: Sequence[tuple[str, str]]) -> list[int]:
        assert isinstance(self.instance, BatchQuantifier)
        try:
            return list(self.instance.score_batch(texts))
        except FOREIGN_ERRORS as error:
            problem = format_foreign_error(error, self.file)
            raise ConfigError(f"{self._label}: score_batch raised {problem}") from error

    def build_transducer(self) -> TokenTransducer | None:
        """Build the incremental form of the class; None if it has none.

        Raises:
            ConfigError: `build_transducer` raises. Later: a method of the transducer raises or
                returns a value of another type.
        """
        if not isinstance(self.instance, HasTransducer):
            return None
        try:
            transducer = self.instance.build_transducer()
        except FOREIGN_ERRORS as error:
            problem = format_foreign_error(error, self.file)
            raise ConfigError(f"{self._label}: build_transducer raised {problem}") from error
        return None if transducer is None else _OwnTransducer(transducer, self._label, self.file)

    @property
    def _label(self) -> str:
        return f"{self.class_} of {self.file}"


class _OwnTransducer:
    """A transducer from outside this package, whose results are checked."""

    def __init__(self, transducer: TokenTransducer, label: str, file: Path) -> None:
        self._transducer = transducer
        self._label = label
        self._file = file

    def start(self, start: str) -> tuple[Hashable, int]:
        return self._check_step("start", self._call("start", start))

    def effect(self, piece: str) -> Hashable:
        return self._check_hashable("effect", self._call("effect", piece))

    def advance(self, state: Hashable, effect: Hashable) -> tuple[Hashable, int]:
        return self._check_step("advance", self._call("advance", state, effect))

    def score(self, state: Hashable) -> int:
        return self._check_integer("score", self._call("score", state))

    def find_range(self, state: Hashable) -> tuple[int | None, int | None]:
        # a class need not narrow the range
        if not isinstance(self._transducer, NarrowsRange):
            return None, None
        limits = self._call("find_range", state)
        if not isinstance(limits, tuple) or len(limits) != 2:
            raise ConfigError(f"{self._label}: find_range returned {limits!r}, not two limits")
        low, high = (
            None if limit is None else self._check_integer("find_range", limit) for limit in limits
        )
        return low, high

    def _call(self, method: str, *arguments: Hashable) -> Any:
        try:
            return getattr(self._transducer, method)(*arguments)
        except FOREIGN_ERRORS as error:
            call = f"{method}({', '.join(map(repr, arguments))})"
            problem = format_foreign_error(error, self._file)
            raise ConfigError(f"{self._label}: {call} raised {problem}") from error

    def _check_step(self, method: str, step: Any) -> tuple[Hashable, int]:
        if not isinstance(step, tuple) or len(step) != 2:
            raise ConfigError(
                f"{self._label}: {method} returned {step!r}, not a pair of a state and a count"
            )
        state, count = step
        return self._check_hashable(method, state), self._check_integer(method, count)

    def _check_hashable(self, method: str, value: Any) -> Hashable:
        try:
            hash(value)
        except TypeError as error:
            raise ConfigError(
                f"{self._label}: {method} returned {value!r}, which is not hashable; use a tuple"
            ) from error
        return value  # type: ignore[no-any-return]  # found out by `hash`

    def _check_integer(self, method: str, value: Any) -> int:
        if not is_integer(value):
            raise ConfigError(f"{self._label}: {method} returned {value!r}, not an integer")
        return int(value)


def is_integer(value: object) -> bool:
    """Return whether a value is an integer, also of NumPy, and no bool."""
    # bool is a subclass of int, but not a score
    return isinstance(value, Integral) and not isinstance(value, bool)


def read_declared_range(quantifier: Any) -> tuple[int | None, int | None]:
    """Return the range that a quantifier from outside this package declares.

    Raises:
        ConfigError: the range is missing, not of integers, or empty.
    """
    owner = type(quantifier).__name__
    limits = []
    for name in ("minimum", "maximum"):
        if not hasattr(quantifier, name):
            raise ConfigError(
                f"{owner}: {name} is missing; declare minimum and maximum, as integers or None "
                "for no limit"
            )
        value = getattr(quantifier, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise ConfigError(f"{owner}: {name} is {value!r}, neither an integer nor None")
        limits.append(value)
    low, high = limits
    if low is not None and high is not None and low > high:
        raise ConfigError(f"{owner}: minimum {low} is above maximum {high}; exchange them")
    return low, high


def format_foreign_error(error: BaseException, file: Path | None = None) -> str:
    """Format an error of code outside this package, with its line if known.

    Args:
        error: the exception.
        file: path of the file of that code.
    """
    description = f"{type(error).__name__}: {error}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    # only frames of the file: the last is the closest to the error
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"{description} (line {lines[-1]})" if lines else description


def _create_instance(file: Path, name: str) -> Quantifier:
    """Create an instance of a named class of a file."""
    module = _load_module(file)
    class_ = getattr(module, name, None)
    if not isinstance(class_, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        hint = did_you_mean(name, classes) or f"; it has {', '.join(classes) or 'none'}"
        raise ConfigError(f"class: {name!r} is not in {file}{hint}")
    # `callable` would be true for every class
    if "__call__" not in dir(class_):
        raise ConfigError(
            f"class: {name} of {file} lacks __call__(self, start, continuation); add it"
        )
    try:
        instance: Quantifier = class_()
    except FOREIGN_ERRORS as error:
        raise ConfigError(
            f"class: {name} of {file}: creating it without arguments raised "
            f"{format_foreign_error(error, file)}"
        ) from error
    return instance


def _find_imported_files(file: Path, found: set[Path]) -> list[Path]:
    """Find the modules in the folder of a file that it imports, directly or by one of them."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in filter(None, names):
            path = getattr(sys.modules.get(name), "__file__", None)
            is_near = path is not None and Path(path).absolute().parent == file.absolute().parent
            if path is not None and is_near and Path(path) not in found:
                found.add(Path(path))
                _find_imported_files(Path(path), found)
    return sorted(found - {file, file.absolute()})


def _load_module(file: Path) -> ModuleType:
    """Run a file and return it as a module.

    No bytecode is written or read, because it could be older than the file.
    """
    try:
        source = file.read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigError(f"file: {str(file)!r} cannot be read: {error}") from error
    module = ModuleType(f"llmchecker_own_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses search their module here
    try:
        exec(compile(source, str(file), "exec"), vars(module))
    except FOREIGN_ERRORS as error:
        raise ConfigError(
            f"file: importing {file} raised {format_foreign_error(error, file)}"
        ) from error
    return module
