"""Bad values of a question's keys, with the words of the message at every door.

    Refusal("passes", 0, r"0 is too small; it must be at least 1")

`test_refusals` asks each by every door that has the key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAN, INFINITY = float("nan"), float("inf")
ONE_DOOR = frozenset({"python"})
_IN_FILES = frozenset({"python", "config"})
_PYTHON_SHELL = frozenset({"python", "shell"})
_ASKED = frozenset({"python", "shell", "suite", "compare", "lc.compare"})


@dataclass(frozen=True)
class Refusal:
    """A bad value of a key.

    Attributes:
        key: the key that the message names, such as `passes` or `decoding.top_k`.
        value: the value of the key.
        words: a pattern of the message after the key: the value, and what would be right.
        others: further keys of the question, by the names of `ask` and `load`.
        doors: the names of the doors that have the value; None for all that have the key.
    """

    key: str
    value: Any
    words: str
    others: Mapping[str, Any] = field(default_factory=dict)
    doors: frozenset[str] | None = None

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of the question with the bad value."""
        first, *path = self.key.split(".")
        value = self.value
        for name in reversed(path):
            value = {name: value}
        return {first: value, **self.others}

    def __str__(self) -> str:
        return f"{self.key} {self.value!r}"[:60]


def _limits(key: str, **limits: tuple[Any, ...]) -> list[Refusal]:
    """Refusals of numbers out of a range, and of what is no number.

    Args:
        key: the key.
        limits: values after `least`, `above` or `most` and the limit, and after `number` or
            `integer` those of another type.
    """
    words = {
        "least": "is too small; it must be at least",
        "above": "is too small; it must be above",
        "most": "is too large; it must be at most",
    }
    refusals = []
    for kind, values in limits.items():
        if kind in words:
            limit, *values = values
            end = f"{words[kind]} {limit}$"
        else:
            end = f"is not of type {kind}$"
        for value in values:
            shown = {True: "(true|'True')"}.get(value) if value is True else None
            shown = shown or repr(value).replace(".", r"\.").replace("+", r"\+")
            refusals.append(Refusal(key, value, f"{shown} {end}"))
    return refusals


_NO_LENGTH = "is no length; write a number of tokens, end or end:400$"
LIMITS = [
    *_limits("passes", least=(1, 0, -3), most=(10**9, 10**10), integer=(1.5, "many", NAN, True)),
    *_limits("seconds", above=(0, 0, -1), number=(INFINITY, NAN, "5 s", True)),
    *_limits("width", least=(0, -0.5, -1), most=(1, 2), number=(NAN, "x")),
    *_limits("confidence", least=(0.001, 0, -1), most=(0.999999999, 1, 2), number=("95%", NAN)),
    *_limits("seed", least=(0, -1), most=(2**64 - 1, 2**64), integer=(1.5, "x")),
    *_limits("length", least=(1, 0, -1), most=(10_000, 10_001)),
    Refusal("length", 2.5, rf"2\.5 ({_NO_LENGTH}|is not of type integer)"),
    Refusal("length", 3.0, rf"3\.0 ({_NO_LENGTH}|is not of type integer)"),
    Refusal("length", "ends", rf"'ends' ({_NO_LENGTH}|is not of type integer)"),
    Refusal("length", "end:0", rf"'end:0' ({_NO_LENGTH}|is not of type integer)"),
    Refusal("length", "end:10001", rf"'end:10001' ({_NO_LENGTH}|is not of type integer)"),
    *_limits("answers", least=(1, 0), integer=(1.5, "x")),
    Refusal("answers", 5, r"\S+ has probabilities; limit passes or seconds$", doors=_ASKED),
    *_limits("tokens", least=(1, 0)),
    *_limits("dollars", above=(0, 0, -1)),
    *_limits("alpha", least=(0, -0.1), most=(1, 1.5), number=(NAN, INFINITY, "most", True)),
    *_limits("k", least=(1, 0, -1), most=(10**6, 10**9), integer=(2.5, 3.0, "3x", True)),
    Refusal("k", "3", "'3' is not of type integer$", doors=_IN_FILES),
    *_limits("max_tokens", least=(1, 0), integer=(1.5, "x")),
    Refusal(
        "certain",
        True,
        "without samples, seed has no effect; leave one out$",
        {"seed": 1},
    ),
    Refusal(
        "certain",
        True,
        "without samples, confidence has no effect; leave one out$",
        {"confidence": 0.9},
    ),
]

