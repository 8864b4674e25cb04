"""Which checkpoint is committed next."""

import os
from pathlib import Path

from tests.support.trainer.folders import archive, hugging_face

from holdfast_train.folder.layouts import find
from holdfast_train.folder.look import look
from holdfast_train.folder.watch import QUIET_SECONDS, Watch


# Breaks if a checkpoint that still changes is taken, or one is taken twice.
def test_two_looks(tmp_path: Path) -> None:
    watch = Watch(tmp_path, None)
    path = hugging_face(tmp_path, 10)
    assert watch.next_unit() is None
    (path / "rng_state.pth").write_bytes(b"late")
    assert watch.next_unit() is None
    unit = watch.next_unit()
    assert unit is not None
    assert (unit.name, len(unit.files)) == ("checkpoint-10", 5)
    watch.note_committed(unit)
    assert watch.next_unit() is None
    hugging_face(tmp_path, 20)
    last = watch.next_unit(is_last=True)  # the program has ended: nothing changes any more
    assert last is not None
    assert last.name == "checkpoint-20"


def test_the_newest_counts(tmp_path: Path) -> None:
    watch = Watch(tmp_path, None)
    for step in (30, 10, 20):
        hugging_face(tmp_path, step)
    watch.next_unit()
    unit = watch.next_unit()
    assert unit is not None
    assert unit.name == "checkpoint-20"
    watch.note_committed(unit)
    assert watch.next_unit() is None  # those before it are not worth an upload


def test_without_a_mark(tmp_path: Path) -> None:
    now = 0.0
    watch = Watch(tmp_path, "*.npz", clock=lambda: now)
    (tmp_path / "state.npz").write_bytes(b"content")
    archive(tmp_path / "model.pt")
    watch.next_unit()
    now = QUIET_SECONDS - 1
    assert watch.next_unit() is None
    assert watch.next_unit(is_last=True) is None  # it may have been killed while it wrote
    assert watch.next_unit(is_last=True, clean=True) is not None
    now = QUIET_SECONDS
    assert watch.next_unit() is not None


# Breaks if a later look commits what is older than the checkpoint that was put back, or nothing at all because the
# clock of the machine that wrote it was ahead.
def test_beginning(tmp_path: Path) -> None:
    for step, at in ((10, 1e9), (20, 4e9), (30, 5e9)):
        for path in (hugging_face(tmp_path, step), *(tmp_path / f"checkpoint-{step}").rglob("*")):
            os.utime(path, (at, at))
    units = {unit.step: unit for unit in find(look(tmp_path))}
    watch = Watch(tmp_path, None)
    newer = watch.begin(units[20])
    assert newer is not None
    assert newer.step == 30
    assert newer == watch.next_unit(is_last=True)
    watch.refuse(newer)
    assert watch.next_unit(is_last=True) is None
    hugging_face(tmp_path, 40)
    found = watch.next_unit(is_last=True)
    assert found is not None
    assert found.step == 40
    assert Watch(tmp_path, None).begin(None) == units[30]


# Breaks if half a checkpoint that a killed program left on a volume is saved, or is said to be complete.
def test_what_a_killed_program_left_without_a_mark(tmp_path: Path) -> None:
    now = 0.0
    (tmp_path / "step-50").mkdir()
    (tmp_path / "step-50" / "half.bin").write_bytes(b"content")
    watch = Watch(tmp_path, "step-*", clock=lambda: now)
    assert watch.begin(None) is None
    now = 2 * QUIET_SECONDS
    assert watch.next_unit() is None
    assert watch.next_unit(is_last=True, clean=True) is None
    beside = Watch(tmp_path, "step-*", clock=lambda: now)  # in the place of a writer that has died
    beside.begin(None, is_running=True)
    assert beside.next_unit(is_last=True, clean=True) is not None
    (tmp_path / "step-50" / "other.bin").write_bytes(b"content")
    assert watch.next_unit(is_last=True, clean=True) is not None
    (tmp_path / "step-50").rename(tmp_path / "step-50.incomplete-0123abcd")
    assert watch.next_unit(is_last=True, clean=True) is None


def test_no_folder(tmp_path: Path) -> None:
    watch = Watch(tmp_path / "gone", None)
    assert watch.next_unit() is None
    assert "cannot be read" in watch.complaint
    (tmp_path / "gone").mkdir()
    assert watch.next_unit() is None
    assert not watch.complaint
