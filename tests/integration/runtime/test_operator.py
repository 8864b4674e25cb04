"""Watch, cache, queue, execute: the real process against the real API server, with a small decide function."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.local_cluster import audit_events, exists, get
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api import names
from holdfast.runtime import command
from holdfast_local.cluster import Cluster

pytestmark = pytest.mark.cluster

USER = "system:serviceaccount:holdfast-system:holdfast"
WRITES = {"create", "update", "patch", "delete"}
Make = Callable[..., OperatorProcess]
COLLECTED_IN = 90  # seconds: Kubernetes' garbage collector learns of a new CRD within 30, later on a busy machine


def writes(cluster: Cluster, namespace: str) -> list[str]:
    """What the operator wrote in the namespace or in none, leases aside; jobs of tests before may still be ending."""
    return [
        f"{event['verb']} {event['objectRef']['resource']}"
        for event in audit_events(cluster, USER)
        if event["verb"] in WRITES
        and event.get("stage", "ResponseComplete") == "ResponseComplete"
        and event["objectRef"]["resource"] not in ("leases", "tokenreviews")
        and event["objectRef"].get("namespace", namespace) == namespace
    ]


def events_of(jobs: Any, name: str = "a") -> list[dict[str, Any]]:
    found = json.loads(jobs.kubectl("get", "events", "-o", "json"))["items"]
    return [event for event in found if event["involvedObject"]["name"] == name]


def test_a_job_runs_to_its_end(operator: OperatorProcess, jobs: Any) -> None:
    """Breaks if a watch, the cache, the queue, a right or the order of writes is wrong."""
    jobs.create(script="exit 0")
    wait_for(lambda: jobs.phase() == "Completed", 20, "the job to complete")
    # the status is written first: an operator that dies in between must not lose the end of the pod
    wait_for(lambda: "finalizers" not in jobs.pods()["a-1-0"]["metadata"], 5, "the pod without a finalizer")
    assert "BEGIN CERTIFICATE" in get(jobs.cluster, "configmap/holdfast-ca", jobs.namespace)["data"]["ca.crt"]
    assert [event["reason"] for event in wait_for(lambda: events_of(jobs), 5, "an event")] == ["Raised"]


def test_a_lost_pod_is_replaced_and_other_writers_do_not_disturb(operator: OperatorProcess, jobs: Any) -> None:
    """Breaks if a conflict is not decided again on the fresh object."""
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    for number in range(5):
        jobs.kubectl("annotate", "tj/a", f"example.org/n={number}", "--overwrite")
        jobs.kubectl(
            "patch",
            "tj/a",
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps({"status": {"node": f"n{number}"}}),
        )
    name = names.POD_FINALIZER
    jobs.kubectl("patch", "pod/a-1-0", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    jobs.kubectl("delete", "pod/a-1-0", "--force", "--grace-period=0")
    wait_for(lambda: jobs.status().get("attempt") == 2, 20, "the next attempt")
    wait_for(lambda: "a-2-0" in jobs.pods(), 10, "its pod")
    assert jobs.pods()["a-2-0"]["metadata"]["finalizers"] == [name]
    assert jobs.status()["node"] == "n4"


def test_a_refused_pod_is_told_in_the_servers_words(operator: OperatorProcess, jobs: Any) -> None:
    """Breaks if a quota makes the queue hot, or its words are lost."""
    jobs.kubectl("create", "quota", "none", "--hard=pods=0")
    quota = "resourcequota/none"
    wait_for(lambda: get(jobs.cluster, quota, jobs.namespace).get("status", {}).get("hard"), 20, "the quota to count")
    jobs.create()
    wait_for(lambda: jobs.phase() == "Failed", 20, "the refusal to be decided")
    assert jobs.status()["reason"] == "Forbidden"
    refused = wait_for(lambda: [e for e in events_of(jobs) if e["reason"] == "Refused"], 5, "the event")
    assert "exceeded quota" in refused[0]["message"]


def test_a_deleted_job_leaves_no_pod_behind(operator: OperatorProcess, jobs: Any) -> None:
    """Breaks if the finalizer of a pod outlives its job: then the namespace can never be deleted."""
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    jobs.kubectl("delete", "tj/a", "--wait=false")
    wait_for(lambda: not jobs.pods(), COLLECTED_IN, "the pod to be gone")


def test_metrics_vanish_with_the_job_and_health_tells_ages(operator: OperatorProcess, jobs: Any) -> None:
    jobs.create(script="exit 0")
    labels = {"job_name": "a", "job_namespace": jobs.namespace}
    wait_for(lambda: operator.metric("holdfast_job_phase", phase="Completed", **labels) == 1, 20, "the phase")
    jobs.kubectl("delete", "tj/a")

    def shown() -> list[str]:
        lines = operator.metrics_page().splitlines()
        return [line for line in lines if 'job_name="a"' in line and jobs.namespace in line]

    wait_for(lambda: not shown(), 10, "the series to vanish")
    health = operator.health()
    assert set(health["watchFrameAgeSeconds"]) == {"nodes", "pods", "capacityprofiles", "trainingjobs"}
    assert health["leading"]
    assert health["leaseAgeSeconds"] < 3
    assert not health["problems"]


def test_no_secret_reaches_the_log(operator: OperatorProcess, jobs: Any) -> None:
    jobs.create(script="exit 0")
    wait_for(lambda: jobs.phase() == "Completed", 20, "the job to complete")
    text = Path(operator.logs).read_text()
    assert "PRIVATE KEY" not in text
    assert "eyJ" not in text
    assert any(line.get("trace") for line in operator.log_lines())


def test_after_convergence_resyncs_write_nothing(operators: Make, jobs: Any) -> None:
    """Breaks if a resync or a heartbeat makes a write: at a thousand jobs that is a storm."""
    operator = operators(resync_every=1).start()
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    wait_for(lambda: operator.metric("holdfast_queue_scheduled") == 0, 10, "nothing to be due")

    def resync(times: int) -> None:
        def lists() -> float:
            return operator.metric("holdfast_api_requests_total", verb="list", resource="trainingjobs")

        start = lists()
        wait_for(lambda: lists() >= start + times, 20, f"{times} resyncs")

    def converged() -> bool:
        """What the pod's start has set off may still be on its way; it is over when a resync has found nothing."""
        before = writes(jobs.cluster, jobs.namespace)
        resync(1)
        return writes(jobs.cluster, jobs.namespace) == before

    wait_for(converged, 20, "a resync without a write")
    before = writes(jobs.cluster, jobs.namespace)
    resync(3)
    assert writes(jobs.cluster, jobs.namespace) == before


