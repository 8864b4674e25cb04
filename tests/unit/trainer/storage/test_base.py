"""Trying again, addresses, and the folder store."""

import fcntl
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.trainer.stores import MemoryStorage

from holdfast_train.environment import Credentials
from holdfast_train.errors import (
    KeyMissingError,
    StorageDeniedError,
    StorageFullError,
    StorageInvalidError,
    StorageNotAtomicError,
    StorageUnreachableError,
)
from holdfast_train.progress import Silence
from holdfast_train.storage import folder
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.opening import open_storage
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3_server import S3Server


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def down_until(storage: MemoryStorage, clock: Clock, moment: float) -> None:
    def before(method: str, key: str) -> None:
        if clock.now < moment:
            raise StorageUnreachableError("down")

    storage.before = before


def test_patient_waits_for_the_store() -> None:
    clock, storage = Clock(), MemoryStorage()
    down_until(storage, clock, 30)
    patient = RetryingStorage(storage, clock=lambda: clock.now, sleep=clock.sleep)
    with patient.within(60):
        patient.put("key", b"x")
    assert storage.content == {"key": b"x"}
    assert 30 <= clock.now < 34


def test_patience_ends() -> None:
    clock, storage = Clock(), MemoryStorage()
    down_until(storage, clock, 1e9)
    patient = RetryingStorage(storage, clock=lambda: clock.now, sleep=clock.sleep)
    with patient.within(10), pytest.raises(StorageUnreachableError):
        patient.get("key")
    assert clock.now <= 10
    with pytest.raises(StorageUnreachableError):
        patient.get("key")  # outside: one try


def flickering(clock: Clock, seconds: float) -> MemoryStorage:
    """A store that takes `seconds` for every call, and fails every other one."""
    storage, calls = MemoryStorage(), []

    def before(method: str, key: str) -> None:
        calls.append(key)
        clock.now += seconds
        if len(calls) % 2:
            raise StorageUnreachableError("503")

    storage.before = before
    return storage


def test_long_work_survives_short_disturbances() -> None:
    """A restore or a save may take much longer than the patience, which is for silence."""
    clock = Clock()
    patient = RetryingStorage(flickering(clock, 7), clock=lambda: clock.now, sleep=clock.sleep)
    with patient.within(10):
        for number in range(20):
            patient.put(f"key-{number}", b"x")
        clock.now += 100  # computing is not silence either
        patient.put("last", b"x")
    assert clock.now > 380


def test_a_shortened_deadline_ends_the_tries() -> None:
    clock = Clock()
    patient = RetryingStorage(flickering(clock, 7), clock=lambda: clock.now, sleep=clock.sleep)
    with patient.within(10, at_most=15):
        patient.put("key", b"x")
        with pytest.raises(StorageUnreachableError):
            patient.put("key", b"x")
    assert clock.now < 25


def listened(storage: MemoryStorage, clock: Clock) -> tuple[RetryingStorage, list[Silence | None]]:
    told: list[Silence | None] = []
    return RetryingStorage(storage, clock=lambda: clock.now, sleep=clock.sleep, on_silence=told.append), told


def test_a_silence_is_told_soon_and_once_and_so_is_its_end() -> None:
    """Breaks if an outage is known only when a call gives it up, after a minute."""
    clock, storage = Clock(), MemoryStorage()
    patient, told = listened(storage, clock)
    begins: list[float] = []

    def before(method: str, key: str) -> None:
        begins.extend([clock.now] if told and not begins else [])
        if clock.now < 30:
            raise StorageUnreachableError("down")

    storage.before = before
    with patient.within(60):
        patient.put("key", b"x")
    assert told == [Silence(0.0, "down"), None]
    assert begins[0] < 8


def test_a_call_that_gives_up_tells_the_silence_and_a_refusal_ends_it() -> None:
    clock, storage = Clock(), MemoryStorage()
    patient, told = listened(storage, clock)
    down_until(storage, clock, 5)
    for _ in range(2):
        with pytest.raises(StorageUnreachableError):
            patient.get("key")  # outside of `within`: one try
    assert told == [Silence(0.0, "down")]
    clock.now = 5
    with pytest.raises(KeyMissingError):
        patient.apart().get("key")
    assert told == [Silence(0.0, "down"), None]


def test_a_store_that_refuses_now_and_then_is_not_away() -> None:
    clock = Clock()
    patient, told = listened(flickering(clock, 0.1), clock)
    with patient.within(10):
        for number in range(100):
            patient.put(f"key-{number}", b"x")
    assert told == []


def test_refusal_is_an_answer() -> None:
    clock, storage = Clock(), MemoryStorage()
    patient = RetryingStorage(storage, clock=lambda: clock.now, sleep=clock.sleep)
    with patient.within(10):
        for start in (0, 20):
            clock.now = start
            down_until(storage, clock, start + 6)
            with pytest.raises(KeyMissingError):
                patient.get("key")
            clock.now += 5


