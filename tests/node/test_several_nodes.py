"""One training on two kubelets."""

import sys
from pathlib import Path

import pytest
import torch
from tests.node.jobs import train
from tests.support import base_image
from tests.support.cluster.local_cluster import apply, delete
from tests.support.cluster.small_gangs import printed_by_rank_0
from tests.support.cluster.training_jobs import Job, Raw
from tests.support.real_node.cluster import RealCluster

from holdfast_local.cluster import Cluster

pytestmark = [
    pytest.mark.usefixtures("release"),
    pytest.mark.skipif(
        sys.version_info[:2] != tuple(map(int, base_image.PYTHON.split("."))),
        reason=f"the image has Python {base_image.PYTHON}, for which the torch of this environment is not made",
    ),
]

STEPS = 300
PROGRAM = """
import time, torch, torch.distributed as dist
from holdfast_train import Run
from holdfast_train.examples.stub import Counter

dist.init_process_group("gloo")
counter = Counter()
with Run(counter=counter) as run:
    for step in run.steps():
        dist.all_reduce(torch.ones(1))
        counter.add(step)
        time.sleep(0.1)
print("total", counter.total, flush=True)
dist.destroy_process_group()
"""
BOTH = {"name": "both", "kind": "CPU", "acquireTimeout": "30s"}
PLACE = "/opt/packages"


def _packages(namespace: str) -> tuple[Raw, Raw]:
    """The packages of this environment, with torch, as a volume that every node has."""
    folder = Path(torch.__file__).parents[1]
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": "packages"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"packages-{namespace}"},
        "spec": {**common, "capacity": {"storage": "5Gi"}, "hostPath": {"path": str(folder)}},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "packages"},
        "spec": {**common, "volumeName": f"packages-{namespace}", "resources": {"requests": {"storage": "1Gi"}}},
    }
    return volume, claim


def _gang(cluster: Cluster, namespace: str) -> Job:
    apply(cluster, *_packages(namespace), namespace=namespace)
    claim = {"claimName": "packages", "readOnly": True}
    trainer = {
        "nodes": 2,
        "resources": {"cpu": "800m", "memory": "1500Mi"},
        "env": [{"name": "PYTHONPATH", "value": PLACE}, {"name": "OMP_NUM_THREADS", "value": "1"}],
        "volumes": [{"name": "packages", "mountPath": PLACE, "readOnly": True, "persistentVolumeClaim": claim}],
    }
    command = ["python3", "-m", "torch.distributed.run", "--no-python", "python3", "-c", PROGRAM]
    return train(cluster, namespace, tiers=[BOTH], command=command, steps=STEPS, trainer=trainer)


def test_both_nodes_train_and_one_that_reboots_comes_back(real: RealCluster, namespace: str) -> None:
    """Breaks if ranks do not find each other by name, or the pod that lives is given back for one that is lost."""
    job = _gang(real.cluster, namespace)
    job.wait_step(30, timeout=180)
    assert {pod["spec"]["nodeName"] for pod in job.pods()} == {"real-1", "real-2"}
    job.wait_checkpoint(20)
    real.nodes["real-2"].lose_power()
    real.nodes["real-2"].boot()
    done = job.wait_phase("Completed", "Failed", timeout=300)
    assert done["phase"] == "Completed", [(one["kind"], one["reason"]) for one in done["history"]]
    assert f"total {STEPS * (STEPS + 1) // 2}" in printed_by_rank_0(job)


def test_a_deleted_pod_of_two_costs_no_step(real: RealCluster, namespace: str) -> None:
    """Breaks if the rank that is told to leave does not let the other one save with it."""
    job = _gang(real.cluster, namespace)
    job.wait_step(30, timeout=180)
    delete(real.cluster, "pod/job-1-1", namespace)
    done = job.wait_phase("Completed", "Failed", timeout=300)
    assert done["phase"] == "Completed", [(one["kind"], one["reason"]) for one in done["history"]]
    assert done["history"][0]["stepsLost"] == 0
