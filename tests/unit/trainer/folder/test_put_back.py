"""Putting back: the bytes of the commit or none, and never over what the program has finished since."""

import errno
import os
import shutil
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.folders import SavedFolder, archive, content

from holdfast_train.errors import CheckpointCorruptError, EnvironmentVariableError, KeyMissingError, StorageFullError
from holdfast_train.folder.index import CHUNK, NotFromFolderError, read_index, read_small
from holdfast_train.folder.look import look
from holdfast_train.folder.put_back import make_folder

MIB = 1 << 20
MODEL = b"".join(bytes([number]) * MIB for number in range(9))  # three chunks
FIRST_FORM = Path(__file__).with_name("first_form.tar.xz")  # a storage, as the first version of this room wrote it


@pytest.fixture
def place(tmp_path: Path) -> SavedFolder:
    """A commit of a folder with a bit of everything."""
    place = SavedFolder(tmp_path)
    root = place.root
    (root / "run/deep").mkdir(parents=True)
    (root / "run/model").write_bytes(MODEL)
    archive(root / "last.pt", b"w" * MIB)
    (root / "run/deep/small.txt").write_text("small")
    (root / "run/empty").touch()
    (root / "run.sh").write_text("true")
    (root / "run.sh").chmod(0o755)
    (root / os.fsdecode(b"odd \xff")).write_text("odd")
    (root / "latest").symlink_to("run/deep")
    (root / "out").symlink_to("/nowhere")
    for number, path in enumerate(sorted(root.rglob("*"))):
        os.utime(path, ns=(10**18 + number, 10**18 + number), follow_symlinks=False)
    place.commit()
    return place


def facts(root: Path) -> dict[str, Any]:
    """All that a look tells."""
    return {path: (file.signature, file.mode) for path, file in look(root).files.items()}


def inodes(root: Path) -> dict[str, int]:
    return {path: (root / path).lstat().st_ino for path in look(root).files}


# Breaks if the program finds another folder than it left: other bytes, rights, times or links.
@pytest.mark.parametrize("is_link", [False, True])
def test_an_empty_folder(place: SavedFolder, tmp_path: Path, is_link: bool) -> None:
    other = tmp_path / "other"
    if is_link:
        (tmp_path / "volume").mkdir()
        other.symlink_to(tmp_path / "volume")
    done = place.put_back(other)
    assert content(other) == content(place.root)
    assert facts(other) == facts(place.root)
    assert other.is_symlink() == is_link
    assert done.files == look(other).files
    assert (done.read, done.there, done.replaced, done.newer) == (place.index.size, 0, {}, [])


# Breaks if a node that still has the folder downloads it once more, or writes it once more.
def test_all_is_there(place: SavedFolder) -> None:
    before = inodes(place.root)
    os.utime(place.root / "run/model", (1, 1))
    done = place.put_back(place.root)
    assert (done.read, done.there, done.replaced, done.newer) == (0, place.index.size, {}, [])
    assert inodes(place.root) == before
    assert done.files == look(place.root).files  # with the times that they have here


# Breaks if a node that has a part of the bytes downloads all, or trusts size and time.
def test_a_part_is_there(place: SavedFolder) -> None:
    before = content(place.root)
    model = place.root / "run/model"
    known = model.stat()
    with model.open("r+b") as opened:
        opened.seek(5 * MIB)
        opened.write(b"x")
    os.utime(model, ns=(known.st_atime_ns, known.st_mtime_ns))
    (place.root / "last.pt").unlink()
    (place.root / "latest").unlink()
    (place.root / "latest").symlink_to("run")
    size = place.index.files["last.pt"].file.size
    done = place.put_back(place.root)
    assert content(place.root) == before
    assert (place.root / "latest").readlink() == Path("run/deep")
    assert CHUNK + size <= done.read < CHUNK + size + 100
    assert done.there == place.index.size - done.read
    assert done.replaced == dict.fromkeys(("latest", "run/model"), "it is not of the newest commit")


# Breaks if the program resumes from older files than it has finished, or if they are called those of the commit.
def test_newer_files_of_a_folder_at_the_commit_stay(place: SavedFolder) -> None:
    archive(place.root / "last.pt", b"newer")
    (place.root / "run/model").write_bytes(b"newer")
    (place.root / "latest").unlink()
    (place.root / "latest").symlink_to("run")
    (place.root / "more").write_text("more")
    (place.root / "run.sh").unlink()
    before = content(place.root)
    done = place.put_back(place.root, is_at_commit=True)
    assert content(place.root) == before | {"run.sh": b"true"}
    assert (sorted(done.newer), done.replaced) == (["last.pt", "latest", "run/model"], {})
    assert not done.files.keys() & {"last.pt", "latest", "run/model", "more"}


