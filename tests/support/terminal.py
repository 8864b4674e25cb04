"""A command on a terminal of its own: a real pty, and what stands on its screen."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tests.support.waiting import wait_for

_PARTS: Final = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\x1b[78]|[\r\n]|[^\x1b\r\n]+")


def screen(output: str, width: int) -> tuple[list[str], int, int]:
    """The lines that a terminal of this width shows, also those that left it at the top, and its cursor: row, column.

    Known is what the commands of Holdfast write: text, ends of lines, colours, the erasing of a line and of all
    that is below the cursor, and a cursor that is hidden, or kept and put back. More raises an AssertionError.
    After a resize the output counts as if it had come at the new width: so do terminals that wrap their lines again.
    """
    rows, row, column, kept = [""], 0, 0, (0, 0)
    for part in _PARTS.findall(output):
        match part:
            case "\r":
                column = 0
            case "\n":
                row += 1
                rows += [""] if row == len(rows) else []
            case "\x1b7":
                kept = row, column
            case "\x1b8":
                row, column = kept
            case "\x1b[J":
                del rows[row + 1 :]
                rows[row] = rows[row][:column]
            case "\x1b[2K":
                rows[row] = ""
            case "\x1b[?25l" | "\x1b[?25h":
                pass
            case _ if part.startswith("\x1b["):
                assert part.endswith("m"), f"unknown: {part!r}"
            case _:
                for character in part:
                    if column == width:
                        row, column = row + 1, 0
                        rows += [""] if row == len(rows) else []
                    rows[row] = rows[row].ljust(column)[:column] + character + rows[row][column + 1 :]
                    column += 1
    return rows, row, column


class Terminal:
    """A terminal. `output` is all that was written to it."""

    def __init__(self, width: int) -> None:
        self._master, self.slave = pty.openpty()
        self.resize(width)
        self._output = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """All that was written."""
        return bytes(self._output).decode(errors="replace")

    @property
    def rows(self) -> list[str]:
        """What it shows."""
        return screen(self.output, self.width)[0]

    @property
    def cursor(self) -> tuple[int, int]:
        """Row and column, from 0."""
        return screen(self.output, self.width)[1:]

    def resize(self, width: int) -> None:
        """Give it another width; its program is told."""
        self.width = width
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def shows(self, text: str, within: float = 20) -> None:
        """Wait until the text stands on it."""
        wait_for(lambda: any(text in row for row in self.rows), within, lambda: f"{text!r} in {self.rows}")

    def close(self) -> None:
        """Hang up: its program loses the terminal."""
        os.close(self.slave)
        self._reader.join(10)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # no program has it any more
                return
            self._output += data


_OF_TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "TERM")


@contextmanager
def on_terminal(
    command: Sequence[str], environment: Mapping[str, str], width: int = 100, **variables: str
) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    """Run the command on a terminal of its own; its process is ended with the block.

    `variables`: what says how it looks, such as TERM. What the environment says of it is of another terminal.
    """
    terminal = Terminal(width)
    own = {name: value for name, value in environment.items() if name not in _OF_TERMINAL}
    process = subprocess.Popen(
        ["setsid", "--ctty", *command],  # the terminal is its own, so that Ctrl-C reaches it
        stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave,
        env={**own, "TERM": "xterm-256color", **variables},
    )  # fmt: skip
    try:
        yield terminal, process
    finally:
        process.kill()
        process.wait()
        terminal.close()
