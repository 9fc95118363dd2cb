"""Nondeterministic automata of patterns (Thompson 1968), with lookarounds.

Characters are read by their class, which no atom of the pattern tells apart.
"""

from dataclasses import dataclass

from llmchecker.properties.transducers.alphabet import AlphabetPartition, depends_on_branch
from llmchecker.properties.transducers.patterns import (
    Alternatives,
    Anchor,
    Atom,
    LastLineEnd,
    Lookahead,
    Lookbehind,
    Repeat,
    Syntax,
    UnsupportedPattern,
    has_part,
    iter_parts,
)
from llmchecker.properties.transducers.patterns import Sequence as SequenceOf

_MAX_NODES = 5_000
"""Maximum nodes of a nondeterministic automaton."""
_MAX_STEPS = 5_000_000
"""Maximum steps over single nodes until all states are known, which take seconds."""
_MAX_ATOMS = 200

EDGE = -1
"""Class of the missing character before the start and after the end of a text."""
_ACCEPT = -1
"""Node at the end of a pattern."""
MATCHED = -2
"""Node of a match at an earlier position, or at the position itself."""

_WORD, _NEWLINE = Atom(r"\w"), Atom(r"\U0000000A")


@dataclass(frozen=True, slots=True)
class _Character:
    """Node that reads a character of one of the classes."""

    classes: frozenset[int]
    target: int


