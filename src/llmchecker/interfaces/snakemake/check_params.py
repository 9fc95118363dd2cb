"""Params of rules for queries: trees, checks and table rows as plain values.

Snakemake detects changes of plain values between runs, but not of other objects.
"""

from collections.abc import Mapping
from typing import Any

from llmchecker.config.plan import Check, TableRow, TreeSpec
from llmchecker.interfaces.snakemake.model_params import describe_decoding, parse_decoding_param
from llmchecker.properties.logic.parser import parse
from llmchecker.trees.text_tree import Horizon, Truncation


def describe_tree(tree: TreeSpec) -> dict[str, Any]:
    """Describe a tree as plain values."""
    return {
        "model": tree.model,
        "start": tree.start,
        "cut": dict(vars(tree.truncation)),
        "decoding": describe_decoding(tree.decoding),
    }


def parse_tree(described: Mapping[str, Any]) -> TreeSpec:
    """Return the tree that `describe_tree` described."""
    settings = described["cut"]
    # Only a tree has alpha and k.
    truncation = Truncation(**settings) if "alpha" in settings else Horizon(**settings)
    decoding = parse_decoding_param(described["decoding"])
    return TreeSpec(described["model"], described["start"], truncation, decoding)


def describe_check(check: Check) -> dict[str, Any]:
    """Describe a check by its tree and the text of its query."""
    return {"tree": describe_tree(check.tree), "query": check.query.text}


def parse_check(described: Mapping[str, Any]) -> Check:
    """Return the check that `describe_check` described."""
    return Check(parse_tree(described["tree"]), parse(described["query"]))


def describe_row(row: TableRow) -> dict[str, Any]:
    """Describe a row of a table by its texts and its check."""
    return {"label": row.label, "interest": row.interest, "check": describe_check(row.check)}


def parse_row(described: Mapping[str, Any]) -> TableRow:
    """Return the row that `describe_row` described."""
    return TableRow(described["label"], described["interest"], parse_check(described["check"]))