_SEED = "unknown key 'seed': the seed of a run is that of `answer` or of the suite"
DECODINGS = [
    *_limits(
        "decoding.temperature", least=(0, -1, -0.1), number=("hot", NAN, INFINITY, True, "0x")
    ),
    *_limits("decoding.top_k", least=(0, -4), integer=(1.5, 2.0, "x")),
    *_limits("decoding.top_p", above=(0, 0), most=(1, 2, 1.2)),
    *_limits("decoding.min_p", least=(0, -0.1), most=(1, 2)),
    *_limits("decoding.typical_p", number=("much",)),
    *_limits("decoding.repetition_penalty", above=(0, 0)),
    *_limits("decoding.encoder_repetition_penalty", above=(0, -1)),
    *_limits("decoding.no_repeat_ngram_size", least=(0, -1)),
    *_limits("decoding.encoder_no_repeat_ngram_size", integer=(1.5,)),
    *_limits("decoding.frequency_penalty", most=(2, 3)),
    *_limits("decoding.presence_penalty", least=(-2, -3)),
    *_limits("decoding.min_new_tokens", least=(0, -1)),
    Refusal("decoding.bad_words_ids", [4], r"\[0\]: 4 is not of type array$"),
    Refusal("decoding.bad_words_ids", [[]], r"\[0\]: \[\] is too short; add at least 1 entry$"),
    Refusal("decoding.suppress_tokens", [-3], r"\[0\]: -3 is too small; it must be at least 0$"),
    Refusal("decoding.logit_bias", [1], r"\[1\] is not of type object$"),
    Refusal("decoding.logit_bias.a", 101, "101 is too large; it must be at most 100$"),
    Refusal("decoding", {"logit_bias": {"a": 1}}, "logit_bias: 'a' is not a token id$"),
    Refusal("decoding.end_tokens", [], r"\[\] is too short; add at least 1 entry$"),
    Refusal("decoding.choice", [], r"\[\] is too short; add at least 1 entry$"),
    Refusal("decoding.do_sample", 0, "0 is not of type boolean$"),
    Refusal(
        "decoding",
        {"do_sample": False, "top_p": 0.9},
        r"top_p: no effect with greedy \(do_sample: false\); remove one of them$",
    ),
    Refusal(
        "decoding",
        {"temperature": 0, "top_p": 0.5},
        r"top_p: no effect with greedy \(temperature: 0\); remove one of them$",
    ),
    Refusal("decoding", {"regex": "a", "choice": ["b"]}, "choice: regex is set too; remove one$"),
    Refusal(
        "decoding", {"json_schema": "absent.json"}, "json_schema: 'absent.json' cannot be read"
    ),
    Refusal("decoding", {"seed": 1}, _SEED),
    Refusal("decoding", {"n": 2}, "unknown key 'n': each answer is a sample of its own; limit"),
    Refusal(
        "decoding", {"stop": ["a"]}, "unknown key 'stop': stops are a setting of a model; write"
    ),
    Refusal("decoding", {"topp": 1}, "unknown key 'topp', did you mean 'top_p'"),
    Refusal("decoding", {"min_tokens": 2}, "unknown key 'min_tokens', did you mean 'min_new_tok"),
    Refusal("decoding", "greed", "'greed' is not greedy, as_published or settings by name$"),
    Refusal("decoding", 0.2, r"'?0\.2'? is not greedy, as_published or settings by name$"),
    Refusal("decoding", [1], r"\[1\] is not greedy, as_published or settings by name$"),
]

