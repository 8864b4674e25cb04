"""The launcher as a process, as a pod runs it, and programs for it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.trainer.pod_settings import pod_variables
from tests.support.trainer.stores import LAUNCHER
from tests.support.waiting import wait_for

TELLS = """
import signal, sys
signal.signal(15, lambda *a: (print('told', flush=True), sys.exit(%d)))
print('up', flush=True)
while True: signal.pause()
"""

SAVES = """
import os, pathlib, signal, sys, time
def on_term(number, _frame):
    print("saving", flush=True)
    sys.stdin.readline()
    print("saved", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, on_term)
pathlib.Path(sys.argv[1]).touch()
while True: signal.pause()
"""


def start(log: Path, *command: str, **variables: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(LAUNCHER), "--", *command],
        env=pod_variables(os.environ, HOLDFAST_TERMINATION_LOG=str(log), **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def verdict_of(log: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(log.read_text())
    return found


def signal_again(process: subprocess.Popen[str], folder: Path) -> None:
    """Send SIGTERM until it counts as the second: just after the first it does not. Returns at the end."""

    def counts() -> bool:
        process.send_signal(signal.SIGTERM)
        return (folder / "leave-now").exists()

    wait_for(counts, 30, "a launcher that has counted a second SIGTERM")
    process.wait(30)


def start_behind(log: Path, script: str, **variables: Any) -> subprocess.Popen[str]:
    """Start the launcher as a reaper of orphans, as PID 1 is one. A line on its stdin ends a program's save.

    `script` finds this Python in $PYTHON and the folder of `log` in $HERE: either path may have a space in it.
    """
    places = {"PYTHON": sys.executable, "HERE": str(log.parent)}
    become = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.executable, "
        f"[sys.executable, {str(LAUNCHER)!r}, '--', 'bash', '-c', sys.argv[1]])"
    )
    return subprocess.Popen(
        [sys.executable, "-c", become, script],
        env=pod_variables(os.environ, **{"HOLDFAST_TERMINATION_LOG": str(log), "grace": 3600, **places, **variables}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