# Breaks if a pointer stays that names a save of which a power cut has left only zeros.
def test_what_is_newer_beside_a_torn_file_goes_back(place: SavedFolder) -> None:
    (place.root / "next").mkdir()
    (place.root / "next/model").write_bytes(bytes(MIB))
    (place.root / "latest").unlink()
    (place.root / "latest").symlink_to("next")
    done = place.put_back(place.root, is_at_commit=True)
    assert done.replaced == {"latest": "another file was not whole"}
    assert os.fspath((place.root / "latest").readlink()) == "run/deep"
    assert (place.root / "next/model").read_bytes() == bytes(MIB)


@pytest.mark.parametrize(
    ("tear", "why"),
    [
        (lambda path: path.write_bytes(b""), "it was empty"),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), "it had zeros in the place of its bytes"),
        (lambda path: os.truncate(path, 500_000), "it was not whole"),
    ],
    ids=["empty", "zeros", "half an archive"],
)
def test_what_a_power_cut_tore(place: SavedFolder, tear: Callable[[Path], object], why: str) -> None:
    """Breaks if a torn file stays, or if files of two moments are put together."""
    before = content(place.root)
    tear(place.root / "last.pt")
    (place.root / "run/deep/small.txt").write_text("newer")
    (place.root / "more").write_text("stays")
    done = place.put_back(place.root, is_at_commit=True)
    assert content(place.root) == before | {"more": b"stays"}
    assert done.replaced == {"last.pt": why, "run/deep/small.txt": "another file was not whole"}
    assert done.newer == []


@pytest.mark.parametrize("kind", ["file", "link", "link to nothing"])
def test_the_program_has_replaced_a_folder_since(place: SavedFolder, tmp_path: Path, kind: str) -> None:
    """Breaks if a job cannot start any more because its program has made a file or a link of a folder."""
    shutil.rmtree(place.root / "run")
    if kind == "file":
        (place.root / "run").write_text("a file")
    else:
        (tmp_path / "aside").mkdir()
        (place.root / "run").symlink_to(tmp_path / ("aside" if kind == "link" else "nothing"))
    done = place.put_back(place.root, is_at_commit=True)
    assert sorted(done.newer) == ["run/deep/small.txt", "run/empty", "run/model"]
    assert done.replaced == {}
    assert not (tmp_path / "aside/model").exists()
    assert list(place.put_back(place.root).replaced) == ["run/deep/small.txt", "run/empty", "run/model"]
    assert (place.root / "run/model").read_bytes() == MODEL
    assert not list((tmp_path / "aside").glob("*"))


# Breaks if a folder of a person is deleted because a checkpoint has a file of that name.
def test_a_folder_in_the_place_of_a_file(place: SavedFolder, tmp_path: Path) -> None:
    root = tmp_path / "other"
    (root / "run/model/mine").mkdir(parents=True)
    with pytest.raises(EnvironmentVariableError, match="a folder is in the place of a file of the checkpoint"):
        place.put_back(root)
    assert [str(path.relative_to(root)) for path in sorted(root.rglob("*"))] == ["run", "run/model", "run/model/mine"]
    (root / "run/model/mine").rmdir()
    place.put_back(root)
    assert (root / "run/model").read_bytes() == MODEL


# Breaks if a link leads Holdfast to write outside of the folder.
def test_a_link_in_the_place_of_a_folder(place: SavedFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "other"
    root.mkdir()
    (root / "run").symlink_to(outside)
    place.put_back(root)
    assert (root / "run/model").read_bytes() == MODEL
    assert not list(outside.iterdir())
    assert not list(root.glob(".holdfast-*"))


def test_a_link_in_the_place_of_a_file(place: SavedFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"x" * len(MODEL))
    (place.root / "run/model").unlink()
    (place.root / "run/model").symlink_to(outside)
    place.put_back(place.root)
    assert outside.read_bytes() == b"x" * len(MODEL)
    assert not (place.root / "run/model").is_symlink()
    assert (place.root / "run/model").read_bytes() == MODEL


# Breaks if a broken checkpoint leaves a part of itself in the folder.
@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: path.unlink(), KeyMissingError),
        (lambda path: os.truncate(path, path.stat().st_size - 1), CheckpointCorruptError),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), CheckpointCorruptError),
    ],
    ids=["missing", "short", "one byte"],
)
@pytest.mark.parametrize("number", [0, -1])
def test_broken(
    place: SavedFolder, tmp_path: Path, damage: Callable[[Path], object], error: type[Exception], number: int
) -> None:
    known = place.index
    damage(tmp_path / "store" / known.parts[number].key)
    other = tmp_path / "other"
    (other / "run").mkdir(parents=True)
    (other / "run/model").write_bytes(b"mine")
    with pytest.raises(error):
        place.put_back(other)
    assert content(other) == {"run/model": b"mine"}
    assert sorted(path.name for path in other.rglob("*")) == ["model", "run"]


