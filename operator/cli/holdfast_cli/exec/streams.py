"""The standard streams of this process as bytes, and its terminal.

The streams stay in blocking mode: a terminal shares its mode with the shell that started this process.
"""

import asyncio
import os
import select
import signal
import termios
import tty
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from holdfast_cli.errors import CliError

_CHUNK: Final = 32 * 1024


async def read(fd: int) -> bytes:
    """The next bytes of a file; b"" at its end. Raises OSError."""
    loop = asyncio.get_running_loop()
    await _until(loop.add_reader, loop.remove_reader, fd)
    return os.read(fd, _CHUNK)


async def write(fd: int, data: bytes) -> None:
    """Write all bytes to a file. Raises BrokenPipeError, CliError."""
    loop = asyncio.get_running_loop()
    while data:
        if not select.select([], [fd], [], 0)[1]:
            await _until(loop.add_writer, loop.remove_writer, fd)
        try:
            data = data[os.write(fd, data[: select.PIPE_BUF]) :]  # as much as a pipe with room takes without a wait
        except BrokenPipeError:  # nobody reads any more: as of every command in a pipe
            raise
        except OSError as error:
            raise CliError(f"the output of the command cannot be written: {error.strerror}") from error


async def _until(add: Callable[..., Any], remove: Callable[[int], Any], fd: int) -> None:
    """Wait until the file can be read or written."""
    able = asyncio.Event()
    try:
        add(fd, able.set)
    except PermissionError:  # a file on a disk, or /dev/null: it always can
        return
    try:
        await able.wait()
    finally:
        remove(fd)


async def sizes(fd: int) -> AsyncGenerator[os.terminal_size]:
    """The size of the terminal, and each new one."""
    changed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            yield os.get_terminal_size(fd)
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def raw(fd: int) -> Iterator[None]:
    """Inside the block each key of the terminal is a byte to read, Ctrl-C too. The terminal is as before afterwards."""
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
