"""The two consoles: colours and live screens on a terminal only, plain wide lines elsewhere."""

import os
import sys
from typing import TextIO

from rich.console import Console

PLAIN_WIDTH = 160  # columns of text that goes to a file or a pipe
WIDE = 4096  # more than any table has


def console(stream: TextIO | None = None, *, wide: bool = False) -> Console:
    """A new console on `stream` (default: standard output); new each time, so that tests can replace streams.

    A `wide` one has room for all columns of a table: a line may be longer than the screen.
    """
    stream = stream or sys.stdout
    plain_width = None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    return Console(file=stream, width=WIDE if wide else plain_width, highlight=False)


def error_console() -> Console:
    """The console for errors and notes."""
    return Console(stderr=True, soft_wrap=True, highlight=False)
