"""What the messages of a command in a pod mean."""

import asyncio
import json

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from holdfast_cli.exec.channel import PROTOCOLS, Ends, Outcome, converse, read_outcome

FAILURE = {"status": "Failure", "message": "command terminated with non-zero exit code"}


# Breaks if a command that failed, or never began, counts as one that succeeded.
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ({"status": "Success"}, Outcome(0)),
        ({**FAILURE, "details": {"causes": [{"reason": "ExitCode", "message": "42"}]}}, Outcome(42)),
        ({**FAILURE, "details": {"causes": [{"message": "x"}]}}, Outcome(None, FAILURE["message"])),
        (FAILURE, Outcome(None, FAILURE["message"])),
        ({**FAILURE, "details": {"causes": [{"reason": "ExitCode", "message": "many"}]}}, None),
        ([], None),
    ],
)
def test_what_a_status_says(status: object, outcome: Outcome | None) -> None:
    text = json.dumps(status)
    assert read_outcome(text.encode()) == (outcome or Outcome(None, text))


async def _talk(answer: list[bytes], protocols: tuple[str, ...], to_send: list[bytes]) -> tuple[object, list[bytes]]:
    """The outcome of a command, and the messages that the server got.

    The server waits for an end of the input where the protocol has one, sends its answer, and closes.
    """
    got, said = list[bytes](), list[str]()

    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=protocols)
        await socket.prepare(request)
        while not got or got[-1] != (b"\xff\x00" if socket.ws_protocol == PROTOCOLS[0] else b"\x00last"):
            got.append(await socket.receive_bytes(timeout=5))
        for message in answer:
            await socket.send_bytes(message)
        await socket.close()
        return socket

    async def read() -> bytes:
        return to_send.pop(0)

    async def take(data: bytes) -> None:
        got.append(b"taken " + data)

    app = web.Application()
    app.router.add_get("/", serve)
    async with (
        TestServer(app) as server,
        ClientSession() as session,
        session.ws_connect(server.make_url("/"), protocols=PROTOCOLS) as socket,
    ):
        return await asyncio.wait_for(converse(socket, Ends(read, {1: take}, said.append)), 10), got


# Breaks if the newer protocol is not chosen where a server has it, or if the end of the input is not sent.
async def test_the_end_of_the_input_is_a_message_of_the_newer_protocol() -> None:
    answer = [b"\x01out", b"\x01", b"\x02err", b'\x03{"status":', b'\x03"Success"}']
    outcome, got = await _talk(answer, PROTOCOLS[::-1], [b"first", b"last", b""])
    assert outcome == Outcome(0)
    assert got == [b"\x00first", b"\x00last", b"\xff\x00", b"taken out"]


# Breaks if a connection that is cut counts as a command that ended, or if an old server is sent what it cannot read.
async def test_a_cut_connection_has_no_outcome() -> None:
    outcome, got = await _talk([b"\x01out"], PROTOCOLS[1:], [b"last", b""])
    assert outcome is None
    assert got[:2] == [b"\x00last", b"taken out"]
    assert b"\xff\x00" not in got
