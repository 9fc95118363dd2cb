"""Queries are read as PRISM reads them, and a query that cannot be read says where and why."""

import numpy as np
import pytest

from llmchecker.errors import InvalidQuery
from llmchecker.properties.logic.ast import Atom, Connective, Literal, Number, Temporal, Variable
from llmchecker.properties.logic.parser import parse

COLUMNS = {"step": np.array([0, 1, 2]), "gender": np.array([-3, 0, 4])}


def parenthesised(query: str) -> str:
    return parse(query).format_for_storm(lambda p: f"({p})" if isinstance(p, Atom) else str(p))


def first_atom(atom: str) -> Atom:
    return parse(f"P=? [ {atom} ]").atoms[0]


@pytest.mark.parametrize(
    ("query", "meaning"),
    [
        ("P=? [ F step = 5 & similarity > 90 ]", "F ((step = 5) & (similarity > 90))"),
        ("P=? [ F a = 1 U G b = 1 ]", "(F (a = 1)) U (G (b = 1))"),
        ("P=? [ X F a = 1 ]", "X (F (a = 1))"),
        ("P=? [ a = 1 | b = 1 & c = 1 ]", "(a = 1) | ((b = 1) & (c = 1))"),
        ("P=? [ a = 1 | b = 1 | c = 1 ]", "((a = 1) | (b = 1)) | (c = 1)"),
        ("P=? [ !a = 1 & b = 1 ]", "(!(a = 1)) & (b = 1)"),
        ("P=? [ a = 1 => b = 1 | c = 1 ]", "(!(a = 1)) | ((b = 1) | (c = 1))"),
        ("P=? [ a - b - c * 2 > -1 ]", "(((a - b) - (c * 2)) > -1)"),
        ("P=? [ -(a - 1) > (2) ]", "((0 - (a - 1)) > 2)"),
        ("P=? [F<=3 a=1]", "F<=3 (a = 1)"),
        ("P=? [ a = 1 U<=3 b = 1 ]", "(a = 1) U<=3 (b = 1)"),
        ("P=? [ (F gender > 0) & (G polarity > -30) ]", "(F (gender > 0)) & (G (polarity > -30))"),
        ('P=? [ !"rest" U "end" ]', '(!"rest") U "end"'),
        ("P=? [ true U false ]", "true U false"),
        ("P=? [ F P>=0.25 [ X a = 1 ] ]", "F (P>=0.25 [ X (a = 1) ])"),
        ("P=? [ Fa = 1 ]", "(Fa = 1)"),
    ],
)
def test_operators_bind_as_in_prism(query, meaning):
    """U, W, R bind weakest, then X F G, then =>, |, &, !, comparisons and arithmetic."""
    assert parenthesised(query) == f"P=? [ {meaning} ]"