OUTPUTS = [
    Refusal("stop", "", "'' ends no text; leave it out$"),
    Refusal("stop", ["a", "a"], "a text is given twice; leave one out$"),
    Refusal("stop", ["User:", "User"], "'User:' is never reached, since 'User' ends the text"),
    Refusal(
        "stop",
        ["t>"],
        "'t>' ends every answer within the mark '<t>' of a thought; leave out either$",
        {"thought": {"begin": "<t>", "end": "</t>"}},
    ),
    Refusal("include_stop", True, "no effect without stop; remove it$"),
    Refusal(
        "thought", {"begin": "<t>", "end": "<t>"}, "'<t>' and '<t>' overlap; write two marks, of"
    ),
    Refusal(
        "thought",
        {"begin": "<t>", "end": "\n</t>"},
        r"the mark '\\n</t>' has white space around it; remove that$",
    ),
    Refusal(
        "thought", {"begin": "", "end": "x"}, r"begin: '' is too short; it must have at least 1$"
    ),
    Refusal("template", {"date": "x"}, "date: 'x' is no date; write 2026-11-28$"),
    Refusal("template", {"tools": []}, "tools: the program sets it itself; remove it$"),
    Refusal(
        "template", {"x": "False"}, 'x: "False" is a text, which a template reads as true; write f'
    ),
    Refusal("template", {"a b": 1}, "'a b': it is no name of a variable; rename it$"),
]

QUERIES = [
    Refusal("query", "", "column 1 of the query: found the end of the query, expected P=. "),
    Refusal(
        "query",
        "P>=1 [ F gender > ]",
        "column 19 of the query: found `]`, expected a variable or a whole number$",
    ),
    Refusal(
        "query", "P>=1 [ F gender > 0", "column 20 of the query: found the end of the query, ex"
    ),
    Refusal(
        "query",
        "P>=1 [ F gendre > 0 ]",
        "column 10 of the query: gendre is neither step nor a known quantifier, did you mean 'gend",
    ),
    Refusal(
        "query",
        "P>=1 [ F sentiment > 0 ]",
        "column 10 of the query: sentiment is neither step nor a known quantifier",
    ),
    Refusal(
        "query",
        "P>=1.5 [ F gender > 0 ]",
        r"column 4 of the query: found 1\.5, expected a probability from 0 to 1$",
    ),
    Refusal(
        "query",
        "P>=1 [ F step = 41 ]",
        r"column 10 of the query: step = 41 never holds, beyond the horizon: texts grow by at most",
    ),
    Refusal(
        "query", f"P>=1 [ F {'!' * 300} gender > 0 ]", ".*: more than 100 nested levels; simplify"
    ),
    Refusal(
        "query",
        'R{"gender"}=? [ I=99 ]',
        "column 17 of the query: I=99 is beyond the horizon: texts grow by at most",
        doors=frozenset({"shell", "python", "config"}),
    ),
    Refusal(
        "query",
        'P>=1 [ F "rest" ]',
        '.*"rest" is about the tokens that alpha and k do not select; ask it about a tree$',
        doors=frozenset({"shell", "python", "suite"}),
    ),
    Refusal(
        "query",
        "P>=1 [ F similarity > 0 ]",
        "quantifier 'similarity': the setting 'protected' is missing; add it",
        doors=frozenset({"python", "suite"}),
    ),
]

_NO_NAME = (
    "quantifier '{}': not letters, digits and _, or a reserved word of queries or PRISM; rena"
)
_WRITTEN = frozenset({"shell", "suite", "config"})


def _settings(words: str, /, **settings: Any) -> Refusal:
    """The refusal of the settings of a quantifier x, also as arguments of its class."""
    return Refusal("quantifiers.x", settings, words)


