"""The newest save of a program: never a file that it did not write, and of the step that somebody says."""

import json
import os
from pathlib import Path

import pytest
from tests.support.trainer.folders import SavedFolder, archive, hugging_face

from holdfast_train.folder.look import look
from holdfast_train.folder.newest import OF_FORMAT, OF_NAME, OF_PROGRAM, NewestSave


def dated(path: Path, second: int) -> Path:
    """`path` with the time of this second."""
    os.utime(path, (1_000_000_000 + second, 1_000_000_000 + second))
    return path


class Seen(SavedFolder):
    """A folder of which all that changes is told, as the writer does it."""

    def start(self) -> None:
        """The first start of the job, with what is there."""
        self.root.mkdir(exist_ok=True)
        files = look(self.root).files
        self.newest.begin(None, {}, {path: file.signature for path, file in files.items()})

    def resume(self) -> None:
        """Another start, on another node: all is put back into an empty folder."""
        done = self.put_back(self.root)
        self.capture.begin(self.index, done.files)
        self.newest.begin(self.index, done.files, {})

    @property
    def path(self) -> str:
        return self.newest.path_in(look(self.root).files, ())

    def committed(self) -> str:
        """Commit, and the newest save in it."""
        assert self.commit() is not None
        return self.index.newest


# Breaks if a program is told to resume from weights that it only starts from.
def test_what_was_there_before_the_first_start(tmp_path: Path) -> None:
    first = Seen(tmp_path / "job")
    pretrained = dated(archive(first.root / "pretrained.pt", b"from a hub"), 9)
    first.start()
    assert first.path == ""
    (first.root / "log").write_text("line\n")
    assert first.committed() == ""
    assert [path for path, saved in first.index.files.items() if saved.is_old] == ["pretrained.pt"]

    for path in (first.root / "log", pretrained):
        path.unlink()
    second = Seen(tmp_path / "job", attempt=2)
    second.resume()
    assert second.path == ""
    pretrained.rename(second.root / "moved.pt")
    assert second.committed() == ""  # it is the same file, wherever it lies
    dated(archive(second.root / "last.pt"), 5)
    assert second.committed() == "last.pt"  # though its time is older
    archive(pretrained, b"trained")
    assert second.committed() == "pretrained.pt"  # now it is one of this training


# Breaks if a program that downloads weights, and is interrupted, goes on from these and not from the first step.
def test_what_was_written_before_the_first_step(tmp_path: Path) -> None:
    place = Seen(tmp_path)
    place.start()
    dated(archive(place.root / "hub/model.pt", b"from a hub"), 9)
    place.newest.note_changed("hub/model.pt")
    place.newest.note_told(1, look(place.root).files)
    assert place.path == ""
    assert place.committed() == ""
    dated(archive(place.root / "last.pt"), 5)
    place.newest.note_told(2, look(place.root).files)
    assert place.path == "last.pt"
    assert place.committed() == "last.pt"


def test_a_save_on_the_volume_that_no_commit_has_is_the_trainings_own(tmp_path: Path) -> None:
    """Breaks if the first step of a second attempt makes an old file of what the first one wrote last."""
    first = Seen(tmp_path)
    first.start()
    dated(archive(first.root / "step_10.pt"), 5)
    assert first.committed() == "step_10.pt"
    dated(archive(first.root / "step_20.pt", b"more"), 9)
    second = Seen(tmp_path, attempt=2)
    second.resume()
    second.newest.note_told(21, look(second.root).files)
    assert second.path == "step_20.pt"
    assert second.committed() == "step_20.pt"


def test_what_was_put_back_is_the_trainings_own(tmp_path: Path) -> None:
    """Breaks if a second start forgets the saves of the first one, because no step was told before it."""
    first = Seen(tmp_path)
    first.start()
    dated(archive(first.root / "last.pt"), 5)
    assert first.committed() == "last.pt"
    (first.root / "last.pt").unlink()
    second = Seen(tmp_path, attempt=2)
    second.resume()
    second.newest.note_told(7, look(second.root).files)
    assert second.path == "last.pt"
    (second.root / "log").touch()
    assert second.committed() == "last.pt"


# Breaks if a program is given a save that a crash has cut, though a whole one is there.
def test_torn_saves_are_passed_over(tmp_path: Path) -> None:
    newest = NewestSave(tmp_path)
    for step in (10, 20):
        for path in hugging_face(tmp_path, step).rglob("*"):
            dated(path, step)
        dated(archive(tmp_path / f"checkpoint-{step}/optimizer.pt"), step)
    files = look(tmp_path).files
    assert newest.path_in(files, ()) == "checkpoint-20"
    assert newest.path_in(files, ["checkpoint-20"]) == "checkpoint-10"
    assert newest.path_in(files, ["checkpoint-20/optimizer.pt"]) == "checkpoint-10"  # one file of it is enough
    assert newest.path_in(files, ["checkpoint-2"]) == "checkpoint-20"
    assert newest.path_in(files, ["checkpoint-20", "checkpoint-10"]) == ""


