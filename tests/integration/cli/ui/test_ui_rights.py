"""`holdfast ui` on a real API server, with the rights of a user who may look and not act."""

from typing import Any

import pytest
import urllib3
from tests.support.cluster.local_cluster import apply
from tests.support.ui_process import running_ui
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster

JOB = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "a"},
    "spec": {
        "trainer": {"image": "holdfast.dev/plain:local", "command": ["true"]},
        "capacity": {"tiers": [{"name": "cpu", "kind": "CPU"}]},
        "checkpoint": {"storage": {"s3": {"bucket": "runs", "prefix": "ui", "credentialsSecret": "keys"}}},
    },
}


def reader(namespace: str) -> list[dict[str, Any]]:
    """A service account that may look at jobs and nothing else."""
    named = {"namespace": namespace, "name": "reader"}
    rule = {"apiGroups": ["holdfast.dev"], "resources": ["trainingjobs"], "verbs": ["get", "list", "watch"]}
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": [rule]},
        {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": named,
         "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
         "subjects": [{"kind": "ServiceAccount", **named}]},
    ]  # fmt: skip


def test_pages_have_the_rights_of_their_user(cluster: Cluster, namespace: str) -> None:
    """Breaks if pages fail as a whole without a right, if a change is not sent, or if an action passes RBAC."""
    apply(cluster, *reader(namespace))
    apply(cluster, JOB, namespace=namespace)
    with running_ui(cluster.kubeconfig_for(namespace, "reader"), "-n", namespace) as ui:
        base, _, secrets = ui.address.partition("/?token=")
        token, _, secret_of_actions = secrets.partition("#")
        cookie = {"Cookie": f"holdfast-{base.rpartition(':')[2]}={token}"}
        http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(30))

        def page(path: str) -> str:
            return str(http.request("GET", f"{base}{path}", headers=cookie).data.decode())

        wait_for(lambda: f"{namespace}/a" in page("/jobs"), 20, "the job")
        assert "may not list CapacityProfiles (403)" in page("/tiers")
        assert "may not list Events in this namespace (403)" in page(f"/jobs/{namespace}/a")

        stream = http.request("GET", f"{base}/events?page=/jobs/{namespace}/a", headers=cookie, preload_content=False)
        seen = ""

        def sent(text: str) -> bool:
            nonlocal seen
            seen += stream.read1().decode()
            return text in seen

        wait_for(lambda: sent("you may not read the job"), 20, "the note of the storage")
        cluster.kubectl("-n", namespace, "patch", "tj", "a", "--type=merge", "-p", '{"spec": {"suspend": true}}')
        wait_for(lambda: sent("/resume"), 20, "the change")
        post = {
            **cookie,
            "Origin": base,
            "X-Holdfast-Token": secret_of_actions,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer = http.request("POST", f"{base}/jobs/{namespace}/a/resume", headers=post, body="")
        assert answer.status == 403
        assert f'system:serviceaccount:{namespace}:reader" cannot patch resource "trainingjobs"' in answer.data.decode()
        stream.close()
        assert ui.interrupt() == 0
