"""The commands `tree` and `check` with alpha and k: text, JSON or drawing."""

import logging
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llmchecker.checking import formatting, witnesses
from llmchecker.checking.markov import dtmc
from llmchecker.interfaces.cli.arguments import CheckRequest
from llmchecker.interfaces.cli.tree_cache import CachedTree, load_or_build_tree
from llmchecker.models.decoding.chat_template import start_as_json
from llmchecker.models.decoding.settings import decoding_as_json
from llmchecker.properties import scores
from llmchecker.reporting import tree_drawing
from llmchecker.trees.text_tree import TextTree

if TYPE_CHECKING:
    from llmchecker.checking.verdict import Verdict


@dataclass(frozen=True)
class _AnsweredRequest:
    """A request, its answer, and the times of this run.

    Attributes:
        request: the request.
        cached_tree: the tree of the answer.
        verdict: the answer; its `encode_seconds` include the expansion, the scoring and the
            construction of the chain, as far as this run did them.
        scoring_seconds: duration of the scoring by all quantifiers of the query, in seconds.
    """

    request: CheckRequest
    cached_tree: CachedTree
    verdict: "Verdict"
    scoring_seconds: float


def run_check(request: CheckRequest) -> _AnsweredRequest:
    """Answer the query of a request on its tree.

    Raises:
        LLMCheckerError: the model cannot be fetched or loaded, or the query cannot be answered.
    """
    cached_tree = load_or_build_tree(request)
    tree = cached_tree.tree
    start_time = time.monotonic()
    values = _score_tree(request, tree)
    scoring_seconds = time.monotonic() - start_time
    # Imported here, because Storm takes a second to load, which would delay --help and errors.
    from llmchecker.checking.check import check_query

    ranges = request.checked_query.ranges
    verdict = check_query(
        tree, values, request.query, ranges, cached_tree.seconds + scoring_seconds
    )
    return _AnsweredRequest(request, cached_tree, verdict, scoring_seconds)


def draw_tree(request: CheckRequest) -> tree_drawing.Drawing:
    """Draw the tree of a request; with a query, also scores and deciding states.

    Raises:
        InvalidBound: the tree is too large to draw.
        LLMCheckerError: the model cannot be fetched or loaded.
    """
    tree = load_or_build_tree(request).tree
    # Before the scoring, which can take long for a tree that is too large anyway.
    tree_drawing.check_drawable(tree)
    # Without a query, the drawing has no scores and no marks.
    if request.query is None:
        return tree_drawing.Drawing(tree, {}, {})
    values = _score_tree(request, tree)
    if not witnesses.has_witnesses(request.query):
        logging.info("no single text decides a query of this form, so no state is marked")
    chain = dtmc.build_dtmc(tree, values)
    deciding_states = witnesses.find_witnesses(tree, chain, request.query, max_witnesses=None)
    return tree_drawing.Drawing(
        tree, values, {witness.uid: witness.kind for witness in deciding_states}
    )


def _score_tree(request: CheckRequest, tree: TextTree) -> dict[str, np.ndarray]:
    """Return the scores of all states for each quantifier of the query, by name."""
    values = {}
    for name, quantifier in request.checked_query.quantifiers.items():
        logging.info("scoring %d states: %s", len(tree), name)
        values[name] = scores.score_tree(quantifier, tree, name)
    return values


def format_check_json(answer: _AnsweredRequest) -> dict[str, Any]:
    """Return the fields of verdict and request; an unknown bound is null."""
    request, cached_tree = answer.request, answer.cached_tree
    details = {
        "model": request.model.name,
        "decoding": decoding_as_json(request.model.decoding),
        "start": start_as_json(request.start),
        "alpha": request.truncation.alpha,
        "k": request.truncation.k,
        "L": request.truncation.length,
        "tree": str(cached_tree.path),
        "growing_seconds": cached_tree.seconds,
        "scoring_seconds": answer.scoring_seconds,
        **formatting.describe_decision(answer.verdict.decision),
    }
    return asdict(answer.verdict) | details


def describe_check_costs(answer: _AnsweredRequest) -> dict[str, str]:
    """Return the seconds and the tree of an answer as texts, each by its name."""
    cached_tree = answer.cached_tree
    # A tree from the cache took no time in this run.
    growth_text = (
        f"growing {cached_tree.seconds:.1f}" if cached_tree.seconds else "tree from the cache"
    )
    return {
        "seconds": f"{growth_text}, scoring {answer.scoring_seconds:.1f}, "
        f"checking {answer.verdict.check_seconds:.1f}",
        "tree": str(cached_tree.path),
    }


def format_check_text(answer: _AnsweredRequest) -> str:
    """Format the answer as text: a line for each figure, then deciding texts."""
    request, verdict = answer.request, answer.verdict
    figures = formatting.build_verdict_rows(verdict)
    rows = {
        "query": figures.pop("query"),
        "model": f"{request.model.display_name()}, {request.truncation}",
        "text": request.formatted_start,
        **figures,
        **describe_check_costs(answer),
    }
    return formatting.format_rows_as_text(rows, verdict)
