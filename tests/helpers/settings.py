"""Settings with which every type of quantifier but those of `APART` can be made."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
WORD_LISTS = ROOT / "src/llmchecker/properties/quantifiers/gender_words"

SETTINGS = {
    "calls": {"tools": {"add": {"type": "object", "required": ["x"]}}},
    "field": {"pointer": "/name", "values": ["Ada", 1]},
    "gender": {"male": str(WORD_LISTS / "male.txt"), "female": str(WORD_LISTS / "female.txt")},
    "json": {"schema": {"type": "object", "required": ["name"]}},
    "length": {"unit": "sentences"},
    "pattern": {"pattern": r"(?i)\b(no|not)\b"},
    "python": {"file": str(ROOT / "tests/helpers/own_checks.py"), "class": "Rude"},
    "similarity": {"protected": ["Lolita, light of my life, fire of my loins. My sin, my soul."]},
    "words": {"words": ["he", "she", "don't"]},
}
"""By type; a type that is not here needs no settings."""

APART = frozenset({"classifier", "judge", "language"})
"""Types with tests of their own: they need a network's files, a model or an optional package."""
