"""What is said of files in a folder that are never saved."""

import os
import re
from pathlib import Path

import pytest
from tests.support.trainer.folders import archive, hugging_face

from holdfast_train.folder.watch import Watch


# Breaks if a program runs for days and nobody says that nothing of it is saved, or if that is said of what is saved.
@pytest.mark.parametrize(
    ("name", "pattern", "said"),
    [
        (
            "step_40/model.safetensors",
            None,
            "'step_40/model.safetensors' is not saved: it is not a checkpoint of a kind",
        ),
        ("ckpt.pt", None, "the checkpoint files did not change for 60 s, and cannot be saved: one of its files"),
        ("checkpoint-4/model.bin", None, "'checkpoint-4' did not change for 60 s, and cannot be saved: its trainer_st"),
        ("a/ckpt.pt", "b/*", r"no path fits checkpoint.pattern 'b/\*'; 'a/ckpt.pt' is not saved"),
        ("metrics.csv", None, "^$"),
    ],
)
def test_what_is_never_saved(tmp_path: Path, name: str, pattern: str | None, said: str) -> None:
    time = [0.0]
    watch = Watch(tmp_path, pattern, clock=lambda: time[0])
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"no archive")
    for time[0] in (0.0, 59.0):
        assert watch.next_unit() is None
        assert not watch.complaint
    time[0] = 61.0
    assert watch.next_unit() is None
    assert re.search(said, watch.complaint)
    assert len(watch.complaint) <= 256
    archive(tmp_path / "b/step-50.pt")
    watch.next_unit()
    saved = watch.next_unit()
    if name == "checkpoint-4/model.bin":  # files beside folders of checkpoints are not saved
        hugging_face(tmp_path, 50)
        watch.next_unit()
        saved = watch.next_unit()
    assert saved is not None
    watch.note_committed(saved)
    assert watch.next_unit() is None
    os.utime(tmp_path / name, (1, 1))
    for time[0] in (200.0, 300.0):
        watch.next_unit()
        assert not watch.complaint


# Breaks if a file that no two looks see the same is never saved, and nobody says so.
def test_what_always_changes(tmp_path: Path) -> None:
    time = [0.0]
    watch = Watch(tmp_path, None, clock=lambda: time[0])
    for second in range(0, 310, 2):
        time[0] = float(second)
        os.utime(archive(tmp_path / "ckpt.pt"), (second, second))
        assert watch.next_unit() is None
        assert bool(watch.complaint) == (second >= 300), second
    assert watch.complaint.startswith("the checkpoint files changed between any two looks for 300 s")
    saved = watch.next_unit()
    assert saved is not None
    watch.note_committed(saved)
    assert watch.next_unit() is None
    assert not watch.complaint


# Breaks if a large checkpoint is said to be stuck while it is written, or a whole one while it is uploaded again.
def test_what_waits_for_a_second_look(tmp_path: Path) -> None:
    time = [0.0]
    watch = Watch(tmp_path, None, clock=lambda: time[0])
    path = tmp_path / "ckpt.pt"
    for second in range(0, 120, 2):
        time[0] = float(second)
        path.write_bytes(b"w" * (second + 1))
        assert watch.next_unit() is None
        assert not watch.complaint
    archive(path)
    assert watch.next_unit() is None
    assert not watch.complaint
    for second in range(120, 400, 20):  # the storage cannot be reached, so the same one is found again and again
        time[0] = float(second)
        assert watch.next_unit() is not None
        assert not watch.complaint
    os.utime(path, (1, 1))
    assert watch.next_unit() is None
    assert not watch.complaint
