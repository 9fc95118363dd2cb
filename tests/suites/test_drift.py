"""Drift: claims about all days are refuted where they are false, and rarely where they are true."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.fake_provider import MODEL, FakeProvider, share
from helpers.fake_server import running
from helpers.suites import HE, OpenTable, run, words_model, write_suite
from scipy.stats import binom

from llmchecker.checking.anytime.drift_evidence import (
    SumEvidence,
    find_least_change,
    is_beyond,
    is_changed,
)
from llmchecker.checking.anytime.mean_evidence import SCALES, MeanEvidence, Member
from llmchecker.errors import CheckFailed, ConfigError, DamagedFile
from llmchecker.interfaces.cli.main import main
from llmchecker.suites.drift import Claim, watch_suite
from llmchecker.suites.load import load_suite

ANSWERS = 8
CASE = {"name": "won", "start": "once", "require": {"he": "P>=0.5 [ F he = 1 ]"}}
PROPERTIES = {"he": {"type": "pattern", "pattern": " he"}}


def add_bits(*rows: np.ndarray) -> SumEvidence:
    """The evidence of a day about rows, of which each has its answers."""
    evidences = [MeanEvidence().add_round(bits, len(bits), 0.0, 1.0, len(bits)) for bits in rows]
    return SumEvidence.add_members([Member(0.0, 1.0, each) for each in evidences])


def draw_days(rng: np.random.Generator, probability: float, days: int) -> list[SumEvidence]:
    bits = (rng.random((days, ANSWERS)) < probability).astype(float)
    return [add_bits(each) for each in bits]


@pytest.mark.parametrize("probability", [0.1, HE, 0.95])
def test_identical_days_are_refuted_rarely(probability):
    """Of 40 periods like the release, few refute any claim on any day at level 0.2."""
    rng, level, wrong = np.random.default_rng(3), 0.2, np.zeros(3)
    for _ in range(40):
        release = add_bits((rng.random(60) < probability).astype(float))
        days = draw_days(rng, probability, 30)
        found = np.zeros(3, bool)
        for stop in range(1, 31):
            so_far = days[:stop]
            found[0] |= any(is_changed(release, so_far, sign, 0.0, level / 2) for sign in (1, -1))
            found[1] |= is_beyond(so_far, -1, probability, level)
            found[2] |= is_beyond(so_far, 1, probability, level)
        wrong += found
    assert (binom.sf(wrong - 1, 40, level) > 1e-3).all()


@pytest.mark.parametrize("probability", [0.3, HE, 0.95])
def test_ten_thousand_years_of_identical_days(probability):
    """Of 10,000 years like the release, at most 1 % have an alarm at level 0.01.

    The wealth at the true probability is at least its minimum over all, which decides an alarm.
    """
    rng, years, level = np.random.default_rng(4), 10_000, 0.01
    texts = [add_bits(np.array(bits, float)) for bits in product((0, 1), repeat=ANSWERS)]
    chances = [
        probability ** sum(b) * (1 - probability) ** (ANSWERS - sum(b))
        for b in product((0, 1), repeat=ANSWERS)
    ]
    alarms = np.zeros(years, bool)
    for sign, end in ((1, "low"), (-1, "high")):
        used, ends, penalties = (
            np.array([getattr(t, n) for t in texts]) for n in ("used", end, "penalties")
        )
        factors = np.exp(sign * SCALES * (ends - used * probability) - penalties)
        # exact: no stake is expected to rise
        assert (np.array(chances) @ factors <= 1 + 1e-9).all()
        wealth = np.zeros((years, len(SCALES)))
        before = factors_of_other_side(texts, chances, probability, -sign, rng, years)
        for day in range(1, 366):
            drawn = factors[rng.choice(len(texts), years, p=chances)]
            wealth = drawn * (wealth + 1 / (day * (day + 1)))
            alarms |= before * (wealth.mean(axis=1) + 1 / (day + 1)) >= 2 / level
    assert alarms.mean() <= level


def factors_of_other_side(texts, chances, probability, sign, rng, years) -> np.ndarray:
    """(years,) the wealth of the bets on the release at the true probability."""
    end = "low" if sign > 0 else "high"
    used, ends, penalties = (
        np.array([getattr(t, n) for t in texts]) for n in ("used", end, "penalties")
    )
    factors = np.exp(sign * SCALES * (ends - used * probability) - penalties)
    return factors[rng.choice(len(texts), years, p=chances)].mean(axis=1)


def test_excluded_changes_are_not_there():
    """Where all days are 0.2 below the release, a fall of 0.2 is hardly ever excluded."""
    rng, wrong = np.random.default_rng(5), 0
    for _ in range(20):
        release = add_bits((rng.random(200) < 0.7).astype(float))
        days = draw_days(rng, 0.5, 40)
        falls = [find_least_change(release, days[:stop], -1, 0.1) for stop in range(5, 41, 5)]
        wrong += any(fall is not None and fall < 0.2 for fall in falls)
    assert binom.sf(wrong - 1, 20, 0.1) > 1e-3


def test_the_evidence_of_rows_bounds_their_sum():
    """The stakes on a sum of rows with different weights are at most those of the true rows."""
    rng = np.random.default_rng(6)
    for _ in range(50):
        probabilities = rng.random(3)
        bits = [
            (rng.random(n) < p).astype(float) for n, p in zip((2, 8, 5), probabilities, strict=True)
        ]
        members = [
            Member(
                p * rng.random(),
                p + (1 - p) * rng.random(),
                MeanEvidence().add_round(b, 8, 0.0, 1.0, 8),
            )
            for b, p in zip(bits, probabilities, strict=True)
        ]
        found = SumEvidence.add_members(members)
        evidences = [each.evidence for each in members]
        for index in range(len(SCALES)):
            exact = sum(e.used[index] * p for e, p in zip(evidences, probabilities, strict=True))
            linear = found.used[index] * probabilities.sum()
            low = sum(each.low_sums[index] for each in evidences) - exact
            high = sum(each.high_sums[index] for each in evidences) - exact
            assert found.low[index] - linear <= low + 1e-12
            assert found.high[index] - linear >= high - 1e-12


def test_disjoint_bounds_refute_with_certainty():
    """Certain bounds further apart than the margin refute on the first day, and others never."""
    first, second = (SumEvidence.add_members([Member(p, p, None)]) for p in (0.5, 0.6))
    assert is_changed(first, [second], 1, 0.05, 1e-300)
    assert not is_changed(first, [second], 1, 0.1, 0.9)
    assert not is_changed(first, [second], -1, 0.05, 0.9)


def watch(folder: Path, path: Path, model=None, **options):
    keys = {"baseline": folder / "release.jsonl", "log": folder / "days.jsonl"}
    if model is not None:
        keys["open_model"] = lambda deployment: OpenTable(model)
    return watch_suite(path, **keys, **{"level": 0.01, "margin": 0.001, **options})


def store_release(folder: Path, **keys) -> Path:
    content = {"properties": PROPERTIES, "cases": [CASE], "budget": {"passes": 30}, "length": 6}
    path = write_suite(folder, content | keys)
    suite = load_suite(path, is_measuring=True)
    run(suite, log=folder / "release.jsonl", is_measuring=True)
    return path


def write_provider_suite(folder: Path, address: str) -> Path:
    source = {"source": f"server:{address}", "api": "openai-chat", "served_as": MODEL}
    config = {"models": {"provider": {"label": "P", **source}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    case = {"user": "Is it?", "require": [{"equals": "yes", "at_least": 0.7}]}
    suite = {"model": "provider", "length": 3, "budget": {"answers": 200}, "cases": [case]}
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(suite))
    return path


def test_the_same_weights_need_no_run_and_others_are_named_at_once(tmp_path):
    """A model with the files of the release is not opened; a changed file is found on its day."""
    path = store_release(tmp_path)
    same = watch(tmp_path, path)
    assert (same.same, same.changed, same.is_refuted) == (("m",), (), False)
    assert same.days[0].evidence == (None,)
    (tmp_path / "m/config.json").write_text('{"a": 1}')
    other = watch(tmp_path, path, words_model())
    assert (other.same, other.changed, other.is_refuted) == ((), ("m",), True)
    assert [len(other.days), other.list_refutations(0)] == [2, []]
    lines = (tmp_path / "days.jsonl").read_text().splitlines()
    assert [json.loads(line).get("day") for line in lines] == [None, 1, 2]


def test_a_changed_model_is_refuted_with_day_and_requirement(tmp_path):
    """A model that behaves otherwise from day 3 on is refuted for both claims soon after."""
    path = store_release(tmp_path)
    (tmp_path / "m/config.json").write_text('{"a": 1}')
    for number in range(1, 13):
        report = watch(tmp_path, path, words_model(0.25 if number < 3 else 0.02))
        if len(report.list_refutations(0)) == 2:
            break
    claims = {each.claim: (day, each.since) for day, each in report.list_refutations(0)}
    assert claims.keys() == set(Claim)
    assert all(3 <= since <= day for day, since in claims.values())
    assert report.falls[0] is None or report.falls[0] > 0


def test_a_provider_of_texts_alone_that_changes_is_found(tmp_path, capsys):
    """With 20 answers a day, a fall from 0.95 to 0.3 is found in few days, and reported so."""
    writer = share(0.95)
    provider = FakeProvider("openai-chat", lambda drawn: writer(drawn))
    with running(provider) as address:
        path = write_provider_suite(tmp_path, address)
        release, log = tmp_path / "release.jsonl", tmp_path / "suite.watch.jsonl"
        main(["test", str(path), "--measure", "--json", str(release)])
        command = ["watch", str(path), "--baseline", str(release), "--answers", "20"]
        statuses = [main(command) for _ in range(3)]
        writer = share(0.3)
        while len(statuses) < 12 and 1 not in statuses:
            statuses.append(main(command))
        assert statuses[:3] == [0] * 3
        assert statuses[-1] == 1
        assert len(statuses) <= 8
        output = capsys.readouterr().out
        assert f"refuted on day {len(statuses)} (20" in output
        assert "evidence since day 4" in output
        assert len({q["messages"][0]["content"] for _, q in provider.questions}) == 1
        assert len(provider.questions) == 200 + 20 * len(statuses)
        # a refuted claim stays refuted, and a line that a kill cut short runs again
        lines = log.read_text().splitlines(keepends=True)
        log.write_text("".join(lines[:-1]) + lines[-1][:40])
        assert main([*command, "--json"]) == 1
    printed = capsys.readouterr()
    assert f"{log}: a kill had cut its last line short" in printed.err
    found = json.loads(printed.out.strip().splitlines()[-1])
    assert found["day"] == len(statuses)
    assert {each["claim"] for each in found["figures"][0]["refuted"]} >= {"as at release"}


def test_a_day_with_a_failed_case_is_not_counted(tmp_path):
    """A failed case ends the day with its name; the next call runs the same day again."""
    path = store_release(tmp_path)
    (tmp_path / "m/config.json").write_text('{"a": 1}')
    broken = words_model()
    broken.distribution = lambda tokens: 1 / 0
    with pytest.raises(CheckFailed, match=r"day 1: 1 case failed to run, such as won: he: .*again"):
        watch(tmp_path, path, broken)
    assert len(watch(tmp_path, path, words_model()).days) == 1
    assert not list(tmp_path.glob("days.day*"))


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ([CASE | {"start": "once she"}], "other rows or requirements: won: he: prompt; give"),
        ([CASE, CASE | {"name": "lost"}], "lost: he: no stored result; give"),
        ([CASE | {"require": {"he": "P>=0.5 [ G he = 0 ]"}}], "won: he: query P=?"),
        ([CASE | {"require": ["P>=0.5 [ F he = 1 ] & P>=0.5 [ G he = 0 ]"]}], "nothing to watch"),
    ],
)
def test_a_baseline_of_other_questions_is_named(tmp_path, cases, message):
    """A prompt, a row or a query that the release has not is named before anything runs."""
    path = store_release(tmp_path)
    content = {"properties": PROPERTIES, "cases": cases, "length": 6}
    write_suite(tmp_path, content)
    with pytest.raises(ConfigError) as error:
        watch(tmp_path, path)
    assert message in str(error.value)


def test_days_of_another_level_and_damaged_days_are_named(tmp_path):
    """A file of days takes neither another level or baseline, nor a changed line."""
    path = store_release(tmp_path)
    watch(tmp_path, path)
    with pytest.raises(ConfigError, match="days with another level and margin; name another"):
        watch(tmp_path, path, level=0.05, margin=0.0)
    log = tmp_path / "days.jsonl"
    log.write_text(log.read_text().replace('"day": 1', '"day": 7'))
    with pytest.raises(
        DamagedFile, match=r"days.jsonl: damaged .*line 2: not the evidence of day 1"
    ):
        watch(tmp_path, path)


@pytest.mark.parametrize(
    ("option", "message"),
    [("--level=0", "--level: 0.0 is no probability"), ("--margin=1", "--margin: 1.0 is no")],
)
def test_a_wrong_number_is_named(option, message, capsys):
    """A level of 0 or a margin of 1 would refute nothing."""
    assert main(["watch", "suite.yaml", "--baseline", "x", option]) == 3
    assert message in capsys.readouterr().err
