"""Exec of the kubelet: a WebSocket that carries the streams of one command in a container, and its exit code.

Each message begins with the number of a channel: 0 to 2 are the streams by their file descriptors, 3 is how the command
ended, as a Status, 4 the size of the terminal. With v5, the message 255 and a number says that this channel has ended.
"""

import asyncio
import fcntl
import json
import os
import struct
import termios
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from holdfast_local.agent.container.container import Container
from holdfast_local.agent.container.process import Streams
from holdfast_local.agent.errors import AgentError

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _STATUS, _SIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK = 32 * 1024
_LAST_WORDS = 1.0  # seconds for output of processes that outlive the command


async def run(request: web.Request, container: Container) -> web.WebSocketResponse:
    """Answer GET /exec/...?command=...&input=1&output=1&error=1&tty=1 of the API server.

    A command whose connection ends goes on, as in a container: it finds its input at the end, or loses its terminal.
    """
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
    await socket.prepare(request)
    ends = _Ends(is_terminal=request.query.get("tty") == "1")
    if request.query.get("input") != "1":
        ends.close_input()
    try:
        ended = container.enter(request.query.getall("command"), ends.theirs)
    except AgentError as err:
        ends.close_theirs()
        ends.close()
        await _end(socket, {"status": "Failure", "reason": "InternalError", "message": str(err)})
        return socket
    ends.close_theirs()
    up: asyncio.Future[None] = asyncio.create_task(_up(socket, ends))
    down = [asyncio.create_task(_down(socket, channel, fd)) for channel, fd in ends.outputs.items()]
    try:
        await asyncio.wait((ended, up), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await asyncio.wait(down, timeout=_LAST_WORDS)
            await _end(socket, _outcome(ended.result()))
    finally:
        for task in (up, *down):
            task.cancel()
        await asyncio.gather(up, *down, return_exceptions=True)
        ends.close()
    return socket


class _Ends:
    """Both ends of the streams of a command: three pipes, or one terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._theirs: tuple[int, ...]
        if is_terminal:
            ours, terminal = os.openpty()
            self.input: int | None = ours
            self.outputs, self._theirs = {_STDOUT: ours}, (terminal,)
            self.theirs = Streams(terminal, terminal, terminal, terminal=True)
        else:
            (stdin, self.input), (out, stdout), (err, stderr) = os.pipe(), os.pipe(), os.pipe()
            self.outputs, self._theirs = {_STDOUT: out, _STDERR: err}, (stdin, stdout, stderr)
            self.theirs = Streams(stdin, stdout, stderr)
        for fd in {self.input, *self.outputs.values()}:
            os.set_blocking(fd, False)

    def close_theirs(self) -> None:
        """Close the ends of the command, which has them."""
        for fd in self._theirs:
            os.close(fd)

    def close_input(self) -> None:
        """Tell the command that its input is at the end. A terminal has no such end."""
        if self.input is not None and not self.theirs.terminal:
            os.close(self.input)
            self.input = None

    def close(self) -> None:
        """Close what is left."""
        self.close_input()
        for fd in self.outputs.values():
            os.close(fd)


async def _up(socket: web.WebSocketResponse, ends: _Ends) -> None:
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, content = message.data[0], message.data[1:]
        if channel == _STDIN:
            await _write(ends, content)
        elif channel == _SIZE and ends.theirs.terminal and ends.input is not None:
            size = json.loads(content)
            fcntl.ioctl(ends.input, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
        elif channel == _CLOSE and content == bytes([_STDIN]) and socket.ws_protocol == PROTOCOLS[0]:
            ends.close_input()


async def _write(ends: _Ends, data: bytes) -> None:
    """Write to the command. What it reads no more is lost."""
    while data and ends.input is not None:
        try:
            data = data[os.write(ends.input, data) :]
        except BlockingIOError:
            await _until(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer, ends.input)
        except OSError:
            ends.close_input()
            return


async def _down(socket: web.WebSocketResponse, channel: int, fd: int) -> None:
    loop = asyncio.get_running_loop()
    with suppress(OSError):  # a terminal that nobody has open any more
        while True:
            try:
                if not (chunk := os.read(fd, _CHUNK)):
                    return
            except BlockingIOError:
                await _until(loop.add_reader, loop.remove_reader, fd)
            else:
                await socket.send_bytes(bytes([channel]) + chunk)


async def _until(add: Any, remove: Any, fd: int) -> None:
    """Wait until the file can be read or written."""
    able = asyncio.Event()
    add(fd, able.set)
    try:
        await able.wait()
    finally:
        remove(fd)


def _outcome(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _end(socket: web.WebSocketResponse, outcome: dict[str, Any]) -> None:
    with suppress(ConnectionError):
        await socket.send_bytes(bytes([_STATUS]) + json.dumps(outcome).encode())
        await socket.close()
