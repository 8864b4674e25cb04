"""Files of data in a folder that other people can write too."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast_train.errors import DataError, DataInvalidError, DataTooLargeError
from holdfast_train.staging.folder import DataFolder, mark
from holdfast_train.storage.base import Entry

ENTRY = Entry("a/b", 3, datetime(2026, 1, 1, tzinfo=UTC), '"v1"')


def write(target: DataFolder, data: bytes = b"new", entry: Entry = ENTRY) -> None:
    with target.writing(entry) as part:
        assert part is not None
        part.write(memoryview(data), 0)


def test_the_folders_from_the_mount_on_are_made(tmp_path: Path) -> None:
    with DataFolder(str(tmp_path / "x/y"), str(tmp_path)) as target:
        assert not target.holds(ENTRY)
        write(target)
        assert target.holds(ENTRY)
    assert (tmp_path / "x/y/a/b").read_bytes() == b"new"


# Breaks if another job that can write into the volume can have files written elsewhere.
@pytest.mark.parametrize("link", ["x", "x/y", "x/y/a"])
def test_folders_that_are_links_are_not_followed(tmp_path: Path, link: str) -> None:
    outside, mount = tmp_path / "outside", tmp_path / "mount"
    outside.mkdir()
    (mount / link).parent.mkdir(parents=True)
    (mount / link).symlink_to(outside)
    with pytest.raises(DataInvalidError, match="not symbolic links"), DataFolder(
        str(mount / "x/y"), str(mount)
    ) as target:  # fmt: skip
        write(target)
    assert list(outside.iterdir()) == []


def test_a_link_in_the_place_of_the_file_is_replaced(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"old")
    os.utime(secret, ns=(mark(ENTRY), mark(ENTRY)))
    (tmp_path / "data/a").mkdir(parents=True)
    (tmp_path / "data/a/b").symlink_to(secret)
    with DataFolder(str(tmp_path / "data"), str(tmp_path / "data")) as target:
        assert not target.holds(ENTRY)
        write(target)
    assert secret.read_bytes() == b"old"
    assert not (tmp_path / "data/a/b").is_symlink()


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    with DataFolder(str(tmp_path), str(tmp_path)) as target:
        assert not target.holds(ENTRY)
        with pytest.raises(DataInvalidError, match="remove what is in its way"):
            write(target)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


# Breaks if a full disk leaves a file that is not whole, or has no words.
def test_a_full_disk(tmp_path: Path) -> None:
    with DataFolder(str(tmp_path), str(tmp_path)) as target:
        with pytest.raises(DataTooLargeError, match="choose a larger volume"), target.writing(ENTRY) as part:
            assert part is not None
            raise OSError(28, os.strerror(28))
        with pytest.raises(DataError, match="Input/output error"), target.writing(ENTRY):
            raise OSError(5, os.strerror(5))
    assert list((tmp_path / "a").iterdir()) == []


def test_a_mount_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        DataFolder(str(tmp_path / "nothing/a"), str(tmp_path / "nothing"))


def test_one_process_writes_a_file_at_a_time(tmp_path: Path) -> None:
    with DataFolder(str(tmp_path), str(tmp_path)) as one, DataFolder(str(tmp_path), str(tmp_path)) as other:
        with one.writing(ENTRY) as part:
            assert part is not None
            assert other.begun(ENTRY) == 0
            part.write(memoryview(b"ne"), 0)
            assert other.begun(ENTRY) == 2
            with other.writing(ENTRY) as busy:
                assert busy is None
            part.write(memoryview(b"w"), 2)
        with other.writing(ENTRY) as done:
            assert done is None
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_versions_have_different_marks() -> None:
    other = Entry("a/b", 3, ENTRY.modified_at, '"v2"')
    assert mark(ENTRY) != mark(other)
    assert mark(ENTRY) // 10**9 == mark(other) // 10**9 == int(ENTRY.modified_at.timestamp())
    assert mark(ENTRY) % 10**9 > 0
