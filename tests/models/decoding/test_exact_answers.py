"""What SmolLM2 is asked as it is deployed has exact answers, by the quantifiers of config.yaml."""

from pathlib import Path

import pytest

import llmchecker as lc
from llmchecker.config.config import Config

QUANTIFIERS = Config.read(Path(__file__).parents[3] / "config.yaml").quantifiers

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def decoded(smollm2):
    """SmolLM2 at temperature 0.2 and top-p 0.9."""
    return lc.load(smollm2, decoding={"temperature": 0.2, "top_p": 0.9})


@pytest.mark.parametrize(
    ("name", "query", "said", "length", "expected"),
    [
        ("yes", "P=? [ F yes = 1 ]", "Is Paris in France? Answer yes or no.", 5, 0),
        ("no", "P=? [ F no = 1 ]", "Is Paris in France? Answer yes or no.", 5, 1),
        (
            "name_given",
            "P=? [ F name_given = 2 ]",
            'Reply with a JSON object with the key name, such as {"name": "Ada"}.',
            40,
            1,
        ),
    ],
)
def test_few_passes_answer_exactly(name, query, said, length, expected, decoded):
    """At temperature 0.2 and top-p 0.9 lower and upper bound are one number."""
    asked = {name: QUANTIFIERS[name]}
    answer = lc.ask(
        query, decoded, [{"user": said}], length=length, passes=100, certain=True, **asked
    )
    assert answer.lower == answer.upper == pytest.approx(expected, abs=1e-12)
    assert answer.passes < 100