def test_calls_that_wait_in_line_share_the_silence() -> None:
    """Else a restore of a hundred parts would try a dead store for a hundred patiences."""
    clock, storage = Clock(), MemoryStorage()
    down_until(storage, clock, 1e9)
    patient = RetryingStorage(storage, clock=lambda: clock.now, sleep=clock.sleep)
    with patient.within(10):
        for _ in range(100):
            with pytest.raises(StorageUnreachableError):
                patient.get("key")
    assert clock.now <= 10


def test_patient_does_not_repeat_what_cannot_help() -> None:
    storage, calls = MemoryStorage(), []

    def before(method: str, key: str) -> None:
        calls.append(method)
        raise StorageDeniedError("no")

    storage.before = before
    patient = RetryingStorage(storage, sleep=lambda _: pytest.fail("tried again"))
    with patient.within(60), pytest.raises(StorageDeniedError):
        patient.put("key", b"")
    assert calls == ["put"]


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "s3://",
        "s3:/bucket",
        "ftp://x/y",
        "file://",
        "file://relative/x",
        "s3://b/../c",
        "s3:///b/c",
        "file:///a//b",
    ],
)
def test_addresses_that_cannot_be_read(uri: str) -> None:
    with pytest.raises(StorageInvalidError, match="allowed: s3://"):
        open_storage(uri)


def test_addresses() -> None:
    assert open_storage("file:///a/b/").uri == "file:///a/b"
    keys = Credentials("a", "b")
    assert open_storage("s3://bucket/a/b/", S3Server("http://localhost:1", credentials=keys)).uri == "s3://bucket/a/b"
    assert "b" not in repr(keys).removeprefix("Credentials")


def test_folder_round_trip(tmp_path: Path) -> None:
    store = FolderStorage(tmp_path / "new" / "prefix")
    assert store.keys("log/") == []
    assert store.put_if_absent("log/1.json", b"one")
    assert not store.put_if_absent("log/1.json", b"two")
    store.put("data/x/r0.0", b"abc")
    assert store.get("log/1.json") == b"one"
    assert store.size("data/x/r0.0") == 3
    assert store.size("data/x/r0.1") is None
    assert store.keys("") == ["data/x/r0.0", "log/1.json"]
    assert store.keys("log/", after="log/1.json") == []
    with pytest.raises(KeyMissingError):
        store.get("nothing")
    store.delete(["data/x/r0.0", "data/x/r0.0"])
    assert store.keys("data/") == []
    assert not (tmp_path / "new/prefix/data/x").exists()


def test_folder_has_one_winner(tmp_path: Path) -> None:
    store = FolderStorage(tmp_path)
    for round_ in range(20):
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda n, r=round_: store.put_if_absent(f"log/{r}", bytes([n])), range(8)))
        assert won.count(True) == 1
        assert store.get(f"log/{round_}") == bytes([won.index(True)])
    assert not list((tmp_path / "log").glob(".*"))


def pages(size: int) -> memoryview:
    """Memory as arenas have it: it begins with a page."""
    view = memoryview(mmap.mmap(-1, size))
    view[:] = os.urandom(size)
    return view


def test_large_data_goes_past_the_page_cache(tmp_path: Path) -> None:
    """Breaks if a checkpoint takes memory from the training once more, and the CPU that copying it there costs."""
    with (tmp_path / "probe").open("wb") as probe:
        try:
            fcntl.fcntl(probe, fcntl.F_SETFL, os.O_DIRECT)
        except OSError:
            pytest.skip("this file system has no direct writes")
    data = pages(4 << 20)
    FolderStorage(tmp_path).write("data/x", data)
    with (tmp_path / "data" / "x").open("rb") as file:
        with pytest.raises(BlockingIOError):  # nothing of it can be read without asking the disk
            os.preadv(file.fileno(), [bytearray(4096)], 0, os.RWF_NOWAIT)
        assert file.read() == data


@pytest.mark.parametrize(
    ("begin", "size"),
    [pytest.param(64, 2 << 20, id="memory-not-aligned"), pytest.param(4096, (2 << 20) + 1, id="length-not-aligned")],
)
def test_data_that_cannot_go_past_it_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: int, size: int
) -> None:
    data = pages(4 << 20)[begin : begin + size]
    storage = FolderStorage(tmp_path)
    storage.write("data/x", data)
    # A disk that wants more than we know of says so at the first write.
    monkeypatch.setattr(folder, "DIRECT_ALIGNMENT", 1)
    storage.write("data/y", data)
    assert storage.get("data/x") == storage.get("data/y") == data


