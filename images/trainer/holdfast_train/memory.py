"""How much memory this container may still take, and whether a save fits into it."""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

SPARE: Final = 1 << 30  # bytes that stay free for the program's own needs
SPARE_SHARE: Final = 20  # of a small limit only this part must stay free
UNLIMITED: Final = 1 << 60  # bytes; version 1 of control groups says "no limit" by a number
_CGROUP: Final = Path("/sys/fs/cgroup")


class _Names(NamedTuple):
    """The files of one version of control groups, and the entries of its statistics that count the page cache."""

    folder: str
    limit: str
    used: str
    cache: tuple[str, str]


_VERSION_2: Final = _Names("", "memory.max", "memory.current", ("active_file", "inactive_file"))
_VERSION_1: Final = _Names(
    "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
)


def available() -> int:
    """Free bytes: the smaller of those on the machine and those below the container's limit. Linux.

    The page cache of files counts as free, as in MemAvailable: the kernel drops it before it kills a process.
    """
    return max(min([_machine(), *(limit - used for limit, used in _groups())]), 0)


def fits(size: int) -> bool:
    """True if `size` more bytes leave SPARE bytes free."""
    return available() >= size + SPARE


def shortage(size: int, free: int) -> str:
    """Why a save may get the trainer killed, for people; empty if a copy of `size` bytes fits into the `free` ones."""
    limit = min((limit for limit, _ in _groups() if limit < UNLIMITED), default=None)
    spare = SPARE if limit is None else min(SPARE, limit // SPARE_SHARE)
    if size + spare <= free:
        return ""
    copy = f"a save copies the state: {_gib(size)} of memory, of which {_gib(free)} are left"
    if limit is None:
        return f"{copy} on this machine; the trainer may be killed while it saves"
    wanted = math.ceil((limit + size + spare - free) / 2**30)
    return (
        f"{copy} below the limit of {_gib(limit)}; the trainer may be killed while it saves: set "
        f"trainer.resources.memory to {wanted}Gi or more"
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f}Gi"


def _machine() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def _groups() -> Iterator[tuple[int, int]]:
    """The limit of each control group that this process is in and that has one, and how much of it is used."""
    for names in (_VERSION_2, _VERSION_1):
        root = _CGROUP / names.folder
        folder = root / _own_group(names.folder)
        while True:
            limit, used = _number(folder / names.limit), _number(folder / names.used)
            if limit is not None and used is not None:
                yield limit, max(used - _cache(folder, names.cache), 0)
            if folder == root or root not in folder.parents:
                break
            folder = folder.parent


def _own_group(controller: str) -> str:
    """The control group of this process that has the controller; version 2 has one for all, without a name."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.strip("/")
    return ""


def _cache(folder: Path, counted: tuple[str, str]) -> int:
    """Bytes of files that a control group has in memory and the kernel can drop. Shared memory does not count.

    Active pages count too: data that every epoch reads again consists of active pages alone.
    """
    text = ""
    with suppress(OSError):  # the control group has no such statistics
        text = (folder / "memory.stat").read_text()
    words = (line.split() for line in text.splitlines())
    return sum(int(size) for name, size in words if name in counted)


def _number(path: Path) -> int | None:
    """The number in a file of a control group; None if it says "max" or does not exist."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
