"""What was asked of the API server and when, from its audit log."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

OPERATOR = "system:serviceaccount:holdfast-system:holdfast"
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
NODE_CONTROLLER = "system:serviceaccount:kube-system:node-controller"

_WRITES = tuple(f'"verb":"{verb}"'.encode() for verb in ("create", "update", "patch", "delete", "deletecollection"))
_APART = ("events", "leases", "tokenreviews")  # not what a write a job means; counted on their own


@dataclass(frozen=True, slots=True)
class Write:
    """One write. `received` and `answered` are in seconds since 1970, as the API server stamps them."""

    user: str
    verb: str
    resource: str  # with its subresource: pods/status
    namespace: str
    name: str
    received: float
    answered: float
    code: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        """True if the write took effect."""
        return self.code < 400


class AuditLog:
    """Reads the log as it grows. Only writes are kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._writes: list[Write] = []

    def start(self) -> float:
        """Forget everything so far: what follows is what is measured."""
        self._offset = self._path.stat().st_size
        self._writes = []
        return self._offset

    def writes(self) -> list[Write]:
        """All writes since `start`, oldest first."""
        with self._path.open("rb") as log:
            log.seek(self._offset)
            data = log.read()
        end = data.rfind(b"\n") + 1
        self._offset += end
        for line in data[:end].splitlines():
            head = line[:2000]
            if any(verb in head for verb in _WRITES) and b'"resource":"leases"' not in head:
                self._writes.append(_write(json.loads(line)))
        return self._writes

    def find(self, wanted: Callable[[Write], bool]) -> list[Write]:
        """The writes that took effect and for which `wanted` holds."""
        return [write for write in self.writes() if write.ok and wanted(write)]

    def by(self, user: str) -> list[Write]:
        """Every write of one user, whether it took effect or not."""
        return [write for write in self.writes() if write.user == user]


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _write(event: dict[str, Any]) -> Write:
    place = event.get("objectRef") or {}
    resource = place.get("resource", "")
    if part := place.get("subresource"):
        resource = f"{resource}/{part}"
    body = event.get("requestObject")
    return Write(
        user=event["user"]["username"],
        verb=event["verb"],
        resource=resource,
        namespace=place.get("namespace", ""),
        name=place.get("name", ""),
        received=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
        code=(event.get("responseStatus") or {}).get("code", 0),
        body=body if isinstance(body, dict) else {},
    )


def costs(writes: Iterable[Write]) -> Counter[str]:
    """How many writes there were of each kind, besides Events, Leases and token reviews."""
    return Counter(f"{w.verb} {w.resource}" for w in writes if w.resource not in _APART)


def is_pod_post(write: Write) -> bool:
    """True if the write made a pod."""
    return write.verb == "create" and write.resource == "pods"
