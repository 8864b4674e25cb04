"""A local cluster for tests, and namespaces in it."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from tests.support.guard import guarded_cluster, temporary_folder
from tests.support.waiting import on_a_busy_machine, wait_for

from holdfast.api import names
from holdfast_local.agent.config import Timings
from holdfast_local.cluster import Cluster, up
from holdfast_local.config import ClusterConfig
from holdfast_local.errors import LocalError
from holdfast_local.layout import Layout

TIMINGS = Timings(final_phase=0.2)  # longer than the operator needs to act on the end of the containers
DEFAULTS = {"timings": TIMINGS, "ready_timeout": on_a_busy_machine(60)}


@contextmanager
def running_cluster(**options: Any) -> Iterator[Cluster]:
    """A cluster that is taken down at the end, or when the run is gone. Options are fields of ClusterConfig.

    Its API server takes some hundred MB more memory, and a fifth less CPU, unless GOGC says otherwise.
    """
    os.environ.setdefault("GOGC", "400")
    with temporary_folder("hf-") as parent, guarded_cluster(parent / "c"):
        cluster = up(ClusterConfig(root=parent / "c", **{**DEFAULTS, **options}))
        try:
            yield cluster
        finally:
            cluster.down()


@contextmanager
def fresh_namespace(cluster: Cluster, prefix: str = "test") -> Iterator[str]:
    """A namespace in which pods can be created; deleted (without waiting) at the end."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    _request(cluster, "POST", _collection("namespace", None), {"metadata": {"name": name}})
    try:
        wait_for(lambda: exists(cluster, "serviceaccount/default", name), 20, f"the service account of {name}")
        yield name
    finally:
        delete(cluster, f"namespace/{name}")


# Tests look at objects many times a second, and each has a namespace and objects of its own; kubectl would need as much
# of the machine as what they wait for.
_GROUPS = {
    "trainingjob": f"apis/{names.API_VERSION}",
    "capacityprofile": f"apis/{names.API_VERSION}",
    "customresourcedefinition": "apis/apiextensions.k8s.io/v1",
    "lease": "apis/coordination.k8s.io/v1",
    **dict.fromkeys(
        ("pod", "node", "event", "namespace", "configmap", "resourcequota", "limitrange", "serviceaccount"), "api/v1"
    ),
}
# Kinds of applied objects that are in no namespace.
_WIDE = (
    "CapacityProfile", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace", "Node",
    "NodeClaim", "PersistentVolume",
)  # fmt: skip


def exists(cluster: Cluster, what: str, namespace: str | None = None) -> bool:
    """Whether an object such as `pod/a` exists."""
    kind, _, name = what.partition("/")
    return bool(items(cluster, kind, namespace, fieldSelector=f"metadata.name={name}"))


def get(cluster: Cluster, what: str, namespace: str | None = None) -> dict[str, Any]:
    """An object such as `pod/a`. Raises LocalError if it does not exist."""
    kind, _, name = what.partition("/")
    found: dict[str, Any] = _request(cluster, "GET", f"{_collection(kind, namespace)}/{name}").json()
    return found


def items(cluster: Cluster, kind: str, namespace: str | None = None, **query: str) -> list[dict[str, Any]]:
    """All objects of a kind, such as `pod`; `query` may hold `labelSelector` and `fieldSelector`."""
    answer = _request(cluster, "GET", f"{_collection(kind, namespace)}?{urlencode(query)}")
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def watch(cluster: Cluster, kind: str, namespace: str, timeout: float) -> Iterator[dict[str, Any]]:
    """The events of a kind in a namespace from now on, each with `type` and `object`, for at most `timeout` seconds."""
    begun = _request(cluster, "GET", _collection(kind, namespace)).json()["metadata"]["resourceVersion"]
    query = urlencode({"watch": "1", "resourceVersion": begun, "timeoutSeconds": int(timeout)})
    url = f"{cluster.server}{_collection(kind, namespace)}?{query}"
    answer = _connections(cluster.root).request("GET", url, preload_content=False, timeout=timeout + 10)

    def events() -> Iterator[dict[str, Any]]:
        with closing(answer):
            for line in answer:
                yield json.loads(line)

    return events()


