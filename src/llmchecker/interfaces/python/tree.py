"""Trees of the Python library: building, pandas frames, notebook views."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from llmchecker.checking.answer import Answer
from llmchecker.checking.conversations import answer_tree
from llmchecker.config.models import read_decoding
from llmchecker.config.prompt import parse_prompt
from llmchecker.errors import ConfigError, InvalidBound, prefix_errors
from llmchecker.interfaces.python.scorers import Scorer, score
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.end_of_sequence import apply_end_of_sequence
from llmchecker.reporting.conversation_drawing import ConversationDrawing
from llmchecker.reporting.tree_drawing import MAX_DRAWN_STATES, Drawing
from llmchecker.trees.growth_forecast import MAX_STATES, GrowthLimits, GrowthMonitor
from llmchecker.trees.text_tree import StateKind, TextTree, Truncation
from llmchecker.utils.number_format import format_count

if TYPE_CHECKING:
    import pandas as pd

    from llmchecker.checking.conversations.explored_conversation import ExploredConversation
    from llmchecker.models.interface import LanguageModel


_MAX_ANSWERS = 100
"""The largest number of answers of a conversation that are drawn."""


class Tree(TextTree):
    """A `TextTree` with a notebook view, a drawing and a conversion to a pandas frame."""

    @classmethod
    def from_text_tree(cls, tree: TextTree) -> "Tree":
        """Return the same tree as this class; both share their columns."""
        return cls(**{field.name: getattr(tree, field.name) for field in fields(TextTree)})

    def __repr__(self) -> str:
        return (
            f"Tree(model={self.model!r}, start={self.start!r}, {self.truncation}, "
            f"states={len(self):,})"
        )

    def frame(self, **quantifiers: Scorer) -> "pd.DataFrame":
        """Return a frame of all states, indexed by `uid` in breadth-first order.

        The columns of a state are:

        - `parent`: the uid of its parent, missing for the root;
        - `step`: number of generated tokens;
        - `token`: the id of the last token, missing for the root and for `rest`;
        - `probability`: given the parent;
        - `path_probability`: from the root;
        - `kind`: `text`, `rest` or `end`;
        - `text`: the whole text, missing for `rest`;
        - the scores of each quantifier by its name, missing for `rest`.

        Args:
            quantifiers: quantifiers as in `score`, each under the name of its column.

        Raises:
            ConfigError: a quantifier has the name of another column, or `score` raises it.
        """
        import pandas as pd

        reserved_names = {
            "parent",
            "step",
            "token",
            "probability",
            "path_probability",
            "kind",
            "text",
        }
        for name in quantifiers:
            if name in reserved_names:
                raise ConfigError(
                    f"{name}: every tree has a column of this name; rename the quantifier"
                )
        # pandas has no missing value in a plain integer column.
        integer_columns = {
            name: pd.array(getattr(self, name), "Int64") for name in ("parent", "token")
        }
        kinds = pd.Index([kind.name.lower() for kind in StateKind])
        columns = {
            "parent": integer_columns["parent"],
            "step": self.step,
            "token": integer_columns["token"],
            "probability": self.probability,
            "path_probability": self.path_probability,
            "kind": pd.Categorical.from_codes(self.kind, kinds),
            "text": pd.array(list(self.text), "string"),
        }
        frame = pd.DataFrame(columns, index=pd.RangeIndex(len(self), name="uid"))
        # A negative number marks a missing parent or token in the tree.
        frame.loc[frame["parent"] < 0, "parent"] = pd.NA
        frame.loc[frame["token"] < 0, "token"] = pd.NA
        return frame.assign(
            **{name: score(self, quantifier) for name, quantifier in quantifiers.items()}
        )

    def draw(self, answer: Answer | None = None, *, max_states: int = 40) -> Drawing:
        """Draw the most probable states, each with the text that it adds.

        Args:
            answer: an answer on this tree, whose deciding texts have a colour; None for no colour.
            max_states: maximum number of states in the drawing.

        Returns:
            The drawing, which a notebook shows.

        Raises:
            InvalidBound: `max_states` is below 1, or too large for a readable drawing.
        """
        if not 1 <= max_states <= MAX_DRAWN_STATES:
            raise InvalidBound(f"max_states: {max_states} is not from 1 to {MAX_DRAWN_STATES}")
        witnesses = () if answer is None else answer.witnesses
        kinds = {witness.uid: witness.kind for witness in witnesses}
        return Drawing(self, {}, kinds, max_states=max_states)

    def _repr_html_(self) -> str:
        """Return the most probable states as an HTML image."""
        return self.draw(max_states=MAX_DRAWN_STATES)._repr_html_()


@dataclass(frozen=True, repr=False)
class AnswerTree:
    """The answers of a conversation, with a notebook view and files for model checkers.

    Attributes:
        answers: the most probable answers, up to those that decide the query.
        explored: the conversation, of which all answers can be explored.
    """

    answers: answer_tree.AnswerTree
    explored: "ExploredConversation"

    def __len__(self) -> int:
        """Return the number of states, of which the first one is before the first answer."""
        return len(self.answers)

    def __repr__(self) -> str:
        turns = format_count(len(self.answers.turns), "turn")
        return f"AnswerTree(model={self.answers.model!r}, {turns}, states={len(self):,})"

    def _repr_html_(self) -> str:
        """Return a drawing of the answers as an HTML image."""
        return ConversationDrawing.from_answers(self.answers)._repr_html_()

    def write_prism(self, path: str | Path) -> None:
        """Write all conversations as a PRISM program, whose variable `turn` counts the answers.

        This explores them to their last answer, whatever the query needs.

        Args:
            path: the file.

        Raises:
            CheckFailed: the conversations are too many.
        """
        # imported here, because torch and Storm take seconds to load
        from llmchecker.checking.conversations import conversation_files

        conversation_files.write_prism(self.explored, path)

    def write_jani(self, path: str | Path) -> None:
        """Write all conversations as a JANI model, as in `write_prism`."""
        # imported here, as in `write_prism`
        from llmchecker.checking.conversations import conversation_files

        conversation_files.write_jani(self.explored, path)


def find_tree(answer: Answer) -> Tree | AnswerTree | None:
    """Find the tree that was built for the bounds of an answer of `ask`.

    For a conversation it has the most probable answers.

    Returns:
        None for an answer on a tree, for texts alone, and for a copy or a file of an answer.
    """
    if (evidence := answer.evidence) is None:
        return None
    if (explored := evidence.conversation) is not None:
        return AnswerTree(explored.build_tree(_MAX_ANSWERS), explored)
    return None if evidence.explore is None else Tree.from_text_tree(evidence.scored.tree)


def grow(
    model: "LanguageModel",
    start: str | Sequence[Mapping[str, str]],
    truncation: Truncation | None = None,
    *,
    alpha: float | None = None,
    k: int | None = None,
    length: int | None = None,
    end_of_sequence: Literal["terminal", "ordinary"] = "terminal",
    decoding: str | Mapping[str, Any] | Decoding | None = None,
    progress: Callable[[int, int, int], None] | None = None,
    most_states: int = MAX_STATES,
) -> Tree:
    """Build the tree of a bounded text generation process.

    Args:
        model: a model that `load` returned.
        start: the start string, which the model continues; or messages to answer in its chat
            template, `{"role": "user", "content": "Is it so?"}` or `{"user": "Is it so?"}` each.
        truncation: alpha, k and length together; None if these three are arguments.
        alpha: each step selects the most probable tokens until their probability reaches alpha.
        k: maximum number of selected tokens in a step.
        length: number of steps.
        end_of_sequence: `terminal` if an end-of-sequence token ends a text, `ordinary` if not.
        decoding: as in `load`, for this tree only; by default the decoding of the model.
        progress: a function that receives the progress after every batch: the step, and its numbers
            of expanded nodes and of all nodes.
        most_states: maximum number of states; a tree with a larger forecast is rejected.

    Raises:
        ConfigError: the arguments contradict each other or have a wrong type, or the tree would be
            too large.
        InvalidBound: alpha is outside [0, 1]; k or length is below 1, not whole, or too large.
    """
    truncation = _select_truncation(truncation, alpha, k, length)
    # `load` accepts a path; `grow` needs the model that `load` returns.
    if isinstance(model, str | Path) or not hasattr(model, "open_prefix"):
        raise ConfigError(f"model: {model!r} is not a language model; call load(…)")
    prompt = parse_prompt(start)
    # Imported here, because torch takes seconds to load, which reading a tree need not wait for.
    from llmchecker.trees import expansion

    if decoding is not None:
        from llmchecker.models.transformers.load import apply_decoding

        with prefix_errors("decoding"):
            parsed_decoding = read_decoding(decoding)
        model = apply_decoding(model, parsed_decoding)
    model = apply_end_of_sequence(model, end_of_sequence)
    options: dict[str, Any] = {} if progress is None else {"progress": progress}
    limits = GrowthLimits(max_states=most_states, max_seconds=math.inf)
    options["monitor"] = GrowthMonitor(model.name, truncation, limits, len(str(prompt)))
    return Tree.from_text_tree(expansion.build_tree(model, prompt, truncation, **options))


def _select_truncation(
    truncation: Truncation | None, alpha: float | None, k: int | None, length: int | None
) -> Truncation:
    parameters = {"alpha": alpha, "k": k, "length": length}
    missing_names = [name for name, value in parameters.items() if value is None]
    if truncation is None:
        if alpha is None or k is None or length is None:
            raise ConfigError(
                f"grow: {' and '.join(missing_names)} missing; call grow(model, start, "
                "alpha=0.8, k=4, length=3)"
            )
        return Truncation(alpha, k, length)
    # A second truncation by name would contradict the first.
    if len(missing_names) < len(parameters):
        raise ConfigError(
            f"grow: alpha, k or length contradict {truncation}; give a truncation or alpha, "
            "k and length"
        )
    if not isinstance(truncation, Truncation):
        raise ConfigError(
            f"truncation: {truncation!r} is not a truncation; use Truncation(alpha=…, k=…, "
            "length=…)"
        )
    return truncation
