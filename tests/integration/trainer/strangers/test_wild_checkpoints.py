"""Checkpoints as they occur: each is taken only when it is whole, and comes back so that its program finds it."""

import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.trainer.folders import SavedFolder
from tests.support.trainer.strangers.wild import WILD, Wild

from holdfast_train.folder.index import escapes
from holdfast_train.folder.layouts import Unit
from holdfast_train.folder.put_back import put_back, read_index
from holdfast_train.folder.watch import LOOK_SECONDS, QUIET_SECONDS, Watch


class Clock:
    """A time that tests set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def looks(watch: Watch, clock: Clock, count: int = 3) -> Unit | None:
    """What one of several looks finds."""
    found = None
    for _ in range(count):
        clock.now += LOOK_SECONDS
        found = found or watch.next_unit()
    return found


def save(wild: Wild, root: Path, number: int, watch: Watch, clock: Clock) -> Unit:
    """One save of the program, which stops after each stage for some looks."""
    for stage, following in pairwise([*wild.stages, None]):
        assert stage is not None
        stage(root, (number + 1) * 10)
        if following is not None and number in wild.sure:
            assert looks(watch, clock) is None, "half a checkpoint was taken"
    found = looks(watch, clock)
    if number == 0 or wild.quiet:
        assert not wild.quiet or found is None, "it was taken at once"
        clock.now += QUIET_SECONDS
        found = found or watch.next_unit()
    assert found is not None, "it was never taken"
    assert escapes(found) is None
    return found


# Breaks if a layout is taken before it is whole, not at all, or with a step that it does not say; or if the program's
# own resume does not find it after it was put back.
@pytest.mark.parametrize("name", WILD)
def test_a_checkpoint_is_taken_whole_and_found_again(tmp_path: Path, name: str) -> None:
    place, wild, clock = SavedFolder(tmp_path), WILD[name], Clock()
    place.root.mkdir()
    watch = Watch(place.root, wild.pattern, clock)
    for number in range(2):
        unit = save(wild, place.root, number, watch, clock)
        place.commits.commit(unit)
        watch.note_committed(unit)
        assert looks(watch, clock) is None, "it was taken twice"
    assert unit.step == wild.step
    path = wild.newest(place.root)
    wanted, where = path.read_bytes(), path.relative_to(place.root)
    shutil.rmtree(place.root)
    place.root.mkdir()
    found = place.checkpoints.newest()
    assert found is not None
    assert put_back(place.storage, read_index(place.storage, found), place.root)
    assert wild.newest(place.root) == place.root / where
    assert (place.root / where).read_bytes() == wanted
    assert Watch(place.root, wild.pattern, clock).begin(unit) is None, "it is not the same when it is back"


# Breaks if a copy of a file, or a hard link, is uploaded beside the file.
def test_links_and_copies_are_uploaded_once(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    place.root.mkdir()
    weights = os.urandom(3_000_000)
    for name, step in (("timm", 10), ("fairseq", 20)):
        folder = place.root / f"{name}-step{step}"
        (folder / "last.pt").parent.mkdir()
        (folder / "last.pt").write_bytes(weights[:-step])
        os.link(folder / "last.pt", folder / "best.pt")
        shutil.copyfile(folder / "last.pt", folder / "epoch_3.pt")
        saved = place.commits.commit(place.unit(step))
        assert 3_000_000 - step < saved.uploaded < 3_010_000
        found = place.checkpoints.newest()
        assert found is not None
        other = tmp_path / name
        other.mkdir()
        assert put_back(place.storage, read_index(place.storage, found), other)
        for copy in ("last.pt", "best.pt", "epoch_3.pt"):
            assert (other / folder.name / copy).read_bytes() == weights[:-step]


# Breaks if one of very many small files is lost, or if each needs an object of its own in the storage.
def test_five_thousand_small_files(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    folder = place.root / "step-20"
    (folder / "a").mkdir(parents=True)
    for number in range(5000):
        (folder / "a" / f"{number}.bin").write_bytes(b"%d" % number)
    (folder / "x.pt").write_bytes(b"whole")
    place.commits.commit(place.unit(20))
    found = place.checkpoints.newest()
    assert found is not None
    assert len(found.manifest.parts) == 2
    shutil.rmtree(place.root)
    place.root.mkdir()
    assert put_back(place.storage, read_index(place.storage, found), place.root)
    assert (folder / "a/4999.bin").read_bytes() == b"4999"


# Breaks if half a checkpoint of a program that was killed while it wrote takes the place of a whole one.
def test_half_a_checkpoint_of_a_killed_program(tmp_path: Path) -> None:
    wild, clock = WILD["deepspeed"], Clock()
    watch = Watch(tmp_path, None, clock)
    watch.note_committed(save(wild, tmp_path, 0, watch, clock))
    wild.stages[0](tmp_path, 20)
    assert watch.next_unit(is_last=True) is None
    again = Watch(tmp_path, None, clock)
    first = save(wild, tmp_path / "other", 0, Watch(tmp_path / "other", None, clock), clock)
    assert again.begin(first) is None
    assert watch.next_unit(is_last=True, clean=True) is not None, "a program that ends by itself has written all"


# Breaks if a program that writes fewer files from now on is never saved again.
def test_fewer_files_than_before(tmp_path: Path) -> None:
    wild, clock = WILD["deepspeed"], Clock()
    watch = Watch(tmp_path, None, clock)
    watch.note_committed(save(wild, tmp_path, 0, watch, clock))
    wild.stages[0](tmp_path, 20)
    assert looks(watch, clock) is None
    found = looks(watch, clock, 16)
    assert found is not None
    assert found.step == 20


# Breaks if a program that keeps one checkpoint, and soon makes another one, is never saved.
def test_each_checkpoint_is_deleted_soon(tmp_path: Path) -> None:
    wild, clock = WILD["torch-dcp"], Clock()
    watch = Watch(tmp_path, None, clock)
    found = None
    for step in range(10, 100, 10):
        for stage in wild.stages:
            stage(tmp_path, step)
        shutil.rmtree(tmp_path / f"step-{step - 10}", ignore_errors=True)
        found = found or looks(watch, clock)
    assert found is not None