def patch(cluster: Cluster, what: str, changes: dict[str, Any], namespace: str | None = None) -> None:
    """Merge into an object such as `pod/a`. Raises LocalError with the API server's words."""
    kind, _, name = what.partition("/")
    _request(cluster, "PATCH", f"{_collection(kind, namespace)}/{name}", changes, "application/merge-patch+json")


def delete(cluster: Cluster, what: str, namespace: str | None = None) -> None:
    """Delete an object such as `pod/a`, without waiting until it is gone. No-op if it does not exist."""
    kind, _, name = what.partition("/")
    _request(cluster, "DELETE", f"{_collection(kind, namespace)}/{name}", fine=(200, 202, 404))


def pod_log(cluster: Cluster, pod: str, namespace: str, container: str = "trainer") -> str:
    """What a container of a pod printed. Raises LocalError if it has not started."""
    return _request(cluster, "GET", f"{_collection('pod', namespace)}/{pod}/log?container={container}").data.decode()


def apply(cluster: Cluster, *manifests: dict[str, Any], namespace: str | None = None) -> None:
    """Create or change objects by server-side apply, as kubectl does. Raises LocalError with the API server's words.

    `namespace` is that of objects that name none.
    """
    for manifest in manifests:
        kind, metadata = manifest["kind"], manifest["metadata"]
        own = None if kind in _WIDE else metadata.get("namespace") or namespace or "default"
        group = "api/v1" if manifest["apiVersion"] == "v1" else f"apis/{manifest['apiVersion']}"
        query = urlencode({"fieldManager": "kubectl", "force": "true", "fieldValidation": "Strict"})
        path = f"{_place(group, kind.lower(), own)}/{metadata['name']}?{query}"
        _request(cluster, "PATCH", path, manifest, "application/apply-patch+yaml")


def _collection(kind: str, namespace: str | None) -> str:
    return _place(_GROUPS[kind], kind, namespace)


def _place(group: str, kind: str, namespace: str | None) -> str:
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"/{group}{scope}/{kind}s"


def _request(
    cluster: Cluster,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    content_type: str = "application/json",
    *,
    fine: tuple[int, ...] = (200, 201),
) -> urllib3.BaseHTTPResponse:
    headers, data = {"Content-Type": content_type}, None if body is None else json.dumps(body)
    url = f"{cluster.server}{path}"
    try:
        answer = _connections(cluster.root).request(method, url, body=data, headers=headers, timeout=30)
    except urllib3.exceptions.HTTPError as error:
        raise LocalError(f"{method} {path}: {error}") from error
    if answer.status not in fine:
        raise LocalError(f"{method} {path}: HTTP {answer.status}: {answer.json()['message']}")
    return answer


@cache  # reading the certificates takes longer than a request
def _connections(root: Path) -> urllib3.PoolManager:
    pki = Layout(root).pki
    files = {"ca_certs": pki / "ca.crt", "cert_file": pki / "admin.crt", "key_file": pki / "admin.key"}
    return urllib3.PoolManager(**{name: str(file) for name, file in files.items()})


def audit_events(cluster: Cluster, user: str | None = None) -> list[dict[str, Any]]:
    """Every request that the API server has answered, oldest first, of one user name or of all."""
    if cluster.audit_log is None:
        raise LocalError("this cluster has no audit log: start it with audit=True")
    with cluster.audit_log.open(encoding="utf-8") as lines:  # of megabytes, in which nodes and controllers have most
        own = (line for line in lines if line.endswith("\n") and (user is None or user in line))
        events = [json.loads(line) for line in own]
    return [event for event in events if user is None or event["user"]["username"] == user]