_NO_WORDS = r"words, file: not exactly one is set"
QUANTIFIERS = [
    *(
        Refusal(f"quantifiers.{name}", {"type": "gender"}, _NO_NAME.format(name), doors=_WRITTEN)
        for name in ("a-b", "step", "module", "2nd")
    ),
    Refusal(
        "quantifiers.gendr",
        {},
        "quantifier 'gendr': unknown, did you mean 'gender'",
        doors=_WRITTEN,
    ),
    _settings("type: 'patern' is unknown, did you mean 'pattern'", type="patern"),
    _settings("the setting 'pattern' is missing; add it$", type="pattern"),
    _settings(
        "unknown setting 'patern', did you mean 'pattern'. it has match, of, pattern, seconds$",
        **{"type": "pattern", "patern": "a"},
    ),
    _settings(r"pattern '\(a': does not compile: missing \)", type="pattern", pattern="(a"),
    _settings("pattern: 3 is not a text", type="pattern", pattern=3),
    _settings(".*does not compile", type="pattern", pattern="a{99999999999}"),
    _settings(".*does not compile: unknown group", type="pattern", pattern="(?<n>a)(?P=m)"),
    _settings(
        "match: 'hole' is unknown, did you mean 'whole'. use one of found, whole, possible, count$",
        **{"type": "pattern", "pattern": "a", "match": "hole"},
    ),
    _settings(
        ".*use one of found, whole, possible, count$", type="pattern", pattern="a", match=["whole"]
    ),
    _settings(
        "of: 'answer' is unknown; use one of continuation, text",
        **{"type": "pattern", "pattern": "a", "of": "answer"},
    ),
    _settings("seconds: 0 is not above 0", type="pattern", pattern="a", seconds=0),
    _settings("seconds: nan is not above 0", type="pattern", pattern="a", seconds=NAN),
    _settings(
        r"seconds: 1e\+18 is above 1,000,000; lower it", type="pattern", pattern="a", seconds=1e18
    ),
    _settings("seconds: true is not a number", type="pattern", pattern="a", seconds=True),
    _settings(_NO_WORDS, type="words"),
    _settings(_NO_WORDS, type="words", words=[]),
    _settings(".*not exactly one", type="words", words=["a"], file="b"),
    _settings("words: 'cat' is not a list of words", type="words", words="cat"),
    _settings("words: word 2 is 'a dog', not a single word", type="words", words=["cat", "a dog"]),
    _settings("words: word 2 is 3, not a single word", type="words", words=["cat", 3]),
    _settings(
        "words: word 2 is '密码', and no spaces divide words of its",
        type="words",
        words=["cat", "密码"],
    ),
    _settings(
        ".*no spaces divide words of its script; use a pattern", type="words", words=["パスワード"]
    ),
    _settings("words: word 1 is 'รหัส', ", type="words", words=["รหัส"]),
    _settings(
        "of: 'x' is unknown; use one of continuation, text", type="words", words=["cat"], of="x"
    ),
    _settings("file: '.*nowhere.txt' cannot be read", type="words", file="nowhere.txt"),
    _settings("file: 3 cannot be read", type="words", file=3),
    _settings(
        "unknown setting 'protect', did you mean 'protected'", type="similarity", protect=["a"]
    ),
    _settings("the setting 'protected' is missing", type="similarity"),
    _settings("protected: 'one text' is not", type="similarity", protected="one text"),
    _settings("protected: .* is not", type="similarity", protected=[]),
    _settings("protected: .* is not", type="similarity", protected=["a", ""]),
    _settings("protected: .* is not", type="similarity", protected=["a", 1]),
    _settings("unknown setting 'language'; it has of", type="polarity", language="de"),
    _settings("unknown setting 'rounding'", type="readability", rounding=True),
    _settings("unknown setting 'mail', did you mean 'male'", type="gender", mail="x"),
    _settings("male: '.*nowhere.txt' cannot be read", type="gender", male="nowhere.txt"),
    _settings("male: null cannot", type="gender", male=None),
    _settings(
        "unit: 'lines' is unknown; use one of characters, words, sent", type="length", unit="lines"
    ),
    _settings(
        r"schema\['type'\]: not a JSON Schema: 'objekt' is not a type, did you mean 'object'",
        **{"type": "json", "schema": {"type": "objekt"}},
    ),
    _settings(
        r"schema\['pattern'\]: '\\\\Z': not an ECMA 262 pattern",
        **{"type": "json", "schema": {"pattern": r"\Z"}},
    ),
    Refusal(
        "quantifiers.x",
        [1],
        r".*\[1\].* (is not of type object|has no settings; write)",
        doors=_WRITTEN,
    ),
]

