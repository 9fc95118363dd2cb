"""Original C texts, as other verifiers and a compiler read them.

An `OriginalText` contains the text itself, and the facts that a harness needs. The frontend's own
program is not involved.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmchecker.errors import ProgramError
from loop_invariants.frontend.acsl_assertions import has_contract
from loop_invariants.frontend.error_names import ErrorNames
from loop_invariants.frontend.preprocessing.source_files import (
    read_included_headers,
    read_source,
)
from loop_invariants.frontend.preprocessing.translation_phases import ERROR_FUNCTION
from loop_invariants.frontend.syntax_tree import parse_c
from loop_invariants.frontend.text_facts import TextFacts
from loop_invariants.ir.expressions import Type
from loop_invariants.ir.instrumentation import Property

_LABEL_MARK = f"if ({ERROR_FUNCTION}()) ; else"
"""Beginning of a statement that reports the label before it as an error."""

_CODE_OR_LABEL = r"""
    (?P<skipped>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | /\*.*?\*/ | //[^\n]*)
    | (?P<case>\bcase\b[^:;]*:)
    | (?P<label>(?<![\w?.])NAMES\s*:(?!:))
"""


@dataclass(frozen=True)
class OriginalText:
    """A C text as written, with the facts about it.

    Attributes:
        name: name of the program.
        source: the C text.
        sibling_files: texts of the included headers in the same folder, by name.
        required_property: property to prove.
        error_names: further names of errors.
        inputs: types of the results of the input functions, by name.
        check_types: types of the first parameters of declared functions, by name; an undeclared
            function has an int.
        defined_functions: functions that the text defines.
        called_functions: functions that `main` calls, directly or through others.
        is_annotated: whether ACSL annotations are a part of the property.
    """

    name: str
    source: str
    sibling_files: Mapping[str, str]
    required_property: Property
    error_names: ErrorNames
    inputs: Mapping[str, Type]
    check_types: Mapping[str, Type]
    defined_functions: frozenset[str]
    called_functions: frozenset[str]
    is_annotated: bool

    @property
    def marked_source(self) -> str:
        """The text, with `_LABEL_MARK` after each label that names an error."""
        return _mark_labels(self.source, self.error_names)


def _mark_labels(source: str, error_names: ErrorNames) -> str:
    names = "|".join(sorted(error_names.labels))
    if not names:
        return source
    pattern = re.compile(
        _CODE_OR_LABEL.replace("NAMES", rf"(?:{names})"), flags=re.DOTALL | re.VERBOSE
    )

    def mark(match: re.Match[str]) -> str:
        return f"{match.group()} {_LABEL_MARK}" if match["label"] else match.group()

    return pattern.sub(mark, source)


def read_original_text(
    path: Path, required_property: Property, error_names: ErrorNames
) -> OriginalText | None:
    """Read the original text of a program; None if the parser rejects it.

    Args:
        path: path of the file.
        required_property: property to prove.
        error_names: further names of errors.
    """
    try:
        source = read_source(path)
        siblings = read_included_headers(path, source)
        return build_original_text(path.stem, source, required_property, error_names, siblings)
    except (ProgramError, RecursionError):
        return None


def build_original_text(
    name: str,
    source: str,
    required_property: Property,
    error_names: ErrorNames,
    sibling_files: Mapping[str, str],
) -> OriginalText:
    """Build the original text of a program from its C text.

    Raises:
        ProgramError: the parser rejects the text.
        RecursionError: the text is nested too deeply.
    """
    unit = parse_c(_mark_labels(source, error_names), f"{name}.c", sibling_files)
    facts = TextFacts(unit, error_names)
    return OriginalText(
        name,
        source,
        sibling_files,
        required_property,
        error_names,
        facts.inputs,
        facts.find_check_types(),
        frozenset(facts.functions),
        facts.called_functions,
        is_annotated=facts.is_annotated or has_contract(source),
    )
