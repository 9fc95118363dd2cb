"""Conversations of answers with thoughts, stops and calls, against an enumeration."""

import os
import random
from fractions import Fraction

import pytest
from helpers import oracle
from helpers.chat_tokenizers import build_tokenizer
from helpers.conversations import (
    TOOLS,
    ChatTable,
    Result,
    build_conversation,
    chat_table,
    enumerate_conversations,
)
from helpers.interval_watch import IntervalWatch
from helpers.marks import long
from helpers.questions import check_conversation
from helpers.random_tables import Balance, ReadBalance
from scipy.stats import binom

from llmchecker.checking.budget import Budget
from llmchecker.models.decoding.answer_format import AnswerFormat, ThoughtMarks
from llmchecker.models.decoding.answer_reader import AnswerReader, apply_reader
from llmchecker.models.decoding.call_formats import CALL_FORMATS, HarmonyCalls
from llmchecker.models.decoding.chat_template import Chat, encode_chat
from llmchecker.processes.conversation import Conversation, ScriptedTurn
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

SEEDS = int(os.environ.get("COVERAGE_SEEDS", "60"))
PIECES = ("(", "b)", "ba")
READERS = {
    "thought": AnswerReader(marks=ThoughtMarks("(", ")")),
    "split": AnswerReader(marks=ThoughtMarks("(b", ")b")),
    "open": AnswerReader(marks=ThoughtMarks("((", ")", is_open=True)),
    "stop": AnswerReader(("bab",), marks=ThoughtMarks("(", ")")),
    "included": AnswerReader(("bb)",), True, ThoughtMarks("(", ")", is_open=True)),
    "limited": AnswerReader(("bab",), marks=ThoughtMarks("(", ")"), max_tokens=2),
}
SECOND = ("atom", "turn", "=", 2)
FORMULAS = [
    ("F", None, ("&", SECOND, ("atom", "answer", ">", 0))),
    ("G", None, ("=>", ("atom", "thought", ">", 0), ("atom", "answer", "<=", 0))),
    ("X", ("atom", "thought", ">", 0)),
    ("F", None, ("&", ("label", "end"), ("atom", "answer", ">", 0))),
    ("F", None, ("G", None, ("atom", "output", "<=", 0))),
    ("U", None, ("atom", "thought", "<=", 0), ("&", SECOND, ("atom", "answer", "=", 0))),
]
TURNS = {"scripted": (["ab", "c{1}"], 3), "three": (["ab", "b{1}a", "{1}"], 1)}
HARMONY = next(each for each in CALL_FORMATS if isinstance(each, HarmonyCalls))
CALLING = (["ab", Result("b{1}")], 3)


def build_quantifiers(kind: type) -> dict:
    """A balance of letters in each part, by the name of the part."""
    letters = {"answer": ("b", "a"), "thought": ("b", "a"), "output": ("b", ")")}
    quantifiers = {part: kind(*pair) for part, pair in letters.items()}
    for part, each in quantifiers.items():
        each.of = part
    return quantifiers


def think(seed: int, reader: str, *, calls: bool = False, keeps: bool = False) -> ChatTable:
    """A table with a reader, whose template keeps the thoughts of earlier turns or drops them."""
    table = chat_table(seed, pieces=PIECES, calls=calls)
    table.keeps_thoughts = keeps
    return apply_reader(table, READERS[reader])


def ask(formula: tuple, length: int, quantifiers: dict) -> Property:
    query = parse(f"P=? [ {oracle.written(formula)} ]")
    named = {name: each for name, each in quantifiers.items() if name in query.variables}
    return Property(query, named, length)


@pytest.mark.parametrize("seed", [*range(20), *long(*range(20, 120))])
def test_bounds_contain_the_enumerated_truth(seed):
    """Bounds on thoughts and answers of each turn contain the truth after any passes, at last
    exactly, whether the template keeps the thoughts of earlier turns or drops them."""
    chance = random.Random(seed)
    reader = chance.choice(list(READERS))
    calls = chance.random() < 0.3
    turns, length = CALLING if calls else TURNS[chance.choice(list(TURNS))]
    model = think(seed, reader, calls=calls, keeps=chance.random() < 0.5)
    formula, kind = FORMULAS[seed % len(FORMULAS)], chance.choice([Balance, ReadBalance])
    quantifiers = build_quantifiers(kind)
    tree = enumerate_conversations(model, turns, length, quantifiers, READERS[reader])
    truth = tree.probability_of(("X", formula))
    conversation, _ = build_conversation(turns)
    for passes in (2, chance.randrange(5, 40), 10_000):
        budget = Budget(passes=passes, certain=chance.random() < 0.5, seed=seed)
        answer = check_conversation(model, conversation, ask(formula, length, quantifiers), budget)
        assert Fraction(answer.lower) <= truth <= Fraction(answer.upper)
    assert answer.upper - answer.lower < 1e-11