_USER = {"user": "Hi"}
PROMPTS = [
    Refusal(
        "user", "\udcff", r"'\\udcff' is not valid UTF-8; encode it again$", doors=_PYTHON_SHELL
    ),
    Refusal(
        "start", "\udcff", r"'\\udcff' is not valid UTF-8; encode it again$", doors=_PYTHON_SHELL
    ),
    *(Refusal("user", text, "the text is empty; write a prompt$") for text in ("", " \n")),
    Refusal("user", 5, "5 is not a text; give a string$", doors=ONE_DOOR),
    Refusal("start", None, "a start string is missing; give start, user", doors=ONE_DOOR),
    Refusal(
        "start",
        5,
        r"5 is (neither a text nor messages; give a|not of type string or array$)",
        doors=_IN_FILES,
    ),
    Refusal(
        "start",
        {"text": "a"},
        r".* is (neither a text nor messages; give a|not of type string or array$)",
        doors=_IN_FILES,
    ),
    Refusal("system", 5, "5 is not a text; give a string$", _USER, ONE_DOOR),
    Refusal(
        "system", "Be.", "it belongs to a chat, not to a start string; give user$", doors=ONE_DOOR
    ),
    Refusal(
        "system",
        "Be.",
        "(it|system: a system prompt) belongs to a chat(, not to a start string)?; (give|use) user",
        {"start": "x"},
    ),
    Refusal(
        "start",
        "a",
        "user is given too; keep one prompt$|.*not allowed with|there is user and start; give",
        {"user": "b"},
    ),
    Refusal(
        "user",
        "b",
        "messages is given too; keep one prompt$|.*not allowed|there is user and messages; give",
        {"messages": [_USER]},
    ),
    Refusal(
        "messages",
        [],
        r"(last message: not the user's; end with a user mess|\[\] is too short; add)",
    ),
    Refusal(
        "messages",
        [{}],
        r"\[0\]: \{\} (is not a message; write it as|must have one key; keep system, us)",
    ),
    Refusal(
        "messages", [{"usr": "Hi"}], r"\[0\]: (the role|unknown key) 'usr'.*, did you mean 'user'"
    ),
    Refusal(
        "messages",
        [{"robot": "Hi"}],
        r"\[0\]: (the role|unknown key) 'robot'.*; (use|known keys are) system",
    ),
    Refusal(
        "messages",
        [{"user": 3}],
        r"\[0\]\.user: 3 is not (a text|of type string)$",
        doors=frozenset({"python", "shell", "config"}),
    ),
    Refusal("messages", [{"user": "\udcff"}], ".* is not valid UTF-8", doors=ONE_DOOR),
    Refusal(
        "messages",
        [{"user": "Hi", "system": "Be."}],
        r"\[0\]: \{.*\} (is not a message; write|must have one)",
    ),
    Refusal(
        "messages",
        [{"user": "Hi", "name": "Eve"}],
        r"\[0\]: (\{.*\} is not a message; write|unknown key 'name')",
    ),
    Refusal("messages", ["Hi"], r"\[0\]: 'Hi' is not (a message; write it as|of type object$)"),
    Refusal(
        "messages",
        [_USER, {"assistant": "Yes"}],
        "last message: not the user's; end with a user mess",
    ),
    Refusal(
        "messages", [{"system": "Be."}], "last message: not the user's; end with a user message$"
    ),
    Refusal(
        "messages",
        [_USER, {"system": "No"}, _USER],
        r"\[1\]: a system prompt follows another message; put",
    ),
    Refusal(
        "messages",
        [{"system": "b"}, _USER],
        r"(\[1\]: a system prompt follows another message|.*system prompt)",
        {"system": "a"},
        frozenset({"python", "shell", "suite"}),
    ),
    Refusal(
        "messages", 5, r".*(5 is not a list|has no list; write|5 is not of type (string or )?array)"
    ),
    Refusal("messages", "abc", "('abc' is not a list|.*has no list; write)", doors=_PYTHON_SHELL),
    Refusal("turns", "c", "'c' is (no list of texts; write|not of type array$)"),
    Refusal(
        "turns",
        [{"usr": "c"}],
        r"(\[.*\] is no list of texts; write|\[1\]: unknown key 'usr', did you mean)",
    ),
    Refusal(
        "turns",
        ["{answer 2}"],
        r"\[1\]: \{answer 2\} does not precede this turn; use 1",
        doors=ONE_DOOR,
    ),
]

