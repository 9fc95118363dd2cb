"""Short reference of quantifier types and query forms, for the shell.

docs/reference/quantifiers.md and docs/reference/queries.md have the same types and forms, which a
test compares.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TypeReference:
    """Reference of a quantifier type.

    Attributes:
        summary: the integer that a text gets, in one line.
        settings: the keys of the settings; the last ones have defaults.
    """

    summary: str
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueryForm:
    """Reference of a form of queries or formulas.

    Attributes:
        form: the syntax; φ and ψ are formulas.
        meaning: the answer, or the paths that satisfy the formula.
        example: a complete query.
    """

    form: str
    meaning: str
    example: str


QUANTIFIER_TYPES = {
    "pattern": TypeReference(
        "1 if a regular expression matches, else 0; or the number of matches",
        ("pattern", "match", "of", "seconds"),
    ),
    "json": TypeReference(
        "2: JSON that satisfies a schema; 1: other JSON, or its beginning; 0: neither",
        ("schema", "file", "of"),
    ),
    "field": TypeReference(
        "the place of a JSON field's value in a list, from 1 on; else 0",
        ("pointer", "values", "of"),
    ),
    "calls": TypeReference(
        "2: calls tools, all calls are valid; 1: a call is invalid; 0: no call", ("tools",)
    ),
    "words": TypeReference("the number of words of a list", ("words", "file", "of")),
    "length": TypeReference("the number of characters, words or sentences", ("unit", "of")),
    "refuses": TypeReference(
        "1 if the text begins with a refusal, by a heuristic of English phrases, else 0", ("of",)
    ),
    "language": TypeReference(
        "1 if the text is most probably in a language, else 0", ("code", "among", "of")
    ),
    "classifier": TypeReference(
        "a label's probability in percent, by a local text-classification model",
        ("directory", "label", "sha256", "of"),
    ),
    "judge": TypeReference(
        "the grade that another model gives the text",
        ("model", "question", "rubric", "scale", "of", "share"),
    ),
    "gender": TypeReference("male minus female words", ("male", "female")),
    "similarity": TypeReference("similarity to a protected passage", ("protected", "of")),
    "polarity": TypeReference("sentiment by TextBlob's lexicon", ("of",)),
    "readability": TypeReference("Flesch reading ease times 100", ("of",)),
    "python": TypeReference("the result of your class", ("file", "class")),
}
"""The quantifier types of this package, in the order of docs/reference/quantifiers.md."""

QUERY_FORMS = (
    QueryForm("P=? [ φ ]", "the probability of φ", "P=? [ F gender > 0 ]"),
    QueryForm("P>=p [ φ ]", "true or false; also > <= <", "P>=0.9 [ G polarity > -30 ]"),
    QueryForm("E [ φ ], A [ φ ]", "whether a path or all satisfy φ", "A [ X gender = 0 ]"),
    QueryForm(
        "P=? [ φ || ψ ]", "the probability of φ given ψ", "P=? [ F gender > 0 || G step < 9 ]"
    ),
    QueryForm("S=? [ φ ]", "the long-run probability of φ", "S=? [ gender > 0 ]"),
    QueryForm('R{"gender"}=? [ I=n ]', "the expected score after n steps", 'R{"gender"}=? [ I=3 ]'),
    QueryForm('R{"gender"}=? [ C<=n ]', "the expected sum of n scores", 'R{"gender"}=? [ C<=4 ]'),
    QueryForm('R{"gender"}=? [ S ]', "the expected last score", 'R{"gender"}=? [ S ]'),
    QueryForm(
        "filter(forall, φ, ψ)", "whether all states with ψ have φ", "filter(forall, gender < 9)"
    ),
)
"""The forms of queries, in the order of docs/reference/queries.md."""

PATH_FORMS = (
    QueryForm("X φ", "φ after the next token", "P=? [ X gender > 0 ]"),
    QueryForm("F φ, F<=n φ", "φ at some time, within n tokens", "P=? [ F<=2 gender > 0 ]"),
    QueryForm("F[m,n] φ", "φ after m to n tokens; also >= < =", "P=? [ F[2,3] gender > 0 ]"),
    QueryForm("G φ", "φ at all times", "P=? [ G gender <= 0 ]"),
    QueryForm("φ U ψ", "ψ at some time, and φ until then", "P=? [ gender = 0 U gender > 0 ]"),
    QueryForm("φ W ψ", "φ until ψ, or always", "P=? [ gender = 0 W gender > 0 ]"),
    QueryForm("φ R ψ", "ψ until φ and ψ, or always", "P=? [ step = 3 R gender = 0 ]"),
    QueryForm("φ M ψ", "ψ until φ and ψ, at some time", "P=? [ gender > 0 M step < 4 ]"),
    QueryForm("& | ! =>", "and, or, not, implies", "P=? [ F !(gender > 0 | step < 3) ]"),
    QueryForm("<=>", "if and only if", "P=? [ G (gender > 0 <=> step > 2) ]"),
    QueryForm("φ ? ψ : χ", "ψ if φ, else χ", "P=? [ X (step=1 ? gender>0 : true) ]"),
    QueryForm("= != < <= > >=", "compares numbers", "P=? [ F gender + 2 * step > 7 ]"),
    QueryForm("min max mod floor", "functions of numbers", "P=? [ F mod(gender, 2) = 1 ]"),
    QueryForm("step", "the number of generated tokens", "P=? [ F step = 3 & gender > 0 ]"),
    QueryForm('"end"', "the text has ended", 'P=? [ F "end" & gender > 0 ]'),
    QueryForm('"init"', "the start string", 'P=? [ G ("init" | gender > 0) ]'),
)
"""The operators and atoms of path formulas."""
