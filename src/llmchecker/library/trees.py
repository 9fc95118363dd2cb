"""Trees for a caller: grown in memory, turned into pandas frames, shown in notebooks."""

import base64
import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llmchecker.deployed.chat import Chat, Start
from llmchecker.deployed.decoding import Decoding, read_decoding
from llmchecker.errors import ConfigError
from llmchecker.library.answers import score
from llmchecker.publication import drawing
from llmchecker.trees.outlook import MOST_STATES, GrowthLimits, Watch
from llmchecker.trees.text_tree import Kind, TextTree, Truncation

if TYPE_CHECKING:
    import pandas as pd

    from llmchecker.models.protocols import LanguageModel

SUMMARY_ROWS = 10
"""The most texts that the summary of a large tree shows."""


class Tree(TextTree):
    """A `TextTree` that a notebook shows and that can be turned into a pandas frame."""

    @classmethod
    def of(cls, tree: TextTree) -> "Tree":
        """The same tree; its columns are shared, not copied."""
        return cls(**{field.name: getattr(tree, field.name) for field in fields(TextTree)})

    def __repr__(self) -> str:
        return (
            f"Tree(model={self.model!r}, start={self.start!r}, {self.truncation}, "
            f"states={len(self):,})"
        )

    def frame(self, **quantifiers: object) -> "pd.DataFrame":
        """All states as a frame with one row each, indexed by `uid` in breadth-first order.

        The columns are `parent` (a uid, missing for the root), `step` (tokens generated so far),
        `token` (the id of the last token, missing for the root and for `rest`), `probability`
        (given the parent), `path_probability` (from the root), `kind` (`text`, `rest` or `end`),
        `text` (the whole text, missing for `rest`), and the scores of each quantifier by its name
        (missing for `rest`).

        Args:
            quantifiers: quantifiers as in `score`, each under the name of its column.

        Raises:
            ConfigError: a name is that of another column, or `score` raises it.
        """
        import pandas as pd

        taken = {"parent", "step", "token", "probability", "path_probability", "kind", "text"}
        for name in quantifiers:
            if name in taken:
                raise ConfigError(
                    f"{name} is a column of every tree; give the quantifier another name"
                )
        whole = {name: pd.array(getattr(self, name), "Int64") for name in ("parent", "token")}
        columns = {
            "parent": whole["parent"],
            "step": self.step,
            "token": whole["token"],
            "probability": self.probability,
            "path_probability": self.path_probability,
            "kind": pd.Categorical.from_codes(self.kind, [kind.name.lower() for kind in Kind]),
            "text": pd.array(self.text, "string"),
        }
        frame = pd.DataFrame(columns, index=pd.RangeIndex(len(self), name="uid"))
        frame.loc[frame["parent"] < 0, "parent"] = pd.NA
        frame.loc[frame["token"] < 0, "token"] = pd.NA
        return frame.assign(**{name: score(self, given) for name, given in quantifiers.items()})

    def _repr_html_(self) -> str:
        """The tree as a picture if it is small enough to read, else its most probable texts."""
        if len(self) > drawing.MOST_DRAWN:
            return self._summary()
        # As an image, since the styles of an inline SVG would apply to the whole page.
        picture = base64.b64encode(drawing.svg(drawing.Drawing(self, {}, {})).encode()).decode(
            "ascii"
        )
        about = html.escape(f"What {self.model} writes after {self.start!r}")
        return (
            '<div style="overflow: auto; max-height: 40em">'
            f'<img style="max-width: none" alt="{about}" '
            f'src="data:image/svg+xml;base64,{picture}" /></div>'
        )

    def _summary(self) -> str:
        """A table of the most probable texts at which the tree ends, and of all `rest` together."""
        reached = self.path_probability
        ends = np.flatnonzero(~self.internal & (self.kind != Kind.REST))
        first = ends[np.argsort(-reached[ends], kind="stable")][:SUMMARY_ROWS]
        rest = reached[self.kind == Kind.REST].sum()
        rows = [(f"{reached[uid]:.4g}", drawing.printed(self.text[uid])) for uid in first]
        rows += [(f"{rest:.4g}", f"everything else ({self.truncation})")]
        cells = "".join(
            f'<tr><td>{probability}</td><td style="text-align: left">{html.escape(text)}</td></tr>'
            for probability, text in rows
        )
        shown = f"the {len(first)} most probable of {len(ends):,} texts"
        return (
            f"<p>{html.escape(self.model)}: {len(self):,} states; {shown}</p>"
            '<table><tr><th>probability</th><th style="text-align: left">text</th></tr>'
            f"{cells}</table>"
        )


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
    most_states: int = MOST_STATES,
) -> Tree:
    """Grow the tree of all texts that a bounded text generation process can write after a start.

    Args:
        model: a model that `load` returned.
        start: the start string, which the model continues; or messages, `{"role": "user",
            "content": "Is it so?"}` or `{"user": "Is it so?"}` each, which it answers as its chat
            template says.
        truncation: alpha, k and length together; None if these three are given by name.
        alpha: each step selects the most probable tokens until together they have this probability,
        k: but at most this many tokens.
        length: the number of steps.
        end_of_sequence: `terminal` ends a text at an end-of-sequence token, `ordinary` goes on.
        decoding: as in `load`, for this tree alone; by default that of the model.
        progress: called after every batch with the step, the number of nodes of that step that are
            expanded, and the number of all nodes of that step.
        most_states: a tree that is expected to have more states is not grown.

    Raises:
        ConfigError: the arguments do not go together, or are no text or no model, or the tree would
            be too large.
        InvalidBound: alpha is outside [0, 1]; k or length is below 1, not whole, or too large.
    """
    truncation = _truncation(truncation, {"alpha": alpha, "k": k, "length": length})
    if isinstance(model, str | Path) or not hasattr(model, "continuations"):
        raise ConfigError(f"{model!r} is not a language model; load(…) returns one")
    start = given_start(start)
    if end_of_sequence not in ("terminal", "ordinary"):
        raise ConfigError(f"end_of_sequence is {end_of_sequence!r}, not 'terminal' or 'ordinary'")
    # Imported here: torch takes seconds, for which reading a tree from a file need not wait.
    from llmchecker.trees import expansion

    if decoding is not None:
        from llmchecker.loading.models import decoded

        model = decoded(model, read_decoding(decoding))
    told = {} if progress is None else {"progress": progress}
    limits = GrowthLimits(states=most_states, seconds=math.inf)
    told["watch"] = Watch(model.name, truncation, limits, len(str(start)))
    return Tree.of(expansion.grow_tree(model, start, truncation, end_of_sequence, **told))


def given_start(given: object) -> Start:
    """The text or the messages that a caller gave as a start string.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(given, str | Chat):
        return given
    if not isinstance(given, list | tuple):
        raise ConfigError(f"the start string is {given!r}, which is not a text and no messages")
    try:
        return Chat.of(given)
    except ConfigError as error:
        raise ConfigError(f"the messages{': ' * (str(error)[0] != '[')}{error}") from error


def _truncation(given: Truncation | None, named: dict[str, float | None]) -> Truncation:
    absent = [name for name, value in named.items() if value is None]
    if given is None:
        if absent:
            raise ConfigError(
                f"grow needs {' and '.join(absent)} too, as in "
                "grow(model, start, alpha=0.8, k=4, length=3)"
            )
        return Truncation(**named)
    if len(absent) < len(named):
        raise ConfigError(f"grow takes a truncation or alpha, k and length, not both: {given}")
    if not isinstance(given, Truncation):
        raise ConfigError(f"the truncation is {given!r}; Truncation(alpha=…, k=…, length=…) is one")
    return given