_READ = frozenset({"python", "suite"})
_BOTH = {"at_least": 0.5}


def _assertion(words: str, /, *, doors: frozenset[str] | None = None, **entry: Any) -> Refusal:
    """The refusal of an assertion, whose message names the assertion itself."""
    return Refusal("require", entry, words, doors=doors)


ASSERTIONS = [
    _assertion(
        "contain: there is no such assertion, did you mean 'contains'", contain="he", doors=_READ
    ),
    _assertion("regex: there is no .*, did you mean 'matches'", regex="a", **_BOTH, doors=_READ),
    _assertion(
        "not_regex: there is no .*, did you mean 'not_matches'", not_regex="a", **_BOTH, doors=_READ
    ),
    _assertion(
        "not_contian: there is no .*, did you mean 'not_contains'",
        not_contian="a",
        **_BOTH,
        doors=_READ,
    ),
    _assertion(
        "at_leats: there is no .*, did you mean 'at_least'", contains="a", at_leats=0.5, doors=_READ
    ),
    _assertion(r"\{\}: it has 0 assertions; write exactly one$", doors=_READ),
    _assertion(r".*it has 0 assertions; write exactly one$", **_BOTH, doors=_READ),
    _assertion(
        ".*(it has 2 assertions; write exactly|several queries; keep) one$",
        contains="a",
        matches="b",
        **_BOTH,
    ),
    _assertion(
        ".*(write a probability, at_least or at_most|not allowed with argument)",
        contains="a",
        at_least=0.5,
        at_most=0.6,
    ),
    *(
        _assertion(
            f"(at_least|--at-least): '?{value}'? is not a probability; write one from 0 to 1$",
            contains="a",
            at_least=value,
        )
        for value in (2, "1.01")
    ),
    *(
        _assertion(
            f"(at_least|--at-least): '{value}' is not a number; write one from 0 to 1$",
            contains="a",
            at_least=value,
        )
        for value in ("95%", "much", "0_9", "1e-99999", "nan")
    ),
    _assertion("at_least: nan is not a number", contains="a", at_least=NAN, doors=ONE_DOOR),
    _assertion(
        "contains: value: .* is a mapping, no text; write it in quotes",
        contains={"answer": None},
        **_BOTH,
        doors=ONE_DOOR,
    ),
    _assertion("at_least: true is not a number", contains="a", at_least=True, doors=ONE_DOOR),
    _assertion("(--)?contains: value: the text is empty; write a text$", contains="", **_BOTH),
    _assertion(r".*'matches': pattern '\(': does not compile: missing \)", matches="(", **_BOTH),
    _assertion(
        "(max_words|--max-words): value: -1 is no count; write a whole number",
        max_words=-1,
        **_BOTH,
    ),
    _assertion(
        "max_words: value: .*1.5.* is no count; write a whole number",
        max_words=1.5,
        **_BOTH,
        doors=_READ,
    ),
    _assertion("contains: value: null is no text", contains=None, **_BOTH, doors=_READ),
    _assertion("contains_any: value: the list is empty", contains_any=[], **_BOTH, doors=_READ),
    _assertion(
        r"contains_any: .*write a list such as \['Yes', 'No'\]",
        contains_any="Yes, No",
        **_BOTH,
        doors=_READ,
    ),
    _assertion(
        "not_contains_all: .*is one text; write a list",
        not_contains_all="a;b",
        **_BOTH,
        doors=_READ,
    ),
    _assertion(
        r"equals: value: \['a', 'b'\] is no text; write one text",
        equals=["a", "b"],
        **_BOTH,
        doors=_READ,
    ),
    _assertion(
        "contains: value: 42 is no text; write one text", contains=42, **_BOTH, doors=ONE_DOOR
    ),
    _assertion(
        "json: value: 'x' is no schema; write true or a JSON Schema$",
        json="x",
        **_BOTH,
        doors=_READ,
    ),
    _assertion("refuses: .*write true", refuses="x", **_BOTH, doors=_READ),
    _assertion("ends: .*write true", ends=False, **_BOTH, doors=_READ),
    _assertion("classifier: .*label", classifier={"directory": "d"}, **_BOTH, doors=_READ),
    _assertion(
        "of: 'thoughts' is unknown, did you mean 'thought'",
        contains="a",
        of="thoughts",
        **_BOTH,
        doors=_READ,
    ),
    _assertion(
        "of: no effect on this assertion; remove it$", ends=True, of="thought", **_BOTH, doors=_READ
    ),
    _assertion(
        "of: no effect without at_least or at_most; add one$",
        contains="a",
        of="thought",
        doors=ONE_DOOR,
    ),
    _assertion("any_of: all_of excludes it", ends=True, all_of=2, any_of=2, **_BOTH, doors=_READ),
    _assertion(
        "all_of: '?1'? is no number of answers; write one from",
        ends=True,
        all_of=1,
        **_BOTH,
        doors=_READ,
    ),
    _assertion("any_of: 'x' is no number of answers", ends=True, any_of="x", **_BOTH, doors=_READ),
    Refusal(
        "quantifiers.contains",
        {"type": "gender"},
        ".*contains( |: the assertion )uses this name; rename (it|the quantifier)$",
        {"require": {"contains": "a"}},
        _PYTHON_SHELL,
    ),
]

