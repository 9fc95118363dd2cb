"""Processes that a query is checked on: how their texts are explored and shown."""

from abc import abstractmethod

from llmchecker.checking.answer import Answer, Evidence
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.processes.process import Process
from llmchecker.properties.property import Property


class CheckedProcess(Process):
    """A process whose texts a query is about.

    Attributes:
        notes: notes on every answer, as on the date in a prompt.
        turn_count: the number of turns of a conversation; None for one answer.
    """

    notes: tuple[str, ...] = ()
    turn_count: int | None = None

    @abstractmethod
    def create_tree(self, asked: Property) -> ExploredTree:
        """Create the tree that a check of a query explores; only its root at first."""

    @abstractmethod
    def gather_evidence(self, tree: ExploredTree, asked: Property) -> Evidence:
        """Return what a query's answer is computed from, without its samples."""

    @abstractmethod
    def add_texts(self, answer: Answer, evidence: Evidence, seconds: float) -> Answer:
        """Return an answer with its witnesses.

        Args:
            answer: an answer with bounds.
            evidence: as of `gather_evidence`.
            seconds: the seconds before, which count as encoding.
        """
