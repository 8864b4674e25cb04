"""A fake API server behind the client's one method, a clock that tests move, and raw objects."""

import copy
import re
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.api import names
from holdfast.runtime.errors import ApiError

PAGE = 2  # objects in a page of a list
T0 = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Clock:
    """Seconds that pass when a test says so; callable as a monotonic clock, `now` as a wall clock."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self.seconds - 1000.0)

    def tick(self, seconds: float) -> None:
        self.seconds += seconds


def raw_job(name: str = "a", uid: str = "u1", version: int = 1, **status: Any) -> dict[str, Any]:
    """A TrainingJob as the API server gives it."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.JOB_KIND,
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version), "generation": 1},
        "spec": {
            "trainer": {"image": "x", "command": ["y"]},
            "capacity": {"tiers": [{"name": "cpu", "kind": "CPU"}]},
            "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "p"}}},
        },
        "status": status,
    }


def raw_pod(
    name: str = "a-1-0", uid: str = "p1", version: int = 10, *, job: str = "a", job_uid: str = "u1", **more: Any
) -> dict[str, Any]:
    """A pod of attempt 1; `more`: attempt, node, phase, deleted, finalizers, ready."""
    labels = {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_JOB: job,
        names.LABEL_JOB_UID: job_uid,
        names.LABEL_ATTEMPT: str(more.get("attempt", 1)),
        names.LABEL_RANK: "0",
    }
    meta: dict[str, Any] = {
        "namespace": "ns",
        "name": name,
        "uid": uid,
        "resourceVersion": str(version),
        "labels": labels,
    }
    meta["ownerReferences"] = [{"uid": job_uid, "kind": names.JOB_KIND, "name": job, "controller": True}]
    meta["finalizers"] = more.get("finalizers", [names.POD_FINALIZER])
    if more.get("deleted"):
        meta["deletionTimestamp"] = more["deleted"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": more["node"]} if more.get("node") else {},
        "status": {"phase": more.get("phase", "Pending")},
    }


def raw_node(name: str = "n1", uid: str = "", version: int = 5, *, ready: bool = True, **more: Any) -> dict[str, Any]:
    """A node; `more`: taints, labels, since."""
    condition = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "lastTransitionTime": more.get("since", "2026-11-21T11:00:00Z"),
        "lastHeartbeatTime": f"2026-11-21T11:00:{version % 60:02d}Z",
    }
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": more.get("labels", {}),
        },
        "spec": {"taints": more.get("taints", [])},
        "status": {"conditions": [condition]},
    }


Reply = dict[str, Any] | ApiError | Callable[[Any], Any]


class FakeClient:
    """Objects by path, with resourceVersions and conflicts; `on` scripts the next answers of a request."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str, Any]] = []
        self.version = 100
        self._scripts: list[tuple[str, re.Pattern[str], list[Reply]]] = []

    def on(self, method: str, pattern: str, *replies: Reply) -> None:
        """Answer the next requests that match with these, one after the other, before the normal answers."""
        self._scripts.append((method, re.compile(pattern), list(replies)))

    def sent(self, method: str) -> list[tuple[str, Any]]:
        """Path and body of every request of a method."""
        return [(path, body) for verb, path, body in self.calls if verb == method]

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | list[Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        content_type: str | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - as the real client
    ) -> dict[str, Any]:
        self.calls.append((method, path, copy.deepcopy(body)))
        for verb, pattern, replies in self._scripts:
            if verb == method and pattern.search(path) and replies:
                reply = replies.pop(0)
                if isinstance(reply, ApiError):
                    raise reply
                return reply(body) if callable(reply) else reply
        return self._serve(method, path, body)

    def _serve(self, method: str, path: str, body: Any) -> dict[str, Any]:
        path = path.removesuffix("/status")
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise ApiError(409, "AlreadyExists", f"{path} already exists")
            return self.put(path, {**body, "metadata": {"uid": f"uid{self.version}", **body["metadata"]}})
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        found = self.objects[path]
        if method == "GET":
            return copy.deepcopy(found)
        if method == "DELETE":
            wanted = ((body or {}).get("preconditions") or {}).get("uid")
            if wanted and wanted != found["metadata"]["uid"]:
                raise ApiError(409, "Conflict", "the UID in the precondition does not match")
            return self.objects.pop(path)
        if isinstance(body, list):
            return self.put(path, _json_patched(found, body))
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != found["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        return self.put(path, body if method == "PUT" else _merged(found, body))

    def put(self, path: str, raw: dict[str, Any]) -> dict[str, Any]:
        """Store an object under a new resourceVersion."""
        self.version += 1
        stored = copy.deepcopy(raw)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        self.objects[path] = stored
        return copy.deepcopy(stored)

    async def pages(
        self, path: str, params: Mapping[str, str | int] | None = None
    ) -> AsyncIterator[tuple[list[dict[str, Any]], int]]:
        items, version = await self.list_all(path, params)
        for start in range(0, max(1, len(items)), PAGE):
            yield items[start : start + PAGE], version

    async def list_all(
        self, path: str, params: Mapping[str, str | int] | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        self.calls.append(("LIST", path, None))
        for verb, pattern, replies in self._scripts:
            if verb == "LIST" and pattern.search(path) and replies:
                reply = replies.pop(0)
                if isinstance(reply, ApiError):
                    raise reply
        resource = path.rpartition("/")[2]
        found = [raw for key, raw in self.objects.items() if f"/{resource}/" in key]
        return copy.deepcopy(found), self.version


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _json_patched(old: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    new = copy.deepcopy(old)
    for step in patch:
        *parents, last = step["path"].strip("/").split("/")
        place: Any = new
        try:
            for name in parents:
                place = place[name]
            key: Any = int(last) if isinstance(place, list) else last
            found = place[key]
        except (KeyError, IndexError) as error:
            raise ApiError(422, "Invalid", "no such place") from error
        if step["op"] == "test" and found != step["value"]:
            raise ApiError(422, "Invalid", "test failed")
        if step["op"] == "remove":
            del place[key]
    return new
