"""Requests that the API server refuses, holds or cuts."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.local_cluster import apply
from tests.support.http.api_proxy import ApiProxy, api_proxy
from tests.support.operator.operator_process import NAMESPACE, OperatorProcess
from tests.support.waiting import wait_for

from holdfast.runtime.apiserver.client import Client
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.resync import LISTS, Resync
from holdfast.runtime.informer.work_queue import WorkQueue
from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[ApiProxy]:
    with api_proxy(cluster.server, cluster.ca_cert) as running:
        yield running


@pytest.fixture
def kubeconfig(cluster: Cluster, proxy: ApiProxy, tmp_path: Path) -> Path:
    """The operator's own, through the proxy."""
    return proxy.kubeconfig(cluster.kubeconfig_for(NAMESPACE, "holdfast"), tmp_path / "kubeconfig")


def test_watches_that_die_end_the_operator_after_the_writes_in_flight(
    operators: Callable[..., OperatorProcess], jobs: Any, proxy: ApiProxy, kubeconfig: Path
) -> None:
    """Breaks if the end of a watch cuts a decision in the middle, or looks like a clean stop."""
    operator = operators(kubeconfig=kubeconfig).start()
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "a job to run")
    writing = proxy.add(r"PATCH .*/trainingjobs/b/status")
    jobs.create("b")
    assert writing.is_met.wait(60), operator.log_tail()
    proxy.add(r"GET /api/v1/nodes$", status=415)  # which kopf does not try again
    proxy.cut_watches("/api/v1/nodes")

    def said() -> list[str]:
        return [line["message"] for line in operator.log_lines() if line["level"] == "ERROR"]

    wait_for(lambda: "a part of the operator failed; the operator ends" in said(), 20, "the error in the log")
    proxy.release(writing)
    assert operator.wait() == 1
    assert jobs.status("b")["attempt"] == 1
    assert "b-1-0" in jobs.pods(), "what follows the status is done too"


async def test_a_cluster_is_read_once_although_every_tenth_page_is_refused(
    cluster: Cluster, namespace: str, proxy: ApiProxy, kubeconfig: Path
) -> None:
    """Breaks if a new leader begins a list again, or waits for longer than the server wants."""
    profile = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "CapacityProfile"}
    tiers = {"tiers": [{"name": "cpu", "kind": "CPU"}]}
    named = [{**profile, "metadata": {"name": f"{namespace}-{number}"}, "spec": tiers} for number in range(30)]
    apply(cluster, *named)
    proxy.page = 1
    refused = proxy.add("GET .*", status=429, every=10)
    async with await Client.from_kubeconfig(kubeconfig) as client:
        cache = Cache()
        resync = Resync(client, cache, WorkQueue[Key](), every=600)
        async with asyncio.timeout(60):
            await resync.once()
    assert len([name for name in cache.profiles if name.startswith(namespace)]) == 30
    known = len(cache.profiles) + len(cache.cluster.nodes) + len(cache.jobs) + len(cache.pod_uids())
    assert refused.met >= 3
    assert proxy.pages <= known + len(LISTS), "no page is read twice"
    cluster.kubectl("delete", "capacityprofiles", *(one["metadata"]["name"] for one in named))
