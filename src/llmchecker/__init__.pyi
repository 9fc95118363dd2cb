"""The public names with their types, for editors and type checkers; see `__init__.py`."""

from llmchecker import errors as errors
from llmchecker.interfaces.python.answer import Answer as Answer
from llmchecker.interfaces.python.ask import ask as ask
from llmchecker.interfaces.python.ask import check as check
from llmchecker.interfaces.python.check import score as score
from llmchecker.interfaces.python.compare import Comparison as Comparison
from llmchecker.interfaces.python.compare import compare as compare
from llmchecker.interfaces.python.load import load as load
from llmchecker.interfaces.python.suite import SuiteReport as SuiteReport
from llmchecker.interfaces.python.suite import suite as suite
from llmchecker.interfaces.python.tree import Tree as Tree
from llmchecker.interfaces.python.tree import grow as grow
from llmchecker.models.table_model import TableModel as TableModel
from llmchecker.programs.experiments.provable_quantifier import Provable as Provable
from llmchecker.properties.custom_class import OwnClass as OwnClass
from llmchecker.properties.logic.parser import parse as parse
from llmchecker.properties.logic.query import Query as Query
from llmchecker.properties.quantifiers.classifier import Classifier as Classifier
from llmchecker.properties.quantifiers.gender import Gender as Gender
from llmchecker.properties.quantifiers.json_validity import JsonText as JsonText
from llmchecker.properties.quantifiers.language import Language as Language
from llmchecker.properties.quantifiers.length import Length as Length
from llmchecker.properties.quantifiers.pattern import Pattern as Pattern
from llmchecker.properties.quantifiers.polarity import Polarity as Polarity
from llmchecker.properties.quantifiers.readability import Readability as Readability
from llmchecker.properties.quantifiers.refusal import Refusal as Refusal
from llmchecker.properties.quantifiers.similarity import Similarity as Similarity
from llmchecker.properties.quantifiers.word_count import Words as Words
from llmchecker.trees.text_tree import Truncation as Truncation

__version__: str
