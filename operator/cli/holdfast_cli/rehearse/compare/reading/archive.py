"""ZIP archives: those of torch.save, of NumPy (npz), and any others, whose entries are compared as bytes."""

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

from holdfast_cli.rehearse.compare.reading import pickles
from holdfast_cli.rehearse.compare.reading.numpy_file import MAGIC as NUMPY
from holdfast_cli.rehearse.compare.reading.numpy_file import array_in
from holdfast_cli.rehearse.compare.reading.pickle_machine import Persistent, load
from holdfast_cli.rehearse.compare.reading.pickled_values import Storage, understand
from holdfast_cli.rehearse.compare.reading.source import Memory, Source, as_file, part_of
from holdfast_cli.rehearse.compare.reading.values import Contents, Raw, UnreadableError, Value, flatten

MOST_DIRECTORY: Final = 16 << 20  # bytes of the list of entries
MOST_PACKED: Final = 128 << 20  # bytes, of all entries that must be decompressed
MOST_STORAGES: Final = 200_000

# What torch.save itself writes beside the pickle. Its storages are compared as tensors of the pickle.
_KNOWN: Final = ("data.pkl", "data/", "byteorder", "version", ".data/", ".format_version", ".storage_alignment")
_TAIL: Final = 22 + (1 << 16)  # bytes, where the list of entries is named


def read_archive(source: Source) -> Contents:
    """The values of an archive. UnreadableError; OSError."""
    entries = _entries(source)
    name = min((name for name in entries if name == "data.pkl" or name.endswith("/data.pkl")), key=len, default=None)
    if name is not None:
        return _torch(entries, name.removesuffix("data.pkl"))
    values: dict[str, Value] = {}
    is_arrays = bool(entries)
    for name, entry in entries.items():
        is_array = entry.read(0, len(NUMPY)) == NUMPY
        is_arrays = is_arrays and is_array
        try:
            values[name.removesuffix(".npy") if is_array else name] = array_in(entry) if is_array else Raw(entry)
        except UnreadableError:
            values[name] = Raw(entry)
    return Contents("NumPy archive" if is_arrays else "ZIP archive", values)


def _torch(entries: dict[str, Source], top: str) -> Contents:
    order = entries.get(f"{top}byteorder")
    is_swapped = order is not None and order.read(0, 8).strip() == b"big"

    def storage_of(node: object) -> Storage | None:
        about = pickles.storage_in(node)
        if about is None and not isinstance(node, Persistent):
            return pickles.loaded_storage(node)
        found = None if about is None else entries.get(f"{top}data/{about[1]}")
        return None if about is None or found is None else Storage(about[0], found, is_swapped)

    pickle = entries[f"{top}data.pkl"]
    if pickle.size > pickles.MOST_BYTES:
        raise UnreadableError(f"its pickle has {pickle.size:,} bytes, more than {pickles.MOST_BYTES:,}")
    values, note = flatten(load(pickles.in_memory(pickle)), understand(storage_of))
    known = tuple(f"{top}{name}" for name in _KNOWN)
    others = {name: Raw(entry) for name, entry in entries.items() if not name.startswith(known)}
    return Contents("file of torch.save", values | others, note=note)


def _entries(source: Source) -> dict[str, Source]:
    """The bytes of each entry by its name."""
    tail = source.read(max(0, source.size - _TAIL), _TAIL)
    at = tail.rfind(b"PK\5\6")
    size = int.from_bytes(tail[at + 12 : at + 16], "little")
    if size == 0xFFFFFFFF and (wide := tail.rfind(b"PK\6\6", 0, at)) >= 0:
        size = int.from_bytes(tail[wide + 40 : wide + 48], "little")
    if at < 0 or size > MOST_DIRECTORY:
        raise UnreadableError("the list of its entries is missing, or too long")
    try:
        with zipfile.ZipFile(as_file(source)) as archive:
            return dict(_opened(source, archive))
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        ValueError,
        LookupError,
        EOFError,
        OSError,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:  # not of bz2: the file itself cannot be read
            raise
        raise UnreadableError(f"it is not a whole archive: {error}") from error


def _opened(source: Source, archive: zipfile.ZipFile) -> Iterator[tuple[str, Source]]:
    room = MOST_PACKED
    infos = archive.infolist()
    if len(infos) > MOST_STORAGES:
        raise UnreadableError(f"it has {len(infos):,} entries, more than {MOST_STORAGES:,}")
    if min((info.header_offset for info in infos), default=0):  # a .distcp is several archives, one after another
        raise UnreadableError("it has more than one archive, or other bytes before its entries")
    for info in infos:
        if info.is_dir():
            continue
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            head = source.read(info.header_offset, 30)
            if head[:4] != b"PK\3\4":
                raise UnreadableError(f"{info.filename[:200]} is not where the list of entries says")
            start = (
                info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
            )
            yield info.filename, part_of(source, start, info.file_size)
            continue
        with archive.open(info) as opened:
            data = opened.read(room + 1)
        room -= len(data)
        if room < 0:
            raise UnreadableError(f"its entries have more than {MOST_PACKED:,} bytes when they are decompressed")
        yield info.filename, Memory(data)
