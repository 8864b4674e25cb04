"""The storage protocol: one file of tests for an S3 server and for a folder."""

import gc
import mmap
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from tests.support.http.s3_server import S3Server

from holdfast_train.errors import CheckpointCorruptError, KeyMissingError
from holdfast_train.storage.base import Entry, Storage
from holdfast_train.storage.checksums import CHUNK_BYTES, chunk_sums
from holdfast_train.storage.folder import FolderStorage
from holdfast_train.storage.rate_limit import RateLimit
from holdfast_train.storage.retrying import RetryingStorage
from holdfast_train.storage.s3 import S3Storage

PART = 2 * CHUNK_BYTES  # S3 wants parts of 5 MiB or more
SIZES = (0, 1, CHUNK_BYTES + 1, PART, PART + 1, 2 * PART, 2 * PART + CHUNK_BYTES + 7)


def s3_storage(server: S3Server, prefix: str, **more: object) -> S3Storage:
    return S3Storage(server.bucket, prefix, server.reached, **{"part_bytes": PART, "parallel": 4, **more})  # type: ignore[arg-type]


@pytest.fixture(params=["s3", "folder", "patient"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "s3":
        return s3_storage(request.getfixturevalue("s3"), f"test/{uuid.uuid4().hex}")
    found = FolderStorage(tmp_path / "new" / "prefix")
    return RetryingStorage(found) if request.param == "patient" else found


@pytest.fixture
def shared() -> Iterator[memoryview]:
    """Memory as the engine has it: a memfd that another process may map too, full of bytes without a pattern."""
    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, max(SIZES))
    with mmap.mmap(descriptor, max(SIZES)) as memory:
        memory[:] = os.urandom(max(SIZES))
        view = memoryview(memory)
        yield view
        gc.collect()
        view.release()
    os.close(descriptor)


def test_small_things(storage: Storage) -> None:
    assert storage.keys("") == []
    assert storage.put_if_absent("log/1", b"one")
    assert not storage.put_if_absent("log/1", b"two")
    storage.put("data/x/r0.0", bytearray(b"abc"))
    assert (storage.get("log/1"), storage.size("data/x/r0.0"), storage.size("data/y")) == (b"one", 3, None)
    assert storage.keys("") == ["data/x/r0.0", "log/1"]
    assert storage.keys("log/", after="log/1") == []
    with pytest.raises(KeyMissingError, match="nothing"):
        storage.get("nothing")
    storage.delete(["data/x/r0.0", "data/x/r0.0"])
    assert storage.keys("data/") == []


@pytest.mark.parametrize("with_sums", [True, False])
def test_data_comes_back_as_it_was(storage: Storage, shared: memoryview, with_sums: bool) -> None:
    for size in SIZES:
        data = shared[:size]
        storage.write(f"data/x/{size}", data, sums=chunk_sums(data) if with_sums else ())
        assert storage.size(f"data/x/{size}") == size
        back = memoryview(bytearray(size))
        storage.read_into(f"data/x/{size}", 0, back)
        assert back == data, size


def test_ranges(storage: Storage, shared: memoryview) -> None:
    """Any range, into the middle of memory whose other bytes stay as they are."""
    storage.write("data/x/r0.0", shared)
    end = len(shared)
    for start, length in [(0, 1), (1, 5), (PART - 1, 2), (CHUNK_BYTES, PART), (end - 3, 3), (7, 0), (0, end)]:
        memory = memoryview(bytearray(b"\xaa" * (length + 20)))
        storage.read_into("data/x/r0.0", start, memory[10 : 10 + length])
        assert memory[10 : 10 + length] == shared[start : start + length]
        assert bytes(memory[:10]) == bytes(memory[10 + length :]) == b"\xaa" * 10


def test_many_ranges_at_once(storage: Storage, shared: memoryview) -> None:
    storage.write("data/x/r0.0", shared)
    back = memoryview(bytearray(len(shared)))
    starts = range(0, len(shared), 1_000_003)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda at: storage.read_into("data/x/r0.0", at, back[at : at + 1_000_003]), starts))
    assert back == shared


