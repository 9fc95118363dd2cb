"""The texts of an explored tree as a tree of texts, for witnesses, pictures and Storm."""

import numpy as np

from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.decided_mass import UNDECIDED
from llmchecker.checking.markov.scored_tree import ScoredTree
from llmchecker.checking.witnesses import (
    COUNTEREXAMPLE,
    CUT,
    ENDED,
    OPEN,
    SAMPLE,
    WITNESS,
    Witness,
)
from llmchecker.properties.quantifiers.interface import collect_ranges
from llmchecker.properties.scores import split_text
from llmchecker.trees.text_tree import (
    NO_TOKEN,
    Horizon,
    StateKind,
    TextTree,
    sort_breadth_first,
)


def build_scored_tree(
    explored: ExploredTree, max_texts: int | None = None
) -> tuple[ScoredTree, np.ndarray]:
    """Return the scored texts of an explored tree as a tree, and its truth.

    The tokens of a text that have no row become its `rest`. The scores come from the quantifiers'
    plain calls. The truth, (formulas, n), is what the texts decided while they were explored.

    Args:
        explored: the explored tree.
        max_texts: the largest number of texts, the most probable ones; None for all.

    Raises:
        ConfigError: a transducer and its quantifier disagree.
    """
    is_used = explored.is_listed & explored.is_scored
    if max_texts is not None and is_used.sum() > max_texts:
        # stable: a text comes after its parent, which is at least as probable
        order = np.argsort(-np.where(is_used, explored.mass, -1.0), kind="stable")
        is_used[order[max_texts:]] = False
    rest = np.where(is_used, explored.rest, 0.0)
    left_out = np.flatnonzero(
        explored.is_listed & ~is_used & np.append(False, is_used[explored.parent[1:]])
    )
    np.add.at(rest, explored.parent[left_out], explored.probability[left_out])
    # without any child a text is all `rest`
    has_children = np.zeros(len(explored), dtype=bool)
    has_children[explored.parent[is_used][1:]] = True
    rest = np.where(has_children, rest, 1.0)
    rows = np.flatnonzero(is_used)
    rest_parents = np.flatnonzero(is_used & ~explored.is_terminal & (rest > 0))
    n, m = len(rows), len(rest_parents)
    step = np.concatenate([explored.step[rows], explored.step[rest_parents] + 1])
    position = np.cumsum(is_used) - 1
    # a `rest` comes after its siblings, because its row comes after all texts
    order, parent = sort_breadth_first(
        np.concatenate([[-1], position[explored.parent[rows[1:]]], position[rest_parents]]), step
    )
    texts = np.full(n + m, None, dtype=object)
    plain = np.zeros((len(explored.quantifiers), n + m), dtype=np.int64)
    for depth in np.unique(explored.step[rows]):
        part = np.flatnonzero(explored.step[rows] == depth)
        texts[part], plain[:, part] = explored.score_plainly(rows[part])
    kind = np.select(
        [explored.find_limited()[rows], explored.has_ended[rows]],
        [StateKind.MAX_TOKENS, StateKind.END],
        StateKind.TEXT,
    )
    tree = TextTree(
        model=explored.model_name,
        truncation=Horizon(explored.length),
        parent=parent,
        step=step[order],
        token=np.concatenate([explored.token[rows], np.full(m, NO_TOKEN)])[order],
        probability=np.concatenate([explored.probability[rows], rest[rest_parents]])[order],
        kind=np.append(kind, np.full(m, StateKind.REST)).astype(np.int8)[order],
        text=texts[order],
        messages=explored.messages,
        marks=explored.parts[0].stage.reader.marks,
    )
    # a `rest` has no score; callers ignore its placeholder
    scores = dict(zip(explored.quantifiers, plain[:, order], strict=True))
    truth = np.pad(explored.truth[:, rows], ((0, 0), (0, m)), constant_values=UNDECIDED)[:, order]
    return ScoredTree(tree, scores, collect_ranges(explored.quantifiers)), truth


def list_sampled_texts(explored: ExploredTree, max_texts: int) -> tuple[Witness, ...]:
    """List texts that may be too improbable for the tree of `build_scored_tree`.

    These are the longest texts that the model evaluated, which decide nothing so far, and decided
    texts, also with a token that a server does not list.

    Args:
        explored: the explored tree of a query with one path formula.
        max_texts: the largest number of texts of each kind.
    """
    (truth,) = explored.truth
    kinds = {
        WITNESS: truth == 1,
        COUNTEREXAMPLE: truth == 0,
        # the root is no answer
        SAMPLE: explored.is_undecided & explored.is_visited & (explored.step > 0),
    }
    texts: list[Witness] = []
    for kind, is_kind in kinds.items():
        rows = np.flatnonzero(is_kind & explored.is_scored)
        # the most probable that decide, or the longest that decide nothing
        keys = [-explored.step[rows], -explored.mass[rows]]
        order = np.lexsort(keys[:: -1 if kind == SAMPLE else 1])
        for row in rows[order[:max_texts]].tolist():
            (text,) = explored.decode(np.array([row]))
            start, _ = split_text(explored.start_text, text)
            has_ended = bool(explored.has_ended[row])
            is_cut = explored.step[row] == explored.length
            texts.append(
                Witness(
                    uid=row,
                    text=text,
                    probability=float(explored.mass[row]),
                    kind=kind,
                    rest=False,
                    kept=len(start),
                    ending=ENDED if has_ended else CUT if is_cut else OPEN,
                    scores={
                        name: int(score)
                        for name, score in zip(
                            explored.quantifiers, explored.scores[:, row], strict=True
                        )
                        # a judge of whole answers has no score of a beginning
                        if has_ended or is_cut or name not in explored.end_scores
                    },
                )
            )
    return tuple(texts)
