"""One tenant's changes, as fast as the API server takes them, beside the first pod of another tenant."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

import pytest
from tests.support.cluster.local_cluster import fresh_namespace
from tests.support.operator.operator_process import OperatorProcess

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.errors import ApiError
from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster

JOBS = 20  # of the tenant with the storm; each waits for a node and costs nothing
ANNOTATIONS = 40.0  # a second, on these jobs in turn
WRITES = 20.0  # a second, of the operator: a tenth of the default
MOST = 1.0  # seconds by which the storm may delay the pod of another tenant


class Tenants:
    """Jobs of two namespaces of a real cluster, and the requests of their people."""

    def __init__(self, client: Client, stormy: str, other: str) -> None:
        self._client = client
        self._stormy = stormy
        self._other = other
        self._numbers = itertools.count(1)
        self.sent = 0

    async def submit(self, namespace: str, name: str, tier: str) -> None:
        tiers = [{"name": "t", "kind": "CPU", "nodeSelector": {names.LABEL_TIER: tier}, "acquireTimeout": "7d"}]
        trainer = {
            "image": "holdfast.dev/plain:local",
            "command": ["sleep", "3600"],
            "resources": {"cpu": "10m", "memory": "16Mi"},
        }
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.JOB_KIND,
            "metadata": {"name": name},
            "spec": {
                "trainer": trainer,
                "capacity": {"tiers": tiers},
                "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": f"{namespace}/{name}"}}},
            },
        }
        await self._client.request("POST", paths.job(namespace, "").rstrip("/"), body=body)

    async def pod(self, namespace: str, name: str) -> None:
        """Wait until the first pod of a job exists."""
        while True:
            try:
                await self._client.request("GET", paths.core(namespace, "pods", f"{name}-1-0"))
            except ApiError as error:
                if not error.not_found:
                    raise
                await asyncio.sleep(0.05)
            else:
                return

    async def wait_for_nodes(self) -> None:
        """Let the jobs of the storm exist, each with a pod that finds no node."""
        for number in range(JOBS):
            await self.submit(self._stormy, f"m{number}", "nowhere")
        for number in range(JOBS):
            await self.pod(self._stormy, f"m{number}")

    async def delay(self) -> float:
        """Seconds until a new job of the other tenant has its pod."""
        name = f"j{next(self._numbers)}"
        await self.submit(self._other, name, "cpu")
        began = monotonic()
        await self.pod(self._other, name)
        return monotonic() - began

    @asynccontextmanager
    async def storm(self) -> AsyncIterator[None]:
        """Request moves of the jobs that wait, until the block ends. It begins when each has been asked some times."""
        rages = asyncio.Event()

        async def request() -> None:
            while True:
                self.sent += 1
                if self.sent > 10 * JOBS:
                    rages.set()
                body = {"metadata": {"annotations": {names.ANNOTATION_MOVE: str(self.sent)}}}
                await self._client.request("PATCH", paths.job(self._stormy, f"m{self.sent % JOBS}"), body=body)
                await asyncio.sleep(1 / ANNOTATIONS)

        task = asyncio.create_task(request())
        try:
            await rages.wait()
            yield
        finally:
            assert not task.done(), "the storm must last"
            task.cancel()


@pytest.mark.thorough
async def test_a_storm_of_one_tenant_delays_the_pod_of_another_by_a_second_at_most(
    cluster: Cluster, operators: Callable[..., OperatorProcess]
) -> None:
    """Breaks if workers, turns, writes or tokens are first come, first served between namespaces."""
    operators(None, qps=WRITES, burst=WRITES).start()
    with fresh_namespace(cluster, "storm") as stormy, fresh_namespace(cluster, "other") as other:
        async with await Client.from_kubeconfig(cluster.admin_kubeconfig) as client, asyncio.timeout(300):
            tenants = Tenants(client, stormy, other)
            await tenants.delay()  # the first job of a namespace also waits for its ConfigMap
            await tenants.wait_for_nodes()
            calm = min([await tenants.delay() for _ in range(3)])
            async with tenants.storm():
                found = sorted([await tenants.delay() for _ in range(5)])
    delays = f"{calm:.2f} s without the storm, {[f'{one:.2f}' for one in found]} in it, {tenants.sent} annotations"
    print(delays)
    assert found[2] <= calm + MOST, delays
