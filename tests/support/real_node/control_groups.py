"""The control groups of a real node, of both versions of the kernel's interface."""

from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_INHERITED = ("cpuset.cpus", "cpuset.mems")  # of version 1: empty in a new group, and then it takes no process
_CONTROLLERS = "+cpu +cpuset +memory +pids"  # of version 2, that the kubelet uses


def is_version_2() -> bool:
    """If the machine has the unified hierarchy."""
    return (_ROOT / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    """The root of each hierarchy; version 1 has one for each controller."""
    if is_version_2():
        return [_ROOT]
    return sorted(path for path in _ROOT.iterdir() if path.is_dir() and not path.is_symlink())


def make(name: str) -> None:
    """Make the group in which a kubelet keeps its pods."""
    for hierarchy in _hierarchies():
        if is_version_2():
            (hierarchy / "cgroup.subtree_control").write_text(_CONTROLLERS)
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in _INHERITED:
            if (hierarchy / setting).exists() and not is_version_2():
                (group / setting).write_text((hierarchy / setting).read_text())


def processes(name: str) -> set[int]:
    """The processes of all pods in the group."""
    found = set()
    for hierarchy in _hierarchies():
        for path in (hierarchy / name).rglob("cgroup.procs"):
            with suppress(OSError):  # the group has gone in between
                found |= {int(line) for line in path.read_text().split()}
    return found


def remove(name: str) -> None:
    """Remove the group and those in it. Its processes must have ended; no-op if it is not there."""
    for hierarchy in _hierarchies():
        group = hierarchy / name
        if group.exists():
            for path in sorted(group.rglob("*/"), key=lambda path: -len(path.parts)):
                path.rmdir()
            group.rmdir()
