"""Days until `watch` refutes that a deployment is as at release, after a change of its weights.

At release the weights are rounded as Q8_0 of GGUF, and later as Q4_0; the embeddings are as Q8_0 in
both. A deployment that returns texts alone answers by their probabilities, computed in float32:
2,000 answers of one token to each of ten questions at release, and 20 a day. Next to it is a test
that is planned for one day and made on that day alone.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import yaml
from gguf import GGMLQuantizationType
from scipy.stats import binom, hypergeom
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmchecker.models.text_answer import Finish, TextAnswer, TextStream
from llmchecker.suites.drift import Claim, watch_suite
from llmchecker.suites.load import load_suite
from llmchecker.suites.session import run_suite
from llmchecker.suites.suite_file import RunKeys

DEFINITIONS = {
    "largest.release": "probability of the first token of a question at release, that of ten "
    "questions with the largest change",
    "largest.later": "the same with the later weights",
    "largest.days": "days of 20 answers until `watch` refuted that it is as at release, at level "
    "0.01 and margin 0.001, on average over runs; a run without a refutation has all its days",
    "largest.planned_days": "days of Fisher's exact test with power 0.9 at the level, made once",
    **{
        f"middle.{name}": "the same of the question with the fifth largest change"
        for name in ("release", "later", "days", "planned_days")
    },
    "together.days": "days until one of ten requirements of a suite was refuted, in one run",
}
QUESTIONS = (
    *("What is the capital of France?", "Can you help me?", "Who wrote Hamlet?", "Is it late?"),
    *("Name a colour.", "Name an animal.", "How are you?", "What is 2 + 2?", "Tell me a joke."),
    "Is Paris in Italy?",
)
LEVEL, MARGIN, DAILY, POWER = 0.01, 0.001, 20, 0.9
_FIRST = "first"
"""The answer that is the first token of a question."""
_BLOCK = 32
"""The number of weights of a block, which have one scale."""
_RELEASE, _LATER = GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_0
_PLACES = {"largest": 0, "middle": 4}


@dataclass(frozen=True)
class Sizes:
    """The amount of work.

    Attributes:
        runs: number of runs of each figure about one question.
        days: largest number of days of a run.
        at_release: answers to each question at release.
    """

    runs: int = 3
    days: int = 60
    at_release: int = 2_000


def measure(directory: Path, sizes: Sizes, *, report: Callable[[str], None]) -> dict[str, float]:
    """Measure the days of a model in a directory."""
    report("drift: weights as Q8_0 and as Q4_0")
    release, later = _find_probabilities(directory)
    order = np.argsort(-abs(release - later), kind="stable")
    found: dict[str, float] = {}
    for name, place in _PLACES.items():
        chosen = order[place : place + 1]
        p, q = float(release[chosen[0]]), float(later[chosen[0]])
        report(f"drift: {p:.3f} at release, and later {q:.3f}")
        found |= {
            f"{name}.release": p,
            f"{name}.later": q,
            f"{name}.days": _count_days(chosen, release, later, sizes),
            f"{name}.planned_days": _plan_days(p, q, sizes),
        }
    report("drift: ten requirements together")
    days = _count_days(order, release, later, replace(sizes, runs=1))
    return found | {"together.days": days}


def _find_probabilities(directory: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of the most probable first token of each question at release."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    texts = [_format_prompt(tokenizer, question) for question in QUESTIONS]
    prompts = [tokenizer(text, return_tensors="pt").input_ids for text in texts]
    rows = []
    for kind in (_RELEASE, _LATER):
        network = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        _round_weights(network, kind)
        with torch.inference_mode():
            logits = [network(prompt).logits[0, -1].double() for prompt in prompts]
        rows.append(torch.stack(logits).softmax(dim=1).numpy())
    first = rows[0].argmax(axis=1)
    index = np.arange(len(QUESTIONS))
    return rows[0][index, first], rows[1][index, first]


def _format_prompt(tokenizer: Any, question: str) -> str:
    if not tokenizer.chat_template:
        return question
    messages = [{"role": "user", "content": question}]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text


def _round_weights(network: Any, kind: GGMLQuantizationType) -> None:
    """Round the weights of a network to those of a format, in place; the embeddings as Q8_0."""
    for name, weight in network.named_parameters():
        if weight.ndim != 2 or weight.shape[1] % _BLOCK:
            continue
        used = _RELEASE if "embed" in name or "lm_head" in name else kind
        numbers = weight.detach().numpy()
        rounded = gguf.quants.dequantize(gguf.quants.quantize(numbers, used), used)
        weight.data = torch.from_numpy(rounded.reshape(numbers.shape).copy())


class _Deployment:
    """A deployment that returns texts alone: the first token of a question, or another one.

    Attributes:
        probabilities: the probability of the first token, by question.
    """

    description = name = "a deployment"

    def __init__(self, seed: int) -> None:
        self.probabilities: dict[str, float] = {}
        self._rng = np.random.default_rng(seed)

    def check_prompt(self, prompt: object) -> None:
        del prompt

    def iter_answers(
        self,
        next_request: Callable[[], tuple[TextStream, int] | None],
        must_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[TextStream, TextAnswer]]:
        del must_stop
        while (request := next_request()) is not None:
            stream = request[0]
            assert not isinstance(stream.prompt, str)
            question = stream.prompt.messages[-1][1]
            is_first = self._rng.random() < self.probabilities[question]
            yield stream, TextAnswer(_FIRST if is_first else "-", Finish.TRUNCATED)

    def find_spent_limit(self, stream: TextStream, number: int) -> str | None:
        del stream, number
        return None


def _count_days(chosen: np.ndarray, release: np.ndarray, later: np.ndarray, sizes: Sizes) -> float:
    """Count the days until a claim about the release is refuted, on average over runs."""
    questions = [QUESTIONS[index] for index in chosen]
    days = []
    for seed in range(sizes.runs):
        deployment = _Deployment(seed)
        with tempfile.TemporaryDirectory() as folder:
            path = _write_suite(Path(folder), questions, sizes.at_release)
            baseline = Path(folder) / "release.jsonl"
            deployment.probabilities = dict(zip(questions, release[chosen].tolist(), strict=True))
            _run_release(path, baseline, deployment)
            deployment.probabilities = dict(zip(questions, later[chosen].tolist(), strict=True))
            days.append(_watch(path, baseline, deployment, sizes.days))
    return float(np.mean(days))


def _run_release(path: Path, baseline: Path, deployment: _Deployment) -> None:
    suite = load_suite(path)
    run_suite(suite, log=baseline, open_model=lambda _: deployment, is_measuring=True)


def _watch(path: Path, baseline: Path, deployment: _Deployment, most: int) -> int:
    """Return the day on which a claim about the release is refuted, or the largest number."""
    for day in range(1, most + 1):
        report = watch_suite(
            path,
            baseline=baseline,
            log=path.with_name("days.jsonl"),
            level=LEVEL,
            margin=MARGIN,
            changes=RunKeys(answers=DAILY),
            open_model=lambda _: deployment,
        )
        if any(each.claim is Claim.RELEASE for each in report.days[-1].refutations):
            return day
    return most


def _write_suite(folder: Path, questions: Sequence[str], answers: int) -> Path:
    served = {"source": "server:http://127.0.0.1:9", "api": "openai-chat", "served_as": "m"}
    config = {"models": {"m": {"label": "M", **served}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    # a requirement that each probability meets
    require = [{"starts_with": _FIRST, "at_least": 0.0001}]
    path = folder / "suite.yaml"
    keys = {
        "model": "m",
        "length": 1,
        "budget": {"answers": answers},
        "cases": [{"user": question, "require": require} for question in questions],
    }
    path.write_text(yaml.safe_dump(keys))
    return path


def _plan_days(release: float, later: float, sizes: Sizes) -> int:
    """Return the least days whose answers together have the power by Fisher's exact test.

    The test compares them with the expected count of the release, in the direction of the change,
    with half of the level.
    """
    if later < release:
        release, later = 1 - release, 1 - later
    total = sizes.at_release
    count = round(release * total)
    for days in range(1, 10 * sizes.days):
        drawn = DAILY * days
        counts = np.arange(drawn + 1)
        is_refuted = hypergeom.sf(counts - 1, total + drawn, count + counts, drawn) <= LEVEL / 2
        if binom.pmf(counts, drawn, later)[is_refuted].sum() >= POWER:
            return days
    return 10 * sizes.days