@pytest.mark.parametrize(
    ("pattern", "newest"),
    [
        (None, "other/last.pt"),
        ("run-*/step-*", "run-2/step-3"),
        ("run-1/*", "run-1/step-9"),
        ("*.txt", "notes.txt"),
        ("none", ""),
        ("run-2/step-3/model.pt", "run-2/step-3/model.pt"),
    ],
)
def test_the_jobs_pattern(tmp_path: Path, pattern: str | None, newest: str) -> None:
    """Breaks if something is named that the job does not call a save, or an older one of those that it does."""
    paths = ["run-1/step-9/model.pt", "run-2/step-3/model.pt", "run-2/deep/step-7/model.pt", "other/last.pt"]
    for second, path in enumerate(paths):
        dated(archive(tmp_path / path), second)
    (tmp_path / "notes.txt").write_text("no state, but the job says so")
    dated(tmp_path / "notes.txt", 1)
    if pattern == "run-2/step-3/model.pt":
        (tmp_path / "run-2/step-3/more.txt").touch()
    assert NewestSave(tmp_path, pattern).path_in(look(tmp_path).files, ()) == newest


@pytest.mark.parametrize(
    ("path", "state", "told", "step"),
    [
        ("last.pt", None, None, (None, "")),
        ("last.pt", None, 30, (30, OF_PROGRAM)),
        ("model_step_20.pt", None, None, (20, OF_NAME)),
        ("model_step_20.pt", None, 30, (20, OF_NAME)),
        ("model_step_90.pt", None, 30, (30, OF_PROGRAM)),  # the program has not been there
        ("lr_step_5.pt", None, 30, (30, OF_PROGRAM)),  # and there it was before
        ("checkpoint-20/model.pt", 25, None, (25, OF_FORMAT)),
        ("checkpoint-20/model.pt", 25, 30, (25, OF_FORMAT)),
        ("step-20/model.pt", None, None, (20, OF_NAME)),
        ("checkpoint-20/model.pt", None, None, (None, "")),  # it may be an epoch
        ("run_lr_20/model.pt", None, None, (None, "")),
    ],
)
def test_the_step(tmp_path: Path, path: str, state: int | None, told: int | None, step: tuple[int | None, str]) -> None:
    """Breaks if a number in a name overrules what the program or its files say."""
    place = Seen(tmp_path)
    place.start()
    if told is not None:
        place.newest.note_told(10, {})
        place.newest.note_told(told, {})
    archive(place.root / path)
    if state is not None:
        text = json.dumps({"global_step": state, "log_history": []})
        (place.root / path).with_name("trainer_state.json").write_text(text)
    for one in look(place.root).files:
        place.newest.note_changed(one)
    if told is not None:
        place.newest.note_told(told + 3, {})  # after the save
    assert place.committed() == (path if "run" in path else path.partition("/")[0])
    assert (place.index.step, place.index.step_from) == step
    assert place.newest.step_at(place.index.newest, look(place.root).files) == step[0]


def test_a_save_that_a_crash_has_cut_between_two_files(tmp_path: Path) -> None:
    """Breaks if a program is told to go on from a folder that has the model alone, while those beside it have all."""
    place = Seen(tmp_path)
    place.start()
    for path in ("checkpoint-10/model.pt", "checkpoint-10/optimizer.pt", "checkpoint-10/rng_0.pt"):
        archive(place.root / path)
    assert place.committed() == "checkpoint-10"
    archive(place.root / "checkpoint-20/model.pt")
    place.newest.begin(place.index, {path: look(place.root).files[path] for path in place.index.files}, {})
    assert place.path == "checkpoint-10"
    for path in ("checkpoint-20/optimizer.pt", "checkpoint-20/rng_1.pt"):  # of fewer processes, or of others
        archive(place.root / path)
    assert place.path == "checkpoint-20"
    (place.root / "checkpoint-20/optimizer.pt").unlink()
    assert place.committed() == "checkpoint-20", "nothing but a crash leaves it so"
    place.newest.begin(place.index, look(place.root).files, {})
    assert place.path == "checkpoint-20"


@pytest.mark.parametrize(("saved_at", "step"), [(99.5, 20), (100.5, 30)])
def test_a_step_that_was_read_after_the_save(tmp_path: Path, saved_at: float, step: int) -> None:
    """Breaks if a quick program seems to begin before its checkpoint, whose step it had told only after the save."""
    place = Seen(tmp_path)
    place.start()
    for number, at in ((10, 98.0), (20, 99.0), (30, 100.0)):
        place.newest.note_told(number, {}, at)
    archive(place.root / "last.pt")
    place.newest.note_changed("last.pt", saved_at)
    place.committed()
    assert (place.index.step, place.index.step_from) == (step, OF_PROGRAM)


def test_metrics_are_those_of_the_newest_save(tmp_path: Path) -> None:
    place = Seen(tmp_path)
    place.start()
    archive(hugging_face(place.root, 10) / "optimizer.pt")
    place.commit()
    found = place.checkpoints.newest()
    assert found is not None
    assert (found.manifest.step, found.manifest.metrics) == (10, {"loss": "1.25"})
