"""`holdfast ui` as a process, as a user starts it."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]


class UiProcess:
    """The process, and what it has printed."""

    def __init__(self, kubeconfig: Path, *options: str) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if name != "KUBERNETES_SERVICE_HOST"},
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT / 'images/trainer'}",
            "PYTHONUNBUFFERED": "1",
        }
        command = [sys.executable, "-m", "holdfast_cli", "ui", "--no-open", *options]
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self._process.stdout)

    @property
    def address(self) -> str:
        """The printed address, with its token. Waits for it."""

        def printed() -> str | None:
            assert self._process.poll() is None, "\n".join(self.lines)
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", "\n".join(self.lines))
            return found[0] if found else None

        return str(wait_for(printed, 60, "the address of the pages"))

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(20)

    def kill(self) -> None:
        """End it if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(5)


@contextmanager
def running_ui(kubeconfig: Path, *options: str) -> Iterator[UiProcess]:
    """A process that is ended afterwards."""
    process = UiProcess(kubeconfig, *options)
    try:
        yield process
    finally:
        process.kill()
