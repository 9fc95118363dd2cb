"""The start string of a chat: what quantifiers read is the same with every access to a model."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.byte_texts import TokenTable, byte_level
from helpers.fake_server import FakeServer, running
from helpers.served_models import connected
from helpers.text_sampler import TextSampler

import llmchecker as lc
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.properties.quantifiers.interface import Quantifier
from llmchecker.properties.quantifiers.length import Length
from llmchecker.properties.quantifiers.pattern import Pattern
from llmchecker.properties.quantifiers.similarity import Similarity
from llmchecker.properties.quantifiers.word_count import Words

MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Is he"}]
VISIBLE = "system: Be short.\nuser: Is he\n"
ANSWER = "he said"
TEMPLATE = (
    "{{ '<s>You are Bot.' }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[bot]{% endif %}"
)
LENGTH = 12


def build_model() -> TokenTable:
    """A model with a chat template, which answers `ANSWER` letter by letter."""
    tokenizer = byte_level()
    tokenizer.chat_template = TEMPLATE
    script = [tokenizer.convert_tokens_to_ids("Ġ" if c == " " else c) for c in ANSWER]
    script.append(tokenizer.eos_token_id)
    prompt_length = 0

    def distribution(text: tuple[int, ...]) -> list[float]:
        row = [0.0] * len(tokenizer)
        position = len(text) - prompt_length
        # a server is asked about other prompts too before it is used
        row[script[position] if 0 <= position < len(script) else script[-1]] = 1.0
        return row

    model = TokenTable(tokenizer, distribution)
    prompt_length = len(model.encode(Chat.from_messages(MESSAGES)))
    return model


def ask_all(tmp_path: Path, build: Callable[[], Mapping[str, Quantifier]], query: str) -> list[Any]:
    """The answers about the model in process, behind a server, and as texts alone."""
    model = build_model()
    model.tokenizer.save_pretrained(tmp_path / "tokenizer")
    limits = {"length": LENGTH, "passes": 60}
    answers = [lc.ask(query, model, MESSAGES, **build(), **limits)]
    server = FakeServer(model, model.tokenizer, "vllm")
    with running(server) as address:
        served = connected(tmp_path, server, address)
        answers.append(lc.ask(query, served, MESSAGES, **build(), **limits))
    sampler = TextSampler(lambda stream, chance: (ANSWER, True), 0)
    answers.append(lc.ask(query, sampler, MESSAGES, **build(), length=LENGTH, answers=40))
    return answers


class Recorder:
    """A quantifier that keeps what it reads."""

    minimum, maximum = 0, 1

    def __init__(self) -> None:
        self.read: set[tuple[str, str]] = set()

    def __call__(self, start: str, continuation: str) -> int:
        self.read.add((start, continuation))
        return 0


def test_quantifiers_read_the_visible_messages_with_every_access(tmp_path: Path) -> None:
    """The start string of a chat is its messages, and never the text of a template."""
    recorders: list[Recorder] = []

    def build() -> dict[str, Quantifier]:
        recorders.append(Recorder())
        return {"q": recorders[-1]}

    ask_all(tmp_path, build, "P=? [ F (G q = 0) ]")
    assert len(recorders) == 3
    for recorder in recorders:
        assert {start for start, _ in recorder.read} == {VISIBLE}
        assert (VISIBLE, ANSWER) in recorder.read


QUANTIFIERS: dict[str, tuple[Quantifier, int]] = {
    "similarity": (Similarity([VISIBLE + ANSWER]), 100),
    "answer_similarity": (Similarity([ANSWER], of="continuation"), 100),
    "matches": (Pattern(r"(?m)^he said", of="text"), 1),
    "has_template": (Pattern("Bot|bot", of="text"), 0),
    "words": (Words(["he", "said"], of="text"), 3),
    "answer_words": (Words(["he", "said"]), 2),
    "characters": (Length("characters", of="text"), len(VISIBLE + ANSWER)),
}
QUERY = " & ".join(f"{name} = {expected}" for name, (_, expected) in QUANTIFIERS.items())


def build_quantifiers() -> dict[str, Quantifier]:
    """All quantifiers by their names."""
    return {name: quantifier for name, (quantifier, _) in QUANTIFIERS.items()}


def test_every_access_gives_the_scores_of_the_messages(tmp_path: Path) -> None:
    """Quantifiers that read the start score an answer equally in process, served and as text."""
    for answer in ask_all(tmp_path, build_quantifiers, f"P=? [ F (G ({QUERY})) ]"):
        found = answer.lower if answer.sampled is None else answer.sampled.estimate
        assert found == pytest.approx(1)


def test_a_tree_of_a_chat_keeps_its_messages(tmp_path: Path) -> None:
    """The scores of a stored tree are those of the messages, also after it was read again."""
    tree = lc.grow(build_model(), MESSAGES, alpha=1, k=2, length=LENGTH)
    tree.write(tmp_path / "tree.parquet")
    for each in (tree, lc.Tree.read(tmp_path / "tree.parquet")):
        answer = lc.check(f"P=? [ F (G ({QUERY})) ]", each, **build_quantifiers())
        assert answer.lower == answer.upper == 1
