"""Objects that become files: checked, once, and never half."""

import hashlib
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.staging.datasets import FILES, Store, content, copy
from tests.support.waiting import wait_for

from holdfast_train.errors import DataChangedError, DataInvalidError, DataTooLargeError, StorageDeniedError
from holdfast_train.staging import copy as module
from holdfast_train.staging.copy import Copy, Counts, check_space, in_words
from holdfast_train.staging.folder import PART, DataFolder
from holdfast_train.storage.base import Entry


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "bucket")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "data"
    found.mkdir()
    return found


def test_all_objects_become_files(store: Store, folder: Path) -> None:
    counts = copy(store, folder)
    assert content(folder) == FILES
    assert counts.done == counts.total == counts.fetched == sum(map(len, FILES.values()))


# Breaks if a second pod on the node, or the next attempt there, fetches what is there.
def test_files_that_are_there_are_not_fetched_again(store: Store, folder: Path) -> None:
    copy(store, folder)
    store.reads.clear()
    counts = copy(store, folder)
    assert (store.reads, counts.fetched, counts.done) == ([], 0, counts.total)


# Breaks if a file counts as whole by its name or its size alone.
def test_only_what_is_missing_or_another_version_is_fetched(store: Store, folder: Path) -> None:
    copy(store, folder)
    store.reads.clear()
    (folder / "train/a.bin").unlink()
    (folder / "labels.csv").write_bytes(b"cut")
    store.add("train/b.bin", b"B" * 50_000)
    copy(store, folder)
    assert sorted(store.reads) == ["labels.csv", "train/a.bin", "train/b.bin"]
    assert content(folder) == FILES | {"train/b.bin": b"B" * 50_000}


# Breaks if a file system that keeps whole seconds makes each pod fetch everything.
def test_times_in_whole_seconds_are_enough(store: Store, folder: Path) -> None:
    import os

    copy(store, folder)
    for path in filter(Path.is_file, folder.rglob("*")):
        second = path.stat().st_mtime_ns // 10**9 * 10**9
        os.utime(path, ns=(second, second))
    store.reads.clear()
    copy(store, folder)
    assert store.reads == []


# Breaks if data that changes while it is copied gives a mixture, or a part of a file is left.
def test_data_that_changes_is_refused(store: Store, folder: Path) -> None:
    store.before = lambda key: store.add("train/a.bin", b"A" * 100_000) if key == "train/a.bin" else None
    with pytest.raises(DataChangedError, match=r"changed while it was copied: .*train/a\.bin was written again"):
        copy(store, folder)
    assert "train/a.bin" not in content(folder)
    assert not [name for name in content(folder) if PART in name]


def test_an_object_that_is_deleted_meanwhile_is_a_change(store: Store, folder: Path) -> None:
    store.before = lambda key: store.delete([key])
    with pytest.raises(DataChangedError, match="does not exist"):
        copy(store, folder)
    assert set(content(folder)) <= {"empty"}


# Breaks if a pod that is killed in the middle of a file leaves it under its name, or blocks the next pod.
def test_an_unfinished_file_of_a_pod_that_is_gone_is_written_anew(store: Store, folder: Path) -> None:
    entry = next(one for one in store.entries("") if one.key == "train/a.bin")
    with (
        DataFolder(str(folder), str(folder)) as target,
        pytest.raises(KeyboardInterrupt),
        target.writing(entry) as part,
    ):
        assert part is not None
        part.write(memoryview(b"half"), 0)
        left = next((folder / "train").iterdir())
        assert left.name.startswith(PART)
        half = left.read_bytes()
        raise KeyboardInterrupt
    left.write_bytes(half + bytes(200_000))  # SIGKILL cleans nothing up, and unlocks the file; it may be longer
    copy(store, folder)
    assert content(folder) == FILES


# Breaks if two pods that fill one volume hurt each other, or both fetch everything.
def test_two_pods_fill_one_folder_together(store: Store, folder: Path, tmp_path: Path) -> None:
    other, first_reads = Store(tmp_path / "bucket", {}), threading.Event()
    may_go_on = threading.Event()

    def hold(key: str) -> None:
        if key == "train/a.bin":
            first_reads.set()
            assert may_go_on.wait(30)

    store.before = hold
    found: list[Counts] = []
    pods = [threading.Thread(target=lambda one=one: found.append(copy(one, folder))) for one in (store, other)]
    pods[0].start()
    assert first_reads.wait(30)
    pods[1].start()
    wait_for(lambda: (folder / "labels.csv").exists() and (folder / "train/b.bin").exists(), 30, "the other files")
    assert "train/a.bin" not in content(folder)
    may_go_on.set()
    for pod in pods:
        pod.join(30)
    assert content(folder) == FILES
    assert [one.done for one in found] == [found[0].total] * 2
    assert "train/a.bin" not in other.reads
    assert sum(one.fetched for one in found) == found[0].total


