"""Clean up for uninstalling: nothing may be left that waits for an operator that never returns."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, NamedTuple

from holdfast.api import names
from holdfast.api.rbac import LEASE, SERVING_SECRET
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter, Requester
from holdfast.runtime.apiserver.leadership_gate import LeadershipGate
from holdfast.runtime.errors import ApiError, ReleaseError
from holdfast.runtime.informer.cache import Cache, Key
from holdfast.runtime.informer.resync import MANAGED
from holdfast.runtime.pod_writer import PodWriter
from holdfast.serve.token_bucket import TokenBucket

log = logging.getLogger(__name__)

DEADLINE: Final = 240.0  # seconds
PARALLEL: Final = 32  # pods that are released at the same time
RATE: Final = 500.0  # writes per second at most
FIRST_PAUSE: Final = 1.0  # seconds; doubled after each round without success
LONGEST_PAUSE: Final = 15.0
TOO_MANY: Final = 429  # HTTP status: the API server is busy
SHOWN: Final = 5  # pods that the error names


class _Pod(NamedTuple):
    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class _Round:
    """The pods with the finalizer in one list of all pods, and what became of them."""

    found: list[_Pod] = field(default_factory=list)
    released: int = 0
    failed: dict[_Pod, ApiError] = field(default_factory=dict)
    trouble: ApiError | None = None  # with the list of pods, or with what only an operator uses

    @property
    def left(self) -> list[_Pod]:
        """The pods that still have the finalizer."""
        return sorted((*self.failed, *self.found))

    @property
    def errors(self) -> list[ApiError]:
        """What went wrong."""
        return [*self.failed.values(), *([self.trouble] if self.trouble else [])]

    @property
    def may_pass(self) -> bool:
        """True if an error may pass. 410: the list expired between two pages."""
        return any(error.transient or error.conflict or error.status == 410 for error in self.errors)


async def release_all(
    client: Requester,
    namespace: str,
    *,
    deadline: float = DEADLINE,
    clock: Callable[[], float] = monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> int:
    """Remove our finalizer from every pod and return how many had it; delete the Lease and the CA's Secret.

    `namespace` is the operator's. No operator may run. Many pods are released at once. What does not work is tried
    again for `deadline` seconds. Raises ReleaseError, which says what is left and how to go on.
    """
    gate = LeadershipGate()
    gate.keep_open(float("inf"))
    pods = PodWriter(GatedWriter(client, gate, TokenBucket(RATE, PARALLEL)), Cache())
    until, released, in_vain = clock() + deadline, 0, 0
    while True:
        now = _Round()
        try:
            await _delete_own(client, namespace)
        except ApiError as error:
            now.trouble = error
        try:
            now.found = await _with_finalizer(client)
        except ApiError as error:
            now.trouble = error
        await _release(pods, now, until, clock, sleep)
        released += now.released
        if not (now.left or now.errors):
            return released
        in_vain = 0 if now.released else in_vain + 1
        pause = min(FIRST_PAUSE * 2**in_vain, LONGEST_PAUSE) if now.may_pass else 0.0
        if clock() + pause >= until or not (now.released or now.may_pass):
            raise ReleaseError(_words(released, now, namespace))
        await sleep(pause)


async def _delete_own(client: Requester, namespace: str) -> None:
    """Delete what only an operator uses."""
    for path in (paths.lease(namespace, LEASE), paths.core(namespace, "secrets", SERVING_SECRET)):
        try:
            await client.request("DELETE", path)
        except ApiError as error:
            if not error.not_found:
                raise


async def _with_finalizer(client: Requester) -> list[_Pod]:
    """All pods that have our finalizer. The list is read as a whole first: its pages expire after some minutes."""
    found: list[_Pod] = []
    async for page, _ in client.pages(paths.PODS, {"labelSelector": MANAGED}):
        found += map(_pod, filter(_has_finalizer, (raw["metadata"] for raw in page)))
    return found


def _has_finalizer(meta: dict[str, Any]) -> bool:
    return names.POD_FINALIZER in (meta.get("finalizers") or ())


def _pod(meta: dict[str, Any]) -> _Pod:
    return _Pod(meta["namespace"], meta["name"], meta["uid"])


async def _release(
    pods: PodWriter, work: _Round, until: float, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]
) -> None:
    """Release the pods that were found, PARALLEL at a time, until the time is over. An error stops no other pod."""

    async def worker() -> None:
        while work.found and clock() < until:
            pod = work.found.pop()
            try:
                await pods.release(Key(pod.namespace, ""), pod.name, pod.uid)
                work.released += 1
            except ApiError as error:
                log.debug("pod %s/%s keeps the finalizer: %s", pod.namespace, pod.name, error)
                work.failed[pod] = error
                if error.status == TOO_MANY:
                    await sleep(min(error.retry_after or FIRST_PAUSE, LONGEST_PAUSE))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(PARALLEL, len(work.found))):
            group.create_task(worker())


def _words(released: int, last: _Round, namespace: str) -> str:
    """What was done, what is left and why, and how to go on."""
    count, named = len(last.left), ", ".join(f"{pod.namespace}/{pod.name}" for pod in last.left[:SHOWN])
    more = f" and {count - SHOWN} more" if count > SHOWN else ""
    kept = f"; {count} pods keep Holdfast's finalizer and cannot be deleted: {named}{more}" if count else ""
    why = f"the last error: {last.errors[-1]}" if last.errors else "the time was over"
    how = f"go on with: holdfast-operator release --namespace {namespace}"
    return f"released {released} pods{kept}; {why}; {how}"
