"""Files of conversations: Storm's own front end finds the probabilities of the package."""

import pytest
from helpers.conversations import chat_table
from helpers.marks import long
from helpers.questions import check_conversation
from helpers.random_tables import Balance, Spoilt

from llmchecker.checking import storm
from llmchecker.checking.budget import Budget
from llmchecker.checking.conversations import conversation_files
from llmchecker.errors import UnknownName
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.processes.conversation import Conversation, ScriptedTurn
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

QUANTIFIERS = {"balance": Balance("a", "b"), "spoilt": Spoilt("c", "a")}
TURNS = [ScriptedTurn.parse(text) for text in ("c{answer 1}a", "b{answer 1}")]
FORMULAS = [
    "G spoilt = 0",
    "F balance > 0",
    "X (spoilt = 0)",
    "G (turn = 2 => balance > 0)",
    '(spoilt = 0) U (balance > 0 & "end")',
    'F ("end" & (X !"end"))',
    "F (G (spoilt = 0 | balance > 0))",
    'G ("end")',
    "F (turn + balance > 2)",
]


def check(seed: int, formula: str, turn_count: int = 2, length: int = 2, quantifiers=QUANTIFIERS):
    query = parse(f"P=? [ {formula} ]")
    named = {name: each for name, each in quantifiers.items() if name in query.variables}
    return check_conversation(
        chat_table(seed, is_truncated=True),
        Conversation(Chat((("user", "ab"),)), tuple(TURNS[: turn_count - 1])),
        Property(query, named, length),
        Budget(passes=10_000),
    )


def ask_storm(path, formula: str) -> float:
    """The probability that Storm finds for a formula about the first answer and those after it."""
    check_file = storm.check_prism if path.suffix == ".prism" else storm.check_jani
    return check_file(path, parse(f"P=? [ X ({formula}) ]")).value


@pytest.mark.parametrize("seed", [*range(12), *long(*range(12, 60))])
def test_storm_finds_the_probability_of_an_exact_conversation(seed, tmp_path):
    """Both files give the sum of the package, for formulas with turns, scores and ends."""
    formula, turn_count = FORMULAS[seed % len(FORMULAS)], 2 + seed % 2
    answer = check(seed, formula, turn_count, length=3 - turn_count % 2 - (turn_count == 3))
    assert answer.certain.width < 1e-11
    conversation_files.write_prism(answer.evidence.conversation, tmp_path / "c.prism")
    conversation_files.write_jani(answer.evidence.conversation, tmp_path / "c.jani")
    for name in ("c.prism", "c.jani"):
        assert ask_storm(tmp_path / name, formula) == pytest.approx(answer.estimate, abs=1e-11)


def test_texts_of_a_conversation_are_data_of_its_file(tmp_path):
    """A message with line breaks and code of PRISM stays in a comment."""
    turns = (ScriptedTurn.parse('c\nendmodule "quoted" */ {answer 1}'),)
    conversation = Conversation(Chat((("user", "ab\nmodule x"),)), turns)
    asked = Property(parse("P=? [ F balance > 0 ]"), {"balance": QUANTIFIERS["balance"]}, 1)
    model = chat_table(1, is_truncated=True)
    answer = check_conversation(model, conversation, asked, Budget(passes=1000))
    conversation_files.write_prism(answer.evidence.conversation, tmp_path / "c.prism")
    found = ask_storm(tmp_path / "c.prism", "F balance > 0")
    assert found == pytest.approx(answer.estimate, abs=1e-11)
    assert "  turn : [0..2] init 0;" in (tmp_path / "c.prism").read_text().splitlines()


def test_a_quantifier_with_the_name_of_a_variable_is_refused(tmp_path):
    """The file has the variable has_ended, so that no quantifier can have this name."""
    answer = check(2, "F has_ended > 0", quantifiers={"has_ended": QUANTIFIERS["balance"]})
    with pytest.raises(UnknownName, match="quantifier 'has_ended': the file of a conversation"):
        conversation_files.write_jani(answer.evidence.conversation, tmp_path / "c")