@dataclass(frozen=True, slots=True)
class _Branch:
    """Node that continues at each of its targets, in order of preference."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Guard:
    """Node that continues if the character before or after the position is in a class."""

    classes: frozenset[int]
    is_before: bool
    target: int


@dataclass(frozen=True, slots=True)
class _Look:
    """Node that continues if the following text matches, or does not match."""

    body: int
    is_negated: bool
    target: int


_Obligations = frozenset[tuple[int, frozenset["_Thread"]]]
"""Lookaheads that are not decided yet: the node of each, and its threads."""
_Thread = tuple[int, _Obligations]
Threads = frozenset[_Thread]
NO_OBLIGATIONS: _Obligations = frozenset()


class PatternNodes:
    """Nondeterministic automaton of a pattern.

    Attributes:
        partition: the classes of characters.
        start: the first node.

    Raises:
        UnsupportedPattern: the pattern is too large.
    """

    def __init__(self, syntax: Syntax) -> None:
        sets = (part for part in iter_parts(syntax) if isinstance(part, Atom))
        atoms = tuple(dict.fromkeys((*sets, _WORD, _NEWLINE)))
        if len(atoms) > _MAX_ATOMS:
            raise UnsupportedPattern(f"more than {_MAX_ATOMS} sets of characters")
        if has_part(syntax, Alternatives, Lookbehind) and any(map(depends_on_branch, atoms)):
            raise UnsupportedPattern("a set that, without regard to case, depends on alternatives")
        self.partition = AlphabetPartition(atoms)
        self._all = frozenset(range(self.partition.size))
        self._steps = 0
        self._nodes: list[_Character | _Branch | _Guard | _Look] = []
        self._closures: dict[tuple[int, int, int], list[_Thread]] = {}
        self.start = self._build(syntax, _ACCEPT)
        # classes that no condition on the character before tells apart have one representative
        guards = [node for node in self._nodes if isinstance(node, _Guard) and node.is_before]
        signatures: dict[tuple[bool, ...], int] = {}
        self.representatives = {
            before: signatures.setdefault(tuple(before in g.classes for g in guards), before)
            for before in (EDGE, *sorted(self._all))
        }

    def _add(self, node: _Character | _Branch | _Guard | _Look) -> int:
        if len(self._nodes) >= _MAX_NODES:
            raise UnsupportedPattern(f"more than {_MAX_NODES} nodes")
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _build(self, syntax: Syntax, target: int) -> int:
        """Build the nodes of a part that continue at a target; return the first node."""
        match syntax:
            case Atom():
                return self._add(_Character(self.partition.find_members(syntax), target))
            case Anchor(name):
                return self._build_anchor(name, target)
            # `(?=\n?\Z)`
            case LastLineEnd():
                end = self._add(_Guard(frozenset({EDGE}), False, _ACCEPT))
                newline = self.partition.find_members(_NEWLINE)
                body = self._add(_Branch((end, self._add(_Character(newline, end)))))
                return self._add(_Look(body, False, target))
            case SequenceOf(parts):
                for part in reversed(parts):
                    target = self._build(part, target)
                return target
            case Alternatives(parts):
                return self._add(_Branch(tuple(self._build(part, target) for part in parts)))
            case Repeat():
                return self._build_repeat(syntax, target)
            case Lookbehind(atoms, has_start, is_negated):
                members = frozenset({EDGE} if has_start else ()).union(
                    *map(self.partition.find_members, atoms)
                )
                classes = (self._all | {EDGE}) - members if is_negated else members
                return self._add(_Guard(classes, True, target))
            case Lookahead(part, is_negated):
                return self._add(_Look(self._build(part, _ACCEPT), is_negated, target))

    def _build_anchor(self, name: str, target: int) -> int:
        edge = frozenset({EDGE})
        newline = self.partition.find_members(_NEWLINE)
        word = self.partition.find_members(_WORD)
        other = (self._all | edge) - word
        match name:
            case r"\A":
                return self._add(_Guard(edge, True, target))
            case r"\Z":
                return self._add(_Guard(edge, False, target))
            case "(?m)^":
                return self._add(_Guard(edge | newline, True, target))
            case "(?m)$":
                return self._add(_Guard(edge | newline, False, target))
            # the others, \b and \B
            case _:
                sides = ((word, other), (other, word))
                if name == r"\B":
                    sides = ((word, word), (other, other))
                return self._add(
                    _Branch(
                        tuple(
                            self._add(_Guard(before, True, self._add(_Guard(after, False, target))))
                            for before, after in sides
                        )
                    )
                )

    def _build_repeat(self, repeat: Repeat, target: int) -> int:
        def choose(again: int) -> _Branch:
            return _Branch((target, again) if repeat.is_lazy else (again, target))

        if repeat.maximum is None:
            loop = self._add(_Branch(()))
            first = self._build(repeat.part, loop)
            self._nodes[loop] = choose(first)
        else:
            loop = target
            for _ in range(repeat.maximum - repeat.minimum):
                loop = self._add(choose(self._build(repeat.part, loop)))
        for _ in range(repeat.minimum):
            first = self._build(repeat.part, loop)
            # a part without nodes may be repeated very often
            if first == loop:
                break
            loop = first
        return loop

    def follow(self, node: int, before: int, after: int) -> list[_Thread]:
        """Follow a node at a position and over the character after it.

        Args:
            before: class of the character before the position.
            after: class of the character after the position.

        Returns:
            The threads after the character, or `MATCHED` at the position, in order of preference.
        """
        key = (node, before, after)
        if key not in self._closures:
            self._closures[key] = self._follow(*key)
        self._count_steps(1 + len(self._closures[key]))
        return self._closures[key]

    def _count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MAX_STEPS:
            raise UnsupportedPattern(f"more than {_MAX_STEPS} steps")

    def _follow(self, first: int, before: int, after: int) -> list[_Thread]:
        threads: list[_Thread] = []
        stack: list[_Thread] = [(first, NO_OBLIGATIONS)]
        visited: set[_Thread] = set()
        while stack:
            thread = stack.pop()
            if thread in visited:
                continue
            visited.add(thread)
            number, obligations = thread
            if number in (_ACCEPT, MATCHED):
                threads.append((MATCHED, obligations))
                continue
            match self._nodes[number]:
                case _Character(classes, target):
                    if after in classes:
                        threads.append((target, obligations))
                case _Branch(targets):
                    stack += [(target, obligations) for target in reversed(targets)]
                case _Guard(classes, is_before, target):
                    if (before if is_before else after) in classes:
                        stack.append((target, obligations))
                case _Look(body, _, target):
                    body_thread = frozenset({(body, NO_OBLIGATIONS)})
                    added = self._advance_look(number, body_thread, before, after)
                    if added is not None:
                        stack.append((target, obligations | added))
        self._count_steps(len(visited))
        return threads

    def _advance_look(
        self, number: int, threads: Threads, before: int, after: int
    ) -> _Obligations | None:
        """Advance a lookahead over a character; return what remains, or None if it fails."""
        look = self._nodes[number]
        assert isinstance(look, _Look)
        next_threads, is_accepted = self.advance(threads, before, after)
        if is_accepted or not next_threads:
            return None if is_accepted == look.is_negated else NO_OBLIGATIONS
        return frozenset({(number, next_threads)})

    def advance(self, threads: Threads, before: int, after: int) -> tuple[Threads, bool]:
        """Advance threads over a character.

        Returns:
            The threads after the character, and whether one of them accepts at the position before
            it.
        """
        next_threads: set[_Thread] = set()
        is_accepted = False
        for node, obligations in threads:
            remaining = self._advance_obligations(obligations, before, after)
            if remaining is None:
                continue
            for target, added in self.follow(node, before, after):
                thread = (target, remaining | added)
                if thread == (MATCHED, NO_OBLIGATIONS):
                    is_accepted = True
                else:
                    next_threads.add(thread)
        return frozenset(next_threads), is_accepted

    def _advance_obligations(
        self, obligations: _Obligations, before: int, after: int
    ) -> _Obligations | None:
        remaining = NO_OBLIGATIONS
        for number, threads in obligations:
            added = self._advance_look(number, threads, before, after)
            if added is None:
                return None
            remaining |= added
        return remaining
