"""The process of one answer after a start string or a chat."""

from collections.abc import Sequence
from functools import partial

from llmchecker.checking.answer import Answer, Evidence
from llmchecker.checking.anytime.checked_process import CheckedProcess
from llmchecker.checking.anytime.estimand import Estimand
from llmchecker.checking.anytime.explored_tree import ExploredTree
from llmchecker.checking.anytime.tree_export import build_scored_tree, list_sampled_texts
from llmchecker.checking.check import add_texts
from llmchecker.models.decoding.answer_format import find_answer_format
from llmchecker.models.decoding.answer_reader import find_prompt_reader
from llmchecker.models.decoding.chat_template import Start, describe_prompt_date
from llmchecker.models.decoding.settings import check_thinking, list_model_notes
from llmchecker.models.interface import LanguageModel
from llmchecker.processes.process import Part, Stage
from llmchecker.properties.logic.monitor import find_path_formulas
from llmchecker.properties.property import Property
from llmchecker.properties.quantifiers.interface import bind_quantifiers, check_parts

_MAX_SHOWN_TEXTS = 10_000
"""The largest number of texts of the tree that witnesses and pictures are taken from."""


class _WholeAnswer(Part):
    def __init__(self, stage: Stage, prompt: Sequence[int], messages: str | None) -> None:
        self.stage, self.messages, self.cut_count = stage, messages, 0
        self._prompt = tuple(prompt)

    @property
    def prompt(self) -> tuple[int, ...]:
        return self._prompt


class AnswerProcess(CheckedProcess):
    """The process of one answer.

    Args:
        model: the language model.
        start: the start string, or the chat.
        length: the largest number of tokens of the answer.

    Raises:
        UnusableText: the model cannot read the start, or its grammar excludes a thought that the
            start begins.
    """

    def __init__(self, model: LanguageModel, start: Start, length: int) -> None:
        self.model = model
        prompt = model.encode(start)
        # a template may begin the thought that the model goes on with
        reader = find_prompt_reader(model, start, prompt)
        if reader.marks is not None and reader.marks.is_open:
            check_thinking(model)
        self.stages = (Stage(model, 0, reader.limit_length(length), reader=reader),)
        self.notes = (*describe_prompt_date(model, start), *list_model_notes(model))
        self._answer_format = reader.adapt_format(find_answer_format(model, start))
        messages = None if isinstance(start, str) else start.as_text
        self.first = _WholeAnswer(self.stages[0], prompt, messages)

    def follow(self, part: Part, text: str, *, has_ended: bool, scores: Sequence[int]) -> Part:
        """Nothing follows the only part."""
        raise AssertionError("the end of an answer ends the text")

    def create_tree(self, asked: Property) -> ExploredTree:
        """Create the tree that a check of a query explores.

        Raises:
            ConfigError: a quantifier reads thoughts that the answers do not have.
        """
        check_parts(asked.quantifiers, self.stages[0].reader)
        quantifiers = bind_quantifiers(asked.quantifiers, self._answer_format)
        return ExploredTree(
            self, Estimand.from_query(asked), quantifiers, end_scores=asked.end_scores
        )

    def gather_evidence(self, tree: ExploredTree, asked: Property) -> Evidence:
        """Return the explored tree, and the sampled texts that it leaves out."""
        # the sums are the bounds, so that the tree only shows the most probable texts
        max_texts = _MAX_SHOWN_TEXTS if asked.has_sums else None
        return Evidence(
            partial(build_scored_tree, tree, max_texts),
            list_samples=partial(list_sampled_texts, tree),
        )

    def add_texts(self, answer: Answer, evidence: Evidence, seconds: float) -> Answer:
        """Return an answer with the sizes of its tree and its witnesses."""
        # a query that single texts do not decide has no formula of its own
        has_formula = len(find_path_formulas(answer.query)) == 1
        truth = evidence.truth[0] if has_formula else None
        return add_texts(answer, evidence.scored, seconds, truth)
