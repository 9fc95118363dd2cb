"""Averages: these rows, rows like these, the worst row, repeats and shares of rows."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.suites import HE, OpenTable, load, run, words_model
from helpers.text_sampler import TextSampler
from scipy.stats import binom

from llmchecker.checking.answer import Answer, Sampled
from llmchecker.checking.anytime.mean_evidence import MeanEvidence
from llmchecker.checking.measurement import Measurement
from llmchecker.errors import ConfigError
from llmchecker.properties.logic.parser import parse
from llmchecker.suites.averages import AverageEstimator
from llmchecker.suites.html_page import format_html
from llmchecker.suites.row_effort import WHOLE, ReadRow, choose_effort, find_block
from llmchecker.suites.session import run_suite
from llmchecker.suites.statistic import RowFigure, Scope, Statistic
from llmchecker.suites.terminal_table import format_table
from llmchecker.suites.verdicts import CaseResult, Status, parse_threshold
from llmchecker.trees.shards import Shard
from llmchecker.utils.interval import PROBABILITIES, Interval

QUERY = parse("P=? [ F x = 1 ]")
CONFIDENCE = 0.8
BITS = 12
POPULATION = Statistic(Scope.POPULATION)


def result(name: str, low: float, high: float, evidence=None, certain=PROBABILITIES) -> CaseResult:
    sampled = Sampled(Interval(low, high), (low + high) / 2, 0.999, BITS)
    answer = Answer(QUERY, 3, certain, sampled)
    return CaseResult(name, "m", Status.MEASURED, answer=answer, evidence=evidence)


def exact(name: str, probability: float) -> CaseResult:
    answer = Answer(QUERY, 3, Interval(probability, probability))
    return CaseResult(name, "m", Status.MEASURED, answer=answer)


def sample(name: str, probability: float, rng: np.random.Generator) -> CaseResult:
    """A row whose answers are read one by one, of which a limit may leave out the last ones."""
    bits = (rng.random(BITS) < probability).astype(float)
    kept = bits[: rng.integers(BITS // 2, BITS + 1)]
    evidence = MeanEvidence().add_round(kept, len(kept), 0.0, 1.0, BITS)
    return result(name, 0.0, 1.0, evidence)


def draw_row(name: str, rng: np.random.Generator, mean: float) -> CaseResult:
    """A row of a population: its probability is 0, 1 or between, and it is exact or sampled."""
    is_sure = rng.random() < 0.6
    probability = float(rng.random() < mean if is_sure else rng.beta(2 * mean, 2 - 2 * mean))
    return exact(name, probability) if rng.random() < 0.4 else sample(name, probability, rng)


def measure(rows, statistic=POPULATION, threshold=None, error=1 - CONFIDENCE):
    return AverageEstimator(statistic, threshold, error, PROBABILITIES, 3).measure(rows)


def is_plausible(misses: int, runs: int) -> bool:
    """Whether so many misses are no more than chance makes of the error probability."""
    return bool(binom.sf(misses - 1, runs, 1 - CONFIDENCE) > 1e-4)


@pytest.mark.parametrize("mean", [0.02, 0.3, 0.9])
def test_the_mean_of_a_population_is_covered(mean):
    """Of 100 tables drawn from a population, few give an interval without the population's mean."""
    rng, misses, widths = np.random.default_rng(7), 0, []
    for _ in range(100):
        rows = [draw_row(str(n), rng, mean) for n in range(40)]
        interval = measure(rows).sampled
        misses += not interval.lower <= mean <= interval.upper
        widths.append(interval.width)
    assert is_plausible(misses, 100)
    assert np.mean(widths) < 0.6


