"""What the content of one file says: whether it is whole, and whether a program may resume from it.

A file is known by its first bytes, never by its name. Nothing is unpickled, no link is followed, and at most some MiB
are read. Content cannot raise; OSError if a file cannot be read, or if it is a link, a pipe or a device.
"""

import bz2
import errno
import json
import lzma
import math
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

BLOCK: Final = 1 << 16
MOST: Final = 1 << 20  # bytes of one read
FRAMES: Final = 4096  # of a pickle are looked at

_OFFSETS: Final = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d{1,18}\s*,\s*(\d{1,18})\s*\]')
_ARRAY: Final = re.compile(rb"'descr': '[<>|=]?([a-zA-Z])(\d{1,9})(?:\[\w+\])?',.*'shape': \(([\d, ]{0,999})\)")
_STATE: Final = re.compile(rb"data\.pkl|\.(?:npy|h5|pth?|pkl|safetensors|ubj)")  # names in an archive
_NO_STATE: Final = re.compile(rb"\.dist-info/|META-INF/|\[Content_Types\]")  # a wheel, a jar, a document
_LENGTHS: Final = {b"\x95": 8, b"\x8e": 8, b"\x8d": 8, b"\x96": 8, b"B": 4, b"X": 4}  # of a frame, of large values
_TABLE_OF_TENSORFLOW: Final = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"  # at the end of the index of a checkpoint


@dataclass(frozen=True)
class Content:
    """The first `size` bytes of a file."""

    file: BinaryIO
    size: int

    def at(self, start: int, length: int) -> bytes:
        """Less than `length` bytes at the end, none outside the file."""
        if not 0 <= start < self.size:
            return b""
        self.file.seek(start)
        return self.file.read(min(length, self.size - start))

    def end(self, length: int) -> bytes:
        return self.at(max(0, self.size - length), length)

    def number(self, start: int, length: int) -> int:
        return int.from_bytes(self.at(start, length), "little")


