"""A picture of bytes as PNG, with the standard library: a report needs no other one."""

import struct
import zlib
from typing import Any

import numpy as np

__all__ = ["as_png"]


def as_png(picture: np.ndarray[Any, Any]) -> bytes:
    """`picture`: uint8 of (height, width, 1 or 3)."""
    height, width, channels = picture.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = picture.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, parts))


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    kind, data = part
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