def test_folder_hides_what_is_half_written(tmp_path: Path) -> None:
    """A process that dies in the middle of a write leaves a file that does not count as a key."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / ".writing-dead").write_bytes(b"half")
    assert FolderStorage(tmp_path).keys("") == []


def test_what_dead_writers_left_is_dropped_by_age(tmp_path: Path) -> None:
    """An hour old under data/ goes, with its folder; newer ones, others' and whole files stay."""
    now, files = datetime.now(UTC), {}
    for name, age in [
        ("data/a/.writing-1", 7200),
        ("data/b/.writing-2", 60),
        ("log/.writing-3", 7200),
        ("data/c/r0", 7200),
    ]:
        files[name] = tmp_path / name
        files[name].parent.mkdir(parents=True, exist_ok=True)
        files[name].write_bytes(b"half")
        os.utime(files[name], (now.timestamp() - age,) * 2)
    assert FolderStorage(tmp_path).drop_unfinished("data/", now - timedelta(hours=1)) == 1
    assert [name for name, path in files.items() if not path.exists()] == ["data/a/.writing-1"]
    assert not (tmp_path / "data/a").exists()
    assert FolderStorage(tmp_path).drop_unfinished("data/", now - timedelta(hours=1)) == 0


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (28, StorageFullError),  # ENOSPC
        (30, StorageDeniedError),  # EROFS
        (13, StorageDeniedError),  # EACCES
        (5, StorageUnreachableError),  # EIO
        (116, StorageUnreachableError),  # ESTALE: the NFS server has come back as another
    ],
)
def test_folder_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("holdfast_train.storage.folder.os.fsync", fail)
    with pytest.raises(error, match=os.strerror(number)):
        FolderStorage(tmp_path).put("key", b"x")
    assert list(tmp_path.iterdir()) == []


def test_new_folders_are_open_to_their_group(tmp_path: Path) -> None:
    """Breaks if the trainer of another user cannot write into folders that the init container has made."""
    before = os.umask(0o077)
    try:
        FolderStorage(tmp_path / "vit").put("log/1.json", b"x")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o070 for name in ("vit", "vit/log")] == [0o070, 0o070]


def test_a_folder_of_another_user_names_the_fields_that_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("holdfast_train.storage.folder.os.open", refuse)
    with pytest.raises(StorageDeniedError, match=rf"user {os.geteuid()} .*runAsUser.*fsGroup"):
        FolderStorage(tmp_path).put("key", b"x")


@pytest.mark.parametrize(
    ("number", "error"), [(13, StorageDeniedError), (5, StorageUnreachableError), (116, StorageUnreachableError)]
)
def test_a_folder_that_cannot_be_read_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    """Breaks if a job starts from nothing because its log could not be read."""
    store = FolderStorage(tmp_path)
    store.put("log/000000000001.json", b"x")
    scandir = os.scandir

    def fail(path: str) -> object:
        if Path(path).name == "log":
            raise OSError(number, os.strerror(number))
        return scandir(path)

    monkeypatch.setattr("holdfast_train.storage.folder.os.scandir", fail)
    for prefix in ("log/", ""):
        with pytest.raises(error, match=os.strerror(number)):
            store.keys(prefix)
        with pytest.raises(error, match=os.strerror(number)):
            store.entries(prefix)
        with pytest.raises(error, match=os.strerror(number)):
            store.drop_unfinished(prefix, datetime.now(UTC))


def test_a_folder_that_goes_while_it_is_listed_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStorage(tmp_path)
    store.put("data/x/r0.0", b"x")
    store.put("data/y/r0.0", b"x")
    scandir = os.scandir

    def delete_first(path: str) -> object:
        if Path(path).name == "x":
            store.delete(["data/x/r0.0"])
        return scandir(path)

    monkeypatch.setattr("holdfast_train.storage.folder.os.scandir", delete_first)
    assert store.keys("data/") == ["data/y/r0.0"]


def test_keys_behind_one_and_with_part_of_a_name(tmp_path: Path) -> None:
    store = FolderStorage(tmp_path)
    for key in ("log/1", "log/2", "log/3", "log-2", "data/20-a/r0", "data/20-b/r0", "data/30/r0"):
        store.put(key, b"")
    assert store.keys("log/", after="log/1") == ["log/2", "log/3"]
    assert store.keys("data/20") == ["data/20-a/r0", "data/20-b/r0"]
    assert store.keys("", after="data/30") == ["data/30/r0", "log-2", "log/1", "log/2", "log/3"]


def test_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: object, target: object) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr("holdfast_train.storage.folder.os.link", fail)
    with pytest.raises(StorageNotAtomicError, match="hard links"):
        FolderStorage(tmp_path).put_if_absent("key", b"x")
