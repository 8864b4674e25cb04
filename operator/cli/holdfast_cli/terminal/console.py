"""The two consoles: colours and live screens on a terminal only, plain wide lines elsewhere.

What programs and users wrote, such as the last words of a training, cannot control the terminal: characters that could
are shown as `�`.
"""

import os
import sys
from collections.abc import Iterable
from typing import Final, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

PLAIN_WIDTH = 160  # columns of text that goes to a file or a pipe
WIDE = 4096  # more than any table has
_CONTROLS: Final = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
# What turns the order of the characters around it, and what ends a line in some terminals and editors.
_ORDERS: Final = {0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_HARMLESS: Final = dict.fromkeys(_CONTROLS | _ORDERS, "�")


class SafeConsole(Console):
    """A console on which only its own escape sequences have an effect, not those in a text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Console; also called for what is inside of `renderable`."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(segment.text.translate(_HARMLESS), segment.style)


def console(stream: TextIO | None = None, *, wide: bool = False) -> Console:
    """A new console on `stream` (default: standard output); new each time, so that tests can replace streams.

    A `wide` one has room for all columns of a table: a line may be longer than the screen.
    """
    stream = stream or sys.stdout
    plain_width = None if stream.isatty() or os.environ.get("COLUMNS") else PLAIN_WIDTH
    return SafeConsole(file=stream, width=WIDE if wide else plain_width, highlight=False)


def plain_console(stream: TextIO) -> Console:
    """A console for lines that a program reads: no colours and no live screens, in a notebook either.

    A kernel of Jupyter asks for colours by FORCE_COLOR; and rich would write into the output of the cell.
    """
    return SafeConsole(
        file=stream, width=PLAIN_WIDTH, highlight=False, color_system=None, force_terminal=False, force_jupyter=False
    )


def error_console() -> Console:
    """The console for errors and notes."""
    return SafeConsole(stderr=True, soft_wrap=True, highlight=False)