REFUSALS = [*LIMITS, *DECODINGS, *OUTPUTS, *QUERIES, *QUANTIFIERS, *PROMPTS, *ASSERTIONS]

SHELL = [
    (
        ["P=? [ F gender > 0 ]"],
        "--start --user --messages is required; see ",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--lenght", "3"],
        "did you mean '--length'? See llmchecker check --help",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--model="],
        "--model: the name is empty; name a directory",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--model=../m"],
        "--model: '../m' is no model and no directory in ",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--config=absent.yaml"],
        "absent.yaml: absent, not a configuration",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--alpha=0.5"],
        "--k: missing; give --alpha and --k, or neither",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--k=5"],
        "--alpha: missing; give --alpha and --k, or neither",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--alpha=0.5", "--k=3"],
        "--length: missing; a tree of alpha and k needs one, such as 5",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--alpha=0.5", "--k=3", "--length=3", "--passes=9"],
        "--passes: a tree of --alpha and --k has no limits and no samples; leave out either",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--greedy", "--top-p=0.5"],
        "--top-p, --greedy: top_p: no effect with",
    ),
    (["P=? [ F gender > 0 ]", "--messages=absent.json"], "--messages: absent.json cannot be read"),
    (["P=? [ F gender > 0 ]", "--messages=m"], "--messages: m cannot be read"),
    (["--start=a"], "check: no query; write one, or an assertion such as --contains"),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--contains=a"],
        "the query and --contains: several queries; keep one",
    ),
    (
        ["P=? [ F gender > 0 ]", "--start=a", "--at-least=0.5"],
        "--at-least, --at-most: no assertion; add one",
    ),
    (["--start=a", "--json-schema=absent.json"], "--json-schema: 'absent.json' cannot be read"),
    (["P=? [ F x = 1 ]", "--start=a", "--quantifier=x={"], "--quantifier x, line 1: not YAML"),
    (
        ["P=? [ F x = 1 ]", "--start=a", "--quantifier=x={type: a, type: b}"],
        "the key 'type' is also",
    ),
    (
        ["P=? [ F similarity > 0 ]", "--start=a"],
        "--quantifier similarity: quantifier 'similarity': the setting",
    ),
]
"""Arguments that only the shell has, and what the message says."""
