"""The job of answers for the whole model asks the question that the library asks."""

from dataclasses import fields, replace

import pytest

import llmchecker as lc
from llmchecker.checking.answer import Answer, Costs
from llmchecker.checking.budget import Budget
from llmchecker.checking.forecast import Forecast
from llmchecker.config.plan import Check, TreeSpec
from llmchecker.interfaces.snakemake.answer_jobs import (
    _compute_fingerprint,
    _select_stored_part,
    compute_answers,
)
from llmchecker.models.decoding.answer_reader import AnswerReader
from llmchecker.models.decoding.settings import Decoding
from llmchecker.models.decoding.template_settings import TemplateSettings
from llmchecker.models.lazy_model import LazyModel
from llmchecker.properties.logic.parser import parse
from llmchecker.properties.property import Property
from llmchecker.properties.quantifier_state import hash_quantifiers
from llmchecker.trees.builder import TreeBuilder
from llmchecker.trees.distribution_cache import DistributionCache
from llmchecker.trees.text_tree import Horizon
from llmchecker.utils.atomic_files import read_json_with_digest
from llmchecker.utils.interval import PROBABILITIES
from llmchecker.utils.job_logging import job_log
from llmchecker.utils.result_cache import ResultCache

QUERY = "P=? [ F long > 3 ]"
START = "The player won because"


def test_a_job_gives_the_answer_of_the_library(tmp_path, random_model):
    """Bounds and interval are those of `ask` with the same quantifier, horizon, passes and seed."""
    directory = random_model("gpt2")
    model = LazyModel(
        directory=directory,
        kind="causal",
        dtype="float32",
        device="cpu",
        threads=1,
        memory_bytes=10**9,
    )
    check = Check(TreeSpec("m", "s", Horizon(3)), parse(QUERY))
    answers, starts = [(check, Budget(passes=60, seed=1))], {"s": START}
    quantifiers = {"long": lc.Length()}
    output = tmp_path / "answer.json"
    with job_log(tmp_path / "log") as work:
        compute_answers(
            *(model, answers, starts, quantifiers, hash_quantifiers(quantifiers), ["code"]),
            *([str(output)], ResultCache(tmp_path / "cached"), work),
        )
    record = read_json_with_digest(output)
    loaded = lc.load(directory, threads=1, memory_gb=1)
    answer = lc.ask(QUERY, loaded, START, length=3, passes=60, seed=1, long=lc.Length())
    for name in ("lower", "upper", "low", "high", "passes"):
        # a job's batches have the same bits with any number of threads, and those of `ask` do not
        assert record[name] == pytest.approx(getattr(answer, name), abs=1e-6)


def test_a_stored_answer_has_what_depends_on_the_seed_alone():
    """Sizes and times of the refined tree, and forecasts, are no part of a stored answer."""
    asked = Property(parse("P=? [ F step = 1 ]"), {}, 1)
    answer = Answer(
        asked.query, 1, PROBABILITIES, costs=Costs(*range(1, 9)), forecast=Forecast(100, 2.5)
    )
    stored = _select_stored_part(answer, asked, Budget(passes=7))
    assert stored.costs == Costs(passes=7, seconds=8)
    assert stored.forecast is None
    assert stored.notes == ("There is no estimate: the limits allow no sample.",)
    timed = _select_stored_part(answer, asked, Budget(seconds=7))
    assert "the machine's speed" in timed.notes[-1]


OTHER = {
    "kind": "masked",
    "dtype": "bfloat16",
    "decoding": Decoding(top_k=2),
    "end_of_sequence": "ordinary",
    "reader": AnswerReader(stop=("\n",)),
    "template": TemplateSettings(text='{"enable_thinking": false}'),
}
"""Another value of each setting of a model that changes what it writes."""
OF_THE_MACHINE = {"directory", "device", "threads", "memory_bytes", "shared_from"}
"""Settings that change no more than the last bits; the files count by their content."""


def test_every_setting_of_a_model_is_in_the_fingerprints(random_model):
    """No tree and no answer is taken for one of a model with another setting."""
    directory = random_model("gpt2")
    model = LazyModel(directory, "causal", "float32", "cpu", 1, 10**9)
    assert {field.name for field in fields(LazyModel)} == OTHER.keys() | OF_THE_MACHINE
    models = [model, *(replace(model, **{name: value}) for name, value in OTHER.items())]
    cache = DistributionCache(directory / "cache", 10**9)
    trees = {TreeBuilder(each, cache).compute_fingerprint(START, Horizon(3)) for each in models}
    answers = {_compute_fingerprint(each, [START]) for each in models}
    assert len(trees) == len(answers) == len(models)
    same = replace(model, device="cuda", threads=2, memory_bytes=1)
    assert _compute_fingerprint(same, [START]) in answers
