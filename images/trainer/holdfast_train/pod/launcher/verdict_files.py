"""The files of a training container that say how the program and its ranks ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast_protocol import rank_verdict, variables
from holdfast_protocol.document import DocumentError
from holdfast_protocol.rank_verdict import RankVerdict
from holdfast_protocol.verdict import Verdict, to_line

LAUNCHER_NAME = "holdfast-run"  # of the launcher's file in a pod
LEAVE_NOW = "leave-now"  # a file beside the verdicts: the second SIGTERM came. Ranks get too many signals to count them


def write_verdict(path: str | None, verdict: Verdict) -> None:
    """Write the line with one system call. The file is a bind mount in a pod, so a rename cannot replace it."""
    if not path:
        return
    try:
        Path(path).write_bytes(to_line(verdict))
    except OSError as error:
        say(f"cannot write the verdict to {path}: {error}")


def say(text: str) -> None:
    """Write one line to stderr."""
    sys.stderr.write(f"holdfast-run: {text}\n")


def read_rank_verdicts(folder: str | None) -> tuple[RankVerdict, ...]:
    """The contents of the files `rank-<r>.json` in `folder`. A file that cannot be read is left out."""
    found: list[RankVerdict] = []
    for path in sorted(Path(folder).glob("rank-*.json")) if folder else ():
        try:
            with path.open("rb") as file:
                found.append(rank_verdict.read(file.read(rank_verdict.MOST_BYTES + 1)))
        except (OSError, DocumentError) as error:
            say(f"cannot read {path.name}: {error}")
    return tuple(found)


def wait_for_writers(folder: str | None, seconds_left: Callable[[], float]) -> None:
    """Return when no checkpoint is on its way, or no second is left: a writer then locks a file in `folder`.

    A writer may outlive a program that has crashed; but when the launcher ends, as PID 1, the writer ends too.
    """
    for path in Path(folder).glob("writer-*") if folder else ():
        with path.open("rb") as file:
            while seconds_left() > 0:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.05)


def read_writers(folder: str | None) -> tuple[int, ...]:
    """The processes that are writers of checkpoints, as they have written into their files in `folder`."""
    found = []
    for path in Path(folder).glob("writer-*") if folder else ():
        with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
            found.append(int(file.read(10)))
    return tuple(found)


@contextlib.contextmanager
def verdict_folder(environment: dict[str, str]) -> Iterator[str | None]:
    """The folder for rank verdicts, a temporary one if the environment names none. The root may be read-only.

    It lies beside the launcher, because a program may empty the folder for temporary files.
    """
    if given := environment.get(variables.VERDICT_DIR):
        Path(given).mkdir(parents=True, exist_ok=True)
        yield given
        return
    launcher = Path(sys.argv[0]).resolve()
    with temporary_folder(str(launcher.parent) if launcher.name == LAUNCHER_NAME else "") as folder:
        yield folder


@contextlib.contextmanager
def temporary_folder(first: str = "") -> Iterator[str | None]:
    """A folder of this user alone, with its files until the end, in `first` if that is given and can be written.

    None if no folder can be written.
    """
    folder = None
    others = (os.environ.get("TMPDIR") or "/tmp", str(Path(sys.argv[0]).resolve().parent), "/dev/shm")  # noqa: S108
    for parent in filter(None, (first, *others)):
        path = Path(
            parent, f"holdfast-{os.urandom(8).hex()}"
        )  # tempfile takes longer to import than everything together
        with contextlib.suppress(OSError):
            path.mkdir(0o700)
            folder = str(path)
            break
    yield folder
    if folder:
        with contextlib.suppress(OSError):
            for path in Path(folder).iterdir():
                path.unlink()
            Path(folder).rmdir()
