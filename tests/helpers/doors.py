"""The doors of a question: Python, a suite in Python, and the commands of the shell.

All of them ask the same question of the same models, and what they return is compared.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.conversations import Result
from helpers.subjects import TURNS, Fault, Subject
from helpers.suites import OpenTable

from llmchecker.checking.answer import Answer
from llmchecker.errors import InterruptedCheck
from llmchecker.interfaces.cli import check_on_model
from llmchecker.interfaces.cli.main import main
from llmchecker.suites import session
from llmchecker.suites.json_lines import read_results
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite

DOORS = ("python", "suite", "test", "check")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
B = {"b": {"type": "pattern", "pattern": "b"}}
FILE = "suite.yaml"


@dataclass(frozen=True)
class Found:
    """What a door returns.

    Attributes:
        outcome: the verdict; None without one.
        low, high: the interval with confidence.
        lower, upper: the certain bounds; None where the door writes none.
        costs: the passes, or the answers.
        error: the message of an error; empty without one.
        status: the exit status; None in Python.
    """

    outcome: str | None
    low: float | None
    high: float | None
    lower: float | None
    upper: float | None
    costs: int | None
    error: str
    status: int | None


class Door:
    """A way to ask a question, in a folder of its own.

    Args:
        name: one of `DOORS`.
        subject: what is asked about.
        folder: the current folder.
        patch: puts the models of the subject in place of all others.
        capsys: captures the output of commands.
        address: the address of a provider of texts, in place of a model without one.
    """

    def __init__(
        self,
        name: str,
        subject: Subject,
        folder: Path,
        patch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        address: str = "",
    ) -> None:
        self.name, self.subject, self._folder, self._capsys = name, subject, folder, capsys
        self._patch, self._is_paid = patch, bool(address)
        self.fault, self.user_fault = Fault(), Fault()
        self._suites: dict[str, int] = {}
        self.log = folder / "results.jsonl"
        for model in ("m", "u"):
            (folder / model).mkdir()
            (folder / model / "config.json").write_text("{}")
        served = {"source": f"server:{address or 'http://127.0.0.1:9'}", "api": "openai-chat"}
        served |= {
            "requests": 4,
            "prices": {"input": "1 USD / 1M tokens", "output": "$1/1M tokens"},
        }
        if subject.access == "texts":
            models = {name: {"label": name, "served_as": name} | served for name in ("m", "u")}
            (folder / "config.yaml").write_text(yaml.safe_dump({"models": models}))

    def _open(self, name: str) -> Any:
        is_user = name.startswith("u")
        fault = self.user_fault if is_user else self.fault
        model = (self.subject.open_user if is_user else self.subject.open_model)(fault)
        return model if self.subject.access == "texts" else OpenTable(model)

    def ask(self, query: str = "P>=0.5 [ F b = 1 ]", **limits: float) -> Found:
        """Ask the question with limits of its budget, by default with enough."""
        most = {"answers": 300} if self.subject.access == "texts" else {"passes": 120}
        limits = limits or most
        self._patch.chdir(self._folder)
        for module in () if self._is_paid else (session, check_on_model):
            self._patch.setattr(module, "open_model", lambda model, *_: self._open(model.name))
        asking: Callable[..., Found] = getattr(self, f"_ask_by_{self.name}")
        return asking(query, limits)

    def _ask_by_python(self, query: str, limits: dict[str, float]) -> Found:
        try:
            answer, error = (
                self.subject.ask(query, fault=self.fault, user_fault=self.user_fault, **limits),
                "",
            )
        except InterruptedCheck as failure:
            answer, error = failure.result, str(failure)
        except Exception as failure:
            return Found(None, None, None, None, None, None, str(failure), None)
        return _read(answer, error, None)

    def write_suite(self, query: str, limits: dict[str, float]) -> Path:
        """Write the suite of the question."""
        turns = [_describe(turn) for turn in TURNS[self.subject.kind]]
        case: dict[str, Any] = {"name": "c", "require": [query]}
        case |= turns[0] if self.subject.kind == "answer" else {"turns": turns}
        suite = {
            "model": "m",
            "length": self.subject.length,
            "budget": limits,
            "confidence": 0.99,
            "properties": B,
            "cases": [case],
        }
        if self.subject.kind == "tool":
            suite["tools"] = [TOOL]
        if self.subject.access == "texts":
            suite["config"] = "config.yaml"
        text = yaml.safe_dump(suite, sort_keys=False)
        (self._folder / FILE).write_text(text)
        # a log has the results of one suite
        self._suites.setdefault(text, len(self._suites))
        self.log = self._folder / f"results{self._suites[text]}.jsonl"
        return self._folder / FILE

    def _ask_by_suite(self, query: str, limits: dict[str, float]) -> Found:
        path = self.write_suite(query, limits)
        result = run_suite(load_suite(path), log=self.log)
        (found,) = result.results
        return _read(found.answer, found.error or "", result.counts.exit_status())

    def _ask_by_test(self, query: str, limits: dict[str, float]) -> Found:
        self.write_suite(query, limits)
        status = main(["test", FILE, "--json", str(self.log)])
        self._capsys.readouterr()
        # an interrupted case has no result
        if not (results := read_results(self.log)):
            return _read(None, "", status)
        return _read(results[0].answer, results[0].error or "", status)

    def _ask_by_check(self, query: str, limits: dict[str, float]) -> Found:
        options = [f"--{name}={value}" for name, value in limits.items()]
        options += ["--quantifier=b={type: pattern, pattern: b}", "--model=m", "--user=ab"]
        if self.subject.access == "texts":
            options.append("--config=config.yaml")
        status = main(["check", query, "--json", f"--length={self.subject.length}", *options])
        printed = self._capsys.readouterr()
        error = "".join(re.findall(r"^error: (.*)$", printed.err, re.MULTILINE))
        if not printed.out:
            return Found(None, None, None, None, None, None, error, status)
        answer = json.loads(printed.out)
        return Found(
            answer["outcome"],
            answer["low"],
            answer["high"],
            None,
            None,
            answer["answers"] if self.subject.access == "texts" else answer["passes"],
            error,
            status,
        )


def _read(answer: Answer | None, error: str, status: int | None) -> Found:
    if answer is None:
        return Found(None, None, None, None, None, None, error, status)
    probability = answer.probability
    return Found(
        None if answer.decision is None else str(answer.decision.outcome),
        answer.low,
        answer.high,
        probability.lower,
        probability.upper,
        answer.passes if answer.passes is not None else answer.costs.answers,
        error,
        status,
    )


def _describe(turn: Any) -> dict[str, Any]:
    if isinstance(turn, str):
        return {"user": turn.replace("{1}", "{answer 1}")}
    if isinstance(turn, Result):
        return {"tool": {"name": "f", "content": turn.text}}
    return {"simulated_user": {"model": "u", "system": turn.system, "length": turn.length}}
