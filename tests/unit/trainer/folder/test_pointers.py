"""Links and small files that name a checkpoint are put back with it, and lead nowhere else."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.trainer.folders import SavedFolder, archive, hugging_face

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.folder import index
from holdfast_train.folder.layouts import Unit, find
from holdfast_train.folder.look import look
from holdfast_train.folder.pointers import Pointer, pointers_to, put_pointers_back
from holdfast_train.folder.put_back import put_back, read_index


def with_link(root: Path) -> str:
    hugging_face(root, 40)
    (root / "latest").symlink_to("checkpoint-40")
    return "latest"


def with_whole_link(root: Path) -> str:
    hugging_face(root / "run", 40)
    (root / "run/newest").symlink_to(root / "run/checkpoint-40")
    return "run/newest"


def of_deepspeed(root: Path) -> str:
    archive(root / "run/global_step40/mp_rank_00_model_states.pt")
    (root / "run/latest").write_text("global_step40")
    return "run/latest"


def of_detectron(root: Path) -> str:
    archive(root / "model_0000040.pth")
    (root / "last_checkpoint").write_text("model_0000040.pth")
    return "last_checkpoint"


def of_megatron(root: Path) -> str:
    (root / "iter_0000040").mkdir(parents=True)
    (root / "iter_0000040/.metadata").write_bytes(b"content")
    (root / "latest_checkpointed_iteration.txt").write_text("40\n")
    return "latest_checkpointed_iteration.txt"


# Breaks if a program that finds its newest checkpoint by a link or a small file starts over on another node.
@pytest.mark.parametrize("make", [with_link, with_whole_link, of_deepspeed, of_detectron, of_megatron])
def test_what_names_a_checkpoint_is_put_back(tmp_path: Path, make: Callable[[Path], str]) -> None:
    place = SavedFolder(tmp_path)
    place.root.mkdir()
    name = make(place.root)
    link = (place.root / name).readlink() if (place.root / name).is_symlink() else None
    text = None if link else (place.root / name).read_text()
    place.commits.commit(find(look(place.root))[0])
    found = place.checkpoints.newest()
    assert found is not None
    shutil.rmtree(place.root)
    place.root.mkdir()
    assert put_back(place.storage, read_index(place.storage, found), place.root)
    again = place.root / name
    assert (again.readlink() if link else again.read_text()) == (link or text)


# Breaks if a program that saves faster than its checkpoints are committed does not find the one that is put back.
@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("latest", "->step 50", "->step 40"),
        ("latest", "step 50", "step 40"),
        ("latest.txt", "50\n", "40"),
        ("last_epoch.txt", "3", None),  # no checkpoint has this number
        ("latest", "->other 50", None),
        ("best", "->step 50", None),
    ],
)
def test_the_newest_is_not_saved_yet(tmp_path: Path, name: str, text: str, kept: str | None) -> None:
    for step in (40, 50):
        (tmp_path / f"step {step}").mkdir()
        (tmp_path / f"step {step}" / "weights").write_bytes(b"content")
    unit = find(look(tmp_path), "step?*")[0]
    if text.startswith("->"):
        (tmp_path / name).symlink_to(text[2:])
    else:
        (tmp_path / name).write_text(text)
    found = [f"{'->' if p.is_link else ''}{p.text}" for p in pointers_to(tmp_path, unit)]
    assert found == ([] if kept is None else [kept])


def unit_of(root: Path) -> Unit:
    hugging_face(root, 40)
    return find(look(root))[0]


# Breaks if what names another checkpoint, or a place outside the folder, is kept.
def test_what_names_something_else(tmp_path: Path) -> None:
    root = tmp_path / "outputs"
    unit = unit_of(root)
    hugging_face(root, 30)
    (root / "best").symlink_to("checkpoint-30")
    (root / "out").symlink_to("../outputs")
    (root / "host").symlink_to("/etc")
    (root / "up").symlink_to(".")
    (root / "latest").write_text("other-30")
    (root / "last").write_bytes(b"\xff")
    (root / "notes").write_text("checkpoint-40")
    (root / "latest.json").write_text("x" * 1000)
    assert pointers_to(root, unit) == ()


# Breaks if what the program has made since is replaced, or if a link that leads nowhere stays.
def test_what_is_there_stays(tmp_path: Path) -> None:
    unit = unit_of(tmp_path)
    hugging_face(tmp_path, 50)
    (tmp_path / "latest").symlink_to("checkpoint-50")
    (tmp_path / "newest").symlink_to("checkpoint-60")
    put_pointers_back(tmp_path, unit, tuple(Pointer(name, True, "checkpoint-40") for name in ("latest", "newest")))
    assert [str((tmp_path / name).readlink()) for name in ("latest", "newest")] == ["checkpoint-50", "checkpoint-40"]


# Breaks if an index that somebody has changed writes outside the folder.
@pytest.mark.parametrize("path", ["../latest", "/latest", "a/latest", "..", "", ".holdfast-x", "checkpoint-40/latest"])
def test_an_index_that_leads_out(tmp_path: Path, path: str) -> None:
    unit = unit_of(tmp_path)
    with pytest.raises(CheckpointCorruptError, match="are outside its folder"):
        index.decode(index.encode(unit, (Pointer(path, True, "checkpoint-40"),)), [])
    put_pointers_back(tmp_path, unit, (Pointer("latest", True, "/etc"), Pointer("last", False, "../x")))
    assert not (tmp_path / "latest").is_symlink()
    assert not (tmp_path / "last").exists()
