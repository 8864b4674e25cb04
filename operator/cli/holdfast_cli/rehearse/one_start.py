"""`OneStart`: one start of the program on this machine, under the launcher, as in a pod."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast_cli.errors import CliError
from holdfast_cli.rehearse.place import JOB, Place
from holdfast_cli.rehearse.program import Program
from holdfast_cli.rehearse.reports import Reports
from holdfast_protocol import settings, variables
from holdfast_protocol.document import DocumentError, decode, read_json, to_text
from holdfast_protocol.verdict import Verdict
from holdfast_train.pod.launcher.process_tree import descendants, end_descendants, send

KILL_SECONDS: Final = 30.0  # in which all processes have ended after SIGKILL
TAIL_BYTES: Final = 8192  # of the output, for people
KEPT: Final = 1_000_000  # checkpoints: all of them, so that no save is missed
NAMESPACE: Final = "rehearsal"


class OneStart:
    """The program as attempt `number` of the run `run`. It starts at once; the launcher puts its folder back first."""

    def __init__(self, program: Program, place: Place, reports: Reports, run: str, number: int) -> None:
        self.number = number
        self.output = place.of(run) / f"output-{number}.log"
        self._verdict = place.of(run) / f"verdict-{number}.json"
        self.started_at = time.monotonic()
        self._known: list[int] = []
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(place.launcher), "--", *program.command],
                env=self._environment(program, f"file://{place.store(run)}/{JOB}", reports.url),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for this command, which then ends the program
            )

    def _environment(self, program: Program, uri: str, url: str) -> Mapping[str, str]:
        known = {name: value for name, value in os.environ.items() if not name.startswith(variables.PREFIX)}
        own = settings.Settings(
            grace=program.grace,
            operator_url=url,
            checkpoint_uri=uri,
            folder=None if program.folder is None else str(program.folder),
            folder_pattern=program.pattern,
            folder_exclude=tuple(program.exclude),
            folder_quiet=program.quiet,
            patterns=tuple(program.patterns),
            every=settings.Every(steps=program.every),
            keep=settings.Keep(last=KEPT),
        )
        found = {
            variables.NAMESPACE: NAMESPACE,
            variables.JOB: JOB,
            variables.JOB_UID: NAMESPACE,
            variables.ATTEMPT: str(self.number),
            variables.POD_NAME: f"{JOB}-{self.number}",
            variables.POD_UID: f"{JOB}-{self.number}",
            variables.TERMINATION_LOG: str(self._verdict),
            variables.SETTINGS: to_text(own),
        }
        if program.steps is not None:
            found[variables.GOAL_STEPS] = str(program.steps)
        return known | found

    def has_ended(self) -> bool:
        """True if the launcher has ended, so the program has too."""
        return self._process.poll() is not None

    def give_notice(self) -> None:
        """Tell the launcher that the node goes."""
        self._process.send_signal(signal.SIGTERM)

    def note_processes(self) -> None:
        """Find all processes that there are now, for `freeze`."""
        self._known = descendants(os.getpid())

    def freeze(self) -> None:
        """Stop the program at once, as it is: what comes after this takes longer than a small save."""
        for pid in self._known:
            send(pid, signal.SIGSTOP)

    def end(self) -> None:
        """Kill the launcher, the program and all that they have started, as the end of a machine does. CliError."""
        if not self.has_ended():
            self._process.send_signal(signal.SIGSTOP)  # it must not answer the death of the program
        end_all()
        self._process.poll()

    @property
    def verdict(self) -> Verdict | None:
        """Why the program has ended, as the launcher says; None if it was killed, or cannot say it."""
        try:
            return decode(Verdict, read_json(self._verdict.read_bytes()))
        except (OSError, DocumentError):
            return None

    @property
    def code(self) -> int | None:
        """The exit code of the launcher, None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """What a program that failed has printed last; otherwise the end of the output, with what Holdfast says."""
        verdict = self.verdict
        return "\n".join(() if verdict is None else verdict.last_lines) or tail(self.output)


def end_all() -> None:
    """Kill all processes that this one has started. CliError if one of them goes on."""
    for _ in range(2):  # one that forks and ends during a look can be missed with its child
        if left := end_descendants(KILL_SECONDS):
            raise CliError(
                f"processes of the program do not end after SIGKILL: {', '.join(map(str, left))}",
                hint="they may wait for a disk or a device; when they have ended, delete what the rehearsal has left",
            )


def tail(path: Path) -> str:
    """The last lines of a file, as text."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
