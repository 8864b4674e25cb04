"""The log of one pod's trainer, read as often as it takes: each line comes once."""

from collections.abc import AsyncIterator, Iterator

from holdfast.api.names import TRAINER_CONTAINER
from holdfast.core.observe.pods import PodView
from holdfast.runtime.apiserver.client import Client
from holdfast_cli.logs.lines import Cutter, Line, Position

QUIET = 30.0  # seconds without a byte after which a stream is opened again: some end without a word
PATIENCE = 30.0  # seconds without a byte while a log is read that is not followed


class PodLog:
    """Reads the log of one pod. `since` (seconds) and `tail` (lines) limit what the first reading gives."""

    def __init__(self, client: Client, pod: PodView, *, since: int | None = None, tail: int | None = None) -> None:
        self.pod = pod
        self._client = client
        self._cutter = Cutter(Position())
        self._first: dict[str, str | int] = {}
        if since is not None:
            self._first["sinceSeconds"] = since
        if tail is not None:
            self._first["tailLines"] = tail

    async def read(self) -> AsyncIterator[Line]:
        """The lines that are complete now, and were not read before. Raises ApiError."""
        async for line in self._stream({}, PATIENCE):
            yield line

    async def follow(self) -> AsyncIterator[Line]:
        """The lines that were not read before, and those to come, until the server ends the stream.

        Raises ApiError; with status 0 also if nothing came for QUIET seconds.
        """
        async for line in self._stream({"follow": "true"}, QUIET):
            yield line

    def rest(self) -> Iterator[Line]:
        """The last line, if the program ended in the middle of it: once, after the last reading."""
        return self._cutter.end()

    @property
    def position(self) -> Position:
        """How far the log was read."""
        return self._cutter.position

    async def _stream(self, more: dict[str, str | int], quiet: float) -> AsyncIterator[Line]:
        self._cutter = cutter = Cutter(self._cutter.position)
        start = {"sinceTime": cutter.position.since()} if cutter.position.at else self._first
        params = {"container": TRAINER_CONTAINER, "timestamps": "true", **start, **more}
        path = f"/api/v1/namespaces/{self.pod.namespace}/pods/{self.pod.name}/log"
        async for chunk in self._client.stream(path, params, quiet=quiet):
            for line in cutter.feed(chunk):
                yield line
