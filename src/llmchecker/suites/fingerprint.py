"""Fingerprints of cases: what a case asks, without the deployment that answers.

They find the stored result of a case. The generated name of a case contains its threshold and its
place in the file, which may change; a name from the suite file stays.

A difference from stored results is one of deployments, so both sides must ask the same. The model,
the decoding and the system prompt may differ, and so may a threshold, the budget, the seed and the
confidence: an interval of a probability depends on none of these.
"""

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from llmchecker.errors import InvalidQuery
from llmchecker.models.decoding.chat_template import Chat, start_as_json
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.quantifier_state import hash_quantifiers
from llmchecker.suites.cases import Case, CaseKey, Suite
from llmchecker.suites.conversations import describe_turns
from llmchecker.utils.json_digest import compute_json_digest


@dataclass(frozen=True, config=ConfigDict(strict=True))
class CaseFingerprint:
    """What a case asks.

    Attributes:
        prompt: sha256 of the prompt, without the system prompt of the deployment.
        query: the query, with `P=?` in place of a threshold.
        length: the horizon in tokens.
        quantifiers: sha256 of the settings and files of each quantifier, by name.
        prompt_name, requirement_name: the names that the suite file gives to the prompt and to the
            requirement; empty without these.

    Raises:
        ValueError: a value has another type, as in a damaged file.
    """

    prompt: str
    query: str
    length: int
    quantifiers: Mapping[str, str]
    prompt_name: str
    requirement_name: str

    @property
    def requirement(self) -> Hashable:
        """What is asked of an answer to any prompt, of any length."""
        return _parse_query(self.query), frozenset(self.quantifiers.items())

    @property
    def question(self) -> Hashable:
        """What is asked."""
        return self.prompt, self.length, self.requirement

    def has_names_of(self, stored: "CaseFingerprint") -> bool:
        """Return whether no name of the suite file differs from that of a stored fingerprint."""
        pairs = (
            (self.prompt_name, stored.prompt_name),
            (self.requirement_name, stored.requirement_name),
        )
        return all(own == other or "" in (own, other) for own, other in pairs)

    def list_differences(self, stored: "CaseFingerprint") -> list[str]:
        """List the parts in which a stored fingerprint differs, as `length 6 → 8`."""
        is_same_query = _parse_query(self.query) == _parse_query(stored.query)
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


class Fingerprints(Mapping[CaseKey, CaseFingerprint]):
    """The fingerprint of each case of a suite, computed on access.

    Args:
        suite: the suite.

    Raises:
        LLMCheckerError: on access, a quantifier cannot be created.
        OSError: on access, a file of a quantifier cannot be read.
    """

    def __init__(self, suite: Suite) -> None:
        self._project = suite.project
        self._cases = {case.key: case for case in suite.cases}

    def __getitem__(self, key: CaseKey) -> CaseFingerprint:
        case = self._cases[key]
        # paths in the settings of a configuration are relative to the project
        with contextlib.chdir(self._project):
            return CaseFingerprint(
                prompt=compute_json_digest(_describe_prompt(case)),
                query=" ".join(case.measure().question.query.text.split()),
                length=case.question.length,
                quantifiers=hash_quantifiers(case.question.asked.quantifiers),
                prompt_name=case.given_names[0],
                requirement_name=case.given_names[1],
            )

    def __iter__(self) -> Iterator[CaseKey]:
        return iter(self._cases)

    def __len__(self) -> int:
        return len(self._cases)


def match_cases(
    own: Mapping[str, CaseFingerprint], stored: Mapping[str, CaseFingerprint]
) -> dict[str, str]:
    """Match cases of a deployment with stored ones.

    A case has the stored one that asks the same and whose names in the suite file do not differ:
    that of its name, or else the first that is left, in the order of both. Other cases have the
    stored one of their name, or one that differs only in its length, so that the difference can be
    named.

    Args:
        own, stored: the fingerprints of the cases by name.

    Returns:
        The name of the stored case by that of the case, for those that have one.
    """
    found: dict[str, str] = {}
    keys: tuple[Callable[[str, CaseFingerprint], Hashable], ...] = (
        lambda name, each: (name, each.question),
        lambda _, each: each.question,
        lambda name, _: name,
        lambda _, each: (each.prompt, each.requirement),
    )
    for key in keys:
        used = set(found.values())
        groups: dict[Hashable, list[str]] = {}
        for name, each in stored.items():
            if name not in used:
                groups.setdefault(key(name, each), []).append(name)
        for name, each in own.items():
            group = groups.get(key(name, each), []) if name not in found else []
            matches = (other for other in group if each.has_names_of(stored[other]))
            if (match := next(matches, None)) is not None:
                group.remove(match)
                found[name] = match
    return found


@lru_cache(maxsize=1024)
def _parse_query(text: str) -> Hashable:
    """Return a value that is equal for queries equal but for spaces and parentheses."""
    try:
        return parse(text).root
    # another version may have stored a query that this one rejects
    except InvalidQuery:
        return text


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
