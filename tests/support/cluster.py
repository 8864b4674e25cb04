"""A local cluster for tests, and namespaces in it."""

import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_for

from holdfast.local.cluster import Cluster, ClusterConfig, up
from holdfast.local.errors import LocalError


@contextmanager
def running_cluster(**options: Any) -> Iterator[Cluster]:
    """A cluster that is taken down at the end. Options are fields of ClusterConfig.

    The root is a short folder of its own: a unix socket's path may not be longer than 107 bytes, which pytest's
    temporary folders easily are.
    """
    parent = Path(tempfile.mkdtemp(prefix="hf-"))
    try:
        cluster = up(ClusterConfig(root=parent / "c", **options))
        try:
            yield cluster
        finally:
            cluster.down()
    finally:
        shutil.rmtree(parent, ignore_errors=True)


@contextmanager
def fresh_namespace(cluster: Cluster, prefix: str = "test") -> Iterator[str]:
    """A namespace in which pods can be created; deleted (without waiting) at the end."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    try:
        wait_for(lambda: exists(cluster, "serviceaccount/default", name), 20, f"the service account of {name}")
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def exists(cluster: Cluster, what: str, namespace: str | None = None) -> bool:
    """Whether an object such as `pod/a` exists."""
    scope = ["-n", namespace] if namespace else []
    return bool(cluster.kubectl("get", what, *scope, "--ignore-not-found", "-o", "name").strip())


def get(cluster: Cluster, what: str, namespace: str | None = None) -> dict[str, Any]:
    """An object such as `pod/a`. Raises LocalError if it does not exist."""
    scope = ["-n", namespace] if namespace else []
    found: dict[str, Any] = json.loads(cluster.kubectl("get", what, *scope, "-o", "json"))
    return found


def apply(cluster: Cluster, *manifests: dict[str, Any], namespace: str | None = None) -> None:
    """Create or change objects by server-side apply. Raises LocalError with the API server's words."""
    scope = ["-n", namespace] if namespace else []
    text = "\n".join(json.dumps(manifest) for manifest in manifests)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", *scope, stdin=text)


def audit_events(cluster: Cluster, user: str | None = None) -> list[dict[str, Any]]:
    """Every request that the API server has answered, oldest first, of one user name or of all."""
    if cluster.audit_log is None:
        raise LocalError("this cluster has no audit log: start it with audit=True")
    events: list[dict[str, Any]] = []
    with cluster.audit_log.open(encoding="utf-8") as lines:
        events.extend(json.loads(line) for line in lines if line.endswith("\n"))
    return [event for event in events if user is None or event["user"]["username"] == user]
