"""SIGTERM and a closed terminal, for commands that clean up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from holdfast_cli.errors import ExitCode


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and a closed terminal end a command as Ctrl-C does: what is half made is removed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    old = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