def md5(store: Store) -> None:
    """Let the store list MD5 sums as versions, as S3 does, without checking them itself."""

    def listed(entries: list[Entry]) -> list[Entry]:
        return [replace(one, version=f'"{hashlib.md5((store.folder / one.key).read_bytes()).hexdigest()}"')
                for one in entries]  # fmt: skip

    store.listed = listed
    read = super(Store, store).read_into
    store.read_into = lambda key, start, *views, version="": (  # type: ignore[method-assign]
        store.reads.append(key), store.before(key), read(key, start, *views)
    )[0]  # fmt: skip


# Breaks if bytes that were damaged on the way are kept: the first read is damaged, the second is not.
def test_damaged_bytes_are_read_again(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "bucket", {"one": b"good"})
    md5(store)
    store.before = lambda key: (tmp_path / "bucket/one").write_bytes(b"bad!" if len(store.reads) == 1 else b"good")  # type: ignore[assignment, return-value]
    counts = copy(store, folder)
    assert (content(folder), counts.done, counts.fetched) == ({"one": b"good"}, 4, 8)


def test_two_reads_that_differ_are_refused(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "bucket", {"one": b"good"})
    md5(store)
    store.before = lambda key: (tmp_path / "bucket/one").write_bytes(b"bad%d" % len(store.reads))  # type: ignore[assignment, return-value]
    with pytest.raises(DataChangedError, match="two reads of the same version differ"):
        copy(store, folder)
    assert content(folder) == {}


# Breaks if a store that encrypts with keys of its own cannot be read: its ETags are no sums.
def test_etags_that_are_no_sums(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "bucket", {"one": b"good"})
    md5(store)
    listed = store.listed
    store.listed = lambda entries: [replace(one, version='"' + "0" * 32 + '"') for one in listed(entries)]
    copy(store, folder)
    assert content(folder) == {"one": b"good"}
    assert "are no MD5 sums" in capfd.readouterr().err


@pytest.mark.parametrize(
    "key", ["../up", "a/../../up", "/etc/passwd", "a//b", "./a", f"a/{PART}x", "a\0b", "a\nb", "a/"]
)
def test_keys_that_leave_the_folder_are_refused(store: Store, folder: Path, key: str) -> None:
    store.listed = lambda entries: [*entries, replace(entries[0], key=key, size=5)]
    with pytest.raises(DataInvalidError, match="cannot be a file"):
        copy(store, folder)
    assert content(folder) == {}
    assert store.reads == []


def test_a_key_that_is_a_file_and_a_folder_is_refused(store: Store, folder: Path) -> None:
    store.listed = lambda entries: [*entries, replace(entries[0], key="train")]
    with pytest.raises(DataInvalidError, match="'train' as an object and as a folder"):
        copy(store, folder)


def test_marks_of_folders_are_no_files(store: Store, folder: Path) -> None:
    store.listed = lambda entries: [*entries, replace(entries[0], key="train/", size=0)]
    copy(store, folder)
    assert content(folder) == FILES


def test_no_objects_and_too_many(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OBJECTS", 3)
    with pytest.raises(DataInvalidError, match="has 4 objects; at most 3 are allowed"):
        copy(store, folder)
    store.listed = lambda entries: []
    with pytest.raises(DataInvalidError, match="no objects below it"):
        copy(store, folder)


# Breaks if a copy begins that cannot end, or if what is there, or has begun, is asked for again.
def test_space_is_checked_before_the_first_byte(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DataFolder(str(folder), str(folder)) as target:
        one = Copy(store, target, Counts())
        one.plan()
        needed = one.space()[1]
        assert needed == sum(map(len, FILES.values()))
        monkeypatch.setattr(DataFolder, "free", property(lambda self: (1, needed)))
        check_space([one])
        with pytest.raises(DataTooLargeError, match=r"needs 293\.0 KiB, and 146\.5 KiB are free"):
            check_space([one, one])  # two kinds of data on one file system
        assert store.reads == []
        one.run()
        again = Copy(store, target, Counts())
        again.plan()
        assert again.space()[1] == 0


# Breaks if the first error is hidden by those that follow from it, or if a copy goes on after it.
def test_the_first_error_ends_the_copy(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "bucket", {f"{number:03}": b"x" for number in range(200)})

    def refuse(key: str) -> None:
        raise StorageDeniedError(f"no right to read {key}")

    store.before = refuse
    with pytest.raises(StorageDeniedError, match="no right to read"):
        copy(store, folder)
    assert len(store.reads) <= module.THREADS
    assert content(folder) == {}


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (40 << 30, "40.0 GiB")]
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_words(size) == words
