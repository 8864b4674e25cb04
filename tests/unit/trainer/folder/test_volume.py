"""What the program finds on a volume that stays: its own newer files, and nothing that a person has rolled back."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.trainer.folders import QUIET, SavedFolder, content, hugging_face, identity, pod
from tests.support.waiting import wait_for

from holdfast_train.commitlog.log import CommitLog
from holdfast_train.folder.look import look
from holdfast_train.folder.newest import NewestSave
from holdfast_train.storage.folder import FolderStorage

Said = Callable[[str], bool]


@contextmanager
def writer(place: Path, attempt: int, **more: str) -> Iterator[tuple[str, Said]]:
    """A writer process over the volume `outputs`. The newest save that it found, and whether it has said a text.

    It is killed at the end.
    """
    (place / "volume").mkdir(exist_ok=True)
    errors = place / f"stderr-{attempt}"
    environment = pod(
        place / "outputs", f"file://{place}/volume/job", attempt, place / "log", folder_quiet=QUIET, **more
    )
    command = [sys.executable, "-m", "holdfast_train.folder.writer"]
    with errors.open("w") as file:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        newest = json.loads(line)["newest"] if line else errors.read_text()
        yield newest.rpartition("/")[2], lambda text: text in errors.read_text()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


# Breaks if a program that begins only in an empty folder, such as an example of transformers, finds a file of ours.
def test_the_first_start_leaves_the_folder_empty(tmp_path: Path) -> None:
    with writer(tmp_path, 1):
        assert not list((tmp_path / "outputs").iterdir())


# Breaks if what the first attempt wrote, before any commit, counts as what was there before the job.
def test_a_save_that_no_attempt_has_committed(tmp_path: Path) -> None:
    with writer(tmp_path, 1) as (_, said):
        (tmp_path / "outputs/data.incomplete").touch()  # holds the commit up
        hugging_face(tmp_path / "outputs", 10)
        wait_for((tmp_path / "outputs/.holdfast-folder.json").exists, 60, "the first look")
        assert not said("is saved")
    with writer(tmp_path, 2) as (newest, _):
        assert newest == "checkpoint-10"


# Breaks if a rollback is undone by a younger save on the volume, or if nobody is told that one is there.
def test_a_rollback(tmp_path: Path) -> None:
    with writer(tmp_path, 1) as (_, said):
        hugging_face(tmp_path / "outputs", 10)
        wait_for(lambda: said("the newest save is checkpoint-10"), 60, "the first commit")
        hugging_face(tmp_path / "outputs", 20)
        wait_for(lambda: said("the newest save is checkpoint-20"), 60, "the second commit")
        (tmp_path / "outputs/checkpoint-10/sub/small.txt").write_text("of step 20")
    with writer(tmp_path, 2) as (newest, _):
        assert newest == "checkpoint-20"
        assert (tmp_path / "outputs/checkpoint-10/sub/small.txt").read_text() == "of step 20"
    log = CommitLog(FolderStorage(tmp_path / "volume/job"), identity(2))
    log.roll_back(log.refresh().commits[0].seq, "a person", by_person=True)
    with writer(tmp_path, 3) as (newest, said):
        assert newest == "checkpoint-10"
        assert (tmp_path / "outputs/checkpoint-10/sub/small.txt").read_text() == "step 10"
        assert said("checkpoint-20 in")
        assert said("delete it if that is wrong, such as after a rollback")


# Breaks if a job that is created again to start from nothing takes the saves on the volume for its own.
def test_never(tmp_path: Path) -> None:
    with writer(tmp_path, 1) as (_, said):
        hugging_face(tmp_path / "outputs", 10)
        wait_for(lambda: said("is saved"), 60, "the first commit")
    with writer(tmp_path, 1, resume="Never", HOLDFAST_JOB_UID="another", HOLDFAST_POD_UID="other") as (newest, _):
        assert newest == ""


# Breaks if a process that dies while it replaces torn files leaves a mixture that the next one takes for newer.
def test_a_death_between_two_files(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    for name in ("model.bin", "optimizer.bin"):
        (place.root / name).parent.mkdir(exist_ok=True)
        (place.root / name).write_text(name)
    place.commit()
    saved = content(place.root)
    (place.root / "model.bin").write_bytes(b"")  # a power cut
    (place.root / "optimizer.bin").write_text("after the commit")

    class Died(BaseException):
        pass

    def die() -> None:
        raise Died

    with pytest.raises(Died):
        place.put_back(place.root, is_at_commit=True, before_others=die)
    assert (place.root / "optimizer.bin").read_text() == "after the commit"  # nothing was replaced before it
    place.put_back(place.root, is_at_commit=False)
    assert content(place.root) == saved


# Breaks if the save of a clock that was ahead is the newest one for ever.
def test_a_clock_that_was_ahead(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path, keep=9)
    path = hugging_face(place.root, 10)
    for file in path.rglob("*"):
        os.utime(file, (4e9, 4e9))
    place.commit()
    hugging_face(place.root, 20, b"other" * 400_000)
    place.commit()
    assert (place.index.newest, place.index.step) == ("checkpoint-20", 20)
    (place.root / "log").write_text("a line")
    place.commit()
    assert (place.index.newest, place.index.step) == ("checkpoint-20", 20)
    path.rename(place.root / "checkpoint-5")  # an old save that was moved is no new one by its content alone
    for file in (place.root / "checkpoint-5").rglob("*"):
        os.utime(file, (1e9, 1e9))
    place.commit()
    assert (place.index.newest, place.index.step) == ("checkpoint-20", 20)


# Breaks if all that is there counts as old when another writer takes the place of one that has ended.
def test_the_first_step_that_another_writer_hears(tmp_path: Path) -> None:
    hugging_face(tmp_path, 10)
    newest, seen = NewestSave(tmp_path), look(tmp_path).files
    newest.begin(None, {}, {}, has_begun=True)
    for path in seen:
        newest.note_changed(path)
    newest.note_told(11, seen)
    assert newest.path_in(seen, ()) == "checkpoint-10"
