"""One address for several operators, as a Service gives them: each new connection goes to one that listens."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def service(address: str, port: int, backends: Sequence[int]) -> Iterator[None]:
    """Pass connections to `address`:`port` on to the ports `backends` of the same address, in turn."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="service", daemon=True)
    thread.start()
    forwarder = _Forwarder(address, list(backends))
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(forwarder.serve, address, port), loop).result(10)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(forwarder.end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


class _Forwarder:
    def __init__(self, address: str, backends: list[int]) -> None:
        self._address, self._backends = address, backends
        self._serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until an end closes it."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        others: list[asyncio.StreamWriter] = [writer]
        try:
            far = await self._connect()
            if far is not None:
                others.append(far[1])
                ways = [asyncio.create_task(_copy(reader, far[1])), asyncio.create_task(_copy(far[0], writer))]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
        finally:
            for one in others:
                one.close()
            self._serving.discard(task)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The next backend that listens, None if none does."""
        self._backends.append(self._backends.pop(0))
        for port in self._backends:
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(self._address, port)
        return None

    async def end(self, server: asyncio.Server) -> None:
        """Listen no more, and end all connections."""
        server.close()
        tasks = list(self._serving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
