"""The files of a training container that say how the program and its ranks ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast_protocol import variables
from holdfast_protocol.verdict import Verdict, to_line

from .verdict import RankVerdict

LAUNCHER_NAME = "holdfast-run"  # of the launcher's file in a pod
LIBRARY = "library"  # the folder with the library beside it, if the program does not need to have it
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
            data = json.loads(path.read_text(encoding="utf-8"))
            step, saved_step = (None if data.get(n) is None else int(data[n]) for n in ("step", "savedStep"))
            reason, message = (str(data.get(name) or "") for name in ("reason", "message"))
            rank, at = int(path.stem[len("rank-") :]), float(data.get("at") or 0.0)
            pid = int(data.get("pid") or 0)
            python = str(data.get("python") or "")
            result = str(data["result"])
            found.append(RankVerdict(rank, result, reason, message, step, saved_step, at, pid, python))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
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
