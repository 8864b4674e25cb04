"""What there is of a real node beside its servers: shims, processes of containers, control groups, files.

Its mounts are in a mount namespace of its own, which goes with the last of its processes. Here nothing is mounted in
its folder, so what is removed with the folder is the node's: never what a volume of a pod leads to.
"""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import psutil
from tests.support.real_node import control_groups
from tests.support.waiting import wait_for


def group(folder: Path) -> str:
    """The name of the node's control group."""
    return folder.name


def socket(folder: Path) -> Path:
    """The socket of the node's containerd."""
    return folder / "containerd.sock"


def lose_power(folder: Path) -> None:
    """Kill everything that runs in containers. The node's servers must have ended."""
    wait_for(lambda: _kill_processes(folder), 20, f"the processes of {folder} to be gone")
    socket(folder).unlink(missing_ok=True)


def end(folder: Path) -> None:
    """Remove everything. The node's servers must have ended."""
    lose_power(folder)
    control_groups.remove(group(folder))
    shutil.rmtree(folder, ignore_errors=True)


def _kill_processes(folder: Path) -> bool:
    alive = control_groups.processes(group(folder)) | _shims(folder)
    for number in alive:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    return not alive


def _shims(folder: Path) -> set[int]:
    found = set()
    for process in psutil.process_iter(["name", "cmdline"]):
        if str(socket(folder)) in (process.info["cmdline"] or []) and "shim" in (process.info["name"] or ""):
            found.add(process.pid)
    return found
