"""The chart: rendered by Helm itself, and shown to a real API server."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.generate.dashboards.files import files
from tests.support.cluster.local_cluster import apply
from tests.support.operator.release import CHART, NAMESPACE, run
from tests.support.tools.catalogue import HELM

from holdfast.api import crds, names, rbac
from holdfast.runtime.settings import Settings
from holdfast_local import toolchain
from holdfast_local.cluster import Cluster
from holdfast_local.errors import LocalError

ROOT = Path(__file__).resolve().parents[3]
PODS = 40  # more than are released at the same time

Manifest = dict[str, Any]


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm, built once into the user's cache."""
    return toolchain.build(HELM)


def render(helm: Path, *args: str, namespace: str = NAMESPACE) -> list[Manifest]:
    """Every object of the chart, hooks included."""
    found: list[Manifest] = json.loads(_rendered(helm, *args, namespace=namespace))
    return found


@cache
def _rendered(helm: Path, *args: str, namespace: str) -> str:
    """The same as JSON, once for each set of values. The CRDs and dashboards are half a megabyte."""
    done = run(helm, "template", "holdfast", str(CHART), "--namespace", namespace, *args)
    assert done.returncode == 0, done.stderr
    return json.dumps([document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document])


def is_hook(manifest: Manifest) -> bool:
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})