@pytest.mark.parametrize(
    ("path", "dual"),
    [
        ("G<=2 a = 1", "!(F<=2 (!(a = 1)))"),
        ("a = 1 W b = 1", "!((!(b = 1)) U ((!(a = 1)) & (!(b = 1))))"),
        ("a = 1 R b = 1", "!((!(a = 1)) U (!(b = 1)))"),
    ],
)
def test_operators_that_storm_lacks_are_asked_by_their_duals(path, dual):
    """Bounded G, weak until and release reach Storm as negated F and U."""
    assert parenthesised(f"P=? [ {path} ]") == f"P=? [ {dual} ]"


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("P=? [ F<3 a = 1 ]", "P=? [ F<=2 a = 1 ]"),
        ("P=? [ F[0,3] a = 1 ]", "P=? [ F<=3 a = 1 ]"),
        ("P=? [ F<=(2 * 3 + 1) a = 1 ]", "P=? [ F<=7 a = 1 ]"),
        ("P=? [ F=1 a = 1 ]", "P=? [ X a = 1 ]"),
        ("P=? [ F=3 a = 1 ]", "P=? [ F[3,3] a = 1 ]"),
        ("P=? [ F=0 a = 1 ]", "P=? [ F<=0 a = 1 ]"),
        ("P=? [ F>=0 a = 1 ]", "P=? [ F a = 1 ]"),
        ("P=? [ F>0 a = 1 ]", "P=? [ X F a = 1 ]"),
        ("P=? [ G[1,2] a = 1 ]", "P=? [ X G<=1 a = 1 ]"),
        ("P=? [ G>=1 a = 1 ]", "P=? [ X G a = 1 ]"),
        ("P=? [ a = 1 U[1,3] b = 1 ]", "P=? [ (G<=0 a = 1) & (X (a = 1 U<=2 b = 1)) ]"),
        ("P=? [ a = 1 R<=2 b = 1 ]", "P=? [ !(!a = 1 U<=2 !b = 1) ]"),
        ("P=? [ a = 1 W<=2 b = 1 ]", "P=? [ !(a = 1 & !b = 1 U<=2 !a = 1 & !b = 1) ]"),
        ("P=? [ a = 1 M b = 1 ]", "P=? [ b = 1 U a = 1 & b = 1 ]"),
        ("P=? [ F (a = 1 <=> b = 1) ]", "P=? [ F ((a = 1 => b = 1) & (b = 1 => a = 1)) ]"),
        ("P=? [ a = 1 | b = 1 <=> c = 1 ]", "P=? [ (a = 1 | b = 1) <=> c = 1 ]"),
        ("P=? [ a = 1 <=> b = 1 => c = 1 ]", "P=? [ (a = 1 <=> b = 1) => c = 1 ]"),
        ("P=? [ a = 1 ? b = 1 : c = 1 ]", "P=? [ (a = 1 & b = 1) | (!a = 1 & c = 1) ]"),
        ("S=? [ a = 1 ]", "P=? [ F (G a = 1) ]"),
        ("E [ F S>0.5 [ a = 1 ] ]", "E [ F P>0.5 [ F (G a = 1) ] ]"),
        ("filter(forall, a = 1)", "A [ G a = 1 ]"),
        ("filter(&, P>=0.5 [ X a = 1 ], b = 1)", "A [ G (b = 1 => P>=0.5 [ X a = 1 ]) ]"),
        ("filter(exists, a = 1, b = 1)", "E [ F (b = 1 & a = 1) ]"),
        ('filter(avg, P=? [ F a = 1 ], "init")', "P=? [ F a = 1 ]"),
        ('filter(state, R{"a"}=? [ I=2 ], step = 0)', 'R{"a"}=? [ I=2 ]'),
        ('P=? [ F !"init" & !"deadlock" ]', "P=? [ F !step = 0 & !false ]"),
        ("P=? [ F a / 2 > 1 ]", "P=? [ F a > 2 ]"),
        ("P=? [ F a > 0.5 ]", "P=? [ F 2 * a > 1 ]"),
        ("P=? [ F a / 2 + b / 3 > 1 ]", "P=? [ F 3 * a + 2 * b > 6 ]"),
        ("P=? [ F a / -2 > b ]", "P=? [ F -1 * a > 2 * b ]"),
        ("P=? [ F pow(a, 2) = 4 ]", "P=? [ F a * a = 4 ]"),
        ("P=? [ F min(a, 2, b) > 1 ]", "P=? [ F min(min(a, 2), b) > 1 ]"),
    ],
)
def test_a_derived_form_has_the_formula_of_the_form_that_defines_it(query, same):
    """Each form that is rewritten has the syntax tree of the other form, and its own text."""
    assert parse(query).root == parse(same).root
    assert parse(query).text == query


