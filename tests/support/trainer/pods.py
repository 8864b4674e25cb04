"""A training pod as a process, with its output and its verdict."""

import json
import os
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Any

from tests.support.trainer.pod_settings import pod_variables
from tests.support.waiting import wait_for


class Pod:
    """One training pod: its process, its output, its verdict."""

    def __init__(self, folder: Path, command: list[str], /, **env: Any) -> None:
        self.folder = folder / uuid.uuid4().hex
        self.folder.mkdir()
        self._log = self.folder / "termination-log"
        self._output = self.folder / "output"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("HOLDFAST_", "TORCH"))}
        inherited |= {"OMP_NUM_THREADS": "1", "HOLDFAST_TERMINATION_LOG": str(self._log)}
        with self._output.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                env=pod_variables(inherited, **env),
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait_for(self, text: str, seconds: float = 60) -> None:
        def seen() -> bool:
            assert self.process.poll() is None or text in self.output, self.output
            return text in self.output

        wait_for(seen, seconds, f"{text!r} in the output")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def signal_again(self, verdicts: Path) -> None:
        """Send SIGTERM until it counts as the second, or the pod has ended: just after the first it does not."""

        def counts() -> bool:
            self.terminate()
            return (verdicts / "leave-now").exists() or self.process.poll() is not None

        wait_for(counts, 60, "a pod that has counted a second SIGTERM")
        self.process.wait(60)

    def kill_program(self) -> dict[str, Any]:
        """The verdict, once its program was killed and its writer has ended."""
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        return self.end()

    def end(self, seconds: float = 60) -> dict[str, Any]:
        """The verdict, once it has ended."""
        self.process.wait(seconds)
        found: dict[str, Any] = json.loads(self._log.read_text())
        return found
