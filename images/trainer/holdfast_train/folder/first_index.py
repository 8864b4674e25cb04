"""The first form of the index, which had one save of the program and what named it: `translated` to the form of today.

Its parts were cut by size: a file of `SMALL` bytes or more into parts of its own, and smaller ones shared a part.
"""

import os
from typing import Any, Final

from holdfast_train.format.manifest import PART_BYTES

SMALL: Final = 1 << 20


def translated(body: Any, parts: int) -> dict[str, Any]:
    """The `body` of an index of version 1 as one of version 2, whose chunks have no hash. `parts`: their number.

    ValueError, TypeError, KeyError or IndexError if it is not one.
    """
    chunks: list[list[Any]] = []
    files: dict[str, list[Any]] = {}
    part, filled = 0, 0  # the part that small files share comes when it is full
    small: list[tuple[str, int]] = []

    def close() -> None:
        nonlocal part, filled
        start = 0
        for path, size in small:
            files[path][5].append(len(chunks))
            chunks.append(["", part, start, size])
            start += size
        part, filled = part + bool(small), 0
        small.clear()

    for path, size, mtime_ns, mode, link in body["files"]:
        if path in files:
            raise ValueError(f"it names {path!r} twice")
        files[path] = [path, size, mtime_ns, mode, link, [], 0]
        if link is not None or size == 0:
            continue
        if size >= SMALL:
            if size > parts * PART_BYTES:
                raise ValueError(f"it has not all bytes of {path!r}")
            for start in range(0, size, PART_BYTES):
                files[path][5].append(len(chunks))
                chunks.append(["", part, 0, min(PART_BYTES, size - start)])
                part += 1
            continue
        if filled + size > PART_BYTES:
            close()
        small.append((path, size))
        filled += size
    close()
    name = str(body["name"])
    newest = max(files.values(), key=lambda file: int(file[2]), default=[name])[0]
    texts = {}
    for path, is_link, text in body["pointers"]:
        if is_link and not os.path.isabs(text):  # noqa: PTH117 - no path of this machine
            files.setdefault(path, [path, 0, 0, 0o777, text, [], 0])
        elif path not in files:
            texts[path] = text
    return {
        "v": 2,
        "newest": name if body["isFolder"] else newest,
        "step": body["step"],
        "stepFrom": "its name",
        "chunks": chunks,
        "files": list(files.values()),
        "texts": texts,
    }