@contextmanager
def opened(path: Path, size: int | None = None) -> Iterator[Content]:
    """A regular file. OSError of others, and of symbolic links."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        known = os.fstat(file.fileno())
        if not stat.S_ISREG(known.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        yield Content(file, known.st_size if size is None else size)


def _directory(content: Content) -> tuple[int, int] | None:
    """Start and length of the list of files that ends a ZIP archive. None if it is not all there.

    A `.distcp` of torch has one archive after another; then it is that of the last one.
    """
    tail = content.end(22 + BLOCK)
    at = tail.rfind(b"PK\5\6")
    while at >= 0 and int.from_bytes(tail[at + 20 : at + 22], "little") != len(tail) - at - 22:
        at = tail.rfind(b"PK\5\6", 0, at + 3)
    end = content.size - len(tail) + at
    length, offset = content.number(end + 12, 4), content.number(end + 16, 4)
    if content.at(end - 20, 4) == b"PK\6\7" and content.at(end - 76, 4) == b"PK\6\6":  # more than 4 GiB
        end -= 76
        length, offset = content.number(end + 40, 8), content.number(end + 48, 8)
    start = end - length
    first = start - offset  # where this archive begins
    is_there = at >= 0 and first >= 0 and (not length or content.at(start, 4) == b"PK\1\2")
    return (start, length) if is_there and (not first or content.at(first - 22, 4) == b"PK\5\6") else None


def _has_state(content: Content) -> bool:
    start, length = _directory(content) or (30, 256)  # of a torn one the first name
    names = content.at(start, min(length, MOST))
    return _STATE.search(names) is not None and _NO_STATE.search(names) is None


def _is_whole_pickle(content: Content) -> bool:
    """A cut just after a byte that means "end" is not noticed, if it is outside the frames of protocol 4 and later."""
    at = 2
    for _ in range(FRAMES if content.end(1) == b"." else 0):
        kind = content.at(at, 1)
        if kind not in _LENGTHS:
            return True
        at += 1 + _LENGTHS[kind] + content.number(at + 1, _LENGTHS[kind])
        if at >= content.size:
            return at == content.size and kind == b"\x95"
    return content.end(1) == b"."


def _is_whole_hdf5(content: Content) -> bool:
    version = content.number(8, 1)
    width = content.number(13 if version < 2 else 9, 1)
    first = {0: 24, 1: 28}.get(version, 12)
    end = content.number(first + 2 * width, width) if first + 3 * width <= content.size else 0
    return 0 < width <= 8 and 0 < end <= content.size


def _is_whole_array(content: Content) -> bool | None:
    """Also of several arrays one after another. None of objects and records."""
    at = 0
    for _ in range(FRAMES):
        width = 2 if content.number(at + 6, 1) == 1 else 4
        length = content.number(at + 8, width)
        found = _ARRAY.search(content.at(at + 8 + width, min(length, 4096)))
        if found is None or found[1] == b"O":
            return None if at + 8 + width + length <= content.size else False
        sizes = [int(size[:18]) for size in found[3].replace(b" ", b"").split(b",") if size]
        at += 8 + width + length + math.prod(sizes) * int(found[2]) * (4 if found[1] == b"U" else 1)
        if at >= content.size:
            return at == content.size
        if content.at(at, 6) != b"\x93NUMPY":
            return None
    return None


def _is_whole_safetensors(content: Content) -> bool:
    length = content.number(0, 8)
    header = content.at(8 + max(0, length - 4 * MOST), min(length, 4 * MOST))  # offsets grow to its end
    ends = [int(found) for found in _OFFSETS.findall(header)]
    end = 8 + length + max(ends, default=0)
    return header.rstrip()[-1:] == b"}" and (content.size == end or (length > 4 * MOST and content.size > end))


def _is_whole_sqlite(content: Content) -> bool | None:
    width, pages = int.from_bytes(content.at(16, 2), "big"), int.from_bytes(content.at(28, 4), "big")
    if not pages or content.at(24, 4) != content.at(92, 4):  # written by a version that does not count them
        return None
    return content.size >= pages * (BLOCK if width == 1 else width)


def _is_whole_json(content: Content) -> bool | None:
    """A log of one document after another is whole if its last character closes one. None if it is other text.

    Of a document beyond MOST bytes only the end is read: it is whole if it closes as it opens, in a line of its own.
    """
    head, tail = content.at(0, MOST).decode(errors="replace").strip(), content.end(BLOCK).rstrip()
    is_closed = tail[-1:] == (b"}" if head[0] == "{" else b"]")
    try:
        rest = head[json.JSONDecoder().raw_decode(head)[1] :].lstrip()
    except json.JSONDecodeError as error:
        if content.size > MOST:
            return is_closed and (head.find("\n") not in (1, 2) or tail.rpartition(b"\n")[2] in (b"}", b"]"))
        is_cut = error.msg.startswith("Unterminated") or error.pos >= len(head) - 9
        return False if is_cut else None
    except (ValueError, RecursionError):
        return is_closed
    return is_closed if rest[:1] in ("", "{", "[") else None


def _has_packed_state(make: Callable[[], Any], content: Content) -> bool:
    try:
        found = make().decompress(content.at(0, MOST), 512)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError):
        return False
    return any(is_state is True and re.match(magic, found, re.DOTALL) for magic, _, is_state in _FORMATS)


_XZ: Final = partial(lzma.LZMADecompressor, memlimit=64 << 20)  # bytes
_Check = Callable[[Content], bool | None]
# Magic bytes; what tells whether a file is whole; whether a program may resume from it. The first one that fits counts.
_FORMATS: Final[tuple[tuple[bytes, _Check | None, bool | _Check], ...]] = (
    (rb"PK(?:\x03\x04|\x05\x06)", lambda content: _directory(content) is not None, _has_state),
    (rb"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\.", None, True),  # torch.save before ZIP
    (rb"\x80[\x02-\x05]", _is_whole_pickle, True),
    (rb"\x89HDF\r\n\x1a\n", _is_whole_hdf5, True),
    (rb"\x93NUMPY", _is_whole_array, True),
    (rb".{4}\0{4}\{", _is_whole_safetensors, True),
    (rb"\{L\0{7}\x07learner|tree\nversion=v|CBM1", None, True),  # XGBoost, LightGBM, CatBoost
    (rb'\{"learner":\{', _is_whole_json, True),  # XGBoost
    (rb'\s*(?:\{\s*["}]|(?:\[\s*){1,9}["{\]])', _is_whole_json, False),
    (rb"[\x81-\x8f][\xa1-\xbf]\w|\x0c\xdb[\x3a\x20][\x2a\xde]", None, True),  # msgpack of Flax, Orbax
    (rb"SQLite format 3\0", _is_whole_sqlite, False),
    (rb"PAR1", lambda content: content.size >= 12 and content.end(4) == b"PAR1", False),
    (rb"ARROW1\0\0", lambda content: content.size >= 16 and content.end(6) == b"ARROW1", False),
    (rb".{257}ustar", lambda content: content.size % 512 == 0 and content.end(1024) == bytes(1024), False),
    (rb"\x1f\x8b|\x78[\x01\x5e\x9c\xda]", None, partial(_has_packed_state, partial(zlib.decompressobj, 47))),
    (rb"BZh[1-9]", None, partial(_has_packed_state, bz2.BZ2Decompressor)),
    (rb"\xfd7zXZ\0", lambda content: content.end(2) == b"YZ", partial(_has_packed_state, _XZ)),
)


def _known(content: Content) -> tuple[_Check | None, bool | _Check]:
    head = content.at(0, 512)
    for magic, whole, is_state in _FORMATS:
        if re.match(magic, head, re.DOTALL):
            return whole, is_state
    return None, content.end(8) == _TABLE_OF_TENSORFLOW


def whole(path: Path, size: int) -> bool | None:
    """False if a part of the first `size` bytes is missing. None if the format does not tell, or is not known."""
    with opened(path, size) as content:
        check, _ = _known(content)
        return None if check is None else check(content)


def is_state(path: Path) -> bool:
    """True if a program may resume from the file: tensors, arrays or objects, whole or not."""
    with opened(path) as content:
        _, check = _known(content)
        return check if isinstance(check, bool) else bool(check(content))


def is_zeros(path: Path, size: int) -> bool:
    """True if the first and the last block have only zeros, as a power cut leaves a file. False of an empty file."""
    with opened(path, size) as content:
        return size > 0 and not any(content.at(0, BLOCK)) and not any(content.end(BLOCK))
