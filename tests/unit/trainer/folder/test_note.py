"""The note in a folder: what it says is true after a kill, and what is no note of this job says nothing."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.folders import SavedFolder, archive

from holdfast_train.errors import StorageUnreachableError
from holdfast_train.folder.commit import FolderCommits
from holdfast_train.folder.look import look
from holdfast_train.folder.note import MOST_OLD, NAME, Note
from holdfast_train.storage.base import join_uri

PREFIX = "s3://runs/team/job"


class FullVolume:
    """The module `os`, for the note alone."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, _: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def read(root: Path, prefix: str = PREFIX) -> Note:
    note = Note(root, prefix)
    note.read()
    return note


def test_there_and_back(tmp_path: Path) -> None:
    archive(tmp_path / "model.pt")
    (tmp_path / os.fsdecode(b"odd \xff")).symlink_to("model.pt")
    files = look(tmp_path).files
    empty = read(tmp_path)
    assert (empty.old, empty.is_at("a")) == (None, False)
    empty.note_old(files)
    found = read(tmp_path)
    assert found.old == {path: file.signature for path, file in files.items()}
    found.note_commits(("a", "b"))
    found = read(tmp_path)
    assert [found.is_at(uri) for uri in ("a", "b", "c", "")] == [True, True, False, False]
    assert found.old == {path: file.signature for path, file in files.items()}
    found.note_commits(("b",))
    assert not read(tmp_path).is_at("a")
    assert look(tmp_path).files == files  # it is none of the program's


# Breaks if a folder of another job, or a torn note, is taken for that of the newest commit: then old files win.
@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"commits": ["a"]}', b"\xff", b"[" * 100_000, bytes(100),
     b'{"prefix": "s3://runs/team/job", "commits": "abc", "old": [1]}',
     b'{"prefix": "s3://runs/team/job", "commits": {"a": 1}, "old": "x"}'],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_note(tmp_path: Path, data: bytes) -> None:
    (tmp_path / NAME).write_bytes(data)
    found = read(tmp_path)
    assert (found.is_at("a"), found.old) == (False, None)
    found.note_commits(("a",))
    assert read(tmp_path).is_at("a")


def test_the_note_of_another_job(tmp_path: Path) -> None:
    note = Note(tmp_path, PREFIX)
    note.note_old({})
    note.note_commits(("a",))
    other = read(tmp_path, f"{PREFIX}-2")
    assert (other.is_at("a"), other.old) == (False, None)


def test_too_many_old_files(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    file = look(tmp_path).files["a"]
    note = Note(tmp_path, PREFIX)
    note.note_old({str(number): file for number in range(MOST_OLD + 1)})
    assert read(tmp_path).old is None
    assert (tmp_path / NAME).stat().st_size < 1000


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_something_else_in_its_place(tmp_path: Path, kind: str) -> None:
    """Breaks if a program makes the writer read another file, or wait for ever."""
    if kind == "link":
        (tmp_path / "secret").write_text(f'{{"prefix": "{PREFIX}", "commits": ["a"]}}')
        (tmp_path / NAME).symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(tmp_path / NAME)
    else:
        (tmp_path / NAME).mkdir()
    if kind == "pipe":
        assert not read(tmp_path).is_at("a")
    else:
        with pytest.raises(OSError, match=r"Is a directory|symbolic link"):
            read(tmp_path)


# Breaks if a folder on a full volume is not committed any more, or if a note stays that is not true.
def test_a_note_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SavedFolder(tmp_path / "job")
    note = Note(place.root, PREFIX)
    place.commits = FolderCommits(place.checkpoints, place.storage, note=note)
    archive(place.root / "last.pt")
    note.note_commits(("a",))
    monkeypatch.setattr("holdfast_train.folder.note.os", FullVolume())
    note.note_commits(("b",))
    assert not read(place.root).is_at("a")
    assert place.commit() is not None
    assert [path.name for path in place.root.iterdir()] == ["last.pt"]


# Breaks if a writer dies at a commit, and the folder is then taken for an older or a newer one than it is.
@pytest.mark.parametrize("is_in_log", [False, True])
def test_a_commit_of_which_nobody_knows_whether_it_took_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in_log: bool
) -> None:
    place = SavedFolder(tmp_path)
    note = Note(place.root, place.storage.uri)
    place.commits = FolderCommits(place.checkpoints, place.storage, note=note)
    archive(place.root / "a")
    place.commit()
    first = place.checkpoints.newest()
    assert first is not None
    archive(place.root / "b")
    put_if_absent = place.storage.put_if_absent

    def lost(key: str, body: bytes) -> Any:
        if key.startswith("log/"):
            if is_in_log:
                put_if_absent(key, body)
            raise StorageUnreachableError("the answer is lost")
        return put_if_absent(key, body)

    with monkeypatch.context() as patched:
        patched.setattr(place.storage, "put_if_absent", lost)
        with pytest.raises(StorageUnreachableError):
            place.commit()
    again = read(place.root, place.storage.uri)
    newest = SavedFolder(tmp_path, attempt=2).checkpoints.newest()
    assert newest is not None
    assert (newest.uri == first.uri) != is_in_log
    assert again.is_at(newest.uri)
    assert not again.is_at(join_uri(place.storage.uri, "manifests/other.json"))