# Breaks if a volume without room looks like a broken checkpoint, or keeps half of one.
def test_no_room(place: SavedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, room = os.pwrite, [6 * MIB]

    def pwrite(descriptor: int, data: memoryview, at: int) -> int:
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(StorageFullError, match=f"no room for the {place.index.size} bytes"):
        place.put_back(tmp_path / "other")
    assert not list((tmp_path / "other").iterdir())


def test_another_volume_in_the_folder(place: SavedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaks if a volume that is mounted below the folder cannot be put back."""
    replace = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if "put-back" in path.parent.name and target.parent.name == "run":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    place.put_back(tmp_path / "other")
    assert content(tmp_path / "other") == content(place.root)
    assert facts(tmp_path / "other") == facts(place.root)


# Breaks if old saves that nobody wants are downloaded, or replace what is there.
def test_only_what_is_wanted(place: SavedFolder, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "last.pt").write_bytes(b"other bytes")
    done = place.put_back(other, wanted={"run/model", "latest"})
    assert content(other) == {"run/model": MODEL, "last.pt": b"other bytes"}
    assert done.files.keys() == {"run/model", "latest"}
    assert done.read == len(MODEL)


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentVariableError, match=r"checkpoint\.folder: cannot write to"):
        make_folder(tmp_path / "file" / "outputs")


# Breaks if what a writer left that was killed stays, or if something else goes.
def test_what_a_writer_left_that_was_killed(tmp_path: Path) -> None:
    for name in (".holdfast-put-back-1/0", ".holdfast-reading-1/0", ".holdfast-folder.json", "mine/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    make_folder(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".holdfast-folder.json", "mine"]


def test_a_checkpoint_of_the_library(place: SavedFolder) -> None:
    found = place.checkpoints.newest()
    assert found is not None
    found.manifest.program.clear()  # type: ignore[attr-defined]
    with pytest.raises(NotFromFolderError, match="leave out"):
        read_index(place.storage, found)


class FirstForm(SavedFolder):
    """The storage of a job whose attempt 1 was one of the first version. Its files stay in `outputs`."""

    def __init__(self, place: Path) -> None:
        with tarfile.open(FIRST_FORM) as file:
            file.extractall(place / "store", filter="data")
        super().__init__(place, keep=1, attempt=2)


# Breaks if a checkpoint of an earlier version is not put back, or without what names it.
def test_the_first_form(tmp_path: Path) -> None:
    place, root = FirstForm(tmp_path), tmp_path / "other"
    known = place.index
    assert (known.newest, known.step, known.step_from) == ("checkpoint-7", 7, "its name")
    assert read_small(place.storage, known, "checkpoint-7/sub/small.txt") == b"step 7"
    done = place.put_back(root)
    assert done.read > 3 * MIB
    assert {path.removeprefix("checkpoint-7/"): data for path, data in content(root).items()} == {
        "model.bin": b"model" * 250_000,
        "copy.bin": b"model" * 250_000,
        "optimizer.bin": b"0007" * 300_000,
        "sub/small.txt": b"step 7",
        "sub/empty": b"",
        "sub/run.sh": b"true\n",
        "sub/link": b"model" * 250_000,
        os.fsdecode(b"odd \xff"): b"its name is not UTF-8",
        "trainer_state.json": b'{"global_step": 7, "log_history": [{"loss": 1.25, "step": 7}]}',
        "latest": b"checkpoint-7",
    }
    assert (root / "last").readlink() == Path("checkpoint-7")
    assert (root / "checkpoint-7/sub/run.sh").stat().st_mode & 0o777 == 0o755
    assert (root / "checkpoint-7/model.bin").stat().st_mtime == 1_600_000_701
    (root / "latest").write_text("checkpoint-8")
    again = place.put_back(root)
    assert again.read == 0
    assert (root / "latest").read_text() == "checkpoint-8"


def test_the_next_commit_after_one_of_the_first_form(tmp_path: Path) -> None:
    """Breaks if a training cannot go on with the new form, or if data of the old one stays for ever."""
    place = FirstForm(tmp_path)
    done = place.put_back(place.root)
    place.capture.begin(place.index, done.files)
    assert place.commit() is not None
    assert place.commit() is None
    assert place.stored < 3 * MIB  # the two models are one now
    place.put_back(tmp_path / "other")
    assert facts(tmp_path / "other") == facts(place.root)
    assert content(tmp_path / "other") == content(place.root)


@pytest.mark.parametrize("number", [0, -1])
def test_a_broken_one_of_the_first_form(tmp_path: Path, number: int) -> None:
    place, root = FirstForm(tmp_path), tmp_path / "other"
    path = tmp_path / "store" / place.index.parts[number].key
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointCorruptError):
        place.put_back(root)
    assert not list(root.iterdir())


# Breaks if the pods of a training whose nodes share a volume end at their start, because one tidied what another tries.
def test_two_nodes_make_the_folder_of_one_volume_at_once(tmp_path: Path) -> None:
    def make(_: int) -> None:
        for _ in range(100):
            make_folder(tmp_path / "outputs")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(4)))
    assert list((tmp_path / "outputs").iterdir()) == []
