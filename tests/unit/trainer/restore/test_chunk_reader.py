"""What is read of a checkpoint's data, and what of it is checked."""

import random
from collections.abc import Iterator

import pytest
from tests.support.trainer.stores import MemoryStorage

from holdfast_train.errors import CheckpointCorruptError, KeyMissingError
from holdfast_train.format.manifest import Part
from holdfast_train.restore import chunk_reader
from holdfast_train.restore.chunk_reader import Fill, read
from holdfast_train.storage.checksums import chunk_sums

CHUNK = 100
SIZES = (250, 0, 1000, 30)


@pytest.fixture
def data() -> bytes:
    return random.Random(1).randbytes(sum(SIZES))


@pytest.fixture
def storage(data: bytes) -> MemoryStorage:
    made, at = MemoryStorage(), 0
    for number, size in enumerate(SIZES):
        made.content[f"p{number}"] = data[at : at + size]
        at += size
    return made


@pytest.fixture
def parts(storage: MemoryStorage) -> list[Part]:
    return [Part(key, len(content), CHUNK, chunk_sums(content, CHUNK)) for key, content in storage.content.items()]


def filled(storage: MemoryStorage, parts: list[Part], wanted: list[tuple[int, int]]) -> list[bytes]:
    memories = [bytearray(stop - start) for start, stop in wanted]
    fills = [Fill(start, memoryview(memory)) for (start, _), memory in zip(wanted, memories, strict=True)]
    read(storage, parts, fills)
    return [bytes(memory) for memory in memories]


def cases() -> Iterator[list[tuple[int, int]]]:
    yield [(0, 1280)]
    yield [(249, 251)]  # over the border of two parts
    yield [(0, 10), (5, 120), (5, 120), (119, 1280)]  # bytes that are wanted twice
    yield [(350, 350)]
    yield [(n, n + 7) for n in range(0, 1270, 9)]
    for seed in range(20):
        numbers = random.Random(seed)
        yield [(start := numbers.randrange(1280), numbers.randint(start, 1280)) for _ in range(6)]


@pytest.mark.parametrize("ranges", [100, 300, 64 << 20])
def test_what_is_wanted_is_there(
    storage: MemoryStorage, parts: list[Part], data: bytes, monkeypatch: pytest.MonkeyPatch, ranges: int
) -> None:
    monkeypatch.setattr(chunk_reader, "RANGE_BYTES", ranges)
    for wanted in cases():
        assert filled(storage, parts, wanted) == [data[start:stop] for start, stop in wanted], wanted


def chunks_with(wanted: list[tuple[int, int]]) -> set[tuple[int, int]]:
    found, begin = set(), 0
    for part, size in enumerate(SIZES):
        for start, stop in wanted:
            for byte in range(max(start, begin), min(stop, begin + size)):
                found.add((part, (byte - begin) // CHUNK))
        begin += size
    return found


def test_each_chunk_that_is_touched_is_checked_and_no_other(storage: MemoryStorage, parts: list[Part]) -> None:
    for wanted in ([(120, 130)], [(249, 251), (700, 905)], [(1, 2), (205, 210), (1279, 1280)]):
        needed = chunks_with(wanted)
        for number, part in enumerate(parts):
            for chunk in range(len(part.crc64nvme)):
                before = storage.content[part.key]
                changed = bytearray(before)
                changed[min(chunk * CHUNK + 99, len(before) - 1)] ^= 1
                storage.content[part.key] = bytes(changed)
                if (number, chunk) in needed:
                    with pytest.raises(CheckpointCorruptError, match=f"{part.key}: the CRC of chunk {chunk} is"):
                        filled(storage, parts, wanted)
                else:
                    filled(storage, parts, wanted)
                storage.content[part.key] = before


def test_only_those_chunks_are_asked_for(
    storage: MemoryStorage, parts: list[Part], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int, int]] = []
    inner = storage.read_into
    monkeypatch.setattr(
        storage,
        "read_into",
        lambda key, start, *views: (asked.append((key, start, sum(map(len, views)))), inner(key, start, *views)),
    )
    filled(storage, parts, [(249, 251), (405, 410), (460, 470), (560, 570), (1100, 1150)])
    assert sorted(asked) == [("p0", 200, 50), ("p2", 0, 400), ("p2", 800, 100)]


def test_a_missing_part_fails_only_the_reads_that_need_it(storage: MemoryStorage, parts: list[Part]) -> None:
    del storage.content["p2"]
    filled(storage, parts, [(0, 250), (1250, 1280)])
    with pytest.raises(KeyMissingError):
        filled(storage, parts, [(249, 251)])


def test_progress_counts_wanted_bytes_once(storage: MemoryStorage, parts: list[Part]) -> None:
    told: list[int] = []
    read(storage, parts, [Fill(20, memoryview(bytearray(400))), Fill(900, memoryview(bytearray(5)))], told.append)
    assert sum(told) == 405
