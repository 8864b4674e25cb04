"""Every damage is found and named, chunk by chunk."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast_cli.checkpoints import damage as check
from holdfast_cli.checkpoints.damage import Damage, pieces, shapes, sums
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.storage.checksums import chunk_sums
from holdfast_train.storage.folder import FolderStorage

CHUNK = 64
SIZES = (CHUNK * 3 + 10, CHUNK * 2, 1, 0)


def part(number: int, size: int) -> tuple[Part, bytes]:
    data = bytes((number * 31 + at * 7) % 251 for at in range(size))
    return Part(f"data/n/r0.{number}", size, CHUNK, chunk_sums(data, CHUNK)), data


PARTS = [part(number, size) for number, size in enumerate(SIZES)]
FOUND = Manifest(
    name=CheckpointName(1, 1, "0"),
    step=1,
    attempt=1,
    job_uid="u",
    at="2026-01-01T00:00:00+00:00",
    versions={},
    program={},
    metrics={},
    parts=tuple(part for part, _ in PARTS),
    tensors=(),
    state=None,
    ranks=(),
)


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStorage:
    """The checkpoint in a folder; it is read in pieces of two chunks."""
    monkeypatch.setattr(check, "PIECE", 2 * CHUNK)
    made = FolderStorage(tmp_path / "p")
    for found, data in PARTS:
        made.put(found.key, data)
    return made


def damages(storage: FolderStorage) -> tuple[list[Damage], int]:
    """What is found, and how many bytes were read for it."""
    sizes = {stored.key: stored.size for stored in storage.entries("data/")}
    read: list[int] = []
    with ThreadPoolExecutor(4) as pool:
        return shapes(FOUND, sizes) + sums(storage, FOUND, sizes, pool, read.append), sum(read)


def test_what_is_whole_is_read_to_the_last_byte(storage: FolderStorage) -> None:
    assert damages(storage) == ([], sum(SIZES))


def test_every_flipped_byte_is_found_and_its_chunk_named(storage: FolderStorage) -> None:
    for found, data in PARTS:
        for at in range(found.size):
            storage.put(found.key, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            (damage,), _ = damages(storage)
            assert (damage.key, damage.chunk) == (found.key, at // CHUNK)
        storage.put(found.key, data)


def test_an_object_that_is_cut_names_its_size_and_damage_in_what_is_left(storage: FolderStorage) -> None:
    found, data = PARTS[0]
    storage.put(found.key, b"\xff" + data[1 : CHUNK * 2 + 5])
    size, chunk = damages(storage)[0]
    assert size == Damage(found.key, f"it has {CHUNK * 2 + 5} bytes, not {found.size}")
    assert (chunk.key, chunk.chunk) == (found.key, 0)


@pytest.mark.parametrize("longer", [1, CHUNK])
def test_an_object_that_is_too_long(storage: FolderStorage, longer: int) -> None:
    found, data = PARTS[1]
    storage.put(found.key, data + bytes(longer))
    assert damages(storage)[0] == [Damage(found.key, f"it has {found.size + longer} bytes, not {found.size}")]


def test_objects_that_are_gone_or_swapped(storage: FolderStorage) -> None:
    (first, a), (second, b) = PARTS[0], PARTS[1]
    storage.put(first.key, b)
    storage.put(second.key, a)
    storage.delete([PARTS[2][0].key])
    found = damages(storage)[0]
    assert [d.key for d in found if d.chunk is None] == [first.key, second.key, PARTS[2][0].key]
    assert {(d.key, d.chunk) for d in found if d.chunk is not None} == {
        *((first.key, n) for n in range(2)),
        *((second.key, n) for n in range(2)),
    }


def test_a_manifest_without_all_checksums_is_damage(storage: FolderStorage) -> None:
    """Breaks if chunks without a checksum pass: zip() of the two would stop at the shorter."""
    short = Part("data/n/r0.0", SIZES[0], CHUNK, PARTS[0][0].crc64nvme[:-1])
    (damage,) = shapes(Manifest(**{**vars(FOUND), "parts": (short,)}), {short.key: short.size})
    assert "3 checksums" in damage.what


def test_memory_is_bounded() -> None:
    """Breaks if a part is read as a whole: objects may have gigabytes."""
    huge = Part("k", 4 << 30, 4 << 20, ())
    made = list(pieces(huge, huge.size))
    assert max(piece.size for piece in made) == check.PIECE
    assert sum(piece.size for piece in made) == huge.size
    assert all(piece.start == piece.first * huge.chunk for piece in made)
