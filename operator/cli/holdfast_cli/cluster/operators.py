"""Whether an operator is at work: since when none has renewed its Lease, if the user may read Leases of that name."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast.api.rbac import LEASE
from holdfast.api.scalars import parse_time, say_time
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_cli.cluster.live_list import LiveList

PATH: Final = "/apis/coordination.k8s.io/v1/leases"
OURS: Final = {"fieldSelector": f"metadata.name={LEASE}"}
# A leader renews every 5 s, and another one follows it within 15 s. Clocks of machines differ by seconds.
LONG: Final = timedelta(seconds=60)


def silence(leases: Iterable[Mapping[str, Any]], now: datetime) -> str:
    """That no operator is at work, in words; empty if one is, or if nothing is known of any."""
    told = [(raw.get("spec") or {}).get("renewTime") for raw in leases]
    newest = max((parse_time(text) for text in told if text), default=None)
    if newest is None or now - newest < LONG:
        return ""
    return (
        f"No operator has renewed its Lease since {say_time(newest)}: what is shown is as old as that, and no job is "
        "looked after until an operator is at work again."
    )


async def read_silence(client: Client, now: datetime) -> str:
    """As `silence`, read once; empty if the user may not read it, or the API server does not answer."""
    with suppress(ApiError):
        items, _ = await client.list_all(PATH, OURS)
        return silence(items, now)
    return ""


class Operators:
    """The same, kept current inside `running`."""

    def __init__(self, client: Client) -> None:
        self._leases = LiveList(client, PATH, OURS)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the Leases inside the block. A user who may not read them is told nothing."""
        task = asyncio.create_task(self._leases.keep())
        try:
            await self._leases.asked.wait()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def silence(self, now: datetime) -> str:
        """As the function `silence`; empty while the API server does not answer: then the operator may be at work."""
        return "" if self._leases.trouble is not None else silence(self._leases.objects, now)
