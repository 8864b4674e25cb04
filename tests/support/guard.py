"""Ends what a run of tests or benchmarks started once the run is gone, even if it was killed.

Fixtures clean up after a run that ends by itself. A run that is killed by SIGTERM or SIGKILL cannot, and its operators,
servers and clusters live on. So each run has a guard: a process in a session of its own that learns of clusters and
folders through a pipe. The pipe closes when the run ends, also by a signal. Then the guard takes clusters down, kills
every process that has the run's mark in its environment, ends what is left of real nodes, and removes the folders.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

MARK = "HOLDFAST_TEST_RUN"
REPOSITORY = Path(__file__).resolve().parents[2]


@cache
def start() -> subprocess.Popen[str]:
    """Guard this process: from now on nothing that it starts with its own environment outlives it."""
    os.environ[MARK] = f"{os.getpid()}-{os.urandom(4).hex()}"
    command = [sys.executable, "-m", "tests.support.guard", os.environ[MARK]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "operator"), str(REPOSITORY))), MARK: ""}
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=env, start_new_session=True)


@contextmanager
def temporary_folder(prefix: str, where: Path | None = None) -> Iterator[Path]:
    """A new folder directly in the system's temporary folder, or in `where`, removed at the end.

    The path is short on purpose: the path of a unix socket has at most 107 bytes, and pytest's own folders are long.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
    with _guarded("folder", folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def guarded_cluster(root: Path) -> Iterator[None]:
    """Inside, the local cluster whose files are in `root` does not outlive this run."""
    with _guarded("cluster", root):
        yield


@contextmanager
def guarded_node(folder: Path) -> Iterator[None]:
    """Inside, the real node whose files are in `folder` does not outlive this run."""
    with _guarded("node", folder):
        yield


@contextmanager
def _guarded(kind: str, path: Path) -> Iterator[None]:
    stream = start().stdin
    assert stream is not None
    print("+", kind, path, file=stream, flush=True)
    try:
        yield
    finally:
        print("-", kind, path, file=stream, flush=True)


def _take_down(root: str) -> None:
    from holdfast_local.cluster import Cluster
    from holdfast_local.errors import LocalError

    with suppress(LocalError):  # it was not up yet, or is down already
        Cluster.load(Path(root)).down()


def _end_node(folder: str) -> None:
    from tests.support.real_node.remains import end

    end(Path(folder))


def _end_marked(mark: str) -> None:
    from tests.support.waiting import wait_for

    # One that is about to die may still start another.
    wait_for(lambda: not _kill_marked(mark), 20, "every process of the run to end")


def _kill_marked(mark: str) -> bool:
    """Kill the processes that have the mark. True if there was one."""
    import psutil

    found = False
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                process.kill()
                found = True
    return found


def main() -> None:
    """Read what there is until the pipe closes, then end all of it."""
    left: list[tuple[str, str]] = []
    for line in sys.stdin:
        sign, kind, path = line.rstrip("\n").split(" ", 2)
        if sign == "+":
            left.append((kind, path))
        else:
            left.remove((kind, path))
    with ExitStack() as stack:  # the last entry comes first, and an error in one does not keep the next from its turn
        for kind, path in left:
            if kind == "node":
                stack.callback(_end_node, path)
            elif kind == "folder":
                stack.callback(shutil.rmtree, path, ignore_errors=True)
        stack.callback(_end_marked, sys.argv[1])
        for kind, path in left:
            if kind == "cluster":
                stack.callback(_take_down, path)


if __name__ == "__main__":
    main()
