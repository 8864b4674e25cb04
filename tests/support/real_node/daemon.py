"""A server of a real node: started in its network, killed without a warning, started again."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Daemon:
    """One process, in the network namespace `namespace` or, without one, in that of the machine."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, namespace: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        # `ip netns exec` would mount another /sys, without the control groups.
        enter = ("nsenter", f"--net=/var/run/netns/{namespace}", "--") if namespace else ()
        self._command = [*enter, *(str(part) for part in command)]
        self._env = {**os.environ, **(env or {})}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The number of the process; 0 if it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else 0

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.pid:
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, start_new_session=True
            )

    def check(self) -> None:
        """Raise AssertionError with the end of the log if it does not run."""
        if not self.pid:
            tail = self._log.read_text(errors="replace").splitlines()[-15:]
            raise AssertionError("\n".join([f"{self._log.stem} has ended:", *tail]))

    def pause(self) -> None:
        """Stop it: it keeps its connections and answers nothing."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._send(signal.SIGKILL)
        if self._process:
            self._process.wait()

    def _send(self, number: signal.Signals) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)