@pytest.mark.parametrize(
    ("expression", "scores"),
    [
        ("min(gender, 1)", [-3, 0, 1]),
        ("max(gender, step, 1)", [1, 1, 4]),
        ("mod(gender, 4)", [1, 0, 0]),
        ("floor(gender / 2)", [-2, 0, 2]),
        ("ceil(gender / 2)", [-1, 0, 2]),
        ("round(gender / 2)", [-1, 0, 2]),
        ("round(0.75 * gender)", [-2, 0, 3]),
        ("pow(gender, 3)", [-27, 0, 64]),
        ("pow(gender, 0)", [1, 1, 1]),
        ("floor(min(gender, 1) / 2) + 1.5 * 2", [1, 3, 3]),
    ],
)
def test_functions_have_the_values_of_prism(expression, scores):
    """Quotients round as in PRISM: down, up, or a half up; a remainder is never negative."""
    for index, score in enumerate(scores):
        assert first_atom(f"{expression} = {score}").evaluate(COLUMNS)[index]
        assert not first_atom(f"{expression} > {score}").evaluate(COLUMNS)[index]


def test_a_function_of_numbers_beyond_int64_is_exact():
    """The least of two numbers above 2^63 is compared without rounding."""
    large = " * ".join(["2147483647"] * 3)
    assert first_atom(f"min({large}, {large} + gender) = {large} - 3").evaluate(COLUMNS)[0]


@pytest.mark.parametrize(
    "path", ["a = 1" + " <=> a = 1" * 30, "pow(" * 30 + "a" + ", 8)" * 30 + " = 1"]
)
def test_a_query_that_grows_by_rewriting_is_invalid(path):
    """Forms that repeat their operands make a bad query, not a formula without an end."""
    with pytest.raises(InvalidQuery, match="more than 10,000 operators"):
        parse(f"P=? [ {path} ]")


@pytest.mark.parametrize(
    ("query", "operator", "path"),
    [
        ("P>=0.9 [ F[1,2] a = 1 ]", "P>=0.9", "F[1,2] a = 1"),
        ("(A [ G a = 1 ])", "A", "G a = 1"),
        ("S<0.25 [ a = 1 ]", "P<0.25", "F (G a = 1)"),
        ("filter(exists, a = 1, b = 1)", "E", "F (b = 1 & a = 1)"),
        ("P=? [ F a = 1 || X b = 1 ]", "P=?", "F a = 1 || X b = 1"),
        ('filter(min, P=? [ F>=2 a = 1 || X b = 1 ], "init")', "P=?", "F>=2 a = 1 || X b = 1"),
    ],
)
def test_the_parts_of_a_query_make_the_same_query(query, operator, path):
    """The operator and the path formula of a query, as text, have the same syntax tree."""
    parsed = parse(query)
    assert parsed.operator_text == operator
    assert parse(f"{parsed.operator_text} [ {parsed.path_text} ]").root == parsed.root
    assert parse(f"{operator} [ {path} ]").root == parsed.root


@pytest.mark.parametrize("bound", ["P>=0.5", "P>0.5", "P<=0.5", "P<0.5", "P >= 0.5"])
def test_thresholds(bound):
    """All four comparisons with a probability are read, and kept as they are written."""
    assert parenthesised(f"{bound} [ X a = 1 ]") == f"{bound.replace(' ', '')} [ X (a = 1) ]"


def test_a_small_threshold_is_written_without_exponent():
    """1e-7 reaches Storm as the same decimal."""
    assert parenthesised("P<1e-7 [ X a = 1 ]") == "P<0.0000001 [ X (a = 1) ]"


def test_a_query_knows_its_atoms_and_variables():
    """Equal atoms are one atom however they are spaced, in order of appearance."""
    query = parse("P=? [ (b>1 U step = 2) & (F P>0.1 [ X b  >  1 ]) ]")
    one, two = Number(1), Number(2)
    assert query.atoms == (Atom(Variable("b"), ">", one), Atom(Variable("step"), "=", two))
    assert query.variables == {"b", "step"}
    assert query.text == str(query) == "P=? [ (b>1 U step = 2) & (F P>0.1 [ X b  >  1 ]) ]"