def test_an_object_that_is_too_short_is_corrupt_and_named(storage: Storage) -> None:
    storage.write("data/x/r0.0", memoryview(b"0123456789"))
    for start, length in [(0, 11), (5, 100), (10, 1), (1000, 5)]:
        with pytest.raises(CheckpointCorruptError, match=r"data/x/r0\.0") as found:
            storage.read_into("data/x/r0.0", start, memoryview(bytearray(length)))
        assert f"expected bytes {start} to {start + length}" in str(found.value)


def test_a_missing_object_is_missing(storage: Storage) -> None:
    with pytest.raises(KeyMissingError, match="data/x"):
        storage.read_into("data/x", 0, memoryview(bytearray(1)))


def test_written_again_is_whole(storage: Storage, shared: memoryview) -> None:
    """A try whose answer was lost is made again, over what it left."""
    storage.write("data/x/r0.0", shared[: PART + 9])
    storage.write("data/x/r0.0", shared[1 : PART + 10])
    back = memoryview(bytearray(PART + 9))
    storage.read_into("data/x/r0.0", 0, back)
    assert back == shared[1 : PART + 10]


def test_entries_say_what_keys_says(storage: Storage, shared: memoryview) -> None:
    began = datetime.now(UTC)
    assert storage.entries("") == []
    storage.put("log/1", b"12345")
    storage.write("data/x/r0.0", shared)
    storage.write("data/x/r0.1", shared[:10])
    found = storage.entries("")
    assert [entry.key for entry in found] == storage.keys("") == ["data/x/r0.0", "data/x/r0.1", "log/1"]
    assert [entry.size for entry in found] == [len(shared), 10, 5]
    for entry in found:
        assert began - timedelta(seconds=2) <= entry.modified_at <= datetime.now(UTC) + timedelta(seconds=2)
    assert [entry.key for entry in storage.entries("data/x/r0.1")] == ["data/x/r0.1"]
    assert isinstance(found[0], Entry)


def test_the_rate_is_asked_for_every_byte(storage: Storage, shared: memoryview) -> None:
    """And for no more than a block at a time, so that a burst is short."""
    waited: list[float] = []
    rate = RateLimit(1e6, 1, clock=lambda: 0.0, sleep=waited.append)
    storage.write("data/x/r0.0", shared, rate=rate)
    assert max(waited) == pytest.approx((len(shared) - 1) / 1e6)  # the clock stands still: what all have waited
    assert len(waited) >= len(shared) // (16 << 20)
    assert storage.size("data/x/r0.0") == len(shared)


def test_nothing_unfinished_is_dropped_of_a_store_in_order(storage: Storage, shared: memoryview) -> None:
    storage.write("data/x/r0.0", shared)
    assert storage.drop_unfinished("", datetime.now(UTC) + timedelta(days=1)) == 0
    assert storage.keys("") == ["data/x/r0.0"]


def test_memory_stays_where_it_is(s3: S3Server, tmp_path: Path) -> None:
    """Neither way copies an object: 256 MiB go through with a few MiB more than the view itself."""
    size = 256 << 20
    for store in (s3_storage(s3, f"test/{uuid.uuid4().hex}", part_bytes=8 * PART), FolderStorage(tmp_path / "prefix")):
        with mmap.mmap(-1, size) as memory:
            view = memoryview(memory)
            for at in range(0, size, 4096):
                view[at] = 1  # a page that is not there yet would count as ours
            store.write("warm", view[:1])
            store.read_into("warm", 0, view[:1])
            with _Peak() as peak:
                store.write("data/x", view)
                store.read_into("data/x", 0, view)
            store.delete(["data/x"])
            assert peak.more < 64 << 20, type(store).__name__
            view.release()


class _Peak:
    """`more`: by how many bytes the most memory in use of this process exceeded what it was at the start."""

    def __enter__(self) -> "_Peak":
        Path("/proc/self/clear_refs").write_text("5")  # the kernel's high-water mark starts again
        self._before = psutil.Process().memory_info().rss
        return self

    def __exit__(self, *_: object) -> None:
        line = next(text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("VmHWM"))
        self.more = int(line.split()[1]) * 1024 - self._before
