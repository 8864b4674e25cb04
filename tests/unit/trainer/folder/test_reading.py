"""Files that change while they are read are never taken."""

import os
from pathlib import Path

import pytest

from holdfast_train.folder.index import cut
from holdfast_train.folder.look import look
from holdfast_train.folder.reading import UnitChangedError, check_unchanged, read_piece


def test_reading(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"three")
    files = look(tmp_path)
    (piece,) = cut([files["a"], files["b"]])
    assert read_piece(tmp_path, files, piece) == b"onethree"
    check_unchanged(tmp_path, files)


# Breaks if bytes of two moments are taken for one checkpoint.
@pytest.mark.parametrize("change", ["grow", "touch", "delete", "link"])
def test_change(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    files = look(tmp_path)
    (piece,) = cut(list(files.values()))
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
        read_piece(tmp_path, files, piece)
    with pytest.raises(UnitChangedError):
        check_unchanged(tmp_path, files)
