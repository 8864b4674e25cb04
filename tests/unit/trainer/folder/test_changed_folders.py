"""Putting back into a folder that a program, or a person, has changed in ways that nobody expects."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.trainer.folders import SavedFolder, content

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.folder.index import decode, encode, read_part


# Breaks if a job can never start again because a folder has become a file, or a link, or a file a folder.
@pytest.mark.parametrize("is_at_commit", [True, False])
def test_files_that_became_folders_and_folders_that_became_files(tmp_path: Path, is_at_commit: bool) -> None:
    place, outside = SavedFolder(tmp_path), tmp_path / "outside"
    outside.mkdir()
    for name in ("a/b/c", "d/e", "file", "link/x"):
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        (place.root / name).write_text(name)
    place.commit()
    saved = content(place.root)
    for name in ("a", "d", "link"):
        shutil.rmtree(place.root / name)
    (place.root / "a").write_text("a file")
    (place.root / "d").symlink_to(outside)
    (place.root / "link").symlink_to("file")
    (place.root / "file").unlink()
    (place.root / "file").mkdir()
    done = place.put_back(place.root, is_at_commit=is_at_commit)
    assert not list(outside.iterdir())
    if is_at_commit:
        assert (place.root / "a").read_text() == "a file"
        assert sorted(done.newer) == sorted(saved)
    else:
        assert content(place.root) == saved
        assert sorted(done.replaced) == sorted(saved)


# Breaks if a file with holes, such as an array that is mapped into memory, needs all of its size on the new node.
def test_holes(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    place.root.mkdir()
    with (place.root / "replay.dat").open("wb") as file:
        file.write(b"first")
        file.truncate(256 << 20)
        file.seek(200 << 20)
        file.write(b"middle")
    place.commit()
    place.put_back(tmp_path / "new")
    found = tmp_path / "new" / "replay.dat"
    assert found.stat().st_blocks * 512 < 16 << 20
    assert found.read_bytes() == (place.root / "replay.dat").read_bytes()


# Breaks if a program that makes its folders only at its first start does not find them, or finds half a save.
def test_empty_folders(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    for name in ("run-3/samples", "checkpoint-20", "checkpoint-30/sub", "tmp-x1"):
        (place.root / name).mkdir(parents=True)
    (place.root / "log").write_text("a line")
    place.commit()
    place.put_back(tmp_path / "new")
    assert sorted(str(p.relative_to(tmp_path / "new")) for p in (tmp_path / "new").rglob("*")) == [
        "log",
        "run-3",
        "run-3/samples",
    ]


# Breaks if a checkpoint of a stranger takes all memory, or all of the volume.
def test_sizes_that_a_stranger_claims(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    place.root.mkdir()
    (place.root / "file").write_bytes(b"x" * 100)
    place.commit()
    known = place.index
    (saved,), (chunk,), (part,) = known.files.values(), known.chunks, known.parts
    huge = replace(part, size=1 << 60)
    with pytest.raises(CheckpointCorruptError, match="more than"):
        read_part(place.storage, huge)
    claimed = replace(known, chunks=(chunk._replace(size=1 << 50),))
    claimed = replace(claimed, files={"file": replace(saved, file=replace(saved.file, size=1 << 50))})
    with pytest.raises(CheckpointCorruptError, match="more bytes"):
        decode(encode(claimed), [replace(part, size=1 << 60)])
