"""Bytes from memory count only if the manifest has their checksums."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.trainer.stores import environment
from tests.unit.trainer.restore.test_shared_by_node import Threads

from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.keeper_memory import KeeperMemory
from holdfast_train.memory_file import memory_file
from holdfast_train.pod.launcher.keeper import Keeper
from holdfast_train.ranks import Ranks
from holdfast_train.restore.surviving_bytes import SurvivingBytes, places
from holdfast_train.storage.checksums import chunk_sums

CHUNK = 1000
NAME, FRESH, OLD = CheckpointName(9, 2, "aa"), CheckpointName(9, 2, "bb"), CheckpointName(3, 1, "cc")


def part(key: str, data: bytes) -> Part:
    return Part(key, len(data), CHUNK, chunk_sums(data, CHUNK))


def manifest(*parts: Part) -> Manifest:
    return Manifest(NAME, 9, 2, "uid", "", {}, {}, {}, parts, (), None, ())


def file_of(*data: bytes) -> int:
    file = memory_file("a-test")
    os.write(file, b"".join(data))
    return file


def read(held: SurvivingBytes, part: Part, first: int = 0) -> bytes | None:
    data = bytearray(part.size - first * CHUNK)
    views = [memoryview(data)[at : at + 700] for at in range(0, len(data), 700)]
    return bytes(data) if held.read(part, first, views) else None


DATA = [os.urandom(size) for size in (5_000, 2_500, 8_000, 100)]
PARTS = [part(NAME.part_key(1, number), data) for number, data in enumerate(DATA)]


@pytest.fixture
def held() -> Iterator[Callable[..., SurvivingBytes]]:
    made: list[SurvivingBytes] = []

    def make(*files: int, rank: int = 1) -> SurvivingBytes:
        made.append(SurvivingBytes({rank: files}))
        made[-1].expect(manifest(*PARTS))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_all_parts_are_found_in_the_order_of_the_copy(held: Callable[..., SurvivingBytes]) -> None:
    found = held(file_of(*DATA))
    assert [read(found, one) for one in PARTS] == DATA
    assert read(found, PARTS[2], first=3) == DATA[2][3000:]
    assert (found.from_node, found.from_peers, found.from_storage) == (sum(map(len, DATA)) + 5000, 0, 0)
    assert "from the memory of this node" in found.summary


# Breaks if bytes of another step, or of a copy that a kill has cut short, come into a state.
@pytest.mark.parametrize("damaged", range(4))
def test_a_copy_that_was_cut_short_is_not_used_where_it_differs(
    held: Callable[..., SurvivingBytes], damaged: int
) -> None:
    torn = [bytes(len(data)) if number == damaged else data for number, data in enumerate(DATA)]
    found = held(file_of(*torn))
    before = [read(found, one) for one in PARTS]
    assert before[:damaged] == DATA[:damaged]
    assert before[damaged:] == [None] * (4 - damaged), "nothing more is expected of it"
    assert found.from_storage == sum(map(len, DATA[damaged:]))


# Breaks if only the first of two copies is looked at: the newest checkpoint may be in either.
def test_the_other_copy_is_tried(held: Callable[..., SurvivingBytes]) -> None:
    other = [os.urandom(len(data)) for data in DATA]
    found = held(file_of(*other), file_of(*DATA))
    assert [read(found, one) for one in PARTS] == DATA
    found.expect(manifest(*(part(one.key, data) for one, data in zip(PARTS, other, strict=True))))
    assert read(found, part(PARTS[0].key, other[0])) == other[0], "a copy that lacked one checkpoint may have another"


@pytest.mark.parametrize("file", [b"", b"short"])
def test_a_copy_that_is_too_short(held: Callable[..., SurvivingBytes], file: bytes) -> None:
    assert read(held(file_of(file)), PARTS[0]) is None


def test_nothing_is_held(held: Callable[..., SurvivingBytes]) -> None:
    assert read(held(file_of(*DATA), rank=2), PARTS[0]) is None
    nothing = SurvivingBytes({})
    nothing.expect(manifest(*PARTS))
    assert (read(nothing, PARTS[0]), nothing.summary, nothing.has_files) == (None, "", False)


def numbers(parts: Sequence[Part]) -> Mapping[str, tuple[int, int]]:
    return places(manifest(*parts))


# Breaks if a part is looked for where another one lies: then nothing of a state with frozen parameters is found.
def test_where_parts_lie() -> None:
    fresh = [part(FRESH.part_key(1, number), bytes(100)) for number in range(2)]
    rest = [part(NAME.part_key(1, number), bytes(10)) for number in (2, 3)]
    own = [(one.key, (1, offset)) for one, offset in zip((*fresh, *rest), (0, 100, 200, 210), strict=True)]
    assert numbers([*rest, *fresh]) == dict(own)
    old = [part(OLD.part_key(1, number), bytes(100)) for number in range(3)]
    later = [part(NAME.part_key(1, number), bytes(10)) for number in (0, 1)]
    kept = numbers([*old, *later])
    assert kept == {one.key: (1, offset) for one, offset in zip(later, (0, 10), strict=True)}, "old ones are not copied"
    assert numbers([rest[1]]) == {}
    assert numbers([replace(rest[0], key="data/something-else")]) == {}


def test_ranks_of_two_nodes_read_from_each_other(tmp_path: Path) -> None:
    """Breaks if a rank finds only what its own node has, or if a launcher's files are not found at all."""
    shares = [os.urandom(4_000) for _ in range(2)]
    parts = [part(NAME.part_key(rank, 0), data) for rank, data in enumerate(shares)]
    keepers = []
    for rank, data in enumerate(shares):
        keepers.append(Keeper(str(tmp_path / str(rank))))
        file = file_of(data)
        KeeperMemory(str(tmp_path / str(rank))).keep(rank, 0, file)
        os.close(file)
    over = threading.Barrier(2, timeout=60)

    def restore(ranks: Ranks) -> tuple[list[Any], int, int]:
        address = str(tmp_path / str(ranks.rank))
        held = SurvivingBytes.open(replace(environment(None), nodes=2, pod_ip="127.0.0.1", keeper=address), ranks)
        held.expect(manifest(*parts))
        found = [read(held, one) for one in parts]
        over.wait()
        held.close()
        return found, held.from_node, held.from_peers

    results = Threads(2).run(restore)
    for keeper in keepers:
        keeper.close()
    assert results == [(shares, 4_000, 4_000)] * 2
