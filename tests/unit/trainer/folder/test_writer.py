"""The writer process under the launcher, beside a program that knows nothing of Holdfast."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from tests.support.trainer.folders import command, content, identity, pod
from tests.support.waiting import wait_for

from holdfast_train.commitlog.log import CommitLog
from holdfast_train.storage.folder import FolderStorage


class Pod:
    """One pod with a folder of its own."""

    def __init__(
        self, place: Path, attempt: int, *, saves_on_signal: bool = False, last: int = 1000, **more: str
    ) -> None:
        self.root, self.log = place / f"outputs-{attempt}", place / f"log-{attempt}"
        self.errors = place / f"stderr-{attempt}"
        env = pod(self.root, f"file://{place}/store/job", attempt, self.log, **more)
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command(self.root, saves_on_signal=saves_on_signal, last=last),
                env=env,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self, step: int) -> None:
        (self.root / f"go-{step}").touch()

    def end(self) -> dict[str, object]:
        try:
            self.process.wait(timeout=60)
        finally:
            self.process.kill()
        found: dict[str, object] = json.loads(self.log.read_text())
        return found

    def said(self, text: str) -> bool:
        return text in self.errors.read_text()


def log(place: Path) -> CommitLog:
    found = CommitLog(FolderStorage(place / "store/job"), identity())
    found.refresh()
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path


# Breaks if a checkpoint is not committed beside the program, not put back, or if what did not change is uploaded again.
def test_from_attempt_to_attempt(place: Path) -> None:
    first = Pod(place, 1)
    assert [first.line(), first.line()] == ["resumed 0", "step 10"]
    wait_for(lambda: first.said("checkpoint-10 (step 10) is saved"), 30, "the first commit")
    first.go(10)
    assert first.line() == "step 20"
    wait_for(lambda: first.said("checkpoint-20 (step 20) is saved"), 30, "the second commit")
    first.go(20)
    assert first.line() == "step 30"
    wait_for(
        lambda: first.said("checkpoint-30 (step 30) is saved: 0.6 MiB uploaded, 1.9 MiB were there"), 30, "the third"
    )
    before = content(first.root / "checkpoint-30")
    first.process.send_signal(signal.SIGTERM)
    verdict = first.end()
    assert (verdict["outcome"], verdict["reason"], verdict["savedStep"]) == ("drained", "LeftWithoutSaving", 30)
    assert log(place).state.handed_over
    shutil.rmtree(first.root)

    second = Pod(place, 2, saves_on_signal=True)
    assert second.line() == "resumed 30"
    assert content(second.root / "checkpoint-30") == before
    assert second.line() == "step 40"
    second.process.send_signal(signal.SIGTERM)
    verdict = second.end()
    assert (verdict["outcome"], verdict["reason"], verdict["savedStep"]) == ("drained", "SavedAndLeft", 41)
    assert "step 41" in str(verdict["message"])

    third = Pod(place, 3, last=51)
    assert [third.line(), third.line()] == ["resumed 41", "step 51"]
    verdict = third.end()
    assert (verdict["outcome"], verdict["savedStep"], third.process.returncode) == ("completed", 51, 0)
    assert log(place).state.complete == 51

    fourth = Pod(place, 4)
    assert fourth.line() == ""
    assert (fourth.end()["reason"], fourth.process.returncode) == ("AlreadyComplete", 0)


# Breaks if a program that wrote nothing into its folder, in no attempt, is complete without a word.
def test_nothing_was_ever_saved(place: Path) -> None:
    verdict = Pod(place, 1, last=0).end()
    assert (verdict["outcome"], verdict["reason"]) == ("completed", "NothingSaved")
    assert "set checkpoint.folder to the folder into which it writes" in str(verdict["message"])


# Breaks if an attempt that is fenced commits, or if its program goes on.
def test_fenced(place: Path) -> None:
    old = Pod(place, 1)
    assert [old.line(), old.line()] == ["resumed 0", "step 10"]
    wait_for(lambda: old.said("is saved"), 30, "the first commit")
    newer = CommitLog(FolderStorage(place / "store/job"), identity(2))
    newer.own("Auto")
    newer.raise_fence()
    old.go(10)
    verdict = old.end()
    assert (verdict["outcome"], verdict["reason"]) == ("fenced", "Fenced")
    assert [commit.step for commit in log(place).state.commits] == [10]


# Breaks if the program starts without what it should resume from.
def test_refused_before_the_program(place: Path) -> None:
    _is_refused(place, resume="Yes")


# Breaks if a warm start puts back whole files.
def test_parts_of_a_checkpoint_are_refused(place: Path) -> None:
    other = f"file://{place}-other"
    _is_refused(place, resume=other, resume_only=("model",))


def _is_refused(place: Path, **more: str) -> None:
    pod = Pod(place, 1, **more)
    verdict = pod.end()
    assert (verdict["outcome"], verdict["reason"], pod.process.returncode) == (
        "misconfigured",
        "EnvironmentInvalid",
        78,
    )
    assert pod.line() == ""


# Breaks if the last checkpoint of a program that crashes is lost.
def test_crash(place: Path) -> None:
    pod = Pod(place, 1)
    assert [pod.line(), pod.line()] == ["resumed 0", "step 10"]
    (pod.root / "checkpoint-20").mkdir()  # the program fails to make it
    (pod.root / "go-10").mkdir()
    verdict = pod.end()
    assert (verdict["outcome"], verdict["savedStep"]) == ("failed", 10)
    assert [commit.step for commit in log(place).state.commits] == [10]


def _writers(pod: Pod) -> list[psutil.Process]:
    try:
        children = psutil.Process(pod.process.pid).children()
        return [child for child in children if "folder.writer" in " ".join(child.cmdline())]
    except psutil.NoSuchProcess:
        return []


def _writer_of(pod: Pod) -> psutil.Process:
    return max(_writers(pod), key=lambda child: child.create_time())


# Breaks if a training is not saved after its writer has died, or if what was saved is uploaded again.
def test_another_writer_takes_the_place_of_one_that_dies(place: Path) -> None:
    pod = Pod(place, 1, last=40)
    assert [pod.line(), pod.line()] == ["resumed 0", "step 10"]
    wait_for(lambda: pod.said("checkpoint-10 (step 10) is saved"), 30, "the first commit")
    _writer_of(pod).kill()
    wait_for(lambda: pod.said("another one takes its place"), 30, "the launcher to notice")
    pod.go(10)
    assert pod.line() == "step 20"
    wait_for(lambda: pod.said("checkpoint-20 (step 20) is saved"), 30, "a commit of the second writer")
    assert pod.errors.read_text().count("checkpoint-10 (step 10) is saved") == 1
    _writer_of(pod).kill()
    pod.go(20)
    assert pod.line() == "step 30"
    pod.go(30)
    assert pod.line() == "step 40"
    verdict = pod.end()
    assert (verdict["outcome"], verdict["savedStep"], pod.process.returncode) == ("completed", 40, 0)
    assert log(place).state.complete == 40


# Breaks if a program is said to be complete whose last checkpoints are in no storage, or if it ends with its writer.
def test_writers_that_die_again_and_again(place: Path) -> None:
    pod = Pod(place, 1, last=20)
    assert [pod.line(), pod.line()] == ["resumed 0", "step 10"]
    wait_for(lambda: pod.said("checkpoint-10 (step 10) is saved"), 30, "the first commit")
    _writer_of(pod).kill()
    pod.go(10)
    assert pod.line() == "step 20"

    def ends() -> bool:
        for writer in _writers(pod):
            with contextlib.suppress(psutil.NoSuchProcess):
                writer.kill()
        return pod.process.poll() is not None

    wait_for(ends, 60, "the launcher to give up")
    verdict = pod.end()
    assert (verdict["outcome"], verdict["reason"], verdict["savedStep"]) == ("failed", "FolderWriterEnded", 10)


# Breaks if a job is complete although its last checkpoint is in no storage.
def test_a_last_checkpoint_that_cannot_be_saved_fails_the_attempt(place: Path) -> None:
    pod = Pod(place, 1, last=20)
    assert [pod.line(), pod.line()] == ["resumed 0", "step 10"]
    wait_for(lambda: pod.said("checkpoint-10 (step 10) is saved"), 30, "the first commit")
    shutil.copytree(pod.root / "checkpoint-10", pod.root / "checkpoint-99")
    (pod.root / "checkpoint-99/outside").symlink_to("/etc/hostname")
    for path in (pod.root / "checkpoint-99").iterdir():
        os.utime(path, (2**32, 2**32), follow_symlinks=False)  # newer than all others
    pod.go(10)
    assert pod.line() == "step 20"
    verdict = pod.end()
    assert (verdict["outcome"], verdict["savedStep"]) == ("failed", 20)
    assert "'checkpoint-99/outside' leads out of it" in str(verdict["message"])
    assert log(place).state.complete is None
