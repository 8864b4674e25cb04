"""Runs the commands that the demo shows, as a user would type them, and shows what they print."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from holdfast_cli.errors import ExitCode
from holdfast_local.cluster import Cluster
from holdfast_local.demo.errors import DemoError


@dataclass(slots=True)
class Shell:
    """Commands run in `folder`, with these variables beside those of this process. `said`: all lines so far."""

    out: Console
    folder: Path
    variables: Mapping[str, str]
    said: list[Text] = field(default_factory=list)

    def say(self, text: Text) -> None:
        """Show one line, and keep it."""
        self.said.append(text)
        self.out.print(text, soft_wrap=True)

    def run(self, *command: str, into: str | None = None, may_fail: bool = False) -> ExitCode | int:
        """Show the command, run it, and show its output, or write it into the file `into`. Its errors go to ours.

        Raises DemoError if its exit code is not 0, unless it `may_fail`.
        """
        self.say(Text(f"$ {typed(command, into)}", style="bold cyan"))
        # A session of its own: Ctrl-C in a terminal reaches only the demo, which then ends the whole group.
        process = subprocess.Popen(
            command, cwd=self.folder, env={**os.environ, **self.variables}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
        try:
            lines = self._lines(process, quiet=into is not None)
            code = process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        if code and not may_fail:
            raise DemoError(f"`{typed(command, into)}` ended with exit code {code}; what it said is above")
        if into is not None:
            (self.folder / into).write_text("".join(lines), encoding="utf-8")
        return code

    def _lines(self, process: "subprocess.Popen[str]", *, quiet: bool) -> Sequence[str]:
        assert process.stdout is not None
        lines = []
        with process.stdout:
            for line in process.stdout:
                lines.append(line)
                if not quiet:
                    self.say(Text(line.rstrip()))
        return lines


def typed(command: Sequence[str], into: str | None) -> str:
    """The command as a shell reads it."""
    return shlex.join(command) + (f" > {shlex.quote(into)}" if into else "")


def variables(cluster: Cluster, width: int) -> dict[str, str]:
    """What commands need: the cluster, its kubectl, our own programs first on PATH, and the width of the screen."""
    path = [str(Path(sys.executable).parent), str(cluster.bin), os.environ.get("PATH", os.defpath)]
    return {**cluster.environment(), "PATH": os.pathsep.join(path), "COLUMNS": str(width)}