@pytest.mark.parametrize(
    ("atom", "truth"),
    [
        ("gender > 0", [False, False, True]),
        ("gender = 0", [False, True, False]),
        ("gender != 0", [True, False, True]),
        ("gender < step", [True, True, False]),
        ("gender <= step - 1", [True, True, False]),
        ("2 * step + -1 >= gender", [True, True, False]),
        ("1 < 2", [True, True, True]),
    ],
)
def test_atoms_hold_on_arrays(atom, truth):
    """An atom compares integer arithmetic over whole columns, constants included."""
    assert first_atom(atom).evaluate(COLUMNS).tolist() == truth


def test_an_atom_over_step_is_known_in_rest():
    """Only atoms that name no quantifier are known in rest."""
    assert first_atom("step * 2 > 3").is_step_only
    assert first_atom("1 > 3").is_step_only
    assert not first_atom("step > gender").is_step_only


@pytest.mark.parametrize(
    ("query", "meaning"),
    [
        ("E [ F a = 1 ]", "P>0 [ F (a = 1) ]"),
        ("A[a = 1 U b = 1]", "P>=1 [ (a = 1) U (b = 1) ]"),
        ("A [ G (E [ F a = 1 ]) ]", "P>=1 [ G (P>0 [ F (a = 1) ]) ]"),
        (
            "A [ (F G a = 1) | (E [ G a = 0 ]) ]",
            "P>=1 [ (F (G (a = 1))) | (P>0 [ G (a = 0) ]) ]",
        ),
        (
            "(P>=0.5 [ X a = 1 ]) & A [ G a > 0 ] => !(b = 1)",
            "(!((P>=0.5 [ X (a = 1) ]) & (P>=1 [ G (a > 0) ]))) | (!(b = 1))",
        ),
        ("P=? [ F a = 1 || G b = 1 ]", "P=? [ (F (a = 1)) & (G (b = 1)) ]; P=? [ G (b = 1) ]"),
        ('R{"polarity"}=? [ I = 5 ]', 'R{"polarity"}=? [ I=5 ]'),
        ('R{"polarity"}=? [ C <= 5 ]', 'R{"polarity"}=? [ C<=5 ]'),
        ('R{"polarity"}=? [S]', 'R{"polarity"}=? [ S ]'),
    ],
)
def test_queries_of_every_kind_reach_storm(query, meaning):
    """E is P>0 and A is P>=1; a condition makes two questions; an expected score is a reward."""
    assert parenthesised(query) == meaning


@pytest.mark.parametrize(
    ("query", "numeric"),
    [
        ("P=? [ X a = 1 ]", True),
        ("P=? [ X a = 1 || X b = 1 ]", True),
        ('R{"a"}=? [ I=1 ]', True),
        ("P>=0 [ X a = 1 ]", False),
        ("E [ X a = 1 ]", False),
        ("!E [ X a = 1 ]", False),
    ],
)
def test_a_query_asks_for_a_number_or_for_yes_or_no(query, numeric):
    """=? asks for a number; a threshold, a path quantifier or a combination is yes or no."""
    assert parse(query).is_numeric is numeric


A, B = first_atom("a = 1"), first_atom("b = 1")
NOT_A = Connective("!", (A,))


@pytest.mark.parametrize(
    ("path", "stops"),
    [
        ("F a = 1", (A,)),
        ("F<=2 a = 1", (A,)),
        ("(F (a = 1))", (A,)),
        ("a = 1 U b = 1", (B, NOT_A)),
        ("a = 1 U<=2 b = 1", (B, NOT_A)),
        ("true U b = 1", (B,)),
        ("a = 1 U true", (NOT_A,)),
        ("F true", ()),
        ('F (a = 1 | "rest")', ()),
        ("G a = 1", ()),
        ("X a = 1", ()),
        ("!(F a = 1)", ()),
        ("F F a = 1", ()),
        ("a = 1 U (X b = 1)", ()),
        ("F P>0.5 [ X a = 1 ]", ()),
    ],
)
def test_where_a_query_is_decided(path, stops):
    """Exploration stops at phi for F phi, at psi or not phi for phi U psi, and nowhere else."""
    decided = parse(f"P=? [ {path} ]").stop_formula
    found = []
    while isinstance(decided, Connective):
        decided, stop = decided.operands
        found.append(stop)
    assert decided == Literal(False)
    assert set(found) == set(stops)


