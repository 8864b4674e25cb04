"""The operator's own pod, and those of the other operators.

The Service `holdfast` selects the pod with the leader's label, so that every operator may be ready and all reports
reach the leader. And a leader that nobody can reach (its node lost its kubelet, or its pod was deleted) ends, if
another operator is ready to lead.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from holdfast.api import names
from holdfast.runtime.apiserver import paths
from holdfast.runtime.apiserver.gated_writer import GatedWriter, Requester
from holdfast.runtime.errors import ApiError, UnreachableError

EVERY = 5.0  # seconds between two looks
PATIENCE = 30.0  # seconds without being ready until a leader ends
SELECTOR = ",".join(f"{name}={value}" for name, value in names.OPERATOR_LABELS.items())

log = logging.getLogger(__name__)


class OwnPod:
    """Watches the pod called `name`; does nothing if it is None, for an operator that does not run in a pod."""

    def __init__(
        self,
        client: Requester,
        writer: GatedWriter,
        *,
        namespace: str,
        name: str | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._writer = writer
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._unready_since: float | None = None
        self._other_is_ready = False
        self._serving = False

    @property
    def is_reachable(self) -> bool:
        """False if this pod has not been ready for too long and another operator is ready."""
        since = self._unready_since
        return since is None or not self._other_is_ready or self._clock() - since < PATIENCE

    async def serve(self) -> None:
        """Take the leader's label, now and whenever it is missing. Errors are logged: the next look tries again."""
        self._serving = True
        await self.look()

    async def leave(self) -> None:
        """Give the leader's label back. An error is ignored: the next leader takes the label away."""
        if self._name and self._serving:
            self._serving = False
            await self._label(self._name, None)

    async def run(self) -> None:
        """Look until cancelled. Raises UnreachableError if this process leads and should not."""
        while True:
            await self.look()
            if self._writer.may_write and not self.is_reachable:
                raise UnreachableError(
                    f"pod {self._name} has not been ready for {PATIENCE:.0f}s and another operator is ready: this"
                    " operator releases the lease and ends"
                )
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Look once at the pods of all operators, and write the labels that are wrong."""
        if self._name is None:
            return
        try:
            pods, _ = await self._client.list_all(paths.core(self._namespace, "pods"), {"labelSelector": SELECTOR})
        except ApiError as error:  # nothing is known: what was known stays
            log.warning("cannot list the pods of the operators: %s", error)
            return
        mine = next((pod for pod in pods if pod["metadata"]["name"] == self._name), None)
        others = [pod for pod in pods if pod is not mine]
        self._other_is_ready = any(map(_is_ready, others))
        if mine is not None and _is_ready(mine):
            self._unready_since = None
        elif self._unready_since is None:
            self._unready_since = self._clock()
        if self._serving:
            await self._lead(mine, others)

    async def _lead(self, mine: dict[str, Any] | None, others: Iterable[dict[str, Any]]) -> None:
        for pod in others:
            if names.LABEL_LEADER in _labels(pod):
                await self._label(pod["metadata"]["name"], None)
        if mine is not None and _labels(mine).get(names.LABEL_LEADER) != "true":
            await self._label(self._name or "", "true")

    async def _label(self, pod: str, value: str | None) -> None:
        body = {"metadata": {"labels": {names.LABEL_LEADER: value}}}
        try:
            await self._writer.write("PATCH", paths.core(self._namespace, "pods", pod), body)
        except ApiError as error:
            if not error.not_found:
                log.warning("cannot change the label of pod %s: %s", pod, error)


def _labels(pod: dict[str, Any]) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")
