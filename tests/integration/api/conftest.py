"""The CRDs on a real API server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.apiserver.client import Client
from holdfast_local.cluster import Cluster

ROOT = Path(__file__).parents[3]
Answer = dict[str, Any]


class Server:
    """The API server of the local cluster, asked as an administrator."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kubeconfig = cluster.admin_kubeconfig

    def ask(self, method: str, path: str, **options: Any) -> Answer:
        """One request; ApiError if it is refused."""
        return self.ask_all([(method, path, options)])[0]  # type: ignore[return-value]

    def ask_all(self, requests: list[tuple[str, str, dict[str, Any]]], refused: bool = False) -> list[Answer | str]:
        """Many requests at once. With `refused` a refusal is returned as its message, else it raises."""

        async def run() -> list[Answer | str]:
            async with await Client.from_kubeconfig(self.kubeconfig) as client:
                calls = [client.request(method, path, **options) for method, path, options in requests]
                answers = await asyncio.gather(*calls, return_exceptions=refused)
            return [str(answer) if isinstance(answer, BaseException) else answer for answer in answers]

        return asyncio.run(run())


@pytest.fixture(scope="module")
def server(cluster: Cluster) -> Iterator[Server]:
    """A server that knows the CRDs as they are checked in."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    yield Server(cluster)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
