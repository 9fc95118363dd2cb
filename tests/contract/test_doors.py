"""Every door keeps the promises of a check: the same answer, message and exit status, whatever the
access to the model is and whatever text is asked about."""

import os
import signal
from dataclasses import replace

import pytest
from helpers.doors import DOORS, Door, Found
from helpers.marks import long
from helpers.subjects import ACCESSES, TURNS, Fault, Subject

EXIT_STATUS = {"HOLDS": 0, "VIOLATED": 1, "UNKNOWN": 2}
SUBJECTS = [
    Subject(access, kind)
    for access in ACCESSES
    for kind in TURNS
    # a provider of texts gets no tools
    if (access, kind) != ("texts", "tool")
]


class Interrupt(Fault):
    """Ctrl-C in the middle of an evaluation."""

    def count(self, error: Exception) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        self.left -= 1


@pytest.fixture(params=SUBJECTS, ids=str)
def subject(request) -> Subject:
    """Each access with each kind of text."""
    return request.param


@pytest.fixture
def open_door(subject, tmp_path, monkeypatch, capsys):
    """Opens a door of the subject, in a folder of its own."""

    def build(name: str) -> Door:
        folder = tmp_path / name
        folder.mkdir()
        return Door(name, subject, folder, monkeypatch, capsys)

    return build


@pytest.fixture
def doors(subject, open_door) -> list[Door]:
    """All doors of the subject; `check` asks about one answer."""
    return [open_door(name) for name in DOORS if name != "check" or subject.kind == "answer"]


def ask_close(door: Door, number: int = 20) -> Found:
    """Ask for a threshold that few passes or answers do not decide."""
    name = "answers" if door.subject.access == "texts" else "passes"
    return door.ask(f"P>={door.subject.truth:.5f} [ F b = 1 ]", **{name: number})


def assert_right(found: Found, subject: Subject) -> None:
    """The answer so far contains the truth."""
    assert found.costs is not None
    assert found.lower is None or found.lower - 1e-9 <= subject.truth <= found.upper + 1e-9
    assert found.low is None or found.low - 1e-9 <= subject.truth <= found.high + 1e-9


def assert_alike(answers: list[Found]) -> None:
    """All doors return the same, but for what one of them does not write."""
    first = answers[0]
    for found in answers[1:]:
        bounds = {} if found.lower is not None else {"lower": None, "upper": None}
        assert replace(found, status=None) == replace(first, status=None, **bounds)
    assert len({found.status for found in answers[1:]}) == 1


@pytest.mark.parametrize("outcome", EXIT_STATUS)
def test_every_door_gives_one_answer(subject, doors, outcome):
    """A requirement is decided alike by every door, early where it is far from the truth, and the
    exit status is that of the verdict."""
    if outcome == "UNKNOWN":
        answers = [ask_close(door, 9) for door in doors]
    else:
        number = subject.truth + (0.2 if outcome == "VIOLATED" else -0.4)
        answers = [door.ask(f"P>={min(number, 0.999):.5f} [ F b = 1 ]") for door in doors]
        assert answers[0].costs < (300 if subject.access == "texts" else 120)
    assert_alike(answers)
    assert_right(answers[0], subject)
    assert answers[0].outcome == outcome
    assert answers[1].status == EXIT_STATUS[outcome]
    assert not any(found.error for found in answers)


def test_a_failure_in_the_middle_leaves_the_answer_so_far(subject, doors):
    """Every door keeps the right answer of what was evaluated, with one message and status 3."""
    answers = []
    for door in doors:
        door.fault = Fault(6)
        answers.append(ask_close(door))
        assert_right(answers[-1], subject)
    assert "is gone" in answers[0].error
    assert len({found.error for found in answers}) == 1
    assert {found.status for found in answers[1:]} == {3}


def test_a_failure_at_the_beginning_is_an_error_alone(subject, doors):
    """Without an evaluated text no door has an answer, and all have one message and status 3."""
    answers = []
    for door in doors:
        door.fault = Fault(0)
        answers.append(ask_close(door))
    assert "is gone" in answers[0].error
    assert_alike(answers)
    assert answers[0].costs is None
    assert answers[1].status == 3


@pytest.mark.parametrize("number", [7, *long(1)])
def test_a_limit_is_kept(subject, doors, number):
    """A budget of passes or of answers is exceeded at no door, and the answer is right."""
    answers = [ask_close(door, number) for door in doors]
    assert_alike(answers)
    assert_right(answers[0], subject)
    assert answers[0].costs <= number


def test_a_deadline_ends_the_work(subject, doors):
    """After the seconds of a budget every door has the right answer of what it has."""
    for door in doors:
        found = door.ask(f"P>={subject.truth:.5f} [ F b = 1 ]", seconds=0.02)
        assert_right(found, subject)
        assert not found.error
        assert found.status in (None, 0, 1, 2)


def test_ctrl_c_keeps_what_is_known(subject, open_door):
    """Ctrl-C ends a command with status 130; `check` prints the answer so far, and a suite
    continues in the next run, with the result of a run that nothing disturbed."""
    if subject.kind == "answer":
        door = open_door("check")
        door.fault = Interrupt(6)
        found = ask_close(door, 100)
        assert found.status == 130
        assert_right(found, subject)
        assert not found.error
    door = open_door("test")
    door.fault = Interrupt(6)
    assert ask_close(door).status == 130
    door.fault = Fault()
    assert ask_close(door) == ask_close(open_door("suite"))


def test_a_suite_continues_from_its_log(subject, open_door):
    """A case with a verdict is not evaluated again, and one with an error is."""
    for name in ("suite", "test"):
        door = open_door(name)
        door.fault = Fault(6)
        failed = ask_close(door)
        door.fault = Fault()
        found = ask_close(door)
        assert failed.error
        assert not found.error
        assert found.costs > failed.costs
        door.fault = Fault(0)
        assert ask_close(door) == found
