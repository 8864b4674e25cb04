"""Bytes from and to real pipes, files and terminals."""

import asyncio
import os
import pty
import signal
import termios
from pathlib import Path

import pytest

from holdfast_cli.exec import streams


async def _all(fd: int) -> bytes:
    found = b""
    while chunk := await streams.read(fd):
        found += chunk
    return found


# Breaks if a slow reader stops everything else of the process, or if bytes are lost.
async def test_a_full_pipe_is_waited_for() -> None:
    outside, inside = os.pipe()
    sent = os.urandom(3_000_000)
    try:
        writing = asyncio.create_task(streams.write(inside, sent))
        writing.add_done_callback(lambda _: os.close(inside))
        assert await _all(outside) == sent
        await writing
    finally:
        os.close(outside)


# Breaks if a file as standard input is refused, as the event loop refuses it.
async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    for path, content in ((tmp_path / "file", b"x" * 100_000), (Path(os.devnull), b"")):
        fd = os.open(path, os.O_RDONLY)
        assert await _all(fd) == content
        os.close(fd)


# Breaks if a command that is cut short leaves a terminal on which nobody sees what is typed.
def test_the_terminal_is_put_back_after_an_error() -> None:
    outside, inside = pty.openpty()
    before = termios.tcgetattr(inside)
    try:
        with pytest.raises(ConnectionError), streams.raw(inside):
            assert not termios.tcgetattr(inside)[3] & (termios.ECHO | termios.ISIG)
            raise ConnectionError
        assert termios.tcgetattr(inside) == before
    finally:
        os.close(outside)
        os.close(inside)


# Breaks if a new size of the window is not seen, or if the signal stays taken after the command.
async def test_each_size_of_the_terminal_is_seen() -> None:
    outside, inside = pty.openpty()
    before = signal.getsignal(signal.SIGWINCH)
    seen = streams.sizes(inside)
    try:
        termios.tcsetwinsize(outside, (10, 20))
        assert await anext(seen) == (20, 10)
        termios.tcsetwinsize(outside, (30, 40))
        os.kill(os.getpid(), signal.SIGWINCH)
        assert await asyncio.wait_for(anext(seen), 10) == (40, 30)
    finally:
        await seen.aclose()
        os.close(outside)
        os.close(inside)
    assert signal.getsignal(signal.SIGWINCH) == before