def one(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    found = [m for m in manifests if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, f"{len(found)} objects {kind}/{name}"
    return found[0]


# Breaks if a template is not valid YAML, or a value that it uses is not in values.yaml.
def test_lints(helm: Path) -> None:
    done = run(helm, "lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


# Breaks if the chart gives the operator other rights than the local cluster, in which everything is tested.
@pytest.mark.parametrize("namespace", ["holdfast-system", "elsewhere"])
def test_rights_are_those_of_the_local_cluster(helm: Path, namespace: str) -> None:
    rendered = [m for m in render(helm, namespace=namespace) if not is_hook(m)]
    for wanted in rbac.manifests(namespace):
        assert one(rendered, wanted["kind"], wanted["metadata"]["name"]) == wanted
    bound = [m for m in rendered if m["kind"].endswith("Binding")]
    assert len(bound) == sum(m["kind"].endswith("Binding") for m in rbac.manifests(namespace))


# Breaks if the end of a node of Karpenter cannot be read, or a right is given where nobody needs it.
@pytest.mark.parametrize(
    ("given", "readable"),
    [
        ((), False),
        (("--api-versions", "karpenter.sh/v1"), True),
        (("--api-versions", "karpenter.sh/v1", "--set", "nodeClaims=Never"), False),
        (("--set", "nodeClaims=Always"), True),
    ],
)
def test_claims_of_nodes_are_read_where_karpenter_is(helm: Path, given: tuple[str, ...], readable: bool) -> None:
    rules = one(render(helm, *given), "ClusterRole", f"holdfast:{NAMESPACE}")["rules"]
    wanted = {"apiGroups": ["karpenter.sh"], "resources": ["nodeclaims"], "verbs": ["get"]}
    assert (wanted in rules) == readable


# Breaks if `make crds` forgot the chart, or if uninstalling would delete every job in the cluster.
def test_installs_the_generated_crds_and_keeps_them(helm: Path) -> None:
    rendered = {m["metadata"]["name"]: m for m in render(helm) if m["kind"] == "CustomResourceDefinition"}
    for wanted in crds.manifests():
        found = rendered.pop(wanted["metadata"]["name"])
        assert found["metadata"].pop("annotations")["helm.sh/resource-policy"] == "keep"
        wanted["metadata"].pop("annotations", None)
        assert found == json.loads(json.dumps(wanted))
    assert not rendered
    assert not [m for m in render(helm, "--set", "crds.install=false") if m["kind"] == "CustomResourceDefinition"]


# Breaks if a setting is renamed and the chart goes on to set the old name, which nothing reads.
def test_sets_only_what_the_operator_reads(helm: Path) -> None:
    pod = one(render(helm, "--set", "settings.HOLDFAST_WORKERS=32"), "Deployment", "holdfast")["spec"]["template"]
    container = pod["spec"]["containers"][0]
    given = [variable["name"] for variable in container["env"]]
    known = {f"HOLDFAST_{name.upper()}" for name in Settings.model_fields}
    assert set(given) <= known
    assert len(given) == len(set(given))
    assert {"name": "HOLDFAST_WORKERS", "value": "32"} in container["env"]
    assert container["args"] == ["run"]


# Breaks if Services and probes point to a port that the operator does not listen on.
def test_ports_agree(helm: Path) -> None:
    rendered = render(helm, "--set", "progress.port=9444,metrics.port=9080,health.port=9081")
    container = one(rendered, "Deployment", "holdfast")["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    env = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert ports == {"progress": 9444, "metrics": 9080, "health": 9081}
    assert (env["HOLDFAST_PROGRESS_BIND"], env["HOLDFAST_HEALTH_BIND"]) == (":9444", ":9081")
    assert env["HOLDFAST_METRICS_BIND"] == ":9080"
    assert one(rendered, "Service", "holdfast")["spec"]["ports"][0]["port"] == 9444
    assert one(rendered, "Service", "holdfast-metrics")["spec"]["ports"][0]["port"] == 9080
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


# Breaks if Grafana's sidecar does not find a dashboard, or Helm takes its legends for templates of its own.
def test_brings_the_dashboards(helm: Path) -> None:
    rendered = render(helm)
    for name, text in files().items():
        made = one(rendered, "ConfigMap", f"{name.removesuffix('.json')}-dashboard")
        assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert {key: json.loads(value) for key, value in made["data"].items()} == {name: json.loads(text)}
    assert sum(m["kind"] == "ConfigMap" for m in rendered) == len(files())
    assert not [m for m in render(helm, "--set", "dashboards.install=false") if m["kind"] == "ConfigMap"]


# Breaks if a cluster without the Prometheus Operator is given what it does not know, or series lose their job's name.
def test_brings_alerts_and_a_monitor_if_asked(helm: Path) -> None:
    kinds = {"ServiceMonitor", "PrometheusRule"}
    assert not kinds & {m["kind"] for m in render(helm)}
    on = ("metrics.serviceMonitor.install=true", "alerts.install=true", "alerts.labels.release=stack")
    rendered = render(helm, "--set", ",".join(on))
    monitor = one(rendered, "ServiceMonitor", "holdfast")["spec"]
    selected = monitor["selector"]["matchLabels"].items()
    services = [m for m in rendered if m["kind"] == "Service" and selected <= m["metadata"]["labels"].items()]
    assert [m["metadata"]["name"] for m in services] == ["holdfast-metrics"]
    assert [port["name"] for port in services[0]["spec"]["ports"]] == [monitor["endpoints"][0]["port"]]
    assert "honorLabels" not in monitor["endpoints"][0], "the labels of jobs collide with no label of a scrape"
    assert monitor["endpoints"][0]["scheme"] == "https"
    tls = monitor["endpoints"][0]["tlsConfig"]
    assert tls["serverName"] == f"holdfast-metrics.{NAMESPACE}.svc"
    assert tls["ca"]["configMap"] == {"name": names.CA_CONFIG_MAP, "key": names.CA_KEY}
    rule = one(rendered, "PrometheusRule", "holdfast")
    assert rule["metadata"]["labels"]["release"] == "stack"
    groups = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text().replace("RUNBOOKS", "docs/runbooks"))
    assert rule["spec"] == groups
    more = ("alerts.install=true", "alerts.spendPerHour=12", "alerts.runbooks=https://git.example/runbooks/")
    (*_, spend) = one(render(helm, "--set", ",".join(more)), "PrometheusRule", "holdfast")["spec"]["groups"]
    (alert,) = spend["rules"]
    assert alert["expr"].endswith("> 12")
    assert alert["annotations"]["runbook_url"] == "https://git.example/runbooks/HoldfastSpendRate.md"


# Breaks if /metrics is open to every pod of the cluster by default, or a reader has no way to get the right.
def test_metrics_need_a_right_unless_that_is_turned_off(helm: Path) -> None:
    def auth(rendered: list[Manifest]) -> tuple[str, bool, bool | None]:
        container = one(rendered, "Deployment", "holdfast")["spec"]["template"]["spec"]["containers"][0]
        env = {variable["name"]: variable.get("value") for variable in container["env"]}
        service = one(rendered, "Service", "holdfast-metrics")["metadata"].get("annotations", {})
        monitors = [m["spec"]["endpoints"][0] for m in rendered if m["kind"] == "ServiceMonitor"]
        shows_token = "bearerTokenFile" in monitors[0] if monitors else None
        return env["HOLDFAST_METRICS_AUTH"], "prometheus.io/scrape" in service, shows_token

    monitor = ("--set", "metrics.serviceMonitor.install=true")
    assert auth(render(helm, *monitor)) == ("on", False, True)
    is_open = ("--set", "metrics.auth=false")
    assert auth(render(helm, *monitor, *is_open)) == ("off", False, False), "or it is scraped twice"
    assert auth(render(helm, *is_open)) == ("off", True, None)
    reader = "metrics.readers[0].name=prometheus,metrics.readers[0].namespace=monitoring"
    rendered = render(helm, "--set", reader)
    binding = one(rendered, "ClusterRoleBinding", "holdfast-metrics-reader")
    role = one(rendered, "ClusterRole", binding["roleRef"]["name"])
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}]


# Breaks if a rollout stops a good operator before a new one is ready, or waits for a node that a small cluster lacks.
@pytest.mark.parametrize(
    ("values", "rollout", "kind"),
    [
        ("replicas=1", (0, 1), "preferred"),
        ("replicas=2", (0, 1), "preferred"),
        ("replicas=2,antiAffinity=Required", (1, 0), "required"),
        ("replicas=1,antiAffinity=Required", (0, 1), "preferred"),
    ],
)
def test_a_rollout_keeps_a_good_operator(helm: Path, values: str, rollout: tuple[int, int], kind: str) -> None:
    spec = one(render(helm, "--set", values), "Deployment", "holdfast")["spec"]
    unavailable, surge = rollout
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": unavailable, "maxSurge": surge}
    apart = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    assert list(apart) == [f"{kind}DuringSchedulingIgnoredDuringExecution"]


# Breaks if the operators of a node that died stand there for the 300 seconds of Kubernetes, and no job is looked after.
def test_an_operator_leaves_a_lost_node_soon(helm: Path) -> None:
    more = 'tolerations=[{"key":"gpu","operator":"Exists"}]'
    found = one(render(helm, "--set-json", more), "Deployment", "holdfast")["spec"]["template"]["spec"]["tolerations"]
    lost = {(item["key"], item["effect"], item["tolerationSeconds"]) for item in found if "tolerationSeconds" in item}
    assert lost == {(f"node.kubernetes.io/{state}", "NoExecute", 20) for state in ("not-ready", "unreachable")}
    assert {"key": "gpu", "operator": "Exists"} in found


# Breaks if the operator runs as a user that the image does not list, which the kubelet starts with group 0.
def test_user_and_group_are_set(helm: Path) -> None:
    rendered = render(helm)
    for kind, name in (("Deployment", "holdfast"), ("Job", "holdfast-release")):
        security = one(rendered, kind, name)["spec"]["template"]["spec"]["securityContext"]
        assert (security["runAsUser"], security["runAsGroup"]) == (65532, 65532)


# Breaks if a selector and the labels of the pods drift apart: the Service would find nobody.
def test_services_select_the_operator_and_nothing_else(helm: Path) -> None:
    rendered = render(helm)
    operator = one(rendered, "Deployment", "holdfast")["spec"]["template"]["metadata"]["labels"]
    assert names.OPERATOR_LABELS.items() <= operator.items()
    assert names.LABEL_LEADER not in operator  # only the leader writes it
    operator = {**operator, names.LABEL_LEADER: "true"}
    assert one(rendered, "Service", "holdfast")["spec"]["selector"][names.LABEL_LEADER] == "true"
    assert names.LABEL_LEADER not in one(rendered, "Service", "holdfast-metrics")["spec"]["selector"]
    release = one(rendered, "Job", "holdfast-release")["spec"]["template"]["metadata"]["labels"]
    for name in ("holdfast", "holdfast-metrics"):
        selector = one(rendered, "Service", name)["spec"]["selector"].items()
        assert selector <= operator.items()
        assert not selector <= release.items()


# Breaks if a wrong value is taken without a word.
@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("replicas=-1", "replicas"),
        ("replicas=0", "replicas"),
        ("release.deadline=0", "deadline"),
        ("metrics.port=8443", "progress.port, health.port and metrics.port"),
        ("health.port=9443", "progress.port, health.port and metrics.port"),
        ("metrics.auth=maybe", "auth"),
        ("replica=2", "replica"),
        ("logLevel=LOUD", "logLevel"),
        ("progress.port=80", "port"),
        ("settings.WORKERS=3", "WORKERS"),
        ("featureGates.Peers=true", "Peers"),
        ("featureGates.PeerCopies=maybe", "PeerCopies"),
        ("initImage=", "initImage"),
    ],
)
def test_refuses_wrong_values(helm: Path, setting: str, named: str) -> None:
    done = run(helm, "template", "holdfast", str(CHART), "--set", setting)
    assert done.returncode != 0
    assert named in done.stderr


