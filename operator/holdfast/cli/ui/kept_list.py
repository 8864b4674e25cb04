"""A list of the API server that is kept until it is cancelled, also while the server is away."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.cli.cluster.live_list import PAUSE, LiveList
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError

AGAIN: Final = 15.0  # seconds until a list that was refused is asked for again: rights and logins change
FORBIDDEN: Final = 403


class KeptList:
    """The objects of a list. An error ends nothing: the objects stay as they were last seen, and `trouble` says why."""

    def __init__(
        self, client: Client, path: str, params: Mapping[str, str] | None, changed: Callable[[], None]
    ) -> None:
        self._list = LiveList(client, path, params, changed)
        self._changed = changed
        self._refused: ApiError | None = None
        self.asked = asyncio.Event()
        """Set once the first read has succeeded or failed."""

    @property
    def objects(self) -> list[dict[str, Any]]:
        """All objects, as they are known now."""
        return self._list.objects

    @property
    def trouble(self) -> ApiError | None:
        """Why the objects may be old or missing; None if they are current."""
        return self._refused or self._list.trouble

    @property
    def forbidden(self) -> bool:
        """True if the user may not read the list."""
        return self.trouble is not None and self.trouble.status == FORBIDDEN

    async def keep(self) -> None:
        """Read the list and follow it until this is cancelled. An error that is not the API server's is raised."""
        while True:
            try:
                async with self._list.running():
                    self._refused = None
                    self._tell()
                    await self._list.ended()
            except ApiError as error:
                self._refused = error
            self._tell()
            trouble = self.trouble
            await asyncio.sleep(PAUSE if trouble is None or trouble.transient else AGAIN)

    def _tell(self) -> None:
        self.asked.set()
        self._changed()
