"""Before Holdfast is uninstalled: nothing may be left that waits for an operator that does not come back."""

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import Requester, Writer
from holdfast.runtime.apiserver.leadership_gate import Gate
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.resync import MANAGED
from holdfast.runtime.pod_writer import PodWriter
from holdfast.serve.token_bucket import TokenBucket


async def release_all(client: Requester) -> int:
    """Take our finalizer off every pod; how many carried it. The operator must not run any more. Raises ApiError."""
    gate = Gate()
    gate.keep_open(float("inf"))
    pods = PodWriter(Writer(client, gate, TokenBucket(100, 100)), Cache())
    released = 0
    for raw in (await client.list_all(paths.PODS, {"labelSelector": MANAGED}))[0]:
        meta = raw["metadata"]
        if names.POD_FINALIZER in (meta.get("finalizers") or ()):
            await pods.release(Key(meta["namespace"], ""), meta["name"], meta["uid"])
            released += 1
    return released
