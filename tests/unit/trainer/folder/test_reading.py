"""Files that change while they are read are never taken."""

import os
from pathlib import Path

import pytest

from holdfast_train.folder.index import cut
from holdfast_train.folder.look import look
from holdfast_train.folder.reading import Reading, UnitChangedError

OPEN = pytest.mark.parametrize("most", [0, 1, 16])


@OPEN
def test_reading(tmp_path: Path, most: int) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"three")
    files = look(tmp_path)
    (piece,) = cut([files["a"], files["b"]])
    before = set(Path("/proc/self/fd").iterdir())
    with Reading(tmp_path, files.values(), most) as reading:
        assert reading.read(piece) == b"onethree"
        reading.check_unchanged()
    assert set(Path("/proc/self/fd").iterdir()) == before


# Breaks if bytes of two moments are taken for one checkpoint.
@OPEN
@pytest.mark.parametrize("change", ["grow", "touch", "delete", "link"])
def test_change_before(tmp_path: Path, change: str, most: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    files = look(tmp_path)
    if change == "grow":
        path.write_bytes(b"longer")
    elif change == "touch":
        os.utime(path, ns=(1, 1))
    else:
        path.unlink()
    if change == "link":
        (tmp_path / "b").write_bytes(b"one")
        path.symlink_to(tmp_path / "b")
    with pytest.raises((UnitChangedError, OSError)):
        Reading(tmp_path, files.values(), most)


@OPEN
def test_change_meanwhile(tmp_path: Path, most: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    files = look(tmp_path)
    with Reading(tmp_path, files.values(), most) as reading:
        path.write_bytes(b"longer")
        with pytest.raises(UnitChangedError):
            reading.read(cut(list(files.values()))[0])
        with pytest.raises(UnitChangedError):
            reading.check_unchanged()


# Breaks if a program that keeps one checkpoint deletes each before it is saved.
def test_deleted_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    files = look(tmp_path)
    with Reading(tmp_path, files.values()) as reading:
        (tmp_path / "a").unlink()
        (tmp_path / "a").write_bytes(b"another one")
        assert reading.read(cut(list(files.values()))[0]) == b"one"
        reading.check_unchanged()
