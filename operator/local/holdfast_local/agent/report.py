"""Writing a pod's status and events to the API: only changes, again until they arrive, never from a silent node."""

import asyncio
import logging
import uuid
from datetime import UTC, datetime
from typing import Any, Protocol

from holdfast_local.agent import status
from holdfast_local.agent.api import STRATEGIC, insist
from holdfast_local.agent.container.container import Machine
from holdfast_local.agent.errors import AgentError, ApiError

Object = dict[str, Any]

log = logging.getLogger(__name__)


class Reporting(Protocol):
    """The part of a node that decides whether anything is reported."""

    machine: Machine
    name: str
    silent: bool


class Reporter:
    """The status of one pod, kept equal in the API."""

    def __init__(self, host: Reporting, state: status.PodState) -> None:
        self.override: Object = {}  # written over what the state says
        self.settled = False  # the status in the API is final already
        self.frozen = False  # nothing is to be written any more
        self._host = host
        self._state = state
        self._dirty = asyncio.Event()
        self._lock = asyncio.Lock()
        self._sent: Object | None = None
        self._said: set[tuple[str, str]] = set()
        self._events: set[asyncio.Task[None]] = set()

    @property
    def _path(self) -> str:
        meta = self._state.pod["metadata"]
        return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"

    @property
    def _mute(self) -> bool:
        return self.frozen or self._host.silent

    def changed(self) -> None:
        """Something about the pod changed."""
        self._dirty.set()

    async def run(self) -> None:
        """Write every change, until cancelled."""
        while True:
            await self._dirty.wait()
            await self.flush()

    async def flush(self) -> None:
        """Return when the API has the state of now, the pod is gone, or the node is silent."""
        async with self._lock:
            self._dirty.clear()
            if self._mute or self.settled:
                return
            body = status.build(self._state, datetime.now(UTC)) | self.override
            if body == self._sent:
                return
            try:
                await insist(lambda: self._write(body))
                self._sent = body
            except ApiError as err:
                self._refused("status", err)

    async def _write(self, body: Object) -> Object:
        if self._mute:
            return {}
        uid = self._state.pod["metadata"]["uid"]
        patch = {"metadata": {"uid": uid}, "status": body}
        return await self._host.machine.api.patch(self._path + "/status", patch, STRATEGIC)

    async def release(self) -> None:
        """DELETE without grace: the containers have ended, so the object may go, once its finalizers let it."""
        try:
            await insist(self._delete)
        except ApiError as err:
            self._refused("deletion", err)

    async def _delete(self) -> Object:
        if self._mute:
            return {}
        uid = self._state.pod["metadata"]["uid"]
        return await self._host.machine.api.delete(self._path, uid=uid, grace=0)

    def _refused(self, what: str, err: ApiError) -> None:
        # 404 and 409: the pod is gone, or another one has its name. In both cases nothing waits for this report.
        if err.status not in (404, 409):
            log.error("%s of pod %s not written: %s", what, self._path, err)

    def event(self, reason: str, message: str) -> None:
        """Write a Warning event about the pod, once for each reason and message, and without waiting for it."""
        if (reason, message) in self._said or self._mute:
            return
        self._said.add((reason, message))
        task = asyncio.create_task(self._say(reason, message))
        self._events.add(task)
        task.add_done_callback(self._events.discard)

    async def _say(self, reason: str, message: str) -> None:
        meta = self._state.pod["metadata"]
        now = status.timestamp(datetime.now(UTC))
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta['name']}.{uuid.uuid4().hex[:16]}", "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": self._host.name},
            "reportingComponent": "kubelet",
            "reportingInstance": self._host.name,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._host.machine.api.create(f"/api/v1/namespaces/{meta['namespace']}/events", body)
        except AgentError as err:
            log.warning("event %s of pod %s not written: %s", reason, meta["name"], err)
