"""Shards of any cut come to their place in the file."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.support.trainer.stores import MemoryStorage

from holdfast_train.errors import CheckpointCorruptError
from holdfast_train.exchange import safetensors_writer
from holdfast_train.exchange.safetensors_writer import is_of_rows, write
from holdfast_train.format.manifest import Manifest, Part
from holdfast_train.format.names import CheckpointName
from holdfast_train.format.tree import Shard, TensorEntry
from holdfast_train.restore.lazy_tensors import Lazy
from holdfast_train.storage.checksums import chunk_sums


def sharded(storage: MemoryStorage, whole: torch.Tensor, axis: int) -> tuple[Manifest, TensorEntry]:
    """A checkpoint of three ranks, each with a part of `whole` along this axis."""
    boxes, data, at = [], b"xyz", 0
    for piece in whole.chunk(3, axis):
        start = [0] * whole.ndim
        start[axis], at = at, at + piece.shape[axis]
        raw = piece.contiguous().numpy().tobytes()
        boxes.append(Shard(len(data), len(raw), tuple(start), tuple(piece.shape)))
        data += raw
    entry = TensorEntry("t", "torch", "int64", tuple(whole.shape), tuple(boxes))
    storage.content["data"] = data
    part = Part("data", len(data), 64, chunk_sums(data, 64))
    return Manifest(CheckpointName(1, 1, "0"), 1, 1, "u", "t", {}, {}, {}, (part,), (entry,), None, ()), entry


# Breaks if a run goes to a wrong place, if blocks overlap, or if bytes are counted twice.
@pytest.mark.parametrize("shape", [(7, 5, 3), (8, 4), (9,)])
@pytest.mark.parametrize("block", [1, 100, 1 << 20])
def test_shards_along_any_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], block: int
) -> None:
    monkeypatch.setattr(safetensors_writer, "BLOCK_BYTES", block)
    whole = torch.arange(torch.Size(shape).numel()).reshape(shape)
    for axis in range(len(shape)):
        storage, counted = MemoryStorage(), list[int]()
        found, entry = sharded(storage, whole, axis)
        assert is_of_rows(entry.shards[0], shape) == (axis == 0)
        write(storage, found, {"t": Lazy(entry)}, tmp_path / str(axis), metadata={}, advance=counted.append)
        assert torch.equal(load_file(tmp_path / str(axis))["t"], whole)
        assert sum(counted) == entry.size


# Breaks if a manifest that contradicts itself makes a file of wrong tensors.
def test_a_tensor_whose_bytes_are_not_those_of_its_shape(tmp_path: Path) -> None:
    storage = MemoryStorage()
    found, entry = sharded(storage, torch.arange(9), 0)
    wrong = Lazy(TensorEntry("t", "torch", "int32", entry.shape, entry.shards))
    with pytest.raises(CheckpointCorruptError, match="t has 72 bytes, which is not int32"):
        write(storage, found, {"t": wrong}, tmp_path / "out", metadata={}, advance=lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_and_not_the_end_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    storage = MemoryStorage()
    found, entry = sharded(storage, torch.arange(9), 0)
    with pytest.raises(OSError, match="No space left"):
        write(storage, found, {"t": Lazy(entry)}, tmp_path / "out", metadata={}, advance=lambda _: None)