@pytest.mark.parametrize(
    ("query", "column", "problem"),
    [
        ("", 1, "found the end of the query, expected P=? [ … ] or P>=p [ … ]"),
        ("gender > 0", 1, "found `gender`, expected P=? [ … ]"),
        ("F gender > 0", 1, "found `F`, expected P=? [ … ]"),
        ("  gender > 0", 3, "found `gender`, expected P=? [ … ]"),
        ("P>=0.5 [ X a = 1 ] & (F a = 1)", 23, "found `F` outside of P, E and A"),
        ("!(a = 1 U b = 1) | E [ X a = 1 ]", 9, "found `U` outside of P, E and A"),
        ("E F gender > 0", 3, "found `F`, expected ["),
        ("AG gender > 0", 4, "; write A [ G … ]"),
        ("E=? [ F gender > 0 ]", 2, "found `=`, expected ["),
        ("P>=0.5 [ F a = 1 || F b = 1 ]", 18, "only P=? takes a condition"),
        ('R{"a"}=? [ I=2.5 ]', 14, "found 2.5, expected a whole number"),
        ('R{"a"}=? [ I<=2 ]', 13, "found `<=`, expected I=n"),
        ('R{"a"}>=? [ I=2 ]', 7, "the question is R{…}=?"),
        ('R{"a"}=? [ F a = 1 ]', 1, "write C<=n for a sum, or P=? for the event"),
        ('R{"a"}=? [ 2 ]', 12, "found `2`, expected I=n, C<=n or S"),
        ('R{"step"}=? [ I=2 ]', 3, 'found "step", expected the name of a quantifier'),
        ("R=? [ I=2 ]", 1, 'found `R=?`; scores are named, not numbered; write R{"quantifier"}=?'),
        ("R [ I=2 ]", 3, 'found `[`, expected {"quantifier"}'),
        ("P=? [ F gender > 0", 19, "found the end of the query, expected ]"),
        ("P=? F gender > 0", 5, "found `F`, expected ["),
        ("P=? [ F gender ]", 16, "found `]`, expected a comparison (= != < <= > >=)"),
        ("P=? [ F gender == 1 ]", 17, "found `=`, expected a variable or a whole number"),
        ("P=? [ F gender > 0 && step = 1 ]", 21, "found `&`, expected a formula"),
        ("P=? [ F gender > 0.12345678901 ]", 18, "needs numbers of at most 2147483647"),
        ("P=? [ F gender > 9999999999 ]", 18, "expected a whole number of at most 2147483647"),
        ("P=? [ F gender > " + "9" * 5000 + " ]", 18, f"found {'9' * 20}…, expected a whole"),
        ('R{"a"}=? [ I=' + "9" * 5000 + " ]", 14, f"found {'9' * 20}…, expected a whole"),
        ("P=? [ F gender > 0; ]", 19, "found `;`, which no query has"),
        ("P=? [ step = 1 & F gender > 0 ]", 18, "needs parentheses"),
        ("P=? [ a = 1 U b = 1 U c = 1 ]", 21, "needs parentheses"),
        ("P=? [ F gender > 0 ] & a = 1", 22, "found `&`, expected the end of the query"),
        ("P=? [ F P=? [ X a = 1 ] ]", 11, "only the outermost P asks =?"),
        (
            'P=? [ F "done" ]',
            9,
            'found the label "done", expected one of "rest", "end", "init", "deadlock"',
        ),
        ("P>=1.5 [ F a = 1 ]", 4, "found 1.5, expected a probability from 0 to 1"),
        ("P>=-0.5 [ F a = 1 ]", 4, "a probability is from 0 to 1"),
        ("E [ F P>1e1 [ X a = 1 ] ]", 9, "found 1e1, expected a probability from 0 to 1"),
        ("P=0.5 [ F a = 1 ]", 2, "found `=`, expected =?, >=, >, <= or <"),
        ("P>=? [ F a = 1 ]", 2, "the question is P=?"),
        ("P=? [ X<=2 a = 1 ]", 7, "`X` takes no bound; write F=n for the state after n steps"),
        ("P=? [ X>=0 a = 1 ]", 7, "`X` takes no bound"),
        ("P=? [ F!=2 a = 1 ]", 8, "`!=` is no bound of steps; write <=, <, >=, >, = or [a,b]"),
        ("P=? [ F<0 a = 1 ]", 7, "`F` has no number of steps within its bounds"),
        ("P=? [ a = 1 U[3,2] b = 1 ]", 13, "`U` has no number of steps within its bounds"),
        ("P=? [ F<=(step) a = 1 ]", 8, "expected steps that are constant whole numbers"),
        ("P=? [ F[0,1/2] a = 1 ]", 8, "expected steps that are constant whole numbers"),
        ("P=? [ F a / b = 1 ]", 11, "`/` needs a constant other than 0 as its divisor"),
        ("P=? [ F a / (2 - 2) = 1 ]", 11, "`/` needs a constant other than 0 as its divisor"),
        ("P=? [ F mod(a, b) = 1 ]", 9, "`mod` needs whole numbers, the second a constant above 0"),
        ("P=? [ F pow(a, 9) = 1 ]", 9, "`pow` needs a whole number from 0 to 8"),
        ("P=? [ F min(a) = 1 ]", 9, "`min` takes two or more expressions"),
        ("P=? [ F log(a, 2) = 1 ]", 9, "`log` is no function of queries; write min, max"),
        ("S=? [ F a = 1 ]", 1, "`S` takes formulas about states; write path formulas in P>=p"),
        ("E [ F S>0.5 [ F a = 1 ] ]", 7, "`S` takes formulas about states"),
        ("S>=? [ a = 1 ]", 2, "the question is S=?"),
        ('R{"a"}=? [ C>=2 ]', 13, "found `>=`, expected C<=n, the sum of the first n scores"),
        ("P=? [ F filter(forall, a = 1) ]", 9, "a filter is outermost"),
        ("filter(forall, F a = 1)", 1, "`filter` takes formulas about states"),
        ("filter(forall, P=? [ F a = 1 ])", 8, "needs a formula that is true or false"),
        ("filter(avg, P=? [ F a = 1 ])", 8, 'filter `avg` needs "init" as its states'),
        ("filter(count, a = 1)", 8, "lists or counts states of a tree, not texts"),
        ("filter(every, a = 1)", 8, "filter `every` is no filter; write forall or exists"),
    ],
)
def test_a_bad_query_says_where_and_what_was_expected(query, column, problem):
    """The message names the column, what stands there, what was expected, and points at it."""
    with pytest.raises(InvalidQuery) as caught:
        parse(query)
    first, line, pointer = str(caught.value).split("\n")
    assert first.startswith(f"column {column} of the query: ")
    assert problem in first
    assert f"  {query}".startswith(line)
    assert pointer == " " * (column + 1) + "^"


