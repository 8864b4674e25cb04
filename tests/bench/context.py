"""What every figure is measured with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.bench.api import Api
from tests.bench.audit import AuditLog
from tests.bench.control_plane.kwok import add_nodes
from tests.support.operator.operator_process import OperatorProcess

from holdfast_local.cluster import Cluster


@dataclass
class Bench:
    """One run: a control plane with KWOK, a client, the audit log. `quick` asks for a smaller version."""

    cluster: Cluster
    api: Api
    audit: AuditLog
    quick: bool

    def size(self, full: int, quick: int) -> int:
        """How many of something to measure."""
        return quick if self.quick else full

    async def nodes(self, group: str, count: int, first: int = 0) -> list[str]:
        """`count` new nodes of a group."""
        made = [f"{group}-{number}" for number in range(first, first + count)]
        await add_nodes(self.api, made, group)
        return made

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[OperatorProcess]:
        """An operator with its settings as they are shipped, and its log."""
        process = OperatorProcess(self.cluster, log_level="INFO")
        try:
            await asyncio.to_thread(process.start)
            yield process
        finally:
            await asyncio.to_thread(process.stop)
            process.kill()
