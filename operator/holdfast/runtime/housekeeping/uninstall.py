"""Clean up for uninstalling: nothing may be left that waits for an operator that never returns."""

import logging

from holdfast.api import names
from holdfast.api.rbac import LEASE, SERVING_SECRET
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter, Requester
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.errors import ApiError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.resync import MANAGED
from holdfast.runtime.pod_writer import PodWriter
from holdfast.serve.token_bucket import TokenBucket

log = logging.getLogger(__name__)


async def release_all(client: Requester, namespace: str) -> int:
    """Remove our finalizer from every pod and return how many had it; delete the Lease and the CA's Secret.

    `namespace` is the operator's. No operator may run. A pod that cannot be released does not stop the others: its
    ApiError is raised at the end.
    """
    gate = LeadershipGate()
    gate.keep_open(float("inf"))
    pods = PodWriter(GatedWriter(client, gate, TokenBucket(100, 100)), Cache())
    released, failed = 0, None
    async for page, _ in client.pages(paths.PODS, {"labelSelector": MANAGED}):
        for meta in (raw["metadata"] for raw in page):
            if names.POD_FINALIZER in (meta.get("finalizers") or ()):
                try:
                    await pods.release(Key(meta["namespace"], ""), meta["name"], meta["uid"])
                    released += 1
                except ApiError as error:
                    log.exception("pod %s/%s keeps the finalizer", meta["namespace"], meta["name"])
                    failed = error
    for path in (paths.lease(namespace, LEASE), paths.core(namespace, "secrets", SERVING_SECRET)):
        try:
            await client.request("DELETE", path)
        except ApiError as error:
            if not error.not_found:
                raise
    if failed is not None:
        raise failed
    return released
