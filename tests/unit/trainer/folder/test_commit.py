"""Commits of a folder: what is uploaded again, what goes, and what the program does meanwhile."""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.trainer.folders import SavedFolder, content, hugging_face, identity

from holdfast_protocol.settings import Keep
from holdfast_train.commitlog.checkpoints import Checkpoints
from holdfast_train.errors import FencedError, StorageUnreachableError
from holdfast_train.folder.index import CHUNK
from holdfast_train.folder.look import look
from holdfast_train.folder.snapshot import ChangedError

MIB = 1 << 20
INDEX = 20_000  # bytes, more than an index in these tests has


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes without two equal chunks."""
    return random.Random(seed).randbytes(size)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def committed(place: SavedFolder, **how: Any) -> int:
    """Commit, and the bytes that were uploaded."""
    saved = place.commit(**how)
    assert saved is not None
    return saved.uploaded


def move(root: Path) -> None:
    (root / "new").mkdir()
    (root / "run").rename(root / "new/run")


def change_some(root: Path) -> None:
    with (root / "run/model").open("r+b") as opened:
        opened.seek(9 * MIB)
        opened.write(noise(MIB // 2, 7))


def append(root: Path) -> None:
    with (root / "run/log").open("ab") as opened:
        opened.write(b"one more line\n")


# Breaks if a file that did not change is uploaded again, or all of one that did.
@pytest.mark.parametrize(
    ("edit", "most"),
    [
        (move, 0),
        (lambda root: shutil.copytree(root / "run", root / "copy"), 0),
        (lambda root: (root / "run/model").rename(root / "run/log"), 0),
        (lambda root: (root / "run/link").symlink_to("model"), 0),
        (append, CHUNK),
        (change_some, CHUNK),
        (lambda root: (root / "run/log").unlink(), 0),
    ],
    ids=["moved", "copied", "in the place of another", "link", "appended", "1 % changed", "deleted"],
)
def test_what_is_there_is_not_uploaded_again(tmp_path: Path, edit: Callable[[Path], object], most: int) -> None:
    place = SavedFolder(tmp_path)
    write(place.root / "run/model", noise(18 * MIB))
    write(place.root / "run/log", noise(5 * MIB, 1))
    first = committed(place)
    assert 23 * MIB <= first < 23 * MIB + INDEX
    edit(place.root)
    assert committed(place) < most + INDEX
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == content(place.root)


# Breaks if a program that touches its files makes checkpoints, or if a commit of nothing leaves objects.
def test_nothing_new(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    hugging_face(place.root, 1)
    committed(place)
    before = place.names
    assert place.commit() is None
    for path in (place.root / "checkpoint-1").iterdir():
        os.utime(path, (5, 5))
    assert place.commit() is None
    assert place.names == before
    assert len(place.checkpoints.log.state.commits) == 1


# Breaks if a later attempt uploads all once more, or if it commits what it has just put back.
def test_another_attempt_goes_on(tmp_path: Path) -> None:
    first = SavedFolder(tmp_path)
    write(first.root / "a/model", noise(9 * MIB))
    write(first.root / "log", b"line\n" * 300_000)
    committed(first)
    shutil.rmtree(first.root)
    second = SavedFolder(tmp_path, attempt=2)
    done = second.put_back(second.root)
    second.capture.begin(second.index, done.files)
    assert second.commit() is None
    with (second.root / "log").open("ab") as opened:
        opened.write(b"more\n")
    assert committed(second) < 2 * MIB
    assert second.index.files.keys() == {"a/model", "log"}


# Breaks if old saves that no kept commit names stay in the storage, or if data of a kept one goes.
def test_saves_that_the_program_deletes(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path, keep=2)
    uploaded = []
    for step in range(1, 7):
        hugging_face(place.root, step, noise(5 * MIB, step))
        if step > 1:
            shutil.rmtree(place.root / f"checkpoint-{step - 1}")
        uploaded.append(committed(place))
    assert all(size < 5 * MIB + 2 * INDEX for size in uploaded[1:])  # the tokenizer is there
    assert 11 * MIB < place.stored < 12 * MIB + 4 * INDEX  # two models, and one tokenizer
    assert [commit.step for commit in place.checkpoints.log.state.commits] == [5, 6]
    found = place.checkpoints.newest()
    assert found is not None
    assert found.manifest.metrics == {"loss": "1.25"}
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == content(place.root)


# Breaks if one small file keeps a whole old save in the storage.
def test_less_than_half_in_use(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path, keep=1)
    write(place.root / "small", b"s" * 1000)
    for number in range(4):
        write(place.root / f"save/{number}", noise(MIB, number))
    committed(place)
    (old,) = {part.key.split("/")[1] for part in place.index.parts}
    shutil.rmtree(place.root / "save")
    committed(place)
    assert old in place.names  # while all of it was in use
    write(place.root / "next", b"n")
    assert committed(place) < INDEX
    assert old not in place.names
    assert place.stored < 2 * INDEX
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == {"small": b"s" * 1000, "next": b"n"}


# Breaks if a file whose time alone changes, such as a sign of life, uploads old data again at each look.
def test_less_than_half_in_use_is_uploaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SavedFolder(tmp_path, keep=1)
    for number in range(8):
        write(place.root / f"save/{number}", noise(MIB // 2, number))
    committed(place)
    for number in range(6):
        (place.root / f"save/{number}").unlink()
    committed(place)
    writes, original = [], place.storage.write

    def counted(key: str, data: memoryview, **more: Any) -> None:
        writes.append(len(data))
        original(key, data, **more)

    monkeypatch.setattr(place.storage, "write", counted)
    for second in range(5):
        os.utime(place.root / "save/7", (second, second))
        place.commit()
    assert sum(writes) < MIB + 2 * INDEX
    assert place.stored < MIB + 2 * INDEX


# Breaks if a commit has files of two moments, or if what it uploaded stays.
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "edit",
    [
        lambda path: path.write_bytes(noise(5 * MIB, 9)),
        lambda path: path.write_bytes(b"shorter"),
        lambda path: path.with_name("b").write_bytes(b"a small one"),
    ],
    ids=["rewritten", "truncated", "small"],
)
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, when: str, edit: Callable[[Path], object]) -> None:
    place = SavedFolder(tmp_path)
    path = write(place.root / "a", noise(5 * MIB))
    write(place.root / "b", b"small")
    with pytest.raises(ChangedError):
        place.commit(**{when: lambda: edit(path)})  # type: ignore[arg-type]
    assert not place.checkpoints.log.state.commits
    committed(place)
    assert place.stored < sum(map(len, content(place.root).values())) + INDEX
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == content(place.root)


@pytest.mark.parametrize("edit", ["new", "gone", "link"])
def test_the_folder_changes_before_it_is_read(tmp_path: Path, edit: str) -> None:
    """Breaks if the commit is of no moment: a file of it was gone when another one came."""
    place = SavedFolder(tmp_path)
    path = write(place.root / "a", b"a")
    (place.root / "link").symlink_to("a")

    def change() -> None:
        if edit == "new":
            write(place.root / "b", b"b")
        else:
            (path if edit == "gone" else place.root / "link").unlink()

    with pytest.raises(ChangedError):
        place.commit(before=change)
    assert not place.checkpoints.log.state.commits


# Breaks if a program that keeps one save is never saved, because it deletes each during its upload.
def test_files_that_the_program_deletes_or_replaces_meanwhile(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    for number in range(3):
        write(place.root / f"old/{number}", noise(5 * MIB, number))
    last = write(place.root / "last", noise(2 * MIB, 4))
    before = content(place.root)

    def go_on() -> None:
        shutil.rmtree(place.root / "old")
        write(place.root / "last.new", b"another").replace(last)

    committed(place, after=go_on)
    assert content(place.root) == {"last": b"another"}  # and none of our names
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == before


def test_second_names_go_after_an_error(tmp_path: Path) -> None:
    """Breaks if a commit that fails keeps the bytes of files that the program deletes."""
    place = SavedFolder(tmp_path)
    path = write(place.root / "a", noise(5 * MIB))
    with pytest.raises(ChangedError):
        place.commit(after=lambda: os.utime(path, (1, 1)))
    assert [path.name for path in place.root.iterdir()] == ["a"]


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SavedFolder(tmp_path)
    hugging_face(place.root, 1, noise(5 * MIB))
    link = os.link

    def refuse(source: Path, target: Path, **more: Any) -> None:
        if str(source).startswith(str(place.root)):
            raise PermissionError(1, "Operation not permitted", str(source))
        link(source, target, **more)

    monkeypatch.setattr(os, "link", refuse)
    committed(place)
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == content(place.root)
    path = place.root / "checkpoint-1/model.safetensors"
    path.write_bytes(b"m" * 5 * MIB)
    with pytest.raises(ChangedError, match="deleted"):
        place.commit(after=path.unlink)


@contextmanager
def read_hook(patch: pytest.MonkeyPatch, path: Path, then: Callable[[], object]) -> Iterator[None]:
    """After each read of the file at `path`, the program does `then`."""
    pread = os.pread

    def read(descriptor: int, size: int, start: int) -> bytes:
        data = pread(descriptor, size, start)
        if Path(f"/proc/self/fd/{descriptor}").readlink() == path:
            then()
        return data

    with patch.context() as patched:
        patched.setattr(os, "pread", read)
        yield


# Breaks if a log that grows all the time is never saved, or is saved with half a line.
@pytest.mark.parametrize("size", [20, 4 * MIB, 9 * MIB])
def test_a_log_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    place = SavedFolder(tmp_path)
    whole = (b"a line of text\n" * (size // 15 + 1))[-size:]
    path = write(place.root / "log", whole + b"half a l")

    def grow() -> None:
        with path.open("ab") as opened:
            opened.write(b"ine\n")

    with read_hook(monkeypatch, path, grow):
        committed(place, moving=frozenset(["log"]))
    assert place.capture.unread == set()
    place.put_back(tmp_path / "other")
    assert (tmp_path / "other/log").read_bytes() == whole
    before = path.read_bytes()
    assert committed(place, moving=frozenset(["log"])) < CHUNK + INDEX
    place.put_back(tmp_path / "again")
    assert (tmp_path / "again/log").read_bytes() == before


# Breaks if a file that is never the same twice ends the commit of all others, or if it is torn in the commit.
@pytest.mark.parametrize("was_committed", [True, False])
def test_a_file_that_is_rewritten_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_committed: bool
) -> None:
    place = SavedFolder(tmp_path, keep=1)
    write(place.root / "last", noise(2 * MIB))
    write(place.root / "more", noise(2 * MIB, 3))
    if was_committed:
        write(place.root / "state", b"0")
        committed(place)
    (place.root / "last").unlink()
    (place.root / "more").unlink()
    committed_before = len(place.checkpoints.log.state.commits)
    seconds = count(10)
    path = write(place.root / "state", b"10")
    write(place.root / "other", b"other")

    def rewrite() -> None:
        path.write_bytes(b"%d" % (second := next(seconds)))
        os.utime(path, (second, second))

    for number in range(3):  # in the second one, nearly nothing of the name with `state` is in use
        write(place.root / "other", b"%d" % number)
        with read_hook(monkeypatch, path, rewrite):
            committed(place, moving=frozenset(["state"]))
        assert place.capture.unread == {"state"}
        place.put_back(to := tmp_path / f"other-{number}")
        wanted = {"other": b"%d" % number} | ({"state": b"0"} if was_committed else {})
        assert content(to) == wanted
    assert len(place.checkpoints.log.state.commits) >= committed_before
    committed(place, moving=frozenset(["state"]))
    assert place.capture.unread == set()
    assert place.index.files.keys() == {"other", "state"}


# Breaks if each try to read a large file that changes all the time leaves its bytes in the storage.
def test_tries_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SavedFolder(tmp_path, keep=1)
    path, number = write(place.root / "state", noise(9 * MIB)), count(10)

    def rewrite() -> None:
        path.write_bytes(noise(9 * MIB, second := next(number)))
        os.utime(path, (second, second))

    for name in ("a", "b"):
        write(place.root / name, name.encode())
        with read_hook(monkeypatch, path, rewrite):
            committed(place, moving=frozenset(["state"]))
    assert place.stored < INDEX


@pytest.mark.parametrize("error", [StorageUnreachableError("it is gone"), OSError(5, "Input/output error")])
@pytest.mark.parametrize("at", ["data", "index", "manifest", "record"])
def test_an_error_in_an_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, at: str) -> None:
    """Breaks if a commit that failed leaves its data, or hinders the next one."""
    place = SavedFolder(tmp_path, keep=1)
    write(place.root / "a", noise(5 * MIB))
    write(place.root / "b", noise(5 * MIB, 1))
    writes = count(1)

    def fails(key: str) -> bool:
        kind = key.split("/", maxsplit=1)[0]
        return (kind, at) in {("manifests", "manifest"), ("log", "record")} or (
            kind == "data" and (at, next(writes)) in {("data", 1), ("index", 3)}
        )

    with monkeypatch.context() as patched:
        for name in ("write", "put_if_absent", "put"):
            original = getattr(place.storage, name)

            def hook(key: str, data: Any, _original: Any = original, **more: Any) -> Any:
                if fails(key):
                    raise error
                return _original(key, data, **more)

            patched.setattr(place.storage, name, hook)
        with pytest.raises(type(error)):
            place.commit()
    assert place.capture.before is None
    committed(place)
    assert place.stored < 10 * MIB + INDEX
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == content(place.root)


def test_fenced(tmp_path: Path) -> None:
    place = SavedFolder(tmp_path)
    hugging_face(place.root, 1)
    newer = Checkpoints(place.storage, identity(2), Keep())
    newer.start("Auto")
    with pytest.raises(FencedError):
        place.commit()
    newer.log.refresh()
    assert not newer.log.state.commits


NAMES = st.sampled_from(["a", "b", "run/a", "run/b", "run/deep/c"])
SIZES = st.sampled_from([0, 1, 1000, MIB - 1, MIB, 3 * MIB])
EDIT = st.one_of(
    st.tuples(st.just("write"), NAMES, SIZES),
    st.tuples(st.sampled_from(["append", "truncate"]), NAMES, st.sampled_from([1, 1000, MIB])),
    st.tuples(st.sampled_from(["delete", "chmod"]), NAMES),
    st.tuples(st.sampled_from(["rename", "copy", "link"]), NAMES, NAMES),
)


class Courses:
    """Edits of a folder, each with a time of its own."""

    def __init__(self, root: Path) -> None:
        self.root, self.second = root, 1_000_000
        root.mkdir()

    def edit(self, what: str, name: str, more: Any = None) -> None:
        path = self.root / name
        self.second += 1
        path.parent.mkdir(parents=True, exist_ok=True)
        is_there = path.is_file() and not path.is_symlink()
        if what == "write":
            path.unlink(missing_ok=True)
            path.write_bytes(noise(more, self.second % 5))
        elif what in ("rename", "copy", "link"):
            other = self.root / more
            other.parent.mkdir(parents=True, exist_ok=True)
            if what == "link":
                other.unlink(missing_ok=True)
                other.symlink_to(os.path.relpath(path, other.parent))
            elif is_there and path != other:
                other.unlink(missing_ok=True)
                shutil.copyfile(path, other) if what == "copy" else path.rename(other)
                path = other
        elif is_there:
            if what == "append":
                with path.open("ab") as opened:
                    opened.write(noise(more, self.second))
            elif what == "truncate":
                os.truncate(path, min(more, path.stat().st_size))
            elif what == "chmod":
                path.chmod(0o600 if path.stat().st_mode & 0o77 else 0o755)
                return
            else:
                path.unlink()
        if path.is_file() and not path.is_symlink():
            os.utime(path, (self.second, self.second))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(EDIT, min_size=1, max_size=4), min_size=1, max_size=7), st.integers(1, 3))
def test_any_course_of_edits(rounds: list[list[tuple[Any, ...]]], keep: int) -> None:
    """Breaks if a commit is not the folder as it was, or if the storage keeps more than twice what commits have."""
    with tempfile.TemporaryDirectory() as folder:
        place = SavedFolder(Path(folder), keep=keep)
        course = Courses(place.root)
        seen, used = [], []
        for number, edits in enumerate(rounds):
            for edit in edits:
                course.edit(*edit)
            is_new = place.commit() is not None
            if is_new:
                seen.append({path: (file.mode, file.link) for path, file in look(place.root).files.items()})
                used.append({chunk.sha256: chunk.size for chunk in place.index.chunks})
            if not seen:
                assert not look(place.root).files
                continue
            place.put_back(other := Path(folder, f"other-{number}"))
            assert content(other) == content(place.root)
            assert {path: (file.mode, file.link) for path, file in look(other).files.items()} == seen[-1]
            # What a commit takes over is at least half in use by the one before it.
            most = 2 * sum({sha: size for one in used[-keep - 1 :] for sha, size in one.items()}.values())
            assert place.stored <= most + keep * INDEX
            shutil.rmtree(other)
