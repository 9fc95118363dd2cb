"""Fingerprints of cases: what a case asks, without the deployment that answers.

A difference from stored results is one of deployments, so both sides must ask the same. The model,
the decoding and the system prompt may differ, and so may a threshold, the budget, the seed and the
confidence: an interval of a probability depends on none of these.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from llmchecker.errors import InvalidQuery
from llmchecker.models.decoding.chat_template import Chat, start_as_json
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifier_state import hash_quantifiers
from llmchecker.suites.cases import Case, CaseKey, Suite
from llmchecker.suites.conversations import describe_turns


@dataclass(frozen=True, config=ConfigDict(strict=True))
class CaseFingerprint:
    """What a case asks.

    Attributes:
        prompt: sha256 of the prompt, without the system prompt of the deployment.
        query: the query, with `P=?` in place of a threshold.
        length: the horizon in tokens.
        quantifiers: sha256 of the settings and files of each quantifier, by name.

    Raises:
        ValueError: a value has another type, as in a damaged file.
    """

    prompt: str
    query: str
    length: int
    quantifiers: Mapping[str, str]

    def list_differences(self, stored: "CaseFingerprint") -> list[str]:
        """List the parts in which a stored fingerprint differs, as `length 6 → 8`."""
        is_same_query = _is_same_query(self.query, stored.query)
        # the query names its quantifiers, so another query explains other names
        names = self.quantifiers.keys() & stored.quantifiers.keys()
        return [
            *(["prompt"] if self.prompt != stored.prompt else []),
            *([] if is_same_query else [f"query {stored.query} → {self.query}"]),
            *([f"length {stored.length} → {self.length}"] if self.length != stored.length else []),
            *(
                f"quantifier {name}"
                for name in sorted(names)
                if self.quantifiers[name] != stored.quantifiers[name]
            ),
        ]


def compute_fingerprints(suite: Suite) -> dict[CaseKey, CaseFingerprint]:
    """Compute the fingerprint of each case.

    Raises:
        LLMCheckerError: a quantifier cannot be created.
        OSError: a file of a quantifier cannot be read.
    """
    # paths in the settings of a configuration are relative to the project
    with contextlib.chdir(suite.project):
        return dict(_iter_fingerprints(suite))


def _iter_fingerprints(suite: Suite) -> Iterator[tuple[CaseKey, CaseFingerprint]]:
    for case in suite.cases:
        quantifiers = case.question.checked_query.quantifiers
        yield (
            case.key,
            CaseFingerprint(
                prompt=_compute_digest(_describe_prompt(case)),
                query=" ".join(case.measure().question.query.text.split()),
                length=case.question.truncation.length,
                quantifiers=hash_quantifiers(quantifiers),
            ),
        )


def _is_same_query(first: str, second: str) -> bool:
    """Return whether two queries are equal but for spaces and parentheses."""
    if first == second:
        return True
    try:
        return parse(first).root == parse(second).root
    # another version may have stored a query that this one rejects
    except InvalidQuery:
        return False


def _describe_prompt(case: Case) -> Any:
    """Return the prompt as JSON, without the system prompt of the deployment."""
    start = case.question.prompt
    # a system prompt in `messages` is a part of the prompt
    has_system = case.deployment.system is not None
    if has_system and isinstance(start, Chat) and start.messages[0][0] == "system":
        start = replace(start, messages=start.messages[1:])
    if (conversation := case.question.conversation) is not None:
        return [start_as_json(start), describe_turns(conversation)]
    return start_as_json(start)


def _compute_digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
