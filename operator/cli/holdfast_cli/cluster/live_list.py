"""A list of the API server that stays current: read once, then watched."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError

PAUSE = 1.0  # seconds before a watch that ended is begun again
LONGEST_PAUSE = 10.0  # seconds; the pause doubles with each list that fails
AGAIN = 15.0  # seconds until a kept list that was refused is asked for again: rights and logins change
FORBIDDEN = 403
_READ_AGAIN = (401, 410)  # the list renews credentials, and gives a newer version


class LiveList:
    """The objects of one list, used inside `running`, where an error that does not pass ends the updates, or by `keep`.

    `trouble` is the error of the last request, None while the watch works; `since` is when the trouble began, by the
    clock of the event loop. `changed` is called after each change of the objects or of `trouble`. After an error the
    objects stay as they were last seen. They are kept without their managedFields, which can be most of their size.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        params: Mapping[str, str] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._path = path
        self._params = dict(params or {})
        self._changed = changed
        self._objects: dict[str, dict[str, Any]] = {}
        self._version = 0
        self._stale = True  # the list is to be read before it is watched
        self._task: asyncio.Task[None] | None = None
        self.trouble: ApiError | None = None
        self.since = 0.0
        self.asked = asyncio.Event()
        """Set once the first read has succeeded or failed."""

    @property
    def objects(self) -> list[dict[str, Any]]:
        """All objects, as they are known now."""
        return list(self._objects.values())

    @property
    def forbidden(self) -> bool:
        """True if the user may not read the list."""
        return self.trouble is not None and self.trouble.status == FORBIDDEN

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read the list, and keep it current inside the block. Raises ApiError if the first read fails."""
        await self._read()
        self._task = asyncio.create_task(self._follow(kept=False))
        try:
            yield
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def check(self) -> None:
        """Raise an error that is not the API server's, if one has ended the updates."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def keep(self) -> None:
        """Read the list and follow it until this is cancelled. Only an error that is not the API server's is raised."""
        await self._follow(kept=True)

    async def _follow(self, *, kept: bool) -> None:
        pause, begun = PAUSE, False
        while True:
            try:
                await (self._read() if self._stale else self._watch())
            except ApiError as error:
                watched, self._stale, begun = not self._stale, True, True
                expired = watched and error.status in _READ_AGAIN
                if not expired:
                    self._note(error)
                    if not (error.transient or kept):
                        return
                if expired or (watched and error.transient):
                    continue
            if self.trouble is None:
                pause = PAUSE
            else:
                pause = min(2 * pause, LONGEST_PAUSE) if self.trouble.transient else AGAIN
            if begun or self.trouble is not None:  # the first watch begins at once
                await asyncio.sleep(pause)
            begun = True

    def _note(self, error: ApiError) -> None:
        if self.trouble is None:
            self.since = asyncio.get_running_loop().time()
        self.trouble = error
        self.asked.set()
        self._changed()

    def _well(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self._changed()

    async def _read(self) -> None:
        items, self._version = await self._client.list_all(self._path, self._params)
        self._objects = {_key(raw): _trimmed(raw) for raw in items}
        self._stale, self.trouble = False, None
        self.asked.set()
        self._changed()

    async def _watch(self) -> None:
        async for event in self._client.watch(self._path, self._params, self._version):
            raw = event.get("object") or {}
            self._version = int((raw.get("metadata") or {}).get("resourceVersion") or self._version)
            self._well()
            match event.get("type"):
                case "ADDED" | "MODIFIED":
                    self._objects[_key(raw)] = _trimmed(raw)
                    self._changed()
                case "DELETED":
                    self._objects.pop(_key(raw), None)
                    self._changed()


def _key(raw: Mapping[str, Any]) -> str:
    meta = raw.get("metadata") or {}
    return str(meta.get("uid") or f"{meta.get('namespace', '')}/{meta.get('name', '')}")


def _trimmed(raw: dict[str, Any]) -> dict[str, Any]:
    (raw.get("metadata") or {}).pop("managedFields", None)
    return raw
