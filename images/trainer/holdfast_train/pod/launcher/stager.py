"""`stage`: runs the process that copies trainer.data into the pod, before the program starts.

The process needs Python 3.11 and the library, which the init container copies beside the launcher. It gets no signal:
a pod that has to leave kills it, and what it has not completed has no name yet.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType

from holdfast_protocol import rank_verdict, reasons
from holdfast_protocol.document import DocumentError
from holdfast_protocol.rank_verdict import RankVerdict

from .library import library_command
from .program import MISCONFIGURED, refusal
from .room import killed_processes
from .verdict import End

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEFT = "notice to leave while the data was copied; the program had not started"


def stage(environment: Mapping[str, str]) -> End | None:
    """Copy the data: None if all of it is there. Otherwise the end without a program. For the main thread."""
    signalled_at: list[float] = []
    killed = killed_processes()
    process = _open(environment)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        signalled_at.append(time.time())
        process.kill()

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # one that came since the start of the process counts now
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    code = process.wait()
    for number, handler in before.items():
        signal.signal(number, handler or signal.SIG_DFL)
    if signalled_at:
        ranks = (RankVerdict(0, "left", reasons.LEFT_WITHOUT_SAVING, LEFT, None, None, signalled_at[0]),)
        return End(None, signal.SIGTERM, signalled_at[0], ranks)
    return None if code == 0 else _failed(code, lines, killed_processes() - killed)


def _open(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """The process. Signals wait from now on: before its handler is there, one would be lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    return subprocess.Popen(
        library_command("holdfast_train.staging.process"),
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _failed(code: int, lines: list[str], oom_kills: int) -> End:
    """The end if the process failed: what it says, or why it cannot say anything."""
    with suppress(DocumentError):
        return End(code, None, None, (rank_verdict.read(lines[-1] if lines else ""),))
    if code < 0:
        return End(None, -code, None, oom_kills=oom_kills)
    why = (
        f"the process that copies trainer.data ended with exit code {code}; python3 of the image must be 3.11 or "
        f"newer, for Linux with glibc (this one is {sys.version.split()[0]})"
    )
    return refusal(MISCONFIGURED, "DataStagerNotStarted", why)
