"""How lines of logs are written: the lines to standard output, words about them to standard error.

So standard output has what the programs wrote and nothing more, on a terminal as in a file; a terminal shows both. The
bytes of a line are passed on as they are, escape sequences too, as kubectl does. While a log is followed on a terminal,
the state of the job stands below its lines.
"""

import os
import sys
from datetime import UTC, datetime
from typing import BinaryIO, Final, Self

from rich.text import Text

from holdfast.api.objects import TrainingJob
from holdfast.core.observe.pods import PodView
from holdfast_cli.jobs.state_line import state_line
from holdfast_cli.logs.entries import Entry
from holdfast_cli.terminal import formats
from holdfast_cli.terminal.bottom_line import BottomLine, has_bottom_line
from holdfast_cli.terminal.console import error_console

_COLOURS: Final = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_RESET: Final = b"\x1b[0m"


class Screen:
    """Writes entries in the order in which they come, with a heading before each attempt.

    Used in a `with` block. With `follow` the state of the job stands below on a terminal; it stays if the job is over.
    """

    def __init__(self, ranks: tuple[int, ...], *, timestamps: bool, grep: bytes, follow: bool) -> None:
        self.job: TrainingJob | None = None
        self.places: dict[int, PodView] = {}  # a pod that each attempt has created
        self._prefixed = len(ranks) > 1
        self._width = len(str(max(ranks, default=0)))
        self._timestamps = timestamps
        self._grep = grep
        self._attempt = 0
        self._below = BottomLine(self._state) if follow and has_bottom_line() else None
        self._out: BinaryIO | BottomLine = self._below or sys.stdout.buffer
        self._coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._err = error_console()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._below:
            self._below.close(stays=kind is None and self.job is not None and self.job.status.is_over)

    def show(self, entry: Entry) -> None:
        """Write one line, if it has the text that is searched for."""
        if self._grep not in entry.text:
            return
        if entry.attempt > self._attempt:
            self._attempt = entry.attempt
            self.say(heading(self.job, entry.attempt, self.places.get(entry.attempt)))
        stamp = entry.at + b" " if self._timestamps and entry.at else b""
        self._out.write(self._prefix(entry.rank) + stamp + entry.text + b"\n")

    def flush(self) -> None:
        """Let what was written be seen."""
        self._out.flush()

    def say(self, text: str) -> None:
        """Write words about the log."""
        if self._below:
            self._below.clear()
        else:
            self.flush()
        self._err.print(Text(text, style="dim"))

    def _state(self) -> Text | None:
        return state_line(self.job, datetime.now(UTC)) if self.job else None

    def _prefix(self, rank: int) -> bytes:
        if not self._prefixed:
            return b""
        name = f"rank {rank:>{self._width}} |".encode()
        return (b"\x1b[%dm" % _COLOURS[rank % len(_COLOURS)] + name + _RESET if self._coloured else name) + b" "


def heading(job: TrainingJob | None, attempt: int, pod: PodView | None) -> str:
    """`--- attempt 2 on spot-a100, node n2, from step 1,200 ---`, as far as the status and its pod say it."""
    status = job.status if job else None
    live = [one for one in (status.current, status.successor) if one] if status else []
    now = next((one for one in live if one.number == attempt), None)
    record = next((one for one in status.history if one.number == attempt), None) if status else None
    tier = now.tier.name if now else record.tier if record else pod.tier if pod else ""
    words = [f"attempt {attempt} on {tier}" if tier else f"attempt {attempt}"]
    if job is not None and job.most_nodes > 1:
        words += [f"{now.nodes} nodes"] if now else []
    elif node := (pod.node if pod else None) or (record.node if record else None):
        words.append(f"node {node}")
    resumed = now.resumed_step if now else record.resumed_step if record else None
    if resumed:
        words.append(f"from step {formats.count(resumed)}")
    elif now and not now.first_step and attempt > 1 and status and status.checkpoint and status.checkpoint.step:
        words.append(f"newest checkpoint step {formats.count(status.checkpoint.step)}")
    return f"--- {', '.join(words)} ---"
