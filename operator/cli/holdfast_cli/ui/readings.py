"""What the nodes and the storage of a job say. All open pages of one job share one reading."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from time import monotonic
from typing import Final

from holdfast.api.errors import HoldfastError
from holdfast.api.objects import TrainingJob
from holdfast.core.observe.nodes import NodeView
from holdfast.runtime.errors import ApiError
from holdfast_cli.errors import CliError
from holdfast_cli.pages.inputs import JobInputs
from holdfast_cli.report.gather import read_place
from holdfast_cli.storage.address import Where, storage_of
from holdfast_cli.storage.history import LIMIT, MOST_ROWS
from holdfast_cli.storage.in_thread import in_thread
from holdfast_cli.ui.cluster import LONGEST_WHY, Cluster
from holdfast_cli.why.reading import all_nodes

EVERY: Final = 15.0  # seconds between two readings of the storage and of the nodes
READING: Final = "the storage is being read"


class Reading:
    """What was read last of one job. `nodes` is None before they were read."""

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._place = namespace, name
        self._read_at = -inf
        self.pages = 0
        self.task: asyncio.Task[None] | None = None
        self.stored = JobInputs(None, datetime.now(UTC), notes=[READING])
        self.nodes: list[NodeView] | None = None

    @property
    def wait(self) -> float:
        """Seconds until it is read again; 0 or less if it is old."""
        return self._read_at + EVERY - monotonic()

    async def keep(self) -> None:
        """Read the nodes and the storage now and then, until this is cancelled."""
        while True:
            await asyncio.sleep(max(self.wait, 0))
            job = self._cluster.job(*self._place)
            if job is not None:
                self.stored = await self._read(job)
                self._cluster.pulse.beat()
            self._read_at = monotonic()

    async def _read(self, job: TrainingJob) -> JobInputs:
        """Read the nodes and the storage. If they cannot be read, this page says so, and other pages go on."""
        try:
            with suppress(ApiError):  # the banner says that the API server is away; the nodes stay as they were
                self.nodes = await all_nodes(self._cluster.client)
            return await self._storage(job)
        except Exception as error:  # noqa: BLE001 - the other pages go on, and this one says what was wrong
            why = f"the storage cannot be shown: {type(error).__name__}: {str(error)[:LONGEST_WHY]}"
            return JobInputs(job, datetime.now(UTC), notes=[why])

    async def _storage(self, job: TrainingJob) -> JobInputs:
        """What is in the storage, as far as this user's rights reach; a note says what does not."""
        inputs = JobInputs(job, datetime.now(UTC))
        try:
            where = Where(self._place[1], self._place[0])
            place = await storage_of(self._cluster.client, job, where)
        except HoldfastError as error:
            hint = f" ({error.hint})" if isinstance(error, CliError) and error.hint else ""
            return replace(inputs, notes=[f"the storage is not seen: {error}{hint}"])
        return await in_thread(lambda: read_place(inputs, place, most_rows=MOST_ROWS, at_most=LIMIT))


class Readings:
    """The readings of all jobs that are open in a browser."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, str], Reading] = {}

    @asynccontextmanager
    async def of(self, namespace: str, name: str) -> AsyncIterator[Reading]:
        """The reading of a job, which goes on while any page has it. A page that comes back soon finds it again."""
        self._known = {key: one for key, one in self._known.items() if one.pages or one.wait > 0}
        reading = self._known.setdefault((namespace, name), Reading(self._cluster, namespace, name))
        reading.pages += 1
        if reading.task is None:
            reading.task = self._cluster.begin(reading.keep())
        try:
            yield reading
        finally:
            reading.pages -= 1
            if not reading.pages and reading.task is not None:
                reading.task.cancel()
                reading.task = None
