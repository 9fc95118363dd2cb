"""The public names, for `__init__.py`, editors and type checkers."""

from . import errors as errors
from .checking.answer import Answer as Answer
from .checking.comparison import Comparison as Comparison
from .interfaces.python.ask import ask as ask
from .interfaces.python.ask import check as check
from .interfaces.python.compare import compare as compare
from .interfaces.python.early_stopping import EarlyStopping as EarlyStopping
from .interfaces.python.load import load as load
from .interfaces.python.load import texts as texts
from .interfaces.python.probability import ChoiceReport as ChoiceReport
from .interfaces.python.probability import ChoiceRow as ChoiceRow
from .interfaces.python.probability import probability_of as probability_of
from .interfaces.python.probability import rate_choices as rate_choices
from .interfaces.python.scorers import score as score
from .interfaces.python.suite import SuiteReport as SuiteReport
from .interfaces.python.suite import suite as suite
from .interfaces.python.tree import AnswerTree as AnswerTree
from .interfaces.python.tree import Tree as Tree
from .interfaces.python.tree import find_tree as find_tree
from .interfaces.python.tree import grow as grow
from .models.table_model import TableModel as TableModel
from .models.text_answer import Finish as Finish
from .models.text_answer import TextAnswer as TextAnswer
from .properties.custom_class import OwnClass as OwnClass
from .properties.logic.parser import parse as parse
from .properties.logic.query import Query as Query
from .properties.quantifiers.classifier import Classifier as Classifier
from .properties.quantifiers.gender import Gender as Gender
from .properties.quantifiers.json_field import JsonField as JsonField
from .properties.quantifiers.json_validity import JsonText as JsonText
from .properties.quantifiers.judge import Judge as Judge
from .properties.quantifiers.language import Language as Language
from .properties.quantifiers.length import Length as Length
from .properties.quantifiers.pattern import Pattern as Pattern
from .properties.quantifiers.polarity import Polarity as Polarity
from .properties.quantifiers.readability import Readability as Readability
from .properties.quantifiers.refusal import Refusal as Refusal
from .properties.quantifiers.similarity import Similarity as Similarity
from .properties.quantifiers.tool_calls import ToolCalls as ToolCalls
from .properties.quantifiers.word_count import Words as Words
from .trees.text_tree import Truncation as Truncation

__version__: str