def unread(results, read: set[int]) -> list[CaseResult]:
    """The results of a run that read some of the rows."""
    return [
        each if row in read else CaseResult(each.case, "m", Status.UNREAD)
        for row, each in enumerate(results)
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("scope", [Scope.ROWS, Scope.POPULATION])
@pytest.mark.parametrize("mean", [0.05, 0.5, 0.8])
def test_a_mean_is_covered_wherever_the_reading_stops(mean, scope):
    """Few of 40 random orders miss the mean of these rows, or of their population, at any stop."""
    rng, misses, runs = np.random.default_rng(round(100 * mean)), 0, 40
    for seed in range(runs):
        exact_rows = [rng.random() < 0.5 for _ in range(40)]
        truth = rng.beta(mean, 1 - mean, 40)
        rows = [
            exact(str(n), float(p)) if exact_rows[n] else sample(str(n), float(p), rng)
            for n, p in enumerate(truth)
        ]
        target = float(truth.mean()) if scope is Scope.ROWS else mean
        # bets are largest where the threshold is near the mean
        limit = parse_threshold(f">= {target:.6f}")
        estimator = AverageEstimator(Statistic(scope), limit, 0.2, PROBABILITIES, seed)
        order = [
            row
            for rows_read in estimator.order_rows(list(map(str, range(40))))
            for row in rows_read
        ]
        for stop in (3, 10, 20, 30, 38, 40):
            found = estimator.measure(unread(rows, set(order[:stop]))).sampled
            if not found.lower <= target + 1e-6 or not target - 1e-6 <= found.upper:
                misses += 1
                break
    assert is_plausible(misses, runs)


def test_a_decision_stays_when_more_rows_are_read():
    """Once some rows decide an average, no further row takes the decision back."""
    rng = np.random.default_rng(2)
    rows = [exact(str(n), float(p)) for n, p in enumerate(rng.beta(7, 3, 120))]
    estimator = AverageEstimator(Statistic(), parse_threshold(">= 0.6"), 0.2, PROBABILITIES, 1)
    order = [row for (row,) in estimator.order_rows([each.case for each in rows])]
    decided = [estimator.is_decided(unread(rows, set(order[:stop]))) for stop in range(5, 121, 5)]
    first = decided.index(True)
    assert 0 < first < len(decided) - 4
    assert all(decided[first:])
    assert order != sorted(order)


def test_no_row_counts_after_one_without_a_result():
    """Which later rows have a result may depend on their samples, so they move no bet."""
    rows = [sample(str(n), 0.9, np.random.default_rng(n)) for n in range(30)]
    estimator = AverageEstimator(Statistic(), parse_threshold(">= 0.2"), 0.2, PROBABILITIES, 1)
    order = [row for (row,) in estimator.order_rows([each.case for each in rows])]
    assert estimator.is_decided(unread(rows, set(order[:20])))
    assert not estimator.is_decided(unread(rows, set(order[1:])))


def test_the_mean_of_a_population_of_clusters_is_covered():
    """Rows of a cluster may be alike: the mean over clusters is covered, and rows alone miss it."""
    rng, misses, naive = np.random.default_rng(11), 0, 0
    for _ in range(100):
        shared = rng.random(10) < 0.5
        names = {f"{n}.{i}": str(n) for n in range(10) for i in range(1 + 20 * (n % 2))}
        rows = [exact(name, float(shared[int(cluster)])) for name, cluster in names.items()]
        clustered = measure(rows, Statistic(Scope.POPULATION, None, "topic", names)).sampled
        alone = measure(rows).sampled
        misses += not clustered.lower <= 0.5 <= clustered.upper
        naive += not alone.lower <= 0.5 <= alone.upper
    assert is_plausible(misses, 100)
    assert not is_plausible(naive, 100)


def test_the_difference_of_paired_rows_is_covered_and_narrow():
    """A difference is covered, and narrower than that of two means where the sides go together."""
    rng, misses, widths = np.random.default_rng(5), 0, []
    paired = AverageEstimator(POPULATION, None, 0.2, PROBABILITIES, 3)
    for _ in range(40):
        base = rng.random(80)
        own = [exact(str(n), 0.9 * p + 0.1 * (p > 0.5)) for n, p in enumerate(base)]
        other = [exact(str(n), 0.9 * p) for n, p in enumerate(base)]
        found = paired.measure_difference(own, other).sampled
        misses += not found.lower <= 0.05 <= found.upper
        apart = measure(own).sampled - measure(other).sampled
        widths.append((found.width, apart.width))
    assert is_plausible(misses, 40)
    own_width, apart_width = np.mean(widths, axis=0)
    assert own_width < apart_width / 2


def test_a_row_that_failed_counts_as_any_row_of_a_population():
    """A failed row takes away from both ends what one row may change."""
    rows = [exact(str(n), 0.5) for n in range(40)]
    whole = measure(rows).sampled
    failed = measure([*rows[1:], CaseResult("0", "m", Status.ERROR, error="x")]).sampled
    assert failed.lower < whole.lower <= 0.5 <= whole.upper < failed.upper


@pytest.mark.parametrize("seed", range(40))
def test_figures_of_a_row_are_rounded_outwards(seed):
    """Bounds of pass^k and pass@k contain those that fractions give."""
    rng = np.random.default_rng(seed)
    lower, upper = sorted(rng.random(2) ** float(rng.integers(1, 6)))
    k = int(rng.integers(2, 30))
    bounds = Interval(float(lower), float(upper))
    for is_all in (True, False):
        found = RowFigure(k, is_all).apply(Measurement(bounds, bounds)).certain
        for end, number in ((found.lower, lower), (found.upper, upper)):
            p = Fraction(float(number))
            true = p**k if is_all else 1 - (1 - p) ** k
            assert Fraction(end) == pytest.approx(true, rel=1e-12, abs=1e-300)
            assert (Fraction(end) <= true) if end == found.lower else (Fraction(end) >= true)


@pytest.mark.parametrize(
    ("statistic", "threshold", "lower", "upper"),
    [
        (Statistic(), None, 0.4, 0.6),
        (Statistic(Scope.WORST), "<= 0.9", 0.7, 0.9),
        (Statistic(Scope.WORST), ">= 0.1", 0.1, 0.3),
        (Statistic(figure=RowFigure(2)), None, 0.25, 0.45),
        (Statistic(figure=RowFigure(reached=parse_threshold(">= 0.25"))), None, 0.5, 1.0),
        (Statistic(figure=RowFigure(reached=parse_threshold("<= 0.25"))), None, 0.0, 0.5),
    ],
)
def test_the_bounds_of_two_rows_are_those_by_hand(statistic, threshold, lower, upper):
    """Rows within [0.1, 0.3] and [0.7, 0.9] have the mean, worst row, powers and share by hand."""
    rows = [
        CaseResult(str(n), "m", Status.MEASURED, answer=Answer(QUERY, 3, Interval(*ends)))
        for n, ends in enumerate([(0.1, 0.3), (0.7, 0.9)])
    ]
    limit = None if threshold is None else parse_threshold(threshold)
    found = measure(rows, statistic, limit).certain
    assert (found.lower, found.upper) == pytest.approx((lower, upper))


AVERAGE = {"of": "P=? [ F x = 1 ]"}


@pytest.mark.parametrize(
    ("average", "message"),
    [
        ("worst P=? [ F x = 1 ]", "has no threshold; write worst"),
        ({"at_least": 0.5}, "of"),
        ({"of": "P>=0.5 [ F x = 1 ]"}, "is no probability; write P=?"),
        (AVERAGE | {"at_least": 0.5, "at_most": 0.6}, "at_least and at_most exclude each other"),
        (AVERAGE | {"at_least": "much"}, "'much': no number"),
        (AVERAGE | {"all_of": 2, "any_of": 3}, "all_of and any_of exclude each other"),
        (AVERAGE | {"all_of": 1}, "at least 2"),
        (AVERAGE | {"rows_with": "0.9"}, "no threshold; write one such as >= 0.7"),
        (AVERAGE | {"about": "people"}, "about"),
        (AVERAGE | {"clusters": "topic"}, "add about: population"),
        (
            AVERAGE | {"about": "population", "clusters": "tpic"},
            "'tpic': the table has no such column",
        ),
        (AVERAGE | {"about": "population", "clusters": "all"}, "needs several clusters"),
        (
            AVERAGE | {"about": "population", "clusters": "start"},
            "a value of its own; remove clusters",
        ),
        ({"of": "polarity", "all_of": 2}, "those of a probability"),
    ],
)
def test_an_average_without_a_meaning_is_refused(tmp_path, average, message):
    """Each average that nobody could compute is refused with its key and what to write."""
    rows = "start,topic,all\nonce,a,x\nover,a,x\nand,b,x\n"
    x = {"x": {"type": "pattern", "pattern": " he"}}
    case = {"prompts": "rows.csv", "average": {"accuracy": average}}
    with pytest.raises(ConfigError) as error:
        load(tmp_path, [case], {"rows_csv": rows}, properties=x)
    assert message in str(error.value)
    # the place is the average's own
    assert ".by:" not in str(error.value)


def table(rows: int) -> str:
    """A table whose first rows are likely, and whose last ones are not."""
    cells = ["it" if number < rows // 2 else "he" for number in range(rows)]
    return "start,answer\n" + "".join(f"once, {cell}\n" for cell in cells)


@pytest.mark.long
def test_an_average_ends_when_it_is_decided(tmp_path):
    """Some of 150 rows in a random order decide an average, as all of them do; a log continues."""
    x = {"x": {"type": "pattern", "pattern": "{answer}"}}
    case = {"prompts": "rows.csv", "average": {"mean": "mean P=? [ F x = 1 ] >= 0.5"}}
    files = {"rows_csv": table(150)}
    suite = load(tmp_path, [case], files, properties=x)
    log = tmp_path / "r.jsonl"
    for _ in range(2):
        result = run(suite, words_model(), log=log)
        (mean,) = result.aggregates
        assert (mean.status, mean.is_certain, result.is_complete) == ("HOLDS", False, True)
        assert 20 < mean.read < 140
        about = f"mean of these 150 rows ({mean.read} read, 7 to 25 passes each), "
        assert about in format_table(result)
        read = [n for n, each in enumerate(result.results) if each.status is Status.MEASURED]
        # the rows of the file are not read in its order
        assert len(read) == mean.read
        assert min(read) < 75 < max(read) - 20
    whole = load(tmp_path, [case], files, properties=x)
    (whole_mean,) = run(whole, words_model(), is_measuring=True).aggregates
    assert (whole_mean.read, whole_mean.status) == (150, "HOLDS")
    assert mean.measurement.sampled.lower <= whole_mean.measurement.estimate
    compared = run(suite, words_model(), baseline=log)
    (missing,) = compared.not_compared
    assert "the stored average was decided without it; run it with --measure" in missing.reason


@pytest.mark.long
def test_the_worst_row_ends_with_the_first_one_against_it(tmp_path):
    """Rows end at the limit of the worst one, and the first one beyond it ends all others."""
    x = {"x": {"type": "pattern", "pattern": "{answer}"}}
    he, late = "he", "he he he"
    cells = [late] * 25 + [he] + [late] * 25
    rows = "start,answer\n" + "".join(f"once, {cell}\n" for cell in cells)
    budget = {"passes": 70}
    found = {}
    for limit in (0.4, 0.9):
        case = {"prompts": "rows.csv", "average": {"worst": f"worst P=? [ F x = 1 ] <= {limit}"}}
        suite = load(tmp_path, [case], {"rows_csv": rows}, properties=x, length=6, budget=budget)
        (found[limit],) = run(suite, words_model(0.1)).aggregates
        (whole,) = run(suite, words_model(0.1), is_measuring=True).aggregates
        assert (found[limit].status, whole.read) == (whole.status, 51)
    assert [found[limit].status for limit in (0.4, 0.9)] == ["VIOLATED", "HOLDS"]
    assert found[0.4].read < 51 == found[0.9].read
    passes = [
        sum(each.passes for each in run(suite, words_model(0.1), is_measuring=whole).results)
        for whole in (False, True)
    ]
    assert passes[0] < passes[1]


def test_the_blocks_of_rows_begin_after_powers_of_two():
    """A row's effort depends on the rows before its block, of at most as many rows as before it."""
    starts = [find_block(place) for place in range(1100)]
    assert sorted(set(starts)) == [0, 8, 16, 32, 64, 128, 256, 512, 768, 1024]
    assert all(start <= place for place, start in enumerate(starts))


@pytest.mark.parametrize("is_list", [True, False])
def test_efforts_follow_what_is_unclear(is_list):
    """Exact rows keep their budget; rows that differ much get few passes, those that agree more."""

    def choose(values, variance, samples, limit, total=2000):
        rows = [ReadRow(y, y, variance, samples, 2000, 1.0) for y in values]
        return choose_effort(rows, limit, total, 0.005, is_list=is_list)

    differing, agreeing = [0.0, 1.0, 1.0, 1.0] * 8, [0.7] * 32
    assert choose(differing, 0.0, 0, 0.5) == WHOLE
    assert choose(differing, 0.002, 100, 0.5) == 1 / 16
    assert choose(differing, 0.002, 8, 0.5) == 1 / 2
    assert choose(agreeing, 0.002, 100, 0.68) == WHOLE
    # a mean near its limit needs more of each row
    assert choose(differing, 0.002, 100, 0.749, total=40) == 1 / 4


def list_rows(result) -> list[object]:
    return [(r.status, r.effort, r.is_reread, r.measurement, r.evidence) for r in result.results]


@pytest.mark.long
def test_rows_that_leave_an_average_open_are_read_again(tmp_path):
    """A close average reads rows again, a log resumes both readings, a shard has no efforts."""
    x = {"x": {"type": "pattern", "pattern": "{answer}"}}
    case = {"prompts": "rows.csv", "average": {"mean": "mean P=? [ F x = 1 ] >= 0.42"}}
    rows = "start,answer\n" + "".join(f"once,{'he' if n % 3 else 'it'} he\n" for n in range(40))
    keys = {"properties": x, "length": 6, "budget": {"passes": 60}}
    suite = load(tmp_path, [case], {"rows_csv": rows}, **keys)
    result = run(suite, words_model())
    again = [each for each in result.results if each.is_reread]
    assert again
    assert all(each.effort == WHOLE for each in result.results)
    # the passes of both readings count
    assert all(each.passes > 60 for each in again)
    log = tmp_path / "r.jsonl"
    for stop in (5, 30, 45):

        def interrupt(progress, stop=stop):
            if progress.done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(suite, words_model(), log=log, report=interrupt)
    assert list_rows(run(suite, words_model(), log=log)) == list_rows(result)
    shards = [tmp_path / f"{number}.jsonl" for number in range(2)]
    for number, shard in enumerate(shards):
        run(suite, words_model(), log=shard, shard=Shard(number, 2))
    joined = run(suite, words_model(), log=tmp_path / "joined.jsonl", shards=shards)
    assert {each.effort for each in joined.results} == {None}


@pytest.mark.parametrize("is_text_only", [False, True])
def test_a_score_that_meets_the_limit_of_the_worst_row_ends(tmp_path, is_text_only):
    """Rows far within the limit of a score have fewer passes or answers than a measurement."""
    x = {"x": {"type": "pattern", "pattern": "he he"}}
    case = {"prompts": "rows.csv", "average": {"worst": "worst x <= 0.9"}}
    rows = "start,answer\n" + "once, he\n" * 2
    keys = {"properties": x, "length": 6, "budget": {"passes": 600}}
    suite = load(tmp_path, [case], {"rows_csv": rows}, **keys)

    def write(stream, chance):
        return " he he" if chance.random() < 0.3 else " it", True

    found = {}
    for is_measuring in (False, True):
        opened = TextSampler(write, 0) if is_text_only else OpenTable(words_model())
        result = run_suite(
            suite, open_model=lambda _, opened=opened: opened, is_measuring=is_measuring
        )
        (worst,) = result.aggregates
        found[is_measuring] = worst.status, sum(each.cost for each in result.results)
    assert found[False][0] == found[True][0] == "HOLDS"
    assert found[False][1] < found[True][1] / 2


def test_an_average_with_groups_reads_all_rows(tmp_path):
    """Groups are reported, so they need their rows, and so does an average without a threshold."""
    x = {"x": {"type": "pattern", "pattern": "{answer}"}}
    for keys in ({"by": "answer"}, {}):
        threshold = " >= 0.1" if keys else ""
        averages = {"mean": f"mean P=? [ F x = 1 ]{threshold}"}
        case = {"prompts": "rows.csv", "average": averages, **keys}
        result = run(load(tmp_path, [case], {"rows_csv": table(40)}, properties=x), words_model())
        assert {each.status for each in result.results} == {Status.MEASURED}


def test_a_suite_reports_each_statistic_of_its_rows(tmp_path):
    """Averages of three rows of known probabilities are those by hand, and say of which rows."""
    rows = "start,topic,answer\nonce,a, he\nonce,a, she\nonce,b, it\n"
    of = {"of": "P=? [ F x = 1 ]"}
    averages = {
        "mean": "mean P=? [ F x = 1 ] >= 0.5",
        "worst": "worst P=? [ F x = 1 ] <= 0.9",
        "all": of | {"all_of": 2, "at_least": 0.9},
        "share": of | {"rows_with": ">= 0.8", "at_most": 0.5},
        "like": of | {"about": "population", "clusters": "topic", "at_least": 0.01},
    }
    x = {"x": {"type": "pattern", "pattern": "{answer}"}}
    case = {"prompts": "rows.csv", "average": averages, "by": "topic"}
    suite = load(tmp_path, [case], {"rows_csv": rows}, properties=x)
    result = run(suite, words_model())
    found = {each.name.partition(": ")[2]: each for each in result.aggregates}
    he, it = HE, 1 - 0.5**3
    numbers = {
        "mean": (2 * he + it) / 3,
        "worst": it,
        "all": (2 * he**2 + it**2) / 3,
        "share": 1 / 3,
        "mean, b": it,
    }
    for name, number in numbers.items():
        bounds = found[name].measurement.certain
        assert (bounds.lower, bounds.upper) == pytest.approx((number, number))
    statuses = [found[name].status for name in averages]
    assert statuses == ["HOLDS", "HOLDS", "VIOLATED", "HOLDS", "UNKNOWN"]
    assert [found[name].is_certain for name in averages] == [True, True, True, True, False]
    # the rows of the mean, of the worst, and of the population, and those of the group of two rows;
    # pass^k and shares have others
    page = format_html(result)
    assert page.count('<svg class="plot"') == 6
    assert page.count("2 of 2 rows in rising order") == 6
    assert page.count('aria-label="3 of 3 rows in rising order, from 0 to 1;') == 3
    table = format_table(result)
    for words in (
        "mean: mean of these 3 rows,",
        "worst: largest of these 3 rows,",
        "all: mean of these 3 rows, all of 2 answers,",
        "share: share of these 3 rows with P >= 0.8,",
        "like: mean of rows like these 3, drawn in 2 clusters of topic,",
        "mean, b: mean of this row",
    ):
        assert words in table, table
