"""How much memory this container may still take."""

from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["available", "fits"]

SPARE: Final = 1 << 30  # bytes that stay free for the program's own needs
_CGROUP: Final = Path("/sys/fs/cgroup")


def available() -> int:
    """Free bytes: the smaller of those on the machine and those below the container's limit. Linux, cgroups version 2.

    The page cache of files counts as free, as in MemAvailable: the kernel drops it before it kills a process.
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
    """True if `size` more bytes leave SPARE bytes free."""
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
    """Bytes of files that a control group has in memory and the kernel can drop. Shared memory does not count.

    Active pages count too: data that every epoch reads again consists of active pages alone.
    """
    text = ""
    with suppress(OSError):  # the control group has no such statistics
        text = (folder / "memory.stat").read_text()
    words = (line.split() for line in text.splitlines())
    return sum(int(size) for name, size in words if name in ("active_file", "inactive_file"))


def _number(path: Path) -> int | None:
    """The number in a file of a control group; None if it says "max" or does not exist."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
