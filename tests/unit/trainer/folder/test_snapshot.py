"""The bytes of one moment, while the program goes on with its files."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast_train.folder.look import look
from holdfast_train.folder.snapshot import ChangedError, Snapshot, is_same

MIB = 1 << 20
LARGE = b"".join(bytes([number]) * MIB for number in range(3))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "large").write_bytes(LARGE)
    (tmp_path / "small").write_bytes(b"small")
    (tmp_path / "link").symlink_to("large")
    return tmp_path


def open_below(root: Path) -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the list itself
            found.append(str(descriptor.readlink()))
    return [path for path in found if path.startswith(str(root))]


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


# Breaks if a file is open while the program may delete it: on NFS that leaves a trace, and a folder cannot go.
def test_bytes_without_an_open_file(root: Path) -> None:
    files = look(root).files
    with Snapshot(root, files.values()) as snapshot:
        pieces = []
        for piece in snapshot.read(files["large"], MIB):
            assert open_below(root) == []
            pieces.append(bytes(piece))
        assert pieces == [LARGE[:MIB], LARGE[MIB : 2 * MIB], LARGE[2 * MIB :]]
        assert b"".join(snapshot.read(files["small"], MIB)) == b"small"
        assert look(root).files == files  # its own names are none of the program's
    assert sorted(path.name for path in root.iterdir()) == ["large", "link", "small"]


@pytest.mark.parametrize(
    "go_on",
    [
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("other")),
        lambda path: (path.with_name("new").write_bytes(b"new"), path.with_name("new").replace(path)),
        lambda path: (path.unlink(), path.symlink_to("/etc/hostname")),
    ],
    ids=["deleted", "renamed", "replaced", "a link now"],
)
def test_a_large_file_stays_readable(root: Path, go_on: Callable[[Path], object]) -> None:
    files = look(root).files
    with Snapshot(root, files.values()) as snapshot:
        read = snapshot.read(files["large"], MIB)
        first = next(read)
        go_on(root / "large")
        assert bytes(first) + b"".join(read) == LARGE
        shutil.rmtree(root)  # the program may even delete its folder
        root.mkdir()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("large", lambda path: os.utime(path, (1, 1))),
        ("large", lambda path: os.truncate(path, MIB)),
        ("large", lambda path: path.write_bytes(LARGE + b"x")),
        ("small", lambda path: path.write_bytes(b"other size")),
        ("small", lambda path: path.unlink()),
        ("small", lambda path: (path.unlink(), path.symlink_to("large"))),
        ("small", lambda path: (path.unlink(), path.mkdir())),
        ("small", pipe),
    ],
    ids=["time", "shorter", "longer", "another size", "deleted", "a link now", "a folder now", "a pipe now"],
)
def test_a_file_that_changes(root: Path, name: str, change: Callable[[Path], object]) -> None:
    """Breaks if bytes of two moments come together, if a link is followed, or if a pipe is waited for."""
    files = look(root).files
    with Snapshot(root, files.values()) as snapshot:
        change(root / name)
        with pytest.raises((ChangedError, OSError)):
            list(snapshot.read(files[name], MIB))
    assert not list(root.glob(".holdfast-*"))


def test_a_file_that_is_gone_before(root: Path) -> None:
    files = look(root).files
    (root / "large").unlink()
    with pytest.raises(ChangedError, match="large was deleted before it was read"):
        Snapshot(root, files.values())
    assert not list(root.glob(".holdfast-*"))


def test_is_same(root: Path) -> None:
    """Breaks if a commit is of two moments, or never made because of a log."""
    files = look(root).files
    assert is_same(files, look(root).files, frozenset()) is None
    with (root / "small").open("ab") as opened:
        opened.write(b"more")
    later = look(root).files
    assert is_same(files, later, frozenset()) == "small"
    assert is_same(files, later, frozenset(["small"])) is None
    (root / "link").unlink()
    (root / "link").symlink_to("small")
    assert is_same(later, look(root).files, frozenset()) == "link"
    (root / "link").unlink()
    assert is_same(later, look(root).files, frozenset()) == "link"
    assert is_same(look(root).files, later, frozenset()) == "link"