# Breaks if the API server would refuse any object of the chart, or warns that a field is unknown.
def test_the_api_server_takes_every_object(helm: Path, cluster: Cluster, namespace: str) -> None:
    manifests = render(helm, namespace=namespace)
    text = "\n".join(map(json.dumps, manifests))
    out = cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text
    )
    assert len(out.splitlines()) == len(manifests)


# Breaks if the operator or the hook cannot run where only restricted pods are allowed.
@pytest.mark.parametrize(("kind", "name"), [("Deployment", "holdfast"), ("Job", "holdfast-release")])
def test_pods_are_restricted(helm: Path, cluster: Cluster, namespace: str, kind: str, name: str) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    template = one(render(helm, namespace=namespace), kind, name)["spec"]["template"]
    spec = {**template["spec"], "serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": namespace}, "spec": spec}
    cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    pod["spec"]["containers"][0].pop("securityContext")
    with pytest.raises(LocalError, match="restricted"):
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


# Breaks if the Job of the hook is stopped before its program has said what is left, or runs again after that.
def test_the_hook_ends_with_its_own_words(helm: Path) -> None:
    spec = one(render(helm, "--set", "release.deadline=900"), "Job", "holdfast-release")["spec"]
    container = spec["template"]["spec"]["containers"][0]
    assert {"name": "HOLDFAST_RELEASE_DEADLINE", "value": "900"} in container["env"]
    assert spec["activeDeadlineSeconds"] == 960
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [1])
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


