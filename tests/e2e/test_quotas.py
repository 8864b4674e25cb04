"""Jobs in namespaces with a ResourceQuota or a LimitRange: they run, or they wait and say which quota is used up."""

from datetime import timedelta
from typing import Any

from tests.support.cluster.local_cluster import apply, exists, get
from tests.support.cluster.training_jobs import Pool, Raw, restarts, stub, submit
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast_local.cluster import Cluster

QUICK = stub("--step-seconds", 0.01)
SHORT = {"steps": 30}
LONG = stub("--step-seconds", 0.02, "--steps", 100_000)
ENDLESS = {"steps": 100_000}
SIZED = {"resources": {"cpu": "500m", "memory": "2Gi", "ephemeralStorage": "1Gi"}, "command": QUICK}

EVERYTHING = {
    "requests.cpu": "1",
    "limits.cpu": "1",
    "requests.memory": "4Gi",
    "limits.memory": "4Gi",
    "requests.ephemeral-storage": "2Gi",
    "limits.ephemeral-storage": "2Gi",
    "requests.nvidia.com/gpu": "1",
}


def set_quota(cluster: Cluster, namespace: str, name: str, hard: dict[str, str]) -> None:
    """Create or change a ResourceQuota, and wait until the API server counts with it."""
    manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}
    apply(cluster, manifest, namespace=namespace)
    wait_for(lambda: quota(cluster, namespace, name).get("hard") == hard, 30, f"quota {name} to hold")


def quota(cluster: Cluster, namespace: str, name: str) -> Raw:
    """The status of a ResourceQuota: `hard` and `used`."""
    found: Raw = get(cluster, f"resourcequota/{name}", namespace).get("status") or {}
    return found


def set_limits(cluster: Cluster, namespace: str, *limits: dict[str, Any]) -> None:
    """Create a LimitRange."""
    manifest = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "all"}, "spec": {"limits": list(limits)}}
    apply(cluster, manifest, namespace=namespace)


def test_a_quota_counts_what_a_job_asks_for_and_gets_it_back(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if the second of two jobs fails, waits for ever, or does not say that the quota is used up."""
    set_quota(cluster, namespace, "team", {"limits.cpu": "600m"})
    first = submit(
        cluster,
        namespace,
        [calm_pool.tier("cpu")],
        LONG,
        "first",
        goal=ENDLESS,
        trainer={**SIZED, "command": LONG},
    )
    first.wait_step(1)
    assert quota(cluster, namespace, "team")["used"] == {"limits.cpu": "500m"}

    second = submit(cluster, namespace, [calm_pool.tier("cpu")], QUICK, "second", goal=SHORT, trainer=SIZED)
    waiting = second.wait("a refusal", lambda s: s.get("reason") == "PodRefused")
    for words in ("exceeded quota: team", "requested: limits.cpu=500m", "used: limits.cpu=500m"):
        assert words in waiting["decision"]["message"]
    assert not second.pods()

    first.delete()

    done = second.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"], restarts(done)) == ("Completed", 1, (0, 0, 0))


def test_a_job_larger_than_its_quota_waits_until_the_quota_is_raised(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if the reason does not name the quota, or if the job does not go on by itself when there is room.

    Or if it is asked again without a pause, or each refusal takes a number.
    """
    set_quota(cluster, namespace, "team", {**EVERYTHING, "limits.ephemeral-storage": "512Mi"})
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], QUICK, goal=SHORT, trainer=SIZED)
    waiting = job.wait("a second refusal", lambda s: (s.get("current") or {}).get("refusals", 0) >= 2)
    assert (waiting["phase"], waiting["reason"], waiting["attempt"]) == ("Acquiring", "PodRefused", 1)
    first, second = job.delays()[:2]
    assert timedelta(seconds=0.5) < first <= timedelta(seconds=1) < second <= timedelta(seconds=2)
    for words in (
        "exceeded quota: team",
        "requested: limits.ephemeral-storage=1Gi",
        "limited: limits.ephemeral-storage=512Mi",
    ):
        assert words in waiting["decision"]["message"]

    set_quota(cluster, namespace, "team", EVERYTHING)

    done = job.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"], restarts(done)) == ("Completed", 1, (0, 0, 0))


