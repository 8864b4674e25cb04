"""The writer process under the launcher, beside a program that knows nothing of Holdfast."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.trainer.folders import QUIET, archive, command, content, hugging_face, identity, pod
from tests.support.waiting import wait_for

from holdfast_train.commitlog.log import CommitLog
from holdfast_train.storage.folder import FolderStorage


class Pod:
    """One pod with a folder of its own."""

    def __init__(
        self,
        place: Path,
        attempt: int,
        *,
        saves_on_signal: bool = False,
        last: int = 1000,
        root: str = "",
        program: str = "",
        **more: Any,
    ) -> None:
        self.root, self.log = place / (root or f"outputs-{attempt}"), place / f"log-{attempt}"
        self.errors = place / f"stderr-{attempt}"
        env = pod(self.root, f"file://{place}/store/job", attempt, self.log, folder_quiet=QUIET, **more)
        started = command(self.root, saves_on_signal=saves_on_signal, last=last)
        if program:  # a Python program, with the folder as its argument
            started[started.index("--") :] = ["--", sys.executable, "-c", program, str(self.root)]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                started,
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

    def leave(self) -> None:
        """Wait until all of the folder is committed, and end."""
        self.process.send_signal(signal.SIGTERM)
        self.end()


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
    wait_for(lambda: first.said("checkpoint-10, of step 10: its files say it"), 30, "the first commit")
    first.go(10)
    assert first.line() == "step 20"
    wait_for(lambda: first.said("checkpoint-20, of step 20: its files say it"), 30, "the second commit")
    first.go(20)
    assert first.line() == "step 30"
    wait_for(
        lambda: first.said("checkpoint-30, of step 30: its files say it; 0.6 MiB uploaded, 3.1 MiB were there"),
        30,
        "the third",
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


def _is_refused(place: Path, **more: Any) -> None:
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
    wait_for(lambda: pod.said("checkpoint-10, of step 10: its files say it"), 30, "the first commit")
    _writer_of(pod).kill()
    wait_for(lambda: pod.said("another one takes its place"), 30, "the launcher to notice")
    pod.go(10)
    assert pod.line() == "step 20"
    wait_for(lambda: pod.said("checkpoint-20, of step 20: its files say it"), 30, "a commit of the second writer")
    assert pod.errors.read_text().count("checkpoint-10, of step 10: its files say it") == 1
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
    wait_for(lambda: pod.said("checkpoint-10, of step 10: its files say it"), 30, "the first commit")
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
    wait_for(lambda: pod.said("checkpoint-10, of step 10: its files say it"), 30, "the first commit")
    (place / "store").rename(place / "away")
    (place / "store").touch()
    pod.go(10)
    assert pod.line() == "step 20"
    verdict = pod.end()
    assert (verdict["outcome"], verdict["reason"], verdict["savedStep"]) == ("failed", "StorageFailed", 10)
    assert "the last checkpoint is not saved" in str(verdict["message"])
    (place / "store").unlink()
    (place / "away").rename(place / "store")
    assert log(place).state.complete is None


SHOWS = """
import os, pathlib, sys
root = pathlib.Path(sys.argv[1])
print(os.environ.get("HOLDFAST_NEWEST_CHECKPOINT", "none"), *sorted(path.name for path in root.iterdir()), flush=True)
"""


def _steps(place: Path, *steps: int, **more: Any) -> Pod:
    """The first attempt, which has committed these steps and left."""
    pod = Pod(place, 1, **more)
    pod.line()
    for step in steps:
        assert pod.line() == f"step {step}"
        wait_for(lambda step=step: pod.said(f"checkpoint-{step}, of step {step}: "), 30, "a commit")  # type: ignore[misc]
        if step != steps[-1]:
            pod.go(step)
    pod.leave()
    return pod


# Breaks if a program on a volume that stays goes back to an older save than it has, or to one that a power cut tore.
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_volume_that_stays(place: Path, is_whole: bool) -> None:
    first = _steps(place, 10, root="volume")
    newer = hugging_face(first.root, 20)
    archive(newer / "optimizer.pt", b"o" * 100_000)
    if not is_whole:
        os.truncate(newer / "optimizer.pt", 50_000)
    second = Pod(place, 2, root="volume", program=SHOWS)
    assert second.line().split()[0] == f"{first.root}/checkpoint-{20 if is_whole else 10}"
    assert second.said("0.0 MiB were read")
    assert second.said("is newer than the checkpoint") == is_whole
    assert second.said("not whole, and left as it is: 'checkpoint-20/optimizer.pt'") != is_whole
    assert second.end()["outcome"] == "completed"
    assert (newer / "optimizer.pt").exists()


# Breaks if weights that the user has put there are what the program resumes from.
def test_a_pretrained_model_is_not_the_newest_save(place: Path) -> None:
    archive(place / "volume/pretrained/model.pt")
    first = Pod(place, 1, root="volume", program=SHOWS)
    assert first.line() == "none .holdfast-folder.json pretrained"
    verdict = first.end()
    assert (verdict["outcome"], verdict["reason"]) == ("completed", "NothingSaved")


# Breaks if old saves are downloaded that the job does not want.
@pytest.mark.parametrize(("how", "names"), [("All", {10, 20}), ("Newest", {20})])
def test_what_is_put_back(place: Path, how: str, names: set[int]) -> None:
    _steps(place, 10, 20)
    second = Pod(place, 2, program=SHOWS, folder_put_back=how)
    newest, *there = second.line().split()
    assert newest == f"{second.root}/checkpoint-20"
    assert {name for name in there if name.startswith("checkpoint")} == {f"checkpoint-{step}" for step in names}
    assert "go-10" in there  # what belongs to no save
    second.end()
    assert second.said("checkpoint.putBack is Newest") == (how == "Newest")


# Breaks if nothing says that a checkpoint of the folder is of other code than the one that goes on.
def test_other_code(place: Path) -> None:
    _steps(place, 10, code="a" * 64)
    second = Pod(place, 2, program=SHOWS, code="b" * 64)
    second.line()
    second.end()
    assert second.said(
        "CodeChanged: the folder of the program (trainer.code) is bbbbbbbbbbbb, the checkpoint's was aaaa"
    )


TEXTS = """
import pathlib, sys
root = pathlib.Path(sys.argv[1])
(root / "log").write_text("lines\\n")
(root / "config.json").write_text("{}")
"""


# Breaks if a program of which only texts were saved is complete without a word.
def test_texts_are_no_save(place: Path) -> None:
    verdict = Pod(place, 1, program=TEXTS).end()
    assert (verdict["outcome"], verdict["reason"]) == ("completed", "NothingSaved")
    assert len(log(place).state.commits) == 1  # they are saved


LEAVES_OUT = """
import os, pathlib, sys, time
root = pathlib.Path(sys.argv[1])
for path in ("wandb/run", "wandb-2/run", "__pycache__/x", "hub/x"):
    (root / path).parent.mkdir()
    (root / path).write_text("x")
(root / "link").symlink_to("/etc/hostname")
os.mkfifo(root / "pipe")
print("first", flush=True)
while True:
    time.sleep(0.02)
"""


# Breaks if it is never said what is not saved, or at each look.
def test_what_stays_out_is_said_once(place: Path) -> None:
    hub = str(place / "outputs-1/hub")
    pod = Pod(place, 1, program=LEAVES_OUT, folder_exclude=("wandb", "*.tmp"), HF_HOME=hub)
    assert pod.line() == "first"
    wait_for(lambda: pod.said("the folder is saved"), 30, "the first commit")
    pod.leave()
    lines = [line for line in pod.errors.read_text().splitlines() if "not saved with" in line]
    assert len(lines) == 1
    for words in (
        "'wandb' (checkpoint.exclude has 'wandb')",
        "'__pycache__' (a cache, by its name)",
        "'hub' (a cache, which HF_HOME names)",
        "'pipe' (a socket, a pipe or a device)",
        "'link' (a link out of the folder: what it leads to is not saved)",
    ):
        assert words in lines[0]
    second = Pod(place, 2, program=SHOWS)
    assert second.line() == "none .holdfast-folder.json link wandb-2"
    second.end()
