"""A folder is packed and unpacked: what comes out is what went in, or nothing."""

import errno
import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_train.code.archive import pack, unpack
from holdfast_train.code.tree import Entry, Limit, check_path, check_tree, content_hash, tree_hash
from holdfast_train.errors import CodeInvalidError, CodeTooLargeError

NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/"), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 80
)
FILES = st.dictionaries(NAMES, st.tuples(st.binary(max_size=300), st.booleans()), max_size=6)


def written(folder: Path, files: dict[str, tuple[bytes, bool]]) -> list[Entry]:
    """These files, by path: the content, and whether it is executable; and their entries."""
    entries = []
    for path, (content, runs) in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o755 if runs else 0o640)
        entries.append(Entry(path, "executable" if runs else "file", len(content), content_hash(content)))
    return entries


def link(path: str, target: str) -> Entry:
    return Entry(path, "link", 0, content_hash(target.encode()), target)


def packed(root: Path, entries: list[Entry]) -> io.BytesIO:
    out = io.BytesIO()
    pack(root, entries, out)
    out.seek(0)
    return out


def there(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Breaks if a file is lost or changed on the way, or if its name cannot be sent.
@settings(max_examples=60, deadline=None)
@given(files=FILES, inner=FILES)
def test_what_is_packed_comes_out(tmp_path_factory: pytest.TempPathFactory, files: dict, inner: dict) -> None:
    root, back = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("back")
    both = files | {f"inner folder/{name}": value for name, value in inner.items() if "inner folder" not in files}
    entries = written(root, both)
    unpack([(packed(root, entries), tree_hash(entries))], back)
    assert there(back) == {path: content for path, (content, _) in both.items()}
    for path, (_, runs) in both.items():
        assert stat.S_IMODE((back / path).stat().st_mode) == (0o555 if runs else 0o444)


# Breaks if the same folder is another one on another machine.
def test_neither_time_nor_owner_nor_order_counts(tmp_path: Path) -> None:
    files = {"b.py": (b"b", False), "a/x.sh": (b"x", True)}
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = written(tmp_path / "one", files), written(tmp_path / "two", dict(reversed(files.items())))
    os.utime(tmp_path / "two" / "b.py", (0, 0))
    (tmp_path / "two" / "b.py").chmod(0o600)
    assert tree_hash(one) == tree_hash(two)
    assert packed(tmp_path / "one", one).getvalue() == packed(tmp_path / "two", two).getvalue()


# Breaks if two folders have one hash.
@given(
    entries=st.lists(
        st.builds(Entry, NAMES, st.sampled_from(["file", "executable", "link"]), st.just(1), st.sampled_from("ab")),
        max_size=3, unique_by=lambda entry: entry.path,
    ),
    others=st.lists(
        st.builds(Entry, NAMES, st.sampled_from(["file", "executable", "link"]), st.just(1), st.sampled_from("ab")),
        max_size=3, unique_by=lambda entry: entry.path,
    ),
)  # fmt: skip
def test_different_folders_have_different_hashes(entries: list[Entry], others: list[Entry]) -> None:
    same = {(one.path, one.kind, one.sha256) for one in entries} == {(one.path, one.kind, one.sha256) for one in others}
    assert (tree_hash(entries) == tree_hash(others)) is same


# Breaks if a file that may be run, or a link, has the hash of a plain file with the same bytes.
def test_the_kind_of_a_file_counts() -> None:
    kinds = [Entry("a", kind, 1, content_hash(b"b"), "b") for kind in ("file", "executable", "link")]
    assert len({tree_hash([entry]) for entry in kinds}) == 3


# Breaks if a program can change what its job says that it runs, or cannot write beside it.
def test_what_is_unpacked_cannot_be_changed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    entries = [*written(tmp_path / "root", {"a/b/c.py": (b"1", False)}), link("c.py", "a/b/c.py")]
    (tmp_path / "root" / "c.py").symlink_to("a/b/c.py")
    back = tmp_path / "back"
    back.mkdir()
    unpack([(packed(tmp_path / "root", entries), tree_hash(entries))], back)
    assert (back / "c.py").read_bytes() == b"1"
    assert (back / "c.py").readlink() == Path("a/b/c.py")
    modes = {path: stat.S_IMODE((back / path).stat().st_mode) for path in ("", "a", "a/b", "a/b/c.py")}
    assert modes == {"": 0o1777, "a": 0o1777, "a/b": 0o1777, "a/b/c.py": 0o444}


# Breaks if no pod of a real cluster starts: there, root owns an emptyDir, and the init container is another user.
def test_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root").mkdir()
    entries = written(tmp_path / "root", {"a/b.py": (b"1", False)})
    back = tmp_path / "back"
    back.mkdir()
    chmod = Path.chmod

    def of_owner(path: Path, mode: int) -> None:
        if path == back:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", of_owner)
    unpack([(packed(tmp_path / "root", entries), tree_hash(entries))], back)
    assert there(back) == {"a/b.py": b"1"}


# Breaks if a second try in the same pod is hindered by the first one, or leaves something of it.
def test_the_folder_may_have_things_of_an_earlier_try(tmp_path: Path) -> None:
    back = tmp_path / "back"
    back.mkdir()
    for files in ({"a/b.py": (b"1", False), "old.py": (b"2", False)}, {"a": (b"3", True)}, {"a/b.py": (b"4", False)}):
        root = tmp_path / content_hash(repr(files).encode())
        root.mkdir()
        entries = written(root, files)
        unpack([(packed(root, entries), tree_hash(entries))], back)
        assert there(back) == {path: content for path, (content, _) in files.items()}


# Breaks if a file that changes while it is packed is sent as something that it never was.
@pytest.mark.parametrize("content", [b"other", b"x", b"much longer than it was"])
def test_a_file_that_changes_meanwhile(tmp_path: Path, content: bytes) -> None:
    entries = written(tmp_path, {"train.py": (b"first", False)})
    (tmp_path / "train.py").write_bytes(content)
    with pytest.raises(CodeInvalidError, match=r"train\.py was changed while it was packed"):
        packed(tmp_path, entries)


def test_a_file_that_became_a_pipe_blocks_nothing(tmp_path: Path) -> None:
    entries = written(tmp_path, {"train.py": (b"first", False)})
    (tmp_path / "train.py").unlink()
    os.mkfifo(tmp_path / "train.py")
    with pytest.raises((CodeInvalidError, OSError)):
        packed(tmp_path, entries)


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size = len(content)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, content


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for made, content in members:
            tar.addfile(made, io.BytesIO(content))
    return gzip.compress(plain.getvalue())


def of_sym(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


HOSTILE: dict[str, bytes | Callable[[], bytes]] = {
    "above": archive(member("../evil", b"x")),
    "deep above": archive(member("a/../../evil", b"x")),
    "absolute": archive(member("/tmp/evil", b"x")),
    "a link that leaves": archive(of_sym("a", "../evil")),
    "an absolute link": archive(of_sym("a", "/etc")),
    "a file through a link": archive(of_sym("a", "b"), member("b/x", b"1"), member("a/evil", b"x")),
    "a file in the place of a link": archive(of_sym("a", "evil"), member("a", b"x")),
    "a hard link": archive(member("a", b"1"), member("b", type=tarfile.LNKTYPE, linkname="a")),
    "a device": archive(member("a", type=tarfile.CHRTYPE)),
    "a pipe": archive(member("a", type=tarfile.FIFOTYPE)),
    "a folder of its own": archive(member("a", type=tarfile.DIRTYPE)),
    "twice": archive(member("a", b"1"), member("a", b"1")),
    "a file and a folder": archive(member("a", b"1"), member("a/b", b"1")),
    "a line break": archive(member("a\nb", b"1")),
    "no name": archive(member("", b"1")),
    "nothing": b"",
    "no archive": b"#!/bin/sh\necho hello\n" * 100,
    "gzip of nothing": gzip.compress(b""),
    "gzip of noise": gzip.compress(os.urandom(5000)),
    "a large header": archive(member("a", b"1", pax_headers={"comment": "x" * (1 << 20)})),
    "another folder": archive(member("a", b"2")),
    "less": archive(),
}


# Breaks if an archive can write outside of the folder, or if a folder is taken that is not the wanted one.
@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_that_is_not_what_it_should_be(tmp_path: Path, name: str) -> None:
    made = HOSTILE[name]
    back = tmp_path / "mount" / "code"
    back.mkdir(parents=True)
    wanted = tree_hash([Entry("a", "file", 1, content_hash(b"1"))])
    with pytest.raises(CodeInvalidError):
        unpack([(io.BytesIO(made if isinstance(made, bytes) else made()), wanted)], back)
    assert not any(back.iterdir())
    assert [path.name for path in back.parent.iterdir()] == ["code"]
    assert not Path("/tmp/evil").exists()


# Breaks if an archive that was cut, or whose bytes changed on the way, is taken.
@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_damaged_archive(tmp_path: Path, cut: int) -> None:
    root, back = tmp_path / "root", tmp_path / "back"
    root.mkdir()
    back.mkdir()
    content = hashlib.sha512(b"seed").digest() * 50
    entries = written(root, {"a": (content, False), "b": (content[::-1], False)})
    whole = packed(root, entries).getvalue()
    with pytest.raises(CodeInvalidError):
        unpack([(io.BytesIO(whole[: len(whole) // 2 - cut]), tree_hash(entries))], back)
    assert not any(back.iterdir())


# Breaks if a small archive can fill the disk or the memory of a pod.
def test_a_bomb(tmp_path: Path) -> None:
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", compresslevel=1) as out:
        header = tarfile.TarInfo("a")
        header.size = 8 << 30
        out.write(header.tobuf(format=tarfile.PAX_FORMAT))
        out.write(bytes(1 << 20))
    made.seek(0)
    with pytest.raises(CodeTooLargeError, match="at most 100,000 files with 268,435,456 bytes are allowed"):
        unpack([(made, "0" * 64)], tmp_path)
    assert not any(tmp_path.iterdir())


# Breaks if a path can be sent that another machine cannot hold, or one that leads out.
@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "./a", "a/..", "a\0b", "a\rb", "\udcff", "x" * 256, "a/" * 2100 + "a"]
)
def test_paths_that_cannot_be_sent(path: str) -> None:
    with pytest.raises(CodeInvalidError, match=r"cannot be a path|rename it|more than 255 bytes|at most 4096"):
        check_path(path)


@pytest.mark.parametrize("path", ["a b", "ü", "-rf", "日本/x.py", "a\u202fb", "...", ".env"])
def test_paths_that_can_be_sent(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([Entry("a", "file", 0, "x"), Entry("a", "file", 0, "x")], "twice"),
        ([Entry("a", "file", 0, "x"), Entry("a/b", "file", 0, "x")], "a file and a folder"),
        ([link("a/b", "../../c")], "out of the folder"),
        ([link("a", "/etc/passwd")], "out of the folder"),
        ([link("a/b", "x/../../../c")], "only at the beginning"),
        ([link("a", "b/.."), link("b", ".")], "only at the beginning"),
    ],
)
def test_what_cannot_be_one_folder(entries: list[Entry], words: str) -> None:
    with pytest.raises(CodeInvalidError, match=words):
        check_tree(entries)


@pytest.mark.parametrize("target", ["b", "../b", "./b/c", "../a/b"])
def test_links_that_stay(target: str) -> None:
    check_tree([link("a/l", target)])


# Breaks if many archives together may have more than one, or if one of them replaces a file of another.
def test_several_archives(tmp_path: Path) -> None:
    one = written(tmp_path / "one", {"a/x.py": (b"x" * 60, False)})
    two = written(tmp_path / "two", {"a/y.py": (b"y" * 60, False)})
    back = tmp_path / "back"
    back.mkdir()
    unpack([(packed(tmp_path / name, of), tree_hash(of)) for name, of in (("one", one), ("two", two))], back)
    assert {"a/x.py", "a/y.py"} == there(back).keys()
    for limit in (Limit("both", 2, 119), Limit("both", 1, 120)):
        sources = [(packed(tmp_path / name, of), tree_hash(of)) for name, of in (("one", one), ("two", two))]
        with pytest.raises(CodeTooLargeError):
            unpack(sources, back, limit=limit)
        assert not any(back.iterdir())
    with pytest.raises(CodeInvalidError, match="in the place of something else"):
        unpack([(packed(tmp_path / "one", one), tree_hash(one)) for _ in range(2)], back)
