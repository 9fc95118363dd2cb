"""Parts that models in the languages PRISM and JANI share."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from llmchecker.errors import UnknownName
from llmchecker.properties.logic.ast import Atom, Literal, is_variable_name


@dataclass(frozen=True)
class Answers:
    """What the file of a conversation contains in addition: its states are answers.

    Attributes:
        description: what the states and variables are, a line each.
        has_ended: (n,) bool, the answers that the model ended, which "end" names.
    """

    description: tuple[str, ...]
    has_ended: np.ndarray


def check_variable_names(names: Iterable[str], language: str) -> None:
    """Check that each quantifier's name can be a variable of a language.

    Raises:
        UnknownName: a name cannot, and would make the whole file unreadable.
    """
    for name in names:
        if not is_variable_name(name):
            raise UnknownName(
                f"quantifier {name!r}: not the name of a variable in {language}; rename it"
            )


def format_known_atom(proposition: Atom | Literal, is_known: str) -> str:
    """Return an expression for an atom: false in `rest` if it is unknown there.

    Args:
        proposition: an atom or a truth value.
        is_known: the condition of a state that is not `rest`.
    """
    if isinstance(proposition, Literal):
        return str(proposition)
    if proposition.is_step_only:
        # the step is known in `rest` too
        return f"({proposition})"
    return f"({is_known} & {proposition})"
