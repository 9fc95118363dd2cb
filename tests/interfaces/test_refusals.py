"""What cannot be asked is refused at every door: the place, the value and what would be right."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.refusals import REFUSALS, SHELL, Refusal

import llmchecker as lc
from llmchecker.checking.budget import Budget
from llmchecker.config.config import Config
from llmchecker.config.keys import AnswerKeys
from llmchecker.config.registry_keys import OutputKeys
from llmchecker.errors import InvalidBound, LLMCheckerError
from llmchecker.interfaces.cli.main import main
from llmchecker.properties.registry import BUILTIN_TYPES
from llmchecker.suites.suite_file import BudgetKeys, SuiteKeys

QUERY = "P=? [ F gender > 0 ]"
COIN = lc.TableModel(["x", "y"], lambda tokens: [0.5, 0.5])
SAMPLING = ("temperature", "top_k", "top_p", "min_p")
TREE = {"alpha": 0.5, "k": 2, "length": 2}
PROMPT = ("start", "user", "messages", "turns")

SEPARATOR = r"(\.|: )"
"""What precedes a key within a section, as `decoding.top_k` or `--decoding: top_k`."""

Asked = tuple[str, str]
"""The key that a message names, as a pattern, and the message."""


pytestmark = pytest.mark.usefixtures("unloadable_model")


@pytest.fixture
def run(capsys) -> Callable[..., str]:
    """Runs a command that is refused: status 3, one error and no traceback; returns the error."""

    def run_command(*words: str) -> str:
        try:
            status = main(list(words))
        except SystemExit as ended:
            status = ended.code
        out, err = capsys.readouterr()
        assert (status, out) == (3, ""), err
        assert "Traceback" not in err
        message = re.fullmatch(r"(?:llmchecker \w+: )?error: (.*)\n", err, re.DOTALL)
        assert message is not None, err
        return message[1]

    return run_command


def write_yaml(value: Any) -> str:
    return (
        yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n...\n").strip()
    )


def list_options(name: str, value: Any) -> list[str]:
    """The options of the shell for a key of Python."""
    option = f"--{name.replace('_', '-')}"
    match name:
        case "messages":
            Path("chat.json").write_text(json.dumps(value))
            return ["--messages=chat.json"]
        case "stop":
            return [f"{option}={text}" for text in ([value] if isinstance(value, str) else value)]
        case "thought":
            return [option, value["begin"], value["end"]]
        case "template":
            return [f"{option}={key}={json.dumps(each)}" for key, each in value.items()]
        case "decoding":
            return [f"{option}={value if isinstance(value, str) else write_yaml(value)}"]
        case "quantifiers":
            return [f"--quantifier={key}={write_yaml(each)}" for key, each in value.items()]
        case "require":
            return [option for pair in value.items() for option in list_options(*pair)]
        case "certain" | "include_stop":
            return [option]
    return [f"{option}={value}"]


def ask_shell(refusal: Refusal, run: Callable[..., str]) -> Asked | None:
    """Ask by `check`."""
    keys = refusal.keys
    name, *path = refusal.key.split(".")
    if name in ("turns", "tools") or "turns" in keys:
        return None
    query = [] if "require" in keys else [keys.pop("query", QUERY)]
    if name in ("alpha", "k"):
        keys = TREE | keys
    prompt = [] if keys.keys() & {*PROMPT} else ["--user=x"]
    options = [option for pair in keys.items() for option in list_options(*pair)]
    message = run("check", *query, "--model=./m", *prompt, *options)
    places = {"quantifiers": rf"--quantifier {'.'.join(path)}: ", "query": "", "require": ""}
    # argparse itself names two options that exclude each other
    place = rf"(--{name.replace('_', '-')}|(?=argument ))"
    return places.get(name, SEPARATOR.join((place, *path))), message


def ask_option(refusal: Refusal, run: Callable[..., str]) -> Asked | None:
    """Ask by `check`, with the option of a setting of the decoding."""
    name, _, setting = refusal.key.partition(".")
    # a setting that has no effect is one of several
    if name != "decoding" or setting not in SAMPLING or isinstance(refusal.value, bool):
        return None
    option = f"--{setting.replace('_', '-')}"
    return option, run("check", QUERY, "--model=./m", "--user=x", f"{option}={refusal.value}")


def ask_python(refusal: Refusal, run: Callable[..., str]) -> Asked | None:
    """Ask by `ask`, `load`, `grow`, or the class of a quantifier."""
    keys, kind = refusal.keys, LLMCheckerError
    name, *path = refusal.key.split(".")
    if name in OutputKeys.model_fields:
        call: Callable[..., Any] = lambda: lc.load("./m", **keys)  # noqa: E731
    elif name in ("tokens", "dollars"):
        source = {"source": "http://127.0.0.1:9", "api": "openai-chat", "served_as": "m"}
        prices = {"input": "1 USD / 1M tokens", "output": "1 USD / 1M tokens"}
        call = lambda: lc.load({**source, "prices": prices}, **keys)  # noqa: E731
    elif name in ("alpha", "k"):
        call, kind = lambda: lc.grow(COIN, "x", **TREE | keys), InvalidBound
    elif name == "quantifiers" and "require" not in keys:
        settings = dict(refusal.value)
        if settings.get("type") not in BUILTIN_TYPES:
            return None
        scorer = BUILTIN_TYPES[settings.pop("type")].load()
        # Python itself names an argument that is missing or unknown
        if "setting" in refusal.words:
            return None
        call, path = lambda: scorer(**settings), ["", *path]
        return "", refuse(call, kind)
    else:
        call = lambda: ask(keys)  # noqa: E731
    place = {"query": "", "require": "", "quantifiers": ""}.get(name, SEPARATOR.join((name, *path)))
    return place, refuse(call, kind)


def ask(keys: dict[str, Any]) -> Any:
    """Ask a table by the keys of `ask`."""
    keys = dict(keys)
    query = keys.pop("require") if "require" in keys else keys.pop("query", QUERY)
    start = [keys.pop("start")] if "start" in keys else ["x"]
    if keys.keys() & {"user", "system", "messages", "turns"} and start == ["x"]:
        start = []
    if "turns" in keys:
        keys["user"] = "x"
    if not keys.keys() & Budget.model_fields.keys():
        keys["passes"] = 3
    return lc.ask(query, COIN, *start, **keys)


def ask_compare(refusal: Refusal, run: Callable[..., str]) -> Asked | None:
    """Ask by `compare` of the shell."""
    name = refusal.key
    if name not in COMPARED or "turns" in refusal.keys:
        return None
    options = [option for pair in refusal.keys.items() for option in list_options(*pair)]
    sides = ["--model=./m", "--start=x", "--versus-start=y"]
    return f"--{name}", run("compare", QUERY, *sides, *options)


def ask_compare_in_python(refusal: Refusal, run: Callable[..., str]) -> Asked | None:
    """Ask by `compare` of Python."""
    if refusal.key not in COMPARED or "turns" in refusal.keys:
        return None
    call = lambda: lc.compare(QUERY, COIN, "x", versus_start="y", **refusal.keys)  # noqa: E731
    return refusal.key, refuse(call, LLMCheckerError)


def refuse(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def ask_suite(refusal: Refusal, run: Callable[..., str]) -> Asked | None:
    """Ask by `test`, of a suite with the key."""
    keys = refusal.keys
    name, *path = refusal.key.split(".")
    if name in ("alpha", "k"):
        return None
    query = keys.pop("query", "P>=0.5 [ F gender > 0 ]").replace("=?", ">=0.5")
    case = {"user": "x", "require": [keys.pop("require", query)]}
    if keys.keys() & {*PROMPT}:
        del case["user"]
    case |= {each: keys.pop(each) for each in PROMPT if each in keys}
    if isinstance(case.get("turns"), list):
        turns = [{"user": turn} if isinstance(turn, str) else turn for turn in case["turns"]]
        case["turns"] = [{"user": "x"}, *turns]
    budget = {each: keys.pop(each) for each in IN_BUDGET if each in keys}
    if "quantifiers" in keys:
        keys["properties"] = keys.pop("quantifiers")
    suite = {"model": "./m", **keys, **({"budget": budget} if budget else {}), "cases": [case]}
    Path("suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False, allow_unicode=True))
    message = run("test", "suite.yaml")
    place = {
        **dict.fromkeys(IN_BUDGET, rf"budget\.{name}"),
        **dict.fromkeys(PROMPT, rf"cases\[0\](\.{name})?"),
        **dict.fromkeys(("query", "require"), r"cases\[0\]\.require\[0\]"),
        "quantifiers": "properties",
    }.get(name, name)
    if "turns" in keys or "turns" in case:
        place = r"cases\[0\](\.\w+)?"
    if name == "system" and "start" in case:
        place = r"cases\[0\]"
    return read_file_message("suite.yaml", place, path, message)


def ask_config(refusal: Refusal, run: Callable[..., str]) -> Asked | None:
    """Ask by a configuration of the workflow."""
    keys = refusal.keys
    name, *path = refusal.key.split(".")
    answer = {each: keys.pop(each) for each in Budget.model_fields if each in keys}
    output = {each: keys.pop(each) for each in OutputKeys.model_fields if each in keys}
    experiment = {"label": "E", "interest": "I", "start": "s", "alpha": 0.5, "k": 2, "L": 2}
    experiment["queries"] = [keys.pop("query", QUERY)]
    for each, own in (("alpha", "alpha"), ("k", "k"), ("length", "L")):
        if each in keys:
            experiment[own] = keys.pop(each)
    start = keys.pop("start", keys.pop("messages", "The"))
    quantifiers = {"gender": {}, **keys.pop("quantifiers", {})}
    if keys:
        return None
    config = {
        "models": {"m": {"label": "M", "source": "path:m", **output}},
        "start_strings": {"s": start},
        "quantifiers": quantifiers,
        "experiments": [experiment],
        **({"answer": answer} if answer else {}),
    }
    Path("config.yaml").write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    message = refuse(lambda: Config.read("config.yaml"), LLMCheckerError)
    place = {
        **dict.fromkeys(Budget.model_fields, rf"answer(\.|: ){name}"),
        **dict.fromkeys(OutputKeys.model_fields, rf"models\.m\.{name}"),
        **dict.fromkeys(("start", "messages"), r"start_strings\.s"),
        **dict.fromkeys(("alpha", "k"), rf"experiments\[0\]\.{name}"),
        "length": r"experiments\[0\]\.L",
        "query": r"experiments\[0\]\.queries\[0\]",
    }.get(name, name)
    return read_file_message("config.yaml", place, path, message)


def read_file_message(file: str, place: str, path: list[str], message: str) -> Asked:
    """The pattern of the key and the message, whose line is one of the key."""
    found = re.match(rf"\S*{re.escape(file)}, line (\d+): (.*)", message, re.DOTALL)
    assert found is not None, message
    line = Path(file).read_text().splitlines()[int(found[1]) - 1]
    unknown = re.search("unknown key '(.*?)'", message)
    named = unknown[1] if unknown else re.findall(r"\w[\w-]*", found[2].partition(": ")[0])[-1]
    assert line.strip().startswith("- ") or f"{named}:" in line, message
    return SEPARATOR.join((place, *map(re.escape, path))), found[2]


DOORS: Mapping[str, Callable[[Refusal, Callable[..., str]], Asked | None]] = {
    "shell": ask_shell,
    "option": ask_option,
    "python": ask_python,
    "suite": ask_suite,
    "config": ask_config,
    "compare": ask_compare,
    "lc.compare": ask_compare_in_python,
}
COMPARED = {"length", *Budget.model_fields} - {"tokens", "dollars"}
IN_BUDGET = Budget.model_fields.keys() - SuiteKeys.model_fields.keys()
OTHER_WORDS = {
    "suite": {name: BudgetKeys.refused_keys.get(name) for name in IN_BUDGET},
    "config": AnswerKeys.refused_keys,
}
"""Keys that a door refuses whatever their value is."""


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_a_bad_value_is_refused_at_every_door(refusal, run):
    """Each door names the place, the value and what would be right, before a model is loaded."""
    asked = set()
    for name, door in DOORS.items():
        if refusal.doors is not None and name not in refusal.doors:
            continue
        if (found := door(refusal, run)) is None:
            continue
        asked.add(name)
        place, message = found
        first, *marked = message.splitlines()
        if marked:
            shown, mark = marked
            column = int(re.search(r"column (\d+) of the query: ", first)[1])
            assert (len(mark), mark[-1]) == (column + 2, "^")
            assert shown == f"  {refusal.value}"
        words = OTHER_WORDS.get(name, {}).get(refusal.key.partition(".")[0])
        words = refusal.words if words is None else re.escape(words)
        if name == "option":
            words = words.replace("(true|'True')", "'True'")
        # an entry of a list extends the key: `messages[1]: …`
        pattern = rf"{place}{SEPARATOR}?(quantifier '[^']*': )?(?:{words})"
        assert re.match(pattern, first), (name, pattern, message)
        assert "  " not in first
    assert asked == refusal.doors if refusal.doors is not None else len(asked) > 1


@pytest.mark.parametrize(("words", "message"), SHELL, ids=lambda each: str(each)[-40:])
def test_a_mistake_of_the_shell_is_explained(words, message, run):
    """What only the command line has is refused by its option, before a model is loaded."""
    model = [] if any(word.startswith("--model") for word in words) else ["--model=./m"]
    assert message in run("check", *words, *model)
    assert message in run("check", *words, *model, "--json")
