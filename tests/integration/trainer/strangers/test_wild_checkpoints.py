"""Checkpoints as they occur: none is committed while something says that it is half, and each is found again."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.trainer.folders import SavedFolder, archive, content, hugging_face
from tests.support.trainer.strangers.wild import WILD, Wild, raw

from holdfast_train.folder.look import Look, look
from holdfast_train.folder.moment import QUIET_SECONDS, UNKNOWN, Due, Moment

LOOK = QUIET_SECONDS


class Watched:
    """A folder that is looked at every two seconds of a time that the test sets."""

    def __init__(self, root: Path) -> None:
        self.now = 0.0
        self._root = root
        self.moment = Moment(root, clock=lambda: self.now)
        self.moment.begin(look(root).files, {})

    def due(self, seconds: float) -> Due | None:
        """What is to be committed, within this time."""
        for _ in range(int(seconds / LOOK) + 1):
            self.now += LOOK
            self.moment.see(look(self._root).files)
            if (due := self.moment.due()) is not None:
                return due
        return None


def save(wild: Wild, root: Path, number: int, watched: Watched) -> Due:
    """One save of the program. It stops after each stage that says that more will follow."""
    for count, stage in enumerate(wild.stages):
        stage(root, (number + 1) * 10)
        if count in wild.half:
            assert watched.due(2 * UNKNOWN * QUIET_SECONDS) is None, "half a checkpoint was committed"
            assert watched.moment.waits_for
    due = watched.due(2 * UNKNOWN * QUIET_SECONDS)
    assert due is not None, f"it was never committed: {watched.moment.waits_for}"
    watched.moment.note_committed(due.files)
    return due


# Breaks if half a checkpoint is committed although something says that it is one, or a whole one is not; if the step is
# one that it does not say; or if the program's own resume does not find it after it was put back.
@pytest.mark.parametrize("name", WILD)
def test_a_checkpoint_is_committed_whole_and_found_again(tmp_path: Path, name: str) -> None:
    place, wild = SavedFolder(tmp_path, pattern=WILD[name].pattern), WILD[name]
    place.root.mkdir()
    watched = Watched(place.root)
    for number in range(2):
        save(wild, place.root, number, watched)
        assert place.commit() is not None
    assert place.index.step == wild.step
    wanted, where = content(place.root), wild.newest(place.root).relative_to(place.root)
    shutil.rmtree(place.root)
    place.put_back(place.root)
    assert content(place.root) == wanted
    assert wild.newest(place.root) == place.root / where, "the program finds its newest file"
    named = place.root / place.index.newest
    assert named in (place.root / where).parents or named.read_bytes() == wanted[str(where)]


# Breaks if a copy of a file, a hard link or a file that has moved is uploaded beside the file.
def test_links_and_copies_are_uploaded_once(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    weights = os.urandom(5 << 20)
    path = raw(place.root / "timm" / "last.pt", weights)
    os.link(path, path.with_name("best.pt"))
    shutil.copyfile(path, path.with_name("epoch_3.pt"))
    saved = place.commit()
    assert saved is not None
    assert len(weights) < saved.uploaded < len(weights) + 10_000
    path.parent.rename(place.root / "run")
    saved = place.commit()
    assert saved is not None
    assert saved.uploaded < 10_000
    place.put_back(tmp_path / "other")
    for copy in ("last.pt", "best.pt", "epoch_3.pt"):
        assert (tmp_path / "other/run" / copy).read_bytes() == weights


# Breaks if one of very many small files is lost, or if each needs an object of its own in the storage.
def test_five_thousand_small_files(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    for number in range(5000):
        raw(place.root / "step-20/a" / f"{number}.bin", b"%d" % number)
    place.commit()
    assert len(place.index.parts) == 1
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == content(place.root)


# Breaks if half a checkpoint of a program that was killed while it wrote takes the place of a whole one, or if what a
# program has written that ended by itself is not saved.
def test_half_a_checkpoint_of_a_killed_program(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    save(WILD["keras"], tmp_path, 0, watched)
    WILD["keras"].stages[0](tmp_path, 20)
    raw(tmp_path / "train.log", b"killed")
    watched.moment.see(look(tmp_path).files)
    assert watched.moment.last(clean=False) is None
    ended = watched.moment.last(clean=True)
    assert ended is not None
    assert set(ended.torn) == {"model.keras"}


# Breaks if a file that stays torn, or that is none of what its name says, keeps the saves beside it from being saved.
def test_one_torn_file_holds_nothing_up(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    raw(tmp_path / "best.pt", archive(tmp_path / "best.pt").read_bytes()[:-30])
    raw(tmp_path / "cache.pt", b"not an archive")
    for step in range(20):
        archive(tmp_path / "ckpt.pt", b"%d" % step)
        if (due := watched.due(8)) is not None:
            break
    assert due is not None
    assert "best.pt" in due.torn
    assert "ckpt.pt" in due.files


# Breaks if a clock that was ahead when a save was written hides the saves that follow.
@pytest.mark.parametrize("name", ["ckpt.pt", "step_{}.pt", "step-{}/model.pt"])
def test_a_clock_steps_back(tmp_path: Path, name: str) -> None:
    place = SavedFolder(tmp_path)
    place.root.mkdir()
    watched = Watched(place.root)
    for step in (100, 200, 300):
        path = archive(place.root / name.format(step), b"%d" % step)
        at = 1_000_000_000 + step + (3600 if step == 100 else 0)
        os.utime(path, (at, at))
        assert watched.due(2 * UNKNOWN * QUIET_SECONDS) is not None
        watched.moment.note_committed(look(place.root).files)
        assert place.commit() is not None, "it counts as known"


# Breaks if a save that the program deletes while it is read is in the commit, and is not known as one.
def test_a_save_is_deleted_while_it_is_read(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    path = archive(place.root / "step-10/model.pt", os.urandom(2 << 20))

    def again() -> Look:
        seen = look(place.root)
        shutil.rmtree(path.parent)
        return seen

    assert place.commit_files(look(place.root).files, again, frozenset()) is not None
    assert (place.index.newest, place.index.step) == ("step-10", 10)


# Breaks if a torn file that a power cut has left on a volume is in the place of the whole one in the storage.
@pytest.mark.parametrize("left", [b"", bytes(2 << 20), b"half"])
def test_a_power_cut_tears_a_file_on_the_volume(tmp_path: Path, left: bytes) -> None:
    place = SavedFolder(tmp_path)
    path = archive(hugging_face(place.root, 300) / "optimizer.pt", os.urandom(2 << 20))
    place.commit()
    wanted = content(place.root)
    path.write_bytes(wanted["checkpoint-300/optimizer.pt"][: 1 << 20] if left == b"half" else left)
    done = place.put_back(place.root, is_at_commit=True)
    assert content(place.root) == wanted
    assert list(done.replaced) == ["checkpoint-300/optimizer.pt"]


# Breaks if a model that somebody made, and the program has downloaded, is named as a save of the program.
def test_a_download_is_no_save(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    archive(place.root / "torch/hub/checkpoints/resnet50-0676ba61.pth")
    place.commit()
    assert place.index.newest == ""
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == content(place.root)


# Breaks if a program that looks for the folder that changed last, as the examples of Accelerate do, finds an older one.
@pytest.mark.parametrize("time_of", [os.path.getctime, os.path.getmtime])
def test_the_folder_that_changed_last(tmp_path: Path, time_of: Callable[[Path], float]) -> None:
    place = SavedFolder(tmp_path)
    for step in range(80, 130, 10):
        for name in ("a", "b/c"):
            path = raw(place.root / f"step_{step}" / name, b"x")
            os.utime(path, (1e9 + step, 1e9 + step))
    place.commit()
    place.put_back(tmp_path / "other")
    assert max((tmp_path / "other").iterdir(), key=time_of).name == "step_120"
