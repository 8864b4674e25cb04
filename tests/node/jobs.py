"""Trainings on real nodes."""

from collections.abc import Sequence
from typing import Any

from tests.support.cluster.local_cluster import apply
from tests.support.cluster.training_jobs import Job, Raw, job_manifest, s3_secret, stub
from tests.support.waiting import wait_for

from holdfast_local.cluster import Cluster

INIT = "holdfast.dev/init:0.1.0"  # it has the stub
RESTRICTED = {"runAsUser": 1000, "runAsGroup": 1000}


def tier(node: str = "real-1", name: str = "", **more: Any) -> Raw:
    """A tier of one node."""
    selector = {"kubernetes.io/hostname": node}
    return {"name": name or node, "kind": "CPU", "nodeSelector": selector, "acquireTimeout": "30s", **more}


def train(
    cluster: Cluster,
    namespace: str,
    *flags: object,
    tiers: Sequence[Raw] | None = None,
    command: Sequence[str] | None = None,
    steps: int = 200,
    pace: float = 0.1,
    trainer: Raw | None = None,
    **spec: Any,
) -> Job:
    """A job of the stub with steps of `pace` seconds, on real-1 unless `tiers` say otherwise."""
    program = command or stub("--step-seconds", pace, *flags)
    base: Raw = {"image": INIT, "imagePullPolicy": "Never", "resources": {"cpu": "800m", "memory": "400Mi"}}
    body = {"trainer": {**base, **(trainer or {})}, "goal": {"steps": steps}, **spec}
    manifest = job_manifest(cluster, namespace, "job", tiers or [tier()], program, **body)
    apply(cluster, s3_secret(cluster), namespace=namespace)
    apply(cluster, manifest)
    return Job(cluster, namespace, "job", manifest)


def completes(job: Job, timeout: float = 120) -> Raw:
    """Wait for the end of a job, which must have all its steps, and whose log must be there to be read."""
    status = job.wait_phase("Completed", "Failed", timeout=timeout)
    assert status["phase"] == "Completed", [(one["kind"], one["reason"]) for one in status["history"]]
    steps = job.manifest["spec"]["goal"]["steps"]
    last = status["history"][-1]["number"]
    wait_for(lambda: f"total {steps * (steps + 1) // 2}" in job.logs(last), 20, "the end of the log")
    return status