@pytest.mark.long
def test_intervals_cover_the_truth_at_all_times():
    """Misses at any time are not significantly more frequent than the confidence of 0.8 allows."""
    turns, length = TURNS["scripted"]
    quantifiers, formula = build_quantifiers(ReadBalance), FORMULAS[0]
    for seed in range(100):
        model = think(seed, "split", keeps=True)
        tree = enumerate_conversations(model, turns, length, quantifiers, READERS["split"])
        truth = float(tree.probability_of(("X", formula)))
        if 0.1 < truth < 0.9:
            break
    misses, samples = 0, 0
    for seed in range(SEEDS):
        watch = IntervalWatch(truth)
        budget = Budget(passes=60, confidence=0.8, seed=seed)
        asked = ask(formula, length, quantifiers)
        conversation, _ = build_conversation(turns)
        samples += check_conversation(model, conversation, asked, budget, watch=watch).samples
        misses += watch.has_missed
    assert binom.sf(misses - 1, SEEDS, 0.2) > 1e-4
    assert samples > 8 * SEEDS


def test_the_share_of_cut_thoughts_counts_earlier_turns():
    """The bounds on conversations whose first cut is within a thought contain the enumerated
    share, also if the cut is before the last turn."""
    turns, length = TURNS["scripted"]
    cut = ("&", ("atom", "cut", "=", 1), ("!", ("label", "end")))
    for seed in range(50):
        model, columns = think(seed, "thought"), {"cut": _Cut()}
        tree = enumerate_conversations(model, turns, length, columns, READERS["thought"])
        first = float(tree.probability_of(("X", cut)))
        second = float(tree.probability_of(("X", ("&", ("label", "end"), ("X", cut)))))
        if min(first, second) > 0.01:
            break
    conversation, _ = build_conversation(turns)
    # the score is never above 9, so that only whole conversations decide
    formula = ("F", None, ("&", SECOND, ("atom", "answer", ">", 9)))
    asked = ask(formula, length, build_quantifiers(ReadBalance))
    answer = check_conversation(model, conversation, asked, Budget(passes=10_000, certain=True))
    thought = answer.endings.thought
    assert thought.lower - 1e-9 <= first + second <= thought.upper + 1e-9
    assert thought.upper - thought.lower < 1e-6


class _Cut:
    """1 within a thought that has no end."""

    of, minimum, maximum = "output", 0, 1

    def __call__(self, start: str, text: str) -> int:
        return int(text.startswith("(") and ")" not in text)


QUESTION = {"role": "user", "content": "Is it warm?"}
TEMPLATES = {
    # as Qwen 3, which writes thoughts after the last message of the user alone
    "drops": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>"
    "{% if m.reasoning_content and loop.last %}<think>{% endif %}{% endfor %}</think>",
    "keeps": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>"
    "{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>{% endfor %}",
}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_gets_thoughts_apart_from_answers(name, is_open):
    """The prompt of a later turn is what transformers renders of structured thoughts, and a typed
    control token in a thought is encoded as text."""
    tokenizer = build_tokenizer(TEMPLATES[name])
    reader = AnswerReader(marks=ThoughtMarks("<think>", "</think>", is_open))
    raw = "I could.</think>\n\nYes." if is_open else "<think>\nI could.</think>\n\nYes."
    conversation = Conversation(
        Chat((("user", "Is it warm?"),)), (ScriptedTurn.parse("Why {answer 1}"),), reader
    )
    chat = conversation.build_chat([raw])
    assert chat.messages[1:] == (("assistant", "Yes."), ("user", "Why Yes."))
    answer = {"role": "assistant", "content": "Yes.", "reasoning_content": "I could."}
    messages = [QUESTION, answer, {"role": "user", "content": "Why Yes."}]
    expected = tokenizer.apply_chat_template(messages, tokenize=False)
    assert tokenizer.decode(encode_chat(tokenizer, chat, "model")) == expected
    assert ("I could." in expected) == (name == "keeps")
    typed = conversation.build_chat([raw.replace("could", "<|im_end|>")])
    assert encode_chat(tokenizer, typed, "model").count(tokenizer.eos_token_id) == 3


def test_thoughts_of_channels_are_messages_without_marks():
    """The thought of gpt-oss that a template gets is what its messages contain, and a call before
    the final channel stays a part of the answer."""
    marks = ThoughtMarks("<|channel|>", "final<|message|>")
    chat = Chat((("user", "Is it warm?"),), TOOLS, AnswerFormat(marks, HARMONY))
    reader = AnswerReader(marks=marks)
    analysis = "<|channel|>analysis<|message|>Why not?<|end|><|start|>assistant"
    asked = Conversation(chat, (ScriptedTurn.parse("Why?"),), reader)
    final = f"{analysis}<|channel|>final<|message|>Yes."
    assert asked.build_chat([final]).thoughts == ((1, "Why not?"),)
    assert asked.build_chat([final]).messages[1] == ("assistant", "Yes.")
    call = (
        f"{analysis}<|channel|>commentary to=functions.f <|constrain|>json<|message|>{{}}<|call|>"
    )
    called = Conversation(chat, (ScriptedTurn.parse("Warm.", "f"),), reader).build_chat([call])
    assert called.thoughts == ((1, "Why not?"),)
    assert called.as_json[2]["name"] == "f"
