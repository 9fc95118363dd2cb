"""Views of an answer: methods that load the reporting at their first use."""

import copy
import pickle
from dataclasses import fields, replace
from pathlib import Path

import pytest

from llmchecker.checking import answer as answer_module
from llmchecker.checking.answer import Answer, Costs, Progress, Sampled
from llmchecker.checking.endings import Endings
from llmchecker.checking.forecast import Forecast
from llmchecker.checking.witnesses import Witness
from llmchecker.interfaces.snakemake.code_dependencies import source_files_of
from llmchecker.properties.logic.parser import parse
from llmchecker.reporting import answer_views
from llmchecker.utils.interval import Interval

pytest.importorskip("matplotlib").use("Agg")

SAMPLED = Sampled(Interval(0.25, 0.5), 0.375, 0.99, 16)
ANSWER = Answer(
    parse("P=? [ F gender > 0 ]"),
    3,
    Interval(0.125, 0.75),
    SAMPLED,
    history=(Progress(4, 0.5, Interval(0.125, 0.75), SAMPLED.interval, 16),),
)


def test_views_are_no_part_of_the_code_that_computes_answers():
    """A change of a view computes no answer of the workflow again."""
    files = source_files_of(Path(answer_module.__file__))
    assert files
    assert not [file for file in files if "reporting" in file.parts]


def test_every_field_survives_a_copy_a_pickle_and_a_file(tmp_path):
    """No field but the evidence in memory is lost, not even one that is not compared."""
    limits = Interval(0.125, 0.75)
    full = replace(
        ANSWER,
        bounded=0.25,
        witnesses=(Witness(1, "once He", 0.1, "witness", False, 4, "ended", {"gender": 1}),),
        notes=("It is hard.",),
        costs=Costs(*range(1, 10)),
        versions={"storm": "2.0"},
        probability=limits,
        endings=Endings(limits, 0.5, (1, 4), Interval(0.25, 0.5)),
        forecast=Forecast(10, 1.5, 0.25, 5, 20, 7, 9, "answer"),
        turns=2,
        quantifiers={"gender": {"type": "gender"}},
        assertion={"contains": "He", "at_least": 0.9},
        tally=(12, 4),
    )
    full.write(tmp_path / "answer.json")
    defaults = Answer(ANSWER.query, 3, limits)
    copies = (
        copy.copy(full),
        pickle.loads(pickle.dumps(full)),
        Answer.read(tmp_path / "answer.json"),
    )
    for name in [each.name for each in fields(Answer) if each.name != "evidence"]:
        # a new field must be in this test
        assert name in ("query", "horizon", "certain") or getattr(full, name) != getattr(
            defaults, name
        )
        assert [getattr(same, name) for same in copies] == [getattr(full, name)] * 3


def test_each_view_is_that_of_the_reporting(tmp_path):
    """The same answer has the same views after a copy, a pickle and a file, with its history."""
    path = tmp_path / "answer.json"
    ANSWER.write(path)
    for same in (copy.copy(ANSWER), pickle.loads(pickle.dumps(ANSWER)), Answer.read(path)):
        assert same == ANSWER
        assert repr(same) == answer_views.format_line(ANSWER)
        assert str(same) == answer_views.format_text(ANSWER)
        assert same._repr_html_() == answer_views.render_html(ANSWER)
        lines, expected = same.plot(), answer_views.draw_plot(ANSWER, None, None)
        assert lines.get_title("left") == expected.get_title("left")
