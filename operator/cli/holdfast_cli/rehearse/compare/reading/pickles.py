"""Plain pickles and those of joblib, and files of torch.save from before ZIP archives: pickles, then storages."""

import io
from itertools import count
from typing import Final

from holdfast_cli.rehearse.compare.reading import elements
from holdfast_cli.rehearse.compare.reading.joblib_arrays import with_arrays
from holdfast_cli.rehearse.compare.reading.pickle_machine import BROKEN, Call, Global, Persistent, load
from holdfast_cli.rehearse.compare.reading.pickled_values import Storage, encoded, understand
from holdfast_cli.rehearse.compare.reading.source import Memory, Source, part_of
from holdfast_cli.rehearse.compare.reading.values import Contents, Raw, UnreadableError, flatten, key_name

MOST_BYTES: Final = 128 << 20  # of a pickle; a longer one is compared as bytes
OLD_TORCH: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # torch.save before ZIP begins so
MOST_PICKLES: Final = 1000  # in one file


def in_memory(source: Source) -> io.BytesIO:
    """The bytes of `source`. In memory a length in a pickle cannot reserve more than there is. UnreadableError."""
    if source.size > MOST_BYTES:
        raise UnreadableError(f"the pickle has {source.size:,} bytes, more than {MOST_BYTES:,}")
    return io.BytesIO(source.read(0, source.size))


def read_pickle(source: Source) -> Contents:
    """The values of a file with one pickle or several. UnreadableError; OSError."""
    if source.read(0, len(OLD_TORCH)) == OLD_TORCH:
        return _old_torch(source)
    file, trees, operations = in_memory(source), list[object](), count()
    while file.tell() < source.size and len(trees) < MOST_PICKLES:
        if trees and source.read(file.tell(), 1) != b"\x80":
            break
        trees.append(load(file, operations=operations, built=with_arrays(file, source, operations)))
    rest = part_of(source, file.tell(), source.size - file.tell())
    values, note = flatten(trees[0] if len(trees) == 1 else trees, understand(loaded_or_none))
    return Contents("pickle", values | ({"(bytes after the pickle)": Raw(rest)} if rest.size else {}), note=note)


def loaded_or_none(node: object) -> Storage | None:
    """The storage that a node of a plain pickle loads from bytes in it."""
    return loaded_storage(node) if isinstance(node, Call) else None


def storage_in(node: object) -> tuple[str, str, int] | None:
    """Type, key and number of elements of a storage that a pickle of torch refers to; None if it is another node."""
    about = node.about if isinstance(node, Persistent) else None
    if not isinstance(about, tuple) or len(about) < 5 or about[0] != "storage":
        return None
    kind, key, length = about[1], about[2], about[4]
    dtype = elements.of_storage(kind.name) if isinstance(kind, Global) else None
    is_known = dtype is not None and isinstance(key, str | int) and type(length) is int and 0 <= length < 1 << 60
    return (dtype, str(key), length) if is_known and dtype is not None else None


def loaded_storage(node: object) -> Storage | None:
    """The storage in `torch.storage._load_from_bytes(bytes)`, as a pickled tensor has it; None if it is not one."""
    is_load = isinstance(node, Call) and node.name == "torch.storage._load_from_bytes"
    arguments = node.arguments if is_load and isinstance(node, Call) else ()
    data = arguments[0] if isinstance(arguments, tuple) and len(arguments) == 1 else None
    data = encoded(data) if isinstance(data, Call) else data
    if not isinstance(data, bytes) or not data.startswith(OLD_TORCH):
        return None
    try:
        root, storages = _parts(Memory(data))
    except (UnreadableError, ValueError):
        return None
    about = storage_in(root)
    return None if about is None else storages.get(about[1])


def _old_torch(source: Source) -> Contents:
    root, storages = _parts(source)

    def storage_of(node: object) -> Storage | None:
        about = storage_in(node)
        return loaded_or_none(node) if about is None else storages.get(about[1])

    values, note = flatten(root, understand(storage_of))
    return Contents("file of torch.save", values, note=note)


def _parts(source: Source) -> tuple[object, dict[str, Storage]]:
    """The tree, and the storages by their keys."""
    head = io.BytesIO(source.read(0, min(source.size, MOST_BYTES)))
    seen: list[Persistent] = []
    load(head), load(head), load(head)
    root = load(head, seen)
    keys = load(head)
    known = {about[1]: about for node in seen if (about := storage_in(node)) is not None}
    at, storages = head.tell(), dict[str, Storage]()
    try:
        for key in keys:
            dtype, name, length = known[key_name(key)]
            size = length * (elements.width(dtype) or 1)
            storages[name] = Storage(dtype, part_of(source, at + 8, size))
            at += 8 + size
    except BROKEN as error:
        raise UnreadableError("its storages are not whole") from error
    return root, storages