# Breaks if uninstalling leaves a pod that waits for ever for an operator that is gone.
def test_the_hook_may_release_pods_and_little_else(helm: Path, cluster: Cluster, namespace: str) -> None:
    hooks = [m for m in render(helm, namespace=namespace) if is_hook(m)]
    assert {m["metadata"]["annotations"]["helm.sh/hook"] for m in hooks} == {"post-delete"}
    container = one(hooks, "Job", "holdfast-release")["spec"]["template"]["spec"]["containers"][0]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert environment == {"HOLDFAST_NAMESPACE": None, "HOLDFAST_RELEASE_DEADLINE": "240"}
    command = container["args"]
    rights = [m for m in hooks if m["kind"] != "Job"]
    apply(cluster, *rights)
    pod: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "left-behind",
            "namespace": namespace,
            "finalizers": ["holdfast.dev/end-recorded"],
            "labels": {"app.kubernetes.io/managed-by": "holdfast", "holdfast.dev/job": "gone"},
        },
        "spec": {
            "nodeName": "nowhere",
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "trainer", "image": "holdfast.dev/plain:local"}],
        },
    }
    left_over = [
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": rbac.LEASE}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": rbac.SERVING_SECRET}},
    ]
    try:
        apply(cluster, *({**pod, "metadata": {**pod["metadata"], "name": f"left-{n}"}} for n in range(PODS)))
        apply(cluster, *left_over, namespace=namespace)
        kubeconfig = cluster.kubeconfig_for(namespace, "holdfast-release")
        done = subprocess.run(
            [sys.executable, "-m", "holdfast.runtime", *command, "--kubeconfig", str(kubeconfig)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "HOLDFAST_NAMESPACE": namespace, "HOLDFAST_RELEASE_DEADLINE": "50"},
        )
        assert done.returncode == 0, done.stderr
        assert not cluster.kubectl("-n", namespace, "get", "lease,secret", "-o", "name")
        left = json.loads(cluster.kubectl("-n", namespace, "get", "pods", "-o", "json"))["items"]
        assert len(left) == PODS
        assert not any("holdfast.dev/end-recorded" in pod["metadata"].get("finalizers", []) for pod in left)
        assert done.stdout == f"released {PODS} pods\n"
    finally:
        for right in rights:
            cluster.kubectl("-n", namespace, "delete", right["kind"], right["metadata"]["name"], "--ignore-not-found")