def test_a_bad_query_over_several_lines_points_into_its_line():
    """In a query of several lines the message shows the line and counts columns within it."""
    with pytest.raises(InvalidQuery, match="column 3 of line 2 of the query: found `]`") as caught:
        parse("P=? [ F\n  ]")
    assert str(caught.value).endswith("\n    ]\n    ^")


def test_a_bad_query_that_is_long_is_shown_where_it_is_wrong():
    """A number of 5,000 digits is a message that a terminal holds, and points at the number."""
    with pytest.raises(InvalidQuery) as caught:
        parse("P=? [ " + "F " * 70 + "a > " + "9" * 5000 + " ]")
    first, line, pointer = str(caught.value).split("\n")
    assert first.startswith("column 151 of the query: found 9999")
    assert max(map(len, (first, line))) < 200
    assert line[pointer.index("^") - 4 :].startswith("a > 9")


@pytest.mark.parametrize(
    "path", ["!" * 20_000 + "a = 1", " | ".join(["a = 1"] * 200), "a = " + "-" * 200 + "b"]
)
def test_a_query_nested_beyond_reading_is_invalid(path):
    """Hundreds of nested operators are a bad query, not a crash."""
    with pytest.raises(InvalidQuery, match="more than 100 nested levels"):
        parse(f"P=? [ {path} ]")


