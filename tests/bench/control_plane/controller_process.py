"""A controller that a benchmark runs as one process."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path


class ControllerProcess(AbstractContextManager["ControllerProcess"]):
    """A context manager: a subclass starts the process on entry, and it ends on exit."""

    _process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What the controller says."""
        raise NotImplementedError

    def _start(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        """Run a command in `folder`, with these variables besides those of this process. Its words go into the log."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder,
                env={**os.environ, **environment}, start_new_session=True,
            )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