# Breaks if the documented way to install again, under another name, does not work.
def test_another_release_takes_over_the_crds_that_stayed(helm: Path, cluster: Cluster, namespace: str) -> None:
    place = ("--namespace", namespace, "--kubeconfig", str(cluster.admin_kubeconfig))
    quiet = ("--set", "dashboards.install=false")

    def install(name: str, *more: str) -> subprocess.CompletedProcess[str]:
        return run(helm, "install", name, str(CHART), *place, *quiet, *more)

    def uninstall(name: str) -> None:
        done = run(helm, "uninstall", name, *place, "--no-hooks")  # no node runs the hook here
        assert done.returncode == 0, done.stderr

    first = install("first", "--take-ownership")  # other tests may have installed the CRDs
    assert first.returncode == 0, first.stderr
    uninstall("first")
    refused = install("second")
    assert refused.returncode != 0
    assert "invalid ownership metadata" in refused.stderr
    second = install("second", "--take-ownership")
    assert second.returncode == 0, second.stderr
    uninstall("second")


# Breaks if somebody who may view a namespace cannot look at its jobs, or may change them.
def test_roles_for_people_aggregate(helm: Path) -> None:
    rendered = render(helm)
    view, edit = one(rendered, "ClusterRole", "holdfast-view"), one(rendered, "ClusterRole", "holdfast-edit")
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert {verb for rule in view["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert "rbac.authorization.k8s.io/aggregate-to-view" not in edit["metadata"]["labels"]
    assert {"get", "list", "watch", "patch"} <= set(edit["rules"][0]["verbs"]), "kubectl apply reads and writes"


# Breaks if every account may read prices and names of nodes, or if readers may do more than read.
def test_only_accounts_that_the_values_name_may_see_profiles(helm: Path) -> None:
    assert "system:authenticated" not in str(render(helm))
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "ml-team"}
    rendered = render(helm, "--set-json", f"profileReaders={json.dumps([group])}")
    binding = one(rendered, "ClusterRoleBinding", "holdfast-profiles")
    role = one(rendered, "ClusterRole", binding["roleRef"]["name"])
    assert binding["subjects"] == [group]
    assert role["rules"] == [
        {"apiGroups": ["holdfast.dev"], "resources": ["capacityprofiles"], "verbs": ["get", "list"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["holdfast"],
         "verbs": ["get", "list", "watch"]},
    ]  # fmt: skip
