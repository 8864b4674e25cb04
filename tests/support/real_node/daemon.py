"""A server of a real node: started in its namespaces, killed without a warning, started again."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Daemon:
    """One process, in the network and with the mounts of the process `beside` or, without one, of the machine."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        beside: "Daemon | None" = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._command = [str(part) for part in command]
        self._beside = beside
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
        enter = ("nsenter", f"--target={self._beside.pid}", "--net", "--mount", "--") if self._beside else ()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*enter, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise AssertionError with the end of the log if it does not run."""
        if not self.pid:
            tail = self._log.read_text(errors="replace").splitlines()[-15:]
            raise AssertionError("\n".join([f"{self._log.stem} has ended:", *tail]))

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process:
            self._process.kill()
            self._process.wait()
