"""Comparison with other programs for the same questions: `make bench-servers`.

The same tree in process, by vLLM's server and by llama.cpp's, on the same cores one after the
other. A check by vLLM, next to what that server samples by itself. Then a chat question: its exact
answer and that of a thousand texts that `generate` of transformers samples, and as many by
lm-evaluation-harness. Writes servers.md, and the figures to servers.json.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from other_programs import Generator, Sampling, format_table, sample_by_harness
from plain_sampling import Proportion
from real_servers import gguf_of, llama_cpp, vllm

import llmchecker as lc
from llmchecker.config import paths
from llmchecker.config.config import Config
from llmchecker.models.interface import LanguageModel
from llmchecker.models.servers.connection import connect_model, fetch_served_model
from llmchecker.models.servers.served_model import ServedModel
from llmchecker.models.servers.settings import ServerSource
from llmchecker.models.sources.source_spec import parse_source
from llmchecker.models.transformers.load import load_model
from llmchecker.trees.expansion import build_tree
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.atomic_files import atomic_write, write_json

MODEL = "smollm2-135m"
START = "The player won because"
TRUNCATION = Truncation(0.9, 9, 4)

QUESTION = "Is Paris in France? Answer yes or no."
QUERY = "P=? [ F yes = 1 ]"
SAMPLING = Sampling(temperature=0.2, top_p=0.9, length=16, samples=1000, at_once=100)
CONFIDENCE = 0.99

DEFINITIONS = {
    "nodes": "texts that the model is asked about, for the tree",
    "seconds": "from the first question to the finished tree",
    "nodes_a_second": "the two divided",
    "in_process_ratio": "nodes a second in process, divided by this way's",
}
LENGTHS, PASSES, SAMPLED = (5, 40), 20_000, 128
OF_CHECKS = {
    "passes_a_second": "tokens a second that a check gets from the server, with 100 log "
    "probabilities each",
    "tokens_a_second": f"the same of one request for {SAMPLED} texts after another",
    "ratio": "the first over the second",
}
OF_ANSWERS = {
    "seconds": "from the start of the program to the answer, the model's loading included",
    "low": "the smallest probability that the answer leaves open",
    "high": "the largest",
}


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(prog="serving.py", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    answers = answered(options.config)
    print(of_answers(answers), flush=True)
    trees, checks = measured(Config.read(options.config))
    print(of_trees(trees), of_checks(checks))
    content = {"trees": trees, "checks": checks, "answers": answers}
    write_json(content, options.output / "servers.json")
    with atomic_write(options.output / "servers.md") as unfinished:
        pages = of_trees(trees), of_checks(checks), of_answers(answers)
        unfinished.write_text("\n".join(pages), encoding="utf-8")


Figures = dict[str, dict[str, float]]
"""Figures by name, for each way or length."""


def measured(config: Config) -> tuple[Figures, Figures]:
    """The figures of `DEFINITIONS` for each way, and those of `OF_CHECKS` for each length."""
    cores = len(os.sched_getaffinity(0))
    directory = Path(paths.model_directory(MODEL))
    found = {"in process": grown(load_model(directory, threads=cores))}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with vllm(directory, threads=cores) as address:
            found["vLLM"] = grown(connected(address, "vllm", directory, scratch / "vllm"))
            served = connected(address, "vllm", directory, scratch / "lists", tokens=100)
            checks = {f"{length} tokens": checked(served, length) for length in LENGTHS}
        file = gguf_of(config.models[MODEL].source, scratch)
        with llama_cpp(file, threads=cores) as address:
            served = connected(address, "llama.cpp", directory, scratch / "llama_cpp")
            found["llama.cpp"] = grown(served)
    own = found["in process"]["nodes_a_second"]
    trees = {
        way: figures | {"in_process_ratio": own / figures["nodes_a_second"]}
        for way, figures in found.items()
    }
    return trees, checks


def checked(model: ServedModel, length: int) -> dict[str, float]:
    """The figures of `OF_CHECKS` for texts of a length."""
    began = time.monotonic()
    answer = lc.ask("P=? [ F gender > 0 ]", model, START, length=length, passes=PASSES)
    passes = answer.costs.passes / (time.monotonic() - began)
    payload = {
        "model": model.info.model,
        "prompt": [model.encode(START)],
        "logprobs": model.listed_tokens,
        "n": SAMPLED,
        "max_tokens": length,
        "return_tokens_as_token_ids": True,
    }
    began, sampled = time.monotonic(), 0
    while sampled < PASSES:
        request = urllib.request.Request(
            f"{model.client.address}/v1/completions",
            json.dumps(payload).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            sampled += json.load(response)["usage"]["completion_tokens"]
    tokens = sampled / (time.monotonic() - began)
    return {"passes_a_second": passes, "tokens_a_second": tokens, "ratio": passes / tokens}


def connected(
    address: str, api: str, tokenizer: Path, directory: Path, tokens: int = 20
) -> ServedModel:
    """The model of a server, told as many tokens of each distribution as vLLM tells by itself."""
    source = ServerSource(
        parse_source(f"server:{address}"), api, parse_source(f"path:{tokenizer}"), tokens=tokens
    )
    fetch_served_model(source, directory)
    return connect_model(directory)


def grown(model: LanguageModel) -> dict[str, float]:
    """Grow the tree once for practice, another time to measure."""
    build_tree(model, START, Truncation(TRUNCATION.alpha, TRUNCATION.k, 2))
    began = time.monotonic()
    tree = build_tree(model, START, TRUNCATION)
    seconds = time.monotonic() - began
    nodes = int(tree.internal.sum())
    return {"nodes": nodes, "seconds": seconds, "nodes_a_second": nodes / seconds}


def answered(config: Path) -> dict[str, dict[str, float]]:
    """The figures of `OF_ANSWERS`: what this project says of the question, and what samples say."""
    began = time.monotonic()
    command = ["check", QUERY, "--config", str(config), "--model", MODEL, "--user", QUESTION]
    command += ["--temperature", str(SAMPLING.temperature), "--top-p", str(SAMPLING.top_p)]
    command += ["--length", str(SAMPLING.length)]
    command = [str(Path(sys.executable).with_name("llmchecker")), *command, "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    exact = {"seconds": time.monotonic() - began, "low": told["lower"], "high": told["upper"]}
    return {
        "llmchecker check": exact,
        f"{SAMPLING.samples} samples of generate": sampled(),
        f"{SAMPLING.samples} samples of lm-evaluation-harness": by_harness(),
    }


def sampled() -> dict[str, float]:
    """The interval that sampled answers to the question give, by Clopper and Pearson."""
    began = time.monotonic()
    answers = Generator(paths.model_directory(MODEL)).sample(QUESTION, SAMPLING)
    return interval(sum(map(says_yes, answers)), time.monotonic() - began)


def by_harness() -> dict[str, float]:
    """The same, where lm-evaluation-harness asks the question as often."""
    (answers,), seconds = sample_by_harness(paths.model_directory(MODEL), [QUESTION], SAMPLING)
    return interval(sum(map(says_yes, answers)), seconds)


def says_yes(answer: str) -> bool:
    """What the quantifier `yes` of config.yaml says of an answer."""
    return re.search(r"(?i)^\W*yes\b", answer) is not None


def interval(satisfying: int, seconds: float) -> dict[str, float]:
    """The figures of `OF_ANSWERS` for so many samples that satisfy the query."""
    low, high = Proportion(satisfying, SAMPLING.samples).interval(CONFIDENCE)
    return {"seconds": seconds, "low": low, "high": high}


def of_trees(found: dict[str, dict[str, float]]) -> str:
    """The table of how fast the tree grows, and what its columns are."""
    return f"# {MODEL} after {START!r}, {TRUNCATION}\n\n{format_table(found, DEFINITIONS)}"


def of_checks(found: dict[str, dict[str, float]]) -> str:
    """The table of how fast a check by vLLM is."""
    return f"# A check of {MODEL} by vLLM\n\n{format_table(found, OF_CHECKS)}"


def of_answers(found: dict[str, dict[str, float]]) -> str:
    """The table of answers to the question, and what its columns are."""
    return (
        f"# {QUERY} of the answer to {QUESTION!r}\n\nTemperature {SAMPLING.temperature}, "
        f"top-p {SAMPLING.top_p}, {SAMPLING.length} tokens; samples with confidence {CONFIDENCE}."
        f"\n\n{format_table(found, OF_ANSWERS)}"
    )


if __name__ == "__main__":
    main()
