"""Write a safetensors file from a checkpoint. Its bytes go from the storage into the mapped file, without torch."""

import json
import math
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from holdfast_train.exchange.safetensors_types import Form, form_of
from holdfast_train.format.manifest import Manifest
from holdfast_train.format.overlap import runs
from holdfast_train.format.tree import Shard, TensorEntry
from holdfast_train.restore.chunk_reader import Fill, read
from holdfast_train.restore.lazy_tensors import Lazy
from holdfast_train.storage.base import Storage

ALIGNMENT: Final = 8
BLOCK_BYTES: Final = 64 << 20  # memory for a shard whose rows are not rows of the whole tensor

Run = tuple[int, int, int]
"""An offset in the data, an offset in the tensor, and a number of bytes."""


def write(
    storage: Storage,
    found: Manifest,
    tensors: Mapping[str, Lazy],
    path: Path,
    *,
    metadata: Mapping[str, str],
    advance: Callable[[int], None],
) -> None:
    """Write the new file `path`, as the library of safetensors does. Every chunk that is read is checked.

    Bit for bit, but for the order of `metadata`: the library of safetensors draws a new one for each file.

    Errors: of `form_of` before the file exists; later those of `chunk_reader.read`, and OSError if the disk is full.
    """
    forms = {name: form_of(name, lazy) for name, lazy in tensors.items()}
    order = sorted(tensors, key=lambda name: (-forms[name].rank, name))
    begins, head = _header(order, tensors, forms, metadata)
    size = len(head) + sum(lazy.entry.size for lazy in tensors.values())
    with path.open("x+b") as file:
        file.write(head)
        file.flush()
        _reserve(file.fileno(), size)
        # The map ends with its last view: a view in the traceback of an error would not let it be closed before.
        view = memoryview(mmap.mmap(file.fileno(), size))
        _fill(storage, found, {name: (tensors[name].entry, len(head) + begins[name]) for name in order}, view, advance)


def _header(
    order: list[str], tensors: Mapping[str, Lazy], forms: Mapping[str, Form], metadata: Mapping[str, str]
) -> tuple[dict[str, int], bytes]:
    """Where each tensor begins after the header, and the header."""
    said: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    begins, at = {}, 0
    for name in order:
        begins[name], end = at, at + tensors[name].entry.size
        said[name] = {"dtype": forms[name].dtype, "shape": forms[name].shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return begins, struct.pack("<Q", len(text)) + text


def _reserve(descriptor: int, size: int) -> None:
    """Give the file its size, with room on the disk: a full disk ends a program that writes to a mapped file."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def _fill(
    storage: Storage,
    found: Manifest,
    wanted: Mapping[str, tuple[TensorEntry, int]],
    view: memoryview,
    advance: Callable[[int], None],
) -> None:
    """Read tensors into `view`; each stands there, whole and by rows, from its offset on."""
    straight: list[Fill] = []
    for entry, begin in wanted.values():
        whole = Shard(begin, entry.size, (0,) * len(entry.shape), entry.shape)
        width = entry.size // (math.prod(entry.shape) or 1)
        for shard in entry.shards:
            if is_of_rows(shard, entry.shape):
                straight += (Fill(a, view[b : b + size]) for a, b, size in runs(shard, whole, width))
            else:
                _fill_pieces(storage, found, runs(shard, whole, width), view, advance)
    read(storage, found.parts, straight, advance)


def is_of_rows(shard: Shard, shape: tuple[int, ...]) -> bool:
    """True if the shard is one run of bytes in the whole tensor, as FSDP2 cuts by default."""
    return shard.shape[1:] == shape[1:] or math.prod(shard.shape) == math.prod(shape)


def _fill_pieces(
    storage: Storage, found: Manifest, pieces: Iterator[Run], view: memoryview, advance: Callable[[int], None]
) -> None:
    """Read a shard that was cut along another dimension: block by block, and then each run to its place."""
    for block in _blocks(pieces):
        first = block[0][0]
        buffer = memoryview(bytearray(sum(size for _, _, size in block)))
        read(storage, found.parts, [Fill(first, buffer)], advance)
        for a, b, size in block:
            view[b : b + size] = buffer[a - first : a - first + size]


def _blocks(pieces: Iterator[Run]) -> Iterator[list[Run]]:
    """The runs of one shard, which lie one after the other in the data, in groups of at most BLOCK_BYTES."""
    block: list[Run] = []
    held = 0
    for run in pieces:
        if block and held + run[2] > BLOCK_BYTES:
            yield block
            block, held = [], 0
        block.append(run)
        held += run[2]
    if block:
        yield block
