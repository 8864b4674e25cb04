"""/metrics with real tokens, rights and TLS."""

import http.client
import json
import ssl
from collections.abc import Callable

import pytest
from tests.support.cluster.local_cluster import apply, get
from tests.support.operator.operator_process import NAMESPACE, OperatorProcess
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster
Make = Callable[..., OperatorProcess]
API = "rbac.authorization.k8s.io"


def test_metrics_need_a_token_whose_user_may_read_them(operators: Make, cluster: Cluster, namespace: str) -> None:
    """Breaks if a pod of the cluster reads the names and costs of all jobs, or Prometheus cannot read them."""
    operator = operators(metrics_auth="on").start()

    def trusted() -> str:
        found = json.loads(cluster.kubectl("-n", NAMESPACE, "get", "configmap", "-o", "json"))["items"]
        return next((one["data"]["ca.crt"] for one in found if one["metadata"]["name"] == "holdfast-ca"), "")

    context = ssl.create_default_context(cadata=wait_for(trusted, 20, "the CA in the operator's namespace"))
    context.check_hostname = False  # the certificate is for the Service, and this is an address

    def ask(token: str | None) -> tuple[int, str]:
        connection = http.client.HTTPSConnection("127.0.0.1", operator.metrics_port, context=context, timeout=30)
        try:
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    assert ask(None)[0] == 401
    assert ask("forged")[0] == 401
    stranger = cluster.kubectl("-n", namespace, "create", "token", "default").strip()
    status, text = ask(stranger)
    assert (status, f'user "system:serviceaccount:{namespace}:default" may not' in text) == (403, True)
    name = f"reads-metrics-{namespace}"
    role = {"apiVersion": f"{API}/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}  # fmt: skip
    binding = {"apiVersion": f"{API}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
               "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": name},
               "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": namespace}]}  # fmt: skip
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus", "namespace": namespace}}
    try:
        apply(cluster, account, role, binding)
        token = cluster.kubectl("-n", namespace, "create", "token", "prometheus").strip()
        status, text = ask(token)
        assert (status, "holdfast_leading 1.0" in text) == (200, True)
    finally:
        cluster.kubectl("delete", "clusterrole,clusterrolebinding", name, "--ignore-not-found")


@pytest.mark.thorough
def test_the_leader_has_the_label_and_gives_it_up_when_its_pod_is_lost(operators: Make, cluster: Cluster) -> None:
    """Breaks if the Service does not find the leader, or a leader that nobody can reach keeps the lease."""
    labels = {"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "operator"}

    def pod(name: str, *, ready: bool) -> None:
        meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
        # No scheduler takes it, so nothing but this test writes its status.
        spec = {"schedulerName": "none", "containers": [{"name": "operator", "image": "none"}]}
        apply(cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-11-21T12:00:00Z"}
        patch = json.dumps({"status": {"phase": "Running", "conditions": [condition]}})
        cluster.kubectl("-n", NAMESPACE, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)

    def leader() -> str:
        command = ("get", "pods", "-l", "holdfast.dev/leader=true", "-o", "name")
        return cluster.kubectl("-n", NAMESPACE, *command).strip()

    try:
        pod("operator-one", ready=True)
        pod("operator-two", ready=True)
        first = operators(pod="operator-one").start()
        wait_for(lambda: leader() == "pod/operator-one", 10, "the label")
        second = operators(pod="operator-two").start(wait=False)
        pod("operator-one", ready=False)
        assert first.wait(90) == 1
        assert "has not been ready for 30s" in first.log_tail()
        second.wait_ready(10)
        wait_for(lambda: leader() == "pod/operator-two", 10, "the label to move")
        assert get(cluster, "lease/holdfast", NAMESPACE)["spec"]["holderIdentity"]
    finally:
        for name in ("operator-one", "operator-two"):
            cluster.kubectl("-n", NAMESPACE, "delete", "pod", name, "--force", "--ignore-not-found")
