"""The way to the API server: what a cut does to requests, and how they go on."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from holdfast.serve.authority import Authority
from holdfast_local.agent.api import ApiClient, follow
from holdfast_local.agent.config import AgentConfig
from holdfast_local.agent.errors import ApiUnreachableError


class Server:
    """An API server with one list, which is empty; a watch sends the changes after its version."""

    def __init__(self) -> None:
        self._changes: dict[int, str] = {}
        self._changed = asyncio.Condition()
        self.watches: list[str] = []
        self.waiting = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The list, or the watch."""
        if "wait" in request.query:
            self.waiting.set()
            await asyncio.Event().wait()
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        self.watches.append(request.query["resourceVersion"])
        stream = web.StreamResponse()
        await stream.prepare(request)
        sent = int(request.query["resourceVersion"])
        while True:
            async with self._changed:
                while max(self._changes, default=0) <= sent:
                    await self._changed.wait()
            for version in sorted(one for one in self._changes if one > sent):
                sent, metadata = version, {"name": self._changes[version], "resourceVersion": str(version)}
                await stream.write(json.dumps({"type": "ADDED", "object": {"metadata": metadata}}).encode() + b"\n")

    async def change(self, name: str, version: int) -> None:
        """Let each watch report an object."""
        async with self._changed:
            self._changes[version] = name
            self._changed.notify_all()


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    authority = Authority.create("test", timedelta(days=1))
    pair = authority.issue("127.0.0.1", timedelta(days=1), hosts=("127.0.0.1",), client=True)
    ca, cert, key = (tmp_path / name for name in ("ca.crt", "x.crt", "x.key"))
    for file, text in ((ca, authority.pair.certificate), (cert, pair.certificate), (key, pair.key)):
        file.write_text(text)
    return AgentConfig(
        root=tmp_path, server="https://127.0.0.1:1", ca_cert=ca, client_cert=cert, client_key=key, kubelet_cert=cert,
        kubelet_key=key, nodes=(),
    )  # fmt: skip


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def client(config: AgentConfig, server: Server) -> AsyncIterator[ApiClient]:
    app = web.Application()
    app.router.add_get("/things", server.answer)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(str(config.client_cert), str(config.client_key))
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    found = ApiClient(config.model_copy(update={"server": f"https://127.0.0.1:{runner.addresses[0][1]}"}))
    yield found
    await found.close()
    await runner.cleanup()


# Breaks if a request of a node that is cut off still reaches the API server, or never does again.
async def test_a_cut_ends_requests_until_the_client_connects_again(client: ApiClient) -> None:
    assert (await client.get("/things"))["items"] == []
    await client.cut()
    with pytest.raises(ApiUnreachableError, match="GET /things: the node is cut off"):
        await client.get("/things")
    await client.reconnect()
    assert (await client.get("/things"))["items"] == []


# Breaks if a request that waits for its answer learns of a cut only when its time is up.
async def test_a_cut_ends_a_request_that_waits(client: ApiClient, server: Server) -> None:
    waiting = asyncio.create_task(client.request("GET", "/things", query={"wait": "1"}))
    await asyncio.wait_for(server.waiting.wait(), 5)
    await client.cut()
    with pytest.raises(ApiUnreachableError):
        await asyncio.wait_for(waiting, 5)


# Breaks if a watch still delivers in a cut, hangs on its old connection afterwards, or misses what happened meanwhile.
async def test_a_watch_goes_on_after_a_cut_where_it_was(client: ApiClient, server: Server) -> None:
    seen: list[str] = []
    heard = asyncio.Event()

    async def on_list(_items: list[dict[str, Any]]) -> None:
        pass

    async def on_event(_kind: str, thing: dict[str, Any]) -> None:
        seen.append(thing["metadata"]["name"])
        heard.set()

    following = asyncio.create_task(follow(client, "/things", "", on_list, on_event))
    try:
        await server.change("a", 5)
        await asyncio.wait_for(heard.wait(), 5)
        await client.cut()
        heard.clear()
        with pytest.raises(ApiUnreachableError, match="watch /things"):
            await asyncio.wait_for(anext(client.watch("/things", "", "5")), 5)
        await server.change("b", 6)
        await client.reconnect()
        await asyncio.wait_for(heard.wait(), 10)
    finally:
        following.cancel()
    assert seen == ["a", "b"]
    assert server.watches == ["1", "5"]