def test_a_restart_goes_on_where_the_last_one_stopped(operators: Make, jobs: Any) -> None:
    """Breaks if memory that is not in status decides, or a start raises attempts again."""
    first = operators().start()
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    assert first.stop() == 0
    second = operators().start()
    wait_for(lambda: second.metric("holdfast_reconcile_total", result="quiet") >= 1, 10, "a pass")
    assert jobs.status()["attempt"] == 1
    assert list(jobs.pods()) == ["a-1-0"]


def test_a_status_patch_keeps_fields_of_a_newer_version(operators: Make, jobs: Any, loosened: Cluster) -> None:
    """Breaks if status is written whole: a roll-back of the operator would then destroy what the newer one wrote."""
    operators().start()
    jobs.create(script="until [ -e $TMPDIR/x ]; do sleep 0.1; done", suspend=False)
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    patch = json.dumps({"status": {"future": "kept"}})
    jobs.kubectl("patch", "tj/a", "--subresource=status", "--type=merge", "-p", patch)
    jobs.kubectl("patch", "pod/a-1-0", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    jobs.kubectl("delete", "pod/a-1-0", "--force", "--grace-period=0")
    wait_for(lambda: jobs.status().get("attempt") == 2, 20, "the operator to write status")
    assert jobs.status()["future"] == "kept"


def test_a_malformed_job_is_told_and_stops_nobody(operators: Make, jobs: Any, loosened: Cluster) -> None:
    """Breaks if one object that cannot be read ends a watch, a resync or a worker."""
    operator = operators(resync_every=1).start()
    jobs.create("bad", goal={"steps": {"many": 3}})

    def told() -> dict[str, Any]:
        conditions: list[dict[str, Any]] = jobs.status("bad")["conditions"]
        return conditions[0]

    condition = wait_for(lambda: jobs.status("bad").get("conditions") and told(), 20, "the condition")
    assert (condition["type"], condition["status"], condition["reason"]) == ("Accepted", "False", "Malformed")
    assert "spec.goal.steps" in condition["message"]
    jobs.create("good", script="exit 0")
    wait_for(lambda: jobs.phase("good") == "Completed", 20, "the other job")
    patches = operator.metric("holdfast_reconcile_total", result="malformed")
    assert patches == 1
    jobs.kubectl("patch", "tj/bad", "--type=merge", "-p", '{"spec":{"goal":{"steps":5}}}')
    wait_for(lambda: jobs.phase("bad") == "Running", 20, "the mended job to run")
    assert not jobs.status("bad").get("conditions")


def test_deletes_and_releases_by_decision(operators: Make, jobs: Any) -> None:
    """Breaks if a delete or the removal of the finalizer is refused by the API server."""
    operators("deleter").start()
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    jobs.kubectl("patch", "tj/a", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    wait_for(lambda: jobs.phase() == "Suspended" and not jobs.pods(), 20, "the pod to be gone")


def test_release_before_uninstalling(cluster: Cluster, operators: Make, jobs: Any) -> None:
    """Breaks if an uninstalled operator leaves pods that can never be deleted."""
    operator = operators().start()
    jobs.create()
    wait_for(lambda: jobs.phase() == "Running", 20, "the job to run")
    operator.stop()
    assert command.main(["release", "--kubeconfig", str(cluster.admin_kubeconfig)]) == 0
    assert "finalizers" not in jobs.pods()["a-1-0"]["metadata"]
    jobs.kubectl("delete", "tj/a", "--wait=false")
    wait_for(lambda: not exists(cluster, "pod/a-1-0", jobs.namespace), COLLECTED_IN, "the pod to be gone")
