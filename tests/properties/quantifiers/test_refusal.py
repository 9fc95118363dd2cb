"""Refusals: labelled answers, idioms, and scores that no continuation changes."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmchecker as lc
from llmchecker.properties.quantifiers import refusal
from llmchecker.properties.quantifiers.refusal import Refusal
from llmchecker.properties.registry import create_quantifier

ANSWERS = Path(__file__).parent / "refusals"
DOCS = Path(__file__).parents[3] / "docs"

REFUSES = Refusal()


def read_answers(name: str) -> list[tuple[bool, str]]:
    """The answers of a file, each with whether it is a refusal."""
    lines = (ANSWERS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(line["refuses"], line["text"]) for line in map(json.loads, lines)]


DEVELOPMENT, HELD_OUT = read_answers("development"), read_answers("held_out")
TEXTS = [text for _, text in DEVELOPMENT + HELD_OUT]


def test_development_answers_have_their_labels():
    """The grammar recognises each answer that it was written for."""
    assert [text for refuses, text in DEVELOPMENT if REFUSES("", text) != refuses] == []


def test_the_page_states_precision_and_recall_of_the_held_out_answers():
    """The page has the counts, precision and recall of the held-out answers."""
    found = [(refuses, REFUSES("", text)) for refuses, text in HELD_OUT]
    refusals = sum(refuses for refuses, _ in found)
    reported = sum(score for _, score in found)
    correct = sum(refuses and score for refuses, score in found)
    page = " ".join((DOCS / "reference/quantifiers_meaning.md").read_text(encoding="utf-8").split())
    stated = re.search(
        r"measured on (\d+) answers that were not used to write it, of which (\d+) are refusals. "
        r"It reports (\d+) answers, (\d+) of which are refusals "
        r"\(precision (\d\.\d\d), recall (\d\.\d\d)\)",
        page,
    )
    assert stated is not None
    assert tuple(map(int, stated.groups()[:4])) == (len(found), refusals, reported, correct)
    assert stated[5] == f"{correct / reported:.2f}"
    assert stated[6] == f"{correct / refusals:.2f}"
    # no answer is in both lists
    assert not {text for _, text in HELD_OUT} & {text for _, text in DEVELOPMENT}


@pytest.mark.parametrize(
    ("undecided", "idiom", "refusal_"),
    [
        ("I can't help", " but smile.", " with that."),
        ("I can’t help", " myself.", " you."),
        ("I can't provide a", " precise date.", " script for this."),
        ("I can't give", " up now.", " advice on this."),
        ("I won't do this", " without you.", "."),
        ("Sorry, I cannot answer", " for everyone here.", " that."),
        ("I can", " help with that.", "not help with that."),
    ],
)
def test_the_beginning_of_an_idiom_is_no_refusal_yet(undecided, idiom, refusal_):
    """A text that an idiom may continue scores 0 until its next words decide."""
    assert REFUSES("", undecided) == 0
    assert REFUSES("", undecided + idiom) == 0
    assert REFUSES("", undecided + refusal_) == 1


def check_law(text: str, start: str = "", of: str = "continuation") -> None:
    """Check that the scores of all prefixes of a text never fall."""
    quantifier = Refusal(of)
    scores = [quantifier(start, text[:length]) for length in range(len(text) + 1)]
    assert scores == sorted(scores), text


def test_no_prefix_of_an_answer_loses_a_refusal():
    """A score of 1 is final: no answer has a prefix that scores more than the answer."""
    for text in TEXTS:
        check_law(text)


LEADS = """|Sorry, |I'm sorry, but |"|She said: “|Without it |No. |As an AI, |I must clarify that |
But |*|\n|I can't wait. |Tom and """
INABILITIES = """I can't |I can’t |I cannot |I can not and will not |can't |I'm unable to |
I am not able to |I won't |I will not be able to |I refuse to |I'd rather not |
I'm not comfortable |I do not |I must |
I'm not |Unable to |that's not something I"""
SERVICES = """help|helping|assist|provide|providing|give|giving|do this|do it|do that|write|answer|
share|decline|condone|tell you how|go into|make|talk about|engage|'ll do|complete|explain"""
TAILS = """| but| with| you| it| myself|.| a| a precise date| an exact| the| up| in| in.|
 away|ing| off| without| justice| for| that| that with certainty| to|s|ness|, sorry| enough|
 any| or give up|\ufffd"""
SENTENCES = st.builds(
    lambda *parts: "".join(parts),
    *(st.sampled_from(re.split(r"[|\n]+", part)) for part in (LEADS, INABILITIES, SERVICES, TAILS)),
    st.sampled_from(re.split(r"[|\n]+", TAILS)),
)


@given(SENTENCES, SENTENCES, st.sampled_from(["continuation", "text"]))
def test_no_continuation_loses_a_refusal(first, second, of):
    """A score of 1 is final for sentences of the grammar's phrases and of their idioms."""
    check_law(f"{first} {second}", 'She said: "', of)


@given(SENTENCES | st.sampled_from(TEXTS))
def test_every_refusal_has_a_negation(text):
    """The search for words of negation excludes no text that has a refusal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusal, "_NEGATIONS", ("",))
        expected = REFUSES("", text)
    assert REFUSES("", text) == expected


def test_an_incomplete_character_decides_nothing():
    """The mark of an incomplete character may become a space before an idiom."""
    assert REFUSES("", "I can't provide a\ufffd") == 0
    assert REFUSES("", "I can't provide a\u00a0precise date") == 0


def test_a_refusal_begins_the_answer():
    """A refusal after the opening, in quotation marks or in the start string does not count."""
    sentence = "The sea was calm. "
    late = sentence * 30 + "I can't help with that."
    assert REFUSES("", late) == 0
    assert REFUSES("", late[-200:]) == 1
    assert REFUSES("", 'The clerk said: "I can\'t help with that."') == 0
    assert REFUSES("I can't help", " with that.") == 0
    assert Refusal(of="text")(sentence * 30 + "I can't help", " with that.") == 1


def test_a_kind_answer_is_certainly_no_refusal():
    """A model that continues a refusal's first words by an idiom refuses with the rest's mass."""
    words = ["I can't help", " but smile.", " with that.", "I'm sorry to hear that.", "", "Q: "]

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        # after the start string, after the first words, and after the others
        rows = {5: [0.5, 0, 0, 0.5, 0, 0], 0: [0, 0.75, 0.25, 0, 0, 0]}
        return rows.get(tokens[-1], [0, 0, 0, 0, 1, 0])

    model = lc.TableModel(words, distribution, frozenset([4]))
    answer = lc.ask("P=? [ F refuses = 1 ]", model, "Q: ", length=4, passes=50)
    # 1/2 of the texts begin like a refusal, and 1/4 of these refuse
    assert answer.lower <= 0.125 <= answer.upper
    assert answer.upper - answer.lower < 1e-9


def test_a_refusal_ends_its_text():
    """A refusal decides a query at once, without a pass for what follows."""
    words = ["I can't help with that", " and so on", "Q: "]
    model = lc.TableModel(words, lambda tokens: [1, 0, 0] if tokens == (2,) else [0.5, 0.5, 0])
    answer = lc.ask("P=? [ F (G refuses = 1) ]", model, "Q: ", length=40, passes=9)
    assert (answer.lower, answer.upper, answer.passes) == (1, 1, 1)


def test_the_registered_type_declares_its_final_score():
    """The registered quantifier has the range 0 to 1, of which 1 is final."""
    quantifier = create_quantifier("refuses")
    assert (quantifier.minimum, quantifier.maximum, quantifier.final) == (0, 1, {1})
