"""The public names with their types, for editors and type checkers; see `__init__.py`."""

from llmchecker import errors as errors
from llmchecker.checking.verdicts import Verdict as Verdict
from llmchecker.library.answers import check as check
from llmchecker.library.answers import score as score
from llmchecker.library.asking import Answer as Answer
from llmchecker.library.asking import ask as ask
from llmchecker.library.loading import load as load
from llmchecker.library.trees import Tree as Tree
from llmchecker.library.trees import grow as grow
from llmchecker.models.table import TableModel as TableModel
from llmchecker.quantifiers.classifier import Classifier as Classifier
from llmchecker.quantifiers.gender import Gender as Gender
from llmchecker.quantifiers.json_text import JsonText as JsonText
from llmchecker.quantifiers.length import Length as Length
from llmchecker.quantifiers.pattern import Pattern as Pattern
from llmchecker.quantifiers.polarity import Polarity as Polarity
from llmchecker.quantifiers.provable import Provable as Provable
from llmchecker.quantifiers.readability import Readability as Readability
from llmchecker.quantifiers.similarity import Similarity as Similarity
from llmchecker.quantifiers.words import Words as Words
from llmchecker.queries.parser import parse as parse
from llmchecker.queries.query import Query as Query
from llmchecker.scoring.own_class import OwnClass as OwnClass
from llmchecker.trees.text_tree import Truncation as Truncation

__version__: str
