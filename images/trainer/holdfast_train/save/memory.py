"""How much memory this container may still take."""

from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["available", "fits"]

SPARE: Final = 1 << 30  # bytes that are left to the program, whatever it is about to do
_CGROUP: Final = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes that the machine has left, or the container's limit if that is nearer. Linux, control groups version 2.

    The page cache of files counts as left, as it does in MemAvailable: it is dropped before anybody is killed.
    """
    left = _machine()
    folder = _CGROUP / _own_group()
    while True:
        limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
        if limit is not None and used is not None:
            left = min(left, limit - max(used - _cache(folder), 0))
        if folder == _CGROUP or _CGROUP not in folder.parents:
            return max(left, 0)
        folder = folder.parent


def fits(size: int) -> bool:
    """May `size` bytes more be taken without bringing the program near its limit?"""
    return available() >= size + SPARE


def _machine() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def _own_group() -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line.removeprefix("0::").strip("/")
    return ""


def _cache(folder: Path) -> int:
    """Bytes of files that a control group has in memory, and that can be dropped. Shared memory is not among them.

    Active pages too: data that every epoch reads once more is nothing but those.
    """
    text = ""
    with suppress(OSError):  # no such statistics here
        text = (folder / "memory.stat").read_text()
    words = (line.split() for line in text.splitlines())
    return sum(int(size) for name, size in words if name in ("active_file", "inactive_file"))


def _number(path: Path) -> int | None:
    """The number in a file of a control group; None if it says "max", or there is none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
