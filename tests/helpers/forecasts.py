"""Questions that are undecided at a random budget, with their forecast and what they needed."""

import math
import random
from dataclasses import dataclass

from helpers.anytime_checks import spread_model
from helpers.questions import check_anytime
from helpers.random_tables import READ_QUANTIFIERS, START
from helpers.text_sampler import TextSampler

from llmchecker.checking.answer import Answer
from llmchecker.checking.anytime.text_estimator import TextEstimator
from llmchecker.checking.anytime.threshold_evidence import ThresholdEvidence
from llmchecker.checking.budget import Budget
from llmchecker.models.table_model import TableModel
from llmchecker.models.text_answer import Finish, TextAnswer
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property

FORMULAS = ["F (gender > {})", "F (polarity < -{})", "G (gender < {})", "F G (gender > 0)"]
MOST_ANSWERS, MOST_PASSES = 10_000, 4_000


@dataclass(frozen=True)
class Trial:
    """An undecided answer, and the passes or answers that a larger budget needed."""

    answer: Answer
    needed: float

    @property
    def used(self) -> int:
        """The passes or answers of the undecided answer."""
        return self.answer.costs.answers or self.answer.passes

    @property
    def is_near(self) -> bool:
        """Whether the forecast is within a factor of two of what was needed."""
        passes = self.answer.forecast.passes
        return passes / 2 <= self.needed <= 2 * passes

    @property
    def is_in_range(self) -> bool:
        """Whether what was needed is in the range of the forecast."""
        forecast = self.answer.forecast
        return forecast.least_passes <= self.needed <= (forecast.most_passes or math.inf)


def check_coin(bits: list[bool], threshold: float, confidence: float) -> Answer:
    """Return the answer of a model of texts alone, whose answers satisfy a formula or not."""
    asked = Property(parse(f"P<={threshold} [ F gender > 0 ]"), READ_QUANTIFIERS, 5)
    budget = Budget(answers=len(bits), passes=1, confidence=confidence)
    estimator = TextEstimator(TextSampler(lambda *_: ("", True), 0), START, asked, budget)
    for bit in bits:
        estimator.add(TextAnswer("a" if bit else "b", Finish.ENDED), float(bit), {})
    return estimator.build_answer(len(bits))


def try_coin(seed: int) -> Trial | None:
    """Return the trial of a random coin; None if the budget decides it."""
    chance = random.Random(repr(("coin", seed)))
    threshold = chance.choice([0.01, 0.05, 0.1, 0.5, 0.8, 0.9, 0.95])
    confidence = chance.choice([0.95, 0.99, 0.9995])
    probability = move(threshold, chance, -1.0, 0.5)
    count = round(10 ** chance.uniform(1, 3))
    evidences = [ThresholdEvidence((1 - confidence) / 2, sign, threshold) for sign in (1, -1)]
    bits: list[bool] = []
    while len(bits) < MOST_ANSWERS:
        bits.append(chance.random() < probability)
        for evidence in evidences:
            evidence.add(float(bits[-1]))
        if any(evidence.has_refuted_threshold for evidence in evidences):
            break
    else:
        bits.append(False)
    if len(bits) <= count:
        return None
    needed = math.inf if len(bits) > MOST_ANSWERS else len(bits)
    return Trial(check_coin(bits[:count], threshold, confidence), needed)


def try_table(seed: int) -> Trial | None:
    """Return the trial of a random table; None if the budget decides it."""
    chance = random.Random(repr(("table", seed)))
    table, length, memory = spread_model(seed), chance.randrange(3, 21), chance.choice([3, 5, 8])
    # the end is improbable, so that texts are long
    rows: dict[tuple[int, ...], list[float]] = {}

    def distribution(tokens: tuple[int, ...]) -> list[float]:
        if (key := tokens[-memory:]) not in rows:
            first, *others, end = table.distribution(key)
            rows[key] = [first + end / 2, *others, end / 2]
        return rows[key]

    model = TableModel(table.vocabulary, distribution, table.end_tokens)
    formula = chance.choice(FORMULAS).format(chance.randrange(1, max(2, length // 3)))
    budget = Budget(passes=600, confidence=chance.choice([0.9, 0.99, 0.999]))

    def check(query: str, passes: int, number: int) -> Answer:
        asked = Property(parse(f"{query} [ {formula} ]"), READ_QUANTIFIERS, length)
        limits = Budget(passes=passes, confidence=budget.confidence, seed=number)
        return check_anytime(model, START, asked, limits)

    estimate = check("P=?", budget.passes, 99).estimate
    if estimate is None or not 0.002 < estimate < 0.998:
        return None
    threshold = float(f"{move(estimate, chance, -1.0, 0.5):.3g}")
    if not 0 < threshold < 1:
        return None
    query = f"P{chance.choice(['>=', '<='])}{threshold}"
    answer = check(query, int(10 ** chance.uniform(1.7, 3.3)), 1)
    if answer.holds is not None or answer.forecast is None:
        return None
    longer = check(query, MOST_PASSES, 1)
    return Trial(answer, math.inf if longer.holds is None else longer.passes)


def move(probability: float, chance: random.Random, least: float, most: float) -> float:
    """Return a probability at a random distance in logits, between two powers of 10."""
    logit = math.log(probability / (1 - probability))
    moved = logit + chance.choice([-1, 1]) * 10 ** chance.uniform(least, most)
    return 1 / (1 + math.exp(-moved))