def test_a_query_nested_ninety_deep_is_read():
    """Nesting below the limit is read and written without reaching Python's recursion limit."""
    assert parenthesised("P=? [ " + "!" * 90 + "a = 1 ]").count("!") == 90


def test_an_unknown_quantifier_is_named_with_what_is_known():
    """A misspelt quantifier is pointed at, with the nearest name and all known ones."""
    with pytest.raises(InvalidQuery) as caught:
        parse("P=? [ F gendr > 0 ]").check_references(["similarity", "gender"])
    message = str(caught.value)
    assert message.startswith("column 9 of the query: gendr is neither step nor a known quantifier")
    assert "did you mean 'gender'?" in message
    assert "step, gender, similarity" in message


@pytest.mark.parametrize(
    ("query", "column", "problem"),
    [
        ("P=? [ F step = 6 & a > 0 ]", 9, "step = 6 never holds, beyond the horizon"),
        ("P=? [ step = 1 U step >= 6 ]", 18, "step >= 6 never holds"),
        ("P=? [ F 9  <=  step ]", 9, "9 <= step never holds"),
        ("E [ F step > 5 ]", 7, "step > 5 never holds"),
        ('R{"a"}=? [ C<=7 ]', 12, "C<=7 is beyond the horizon: texts grow by at most 5 tokens"),
        ('R{"a"}=? [ I = 7 ]', 12, "I=7 is beyond the horizon: texts grow by at most 5 tokens"),
    ],
)
def test_a_step_beyond_the_horizon_is_refused(query, column, problem):
    """A query that waits for a step after the last one is pointed at, and the horizon is named."""
    parse(query).check_references(["a"])
    with pytest.raises(InvalidQuery) as caught:
        parse(query).check_references(["a"], length=5)
    assert str(caught.value).startswith(f"column {column} of the query: ")
    assert problem in str(caught.value)
    assert "at most 5 tokens" in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "P=? [ F step = 5 ]",
        "P=? [ G step < 9 ]",
        "P=? [ F[8,9] a > 0 ]",
        'R{"a"}=? [ I=5 ]',
        'R{"a"}=? [ C<=6 ]',
    ],
)
def test_steps_within_the_horizon_are_accepted(query):
    """The last step itself, and bounds that all texts keep, are no error."""
    parse(query).check_references(["a"], length=5)


def test_the_quantifier_of_an_expected_score_must_be_known():
    """A reward over a quantifier that is not configured is pointed at."""
    with pytest.raises(InvalidQuery, match="column 4 of the query: b is neither step nor a known"):
        parse('R{"b"}=? [ I=5 ]').check_references(["a"])


def test_known_quantifiers_and_step_are_accepted():
    """A query over step and known quantifiers passes."""
    parse("P=? [ F gender > 0 & step = 2 ]").check_references(["gender"])
    assert isinstance(parse("P=? [ F gender > 0 ]").root.path, Temporal)


def test_a_number_may_begin_with_thousands_of_zeros():
    """Zeros before a number do not change it, however many they are."""
    assert parse(f"P=? [ F<={'0' * 5000}3 step = 1 ]").root == parse("P=? [ F<=3 step = 1 ]").root