def test_disk_space_that_a_job_does_not_state(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a quota refuses such a job, or if a LimitRange does and the reason does not name the job's field.

    Or if, under a quota on every resource, a container lacks a request or a limit, or init and trainer count twice.
    """
    set_quota(cluster, namespace, "team", EVERYTHING)
    plain = {"resources": {"cpu": "500m", "memory": "2Gi"}, "command": LONG}
    job = submit(cluster, namespace, [calm_pool.tier("dedicated")], LONG, goal=ENDLESS, trainer=plain)
    job.wait_step(1)
    used = quota(cluster, namespace, "team")["used"]
    assert (used["limits.cpu"], used["limits.ephemeral-storage"]) == ("500m", "0")

    job.patch({"suspend": True})
    job.wait_phase("Suspended")
    set_limits(cluster, namespace, {"type": "Pod", "min": {"ephemeral-storage": "512Mi"}})
    job.patch({"suspend": False})
    waiting = job.wait("a refusal", lambda s: s.get("reason") == "PodRefused")
    assert "minimum ephemeral-storage usage per Pod is 512Mi" in waiting["decision"]["message"]
    assert "set trainer.resources.ephemeralStorage" in waiting["decision"]["message"]

    job.patch({"suspend": True})
    job.wait_phase("Suspended")
    job.patch({"trainer": SIZED, "goal": SHORT, "suspend": False})

    done = job.wait_phase("Completed", "Failed")
    assert (done["phase"], restarts(done)) == ("Completed", (0, 0, 0))
    spec = job.pods()[-1]["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["resources"]["limits"].keys() >= {"cpu", "memory", "ephemeral-storage"}


def test_a_limit_range_fills_in_what_a_quota_asks_for(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if the init container is smaller than the minimum, or the defaults make request and limit differ."""
    bounds = {
        "type": "Container",
        "default": {"cpu": "250m", "memory": "256Mi", "ephemeral-storage": "1Gi"},
        "defaultRequest": {"cpu": "250m", "memory": "256Mi", "ephemeral-storage": "1Gi"},
        "min": {"cpu": "200m", "memory": "128Mi", "ephemeral-storage": "512Mi"},
        "max": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "2Gi"},
        "maxLimitRequestRatio": {"cpu": "1", "memory": "1"},
    }
    set_limits(cluster, namespace, bounds, {"type": "Pod", "max": {"cpu": "1", "memory": "4Gi"}})
    set_quota(cluster, namespace, "team", EVERYTHING)
    plain = {"resources": {"cpu": "500m", "memory": "2Gi"}, "command": QUICK}
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], QUICK, goal=SHORT, trainer=plain)
    done = job.wait_phase("Completed", "Failed")
    assert (done["phase"], done["attempt"], restarts(done)) == ("Completed", 1, (0, 0, 0))
    (pod,) = job.pods()
    for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
        assert container["resources"]["limits"]["ephemeral-storage"] == "1Gi", "the default of the LimitRange"


def test_a_quota_on_config_maps_is_named(
    cluster: Cluster, namespace: str, operator: OperatorProcess, calm_pool: Pool
) -> None:
    """Breaks if a namespace without room for the operator's ConfigMap leaves a job without a reason or for ever."""
    wait_for(lambda: exists(cluster, "configmap/kube-root-ca.crt", namespace), 20, "the namespace's own ConfigMap")
    set_quota(cluster, namespace, "few", {"count/configmaps": "1"})
    job = submit(cluster, namespace, [calm_pool.tier("cpu")], QUICK, goal=SHORT, trainer=SIZED)
    waiting = job.wait("a refusal", lambda s: "exceeded quota: few" in ((s.get("decision") or {}).get("message") or ""))
    assert names.CA_CONFIG_MAP in waiting["decision"]["message"]

    set_quota(cluster, namespace, "few", {"count/configmaps": "2"})

    done = job.wait_phase("Completed", "Failed")
    assert (done["phase"], restarts(done)) == ("Completed", (0, 0, 0))
