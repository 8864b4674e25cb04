"""Notices: deadlines, reasons, and which SIGTERM is the second."""

import multiprocessing
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.stores import environment

from holdfast_train import Run
from holdfast_train.examples.stub import Counter
from holdfast_train.pod.launcher.verdict_files import LEAVE_NOW
from holdfast_train.run.notice import Notice


def test_earliest_deadline_and_first_reason_count() -> None:
    told: list[str] = []
    notice = Notice(100.0, lambda: 50.0, on_given=told.append)
    assert (notice.is_given, notice.seconds_left(7.0)) == (False, 7.0)
    notice.give(20.0, "a drain order")
    notice.give(30.0, "SIGTERM")
    assert (notice.is_given, notice.seconds_left(7.0), notice.reason) == (True, 20.0, "a drain order")
    notice.give(10.0, "SIGTERM")
    assert notice.seconds_left(7.0) == 10.0
    assert told == ["a drain order"] * 3


class Sigterms:
    """A notice that gets SIGTERM at chosen times. `now` counts how often the process had to leave at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.at = 50.0
        self.now = 0
        self.notice = Notice(
            100.0, lambda: self.at, on_second_sigterm=self._on_now, folder=str(folder) if folder else None
        )

    def _on_now(self) -> None:
        self.now += 1

    def term(self, after: float) -> int:
        self.at += after
        self.notice._on_sigterm(signal.SIGTERM, None)
        return self.now


def test_a_second_sigterm_means_now() -> None:
    told = Sigterms()
    assert (told.term(0.0), told.notice.is_given) == (0, True)
    assert told.term(0.5) == 0, "a whole group was signalled, and its first process passed that on"
    assert told.term(0.6) == 1
    assert told.notice.seconds_left(0.0) == pytest.approx(98.9), "what came together moves the deadline no further"


def test_an_order_and_then_a_sigterm_are_not_a_second_one() -> None:
    told = Sigterms()
    told.notice.give(60.0, "a drain order")
    assert told.term(30.0) == 0
    told.notice.give(60.0, "a drain order")
    assert told.term(0.1) == 0
    assert told.term(5.0) == 1


def test_under_a_launcher_only_the_launcher_counts(tmp_path: Path) -> None:
    """Breaks if a SIGTERM of torchrun, after one of its ranks has ended, counts as the second."""
    told = Sigterms(tmp_path)
    assert [told.term(5.0), told.term(5.0)] == [0, 0]
    (tmp_path / LEAVE_NOW).touch()
    assert told.term(0.0) == 1
    late = Sigterms(tmp_path)
    assert late.term(0.0) == 1, "both may have come while nobody could listen: the system remembers only one"


# Breaks if a process that the program forks takes SIGTERM for a notice, or loses one that comes while it is forked:
# `with Pool()` would wait for its workers for ever, and a handler of the program would not be called in them.
@pytest.mark.parametrize("handler", ["none", "of the program"])
def test_in_a_forked_process_sigterm_does_what_it_does_without_run(tmp_path: Path, handler: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL if handler == "none" else lambda *_: os._exit(7))
    try:
        with Run(counter=Counter(), environment=environment(f"file://{tmp_path}/prefix")) as run:
            waiting = multiprocessing.get_context("fork").Process(target=signal.pause)
            waiting.start()
            waiting.terminate()
            waiting.join(10)
            found = waiting.exitcode
            waiting.kill()
            assert not run._notice.is_given
            run.left = True
    finally:
        signal.signal(signal.SIGTERM, before)
    assert found == (-signal.SIGTERM if handler == "none" else 7)


def _answer(ends: Any) -> None:
    ends.send("ready")
    ends.send(ends.recv())


# Breaks if a notice of torchrun, which comes to the whole process group, ends a process that the program needs for its
# step, as one that simulates an environment: the step fails, and nothing of it is saved.
def test_a_signal_to_the_group_leaves_the_processes_of_the_step(tmp_path: Path) -> None:
    trainer = os.fork()
    if trainer == 0:
        os.setpgid(0, 0)
        steps = 0
        with (
            suppress(BaseException),
            Run(counter=Counter(), environment=environment(f"file://{tmp_path}/prefix")) as run,
        ):
            for _ in run.steps(3):
                ours, theirs = multiprocessing.Pipe()
                process = multiprocessing.get_context("fork").Process(target=_answer, args=(theirs,))
                process.start()
                theirs.close()
                assert ours.recv() == "ready"
                os.killpg(0, signal.SIGTERM)
                ours.send("a step")
                assert ours.recv() == "a step"
                process.join()
            steps = run.step
        os._exit(steps)
    assert os.waitstatus_to_exitcode(os.waitpid(trainer, 0)[1]) == 1
