"""A program is ended when its ranks have left, and only then."""

import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.waiting import wait_for

from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_train.pod.launcher import left_ranks
from holdfast_train.pod.launcher.left_ranks import LeftRanks, have_left
from holdfast_train.pod.launcher.process_tree import started_at
from holdfast_train.pod.launcher.timings import Timings
from holdfast_train.pod.rank_verdict import write_rank_verdict

SOON = Timings(left_ranks_look=0.01, left_ranks_linger=0.01)


def rank(result: str, pid: int) -> RankVerdict:
    return RankVerdict(0, result, "", "", 5, 5, 1.0, pid)


@pytest.mark.parametrize(
    ("verdicts", "running", "left"),
    [
        ([], [], False),
        ([rank("saved", 7)], [], True),
        ([rank("saved", 7), rank("left", 8)], [9], True),
        ([rank("saved", 7), rank("left", 8)], [8], False),  # it cleans up
        ([rank("saved", 7), rank("running", 8)], [], False),
        ([rank("completed", 7)], [], False),  # the program may do something after its training
        ([rank("failed", 7)], [], False),
        ([rank("saved", 0)], [], False),  # of a program with an older library
    ],
)
def test_ranks_have_left(verdicts: list[RankVerdict], running: list[int], left: bool) -> None:
    assert have_left(verdicts, lambda: running) is left


# Breaks if the program is ended while a rank still runs, or before it had its time to end by itself.
def test_a_program_is_ended_after_its_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, ended, running = threading.Event(), threading.Event(), {2**22 + 1}

    def descendants(_: int, without: object = ()) -> set[int]:
        looks.set()
        return running

    monkeypatch.setattr(left_ranks, "descendants", descendants)
    monkeypatch.setattr("os.getpid", lambda: 2**22 + 1)
    with LeftRanks(str(tmp_path), ended.set, timings=SOON):
        write_rank_verdict(str(tmp_path), 0, "saved", step=5, saved_step=5)
        assert looks.wait(30)
        assert not ended.is_set()
        running.clear()
        wait_for(ended.is_set, 30, "the end of the program")


# Breaks if a command that follows the training in a shell, such as a copy of its logs, is killed, or if a process that
# belongs to no program counts as such a command.
@pytest.mark.parametrize(("seconds", "is_other", "is_ended"), [(-1, False, False), (1, False, True), (-1, True, True)])
def test_what_a_shell_starts_after_its_training_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, is_other: bool, is_ended: bool
) -> None:
    ended = threading.Event()
    with subprocess.Popen(["/bin/sleep", "600"]) as other:
        left = replace(rank("saved", 2**22 + 1), at=started_at(other.pid) + seconds)
        monkeypatch.setattr(left_ranks, "read_rank_verdicts", lambda _: (left,))
        LeftRanks(str(tmp_path), ended.set, lambda: [other.pid] if is_other else [], timings=SOON)._run()
        other.kill()
    assert ended.is_set() is is_ended


def test_a_program_that_ends_by_itself_is_left_alone(tmp_path: Path) -> None:
    ended = threading.Event()
    with LeftRanks(str(tmp_path), ended.set, timings=Timings(left_ranks_linger=3600.0)):
        write_rank_verdict(str(tmp_path), 0, "saved", step=5, saved_step=5)
    assert not ended.is_set()
    with LeftRanks(None, ended.set):
        pass


# Breaks if a program is ended because the process that saves its folder has written how the pod leaves.
@pytest.mark.parametrize(("others", "left"), [([], True), ([2**22 + 1], False)])
def test_the_verdict_of_a_process_beside_the_program_is_not_one_of_a_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: list[int], left: bool
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 2**22 + 1)
    write_rank_verdict(str(tmp_path), 0, "left")
    assert have_left(LeftRanks(str(tmp_path), lambda: None, lambda: others)._ranks(), list) is left
