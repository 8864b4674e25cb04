"""`holdfast probe` as a person types it: what it measures, and that nothing of it stays."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from tests.support.cluster.local_cluster import apply, items
from tests.support.cluster.training_jobs import Job, Pool, job_manifest, s3_secret, stub
from tests.support.operator.operator_process import OperatorProcess
from tests.support.waiting import wait_for

from holdfast.api.names import LABEL_PROBE_OF
from holdfast.api.scalars import parse_duration
from holdfast_local.cluster import Cluster

PROGRAM = str(Path(sys.executable).with_name("holdfast"))


@pytest.fixture
def command(cluster: Cluster, namespace: str, calm_pool: Pool, tmp_path: Path) -> list[str]:
    """`holdfast probe` of a job with two tiers that can be obtained, and one that cannot."""
    tiers = [
        calm_pool.tier("cpu", pricePerNodeHour="0.40"),
        calm_pool.tier("dedicated", pricePerNodeHour="3.60"),
        {"name": "nowhere", "kind": "CPU", "nodeSelector": {"test/none": "yes"}},
    ]
    program = stub("--step-seconds", 0.05)
    manifest = job_manifest(cluster, namespace, "vit", tiers, program, goal={"steps": 10_000})
    manifest["spec"]["capacity"] |= {"budget": "5", "policy": "Cheapest"}
    apply(cluster, s3_secret(cluster), namespace=namespace)
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest))
    return [PROGRAM, "probe", str(file), "--kubeconfig", str(cluster.admin_kubeconfig), "--acquire-timeout", "8s"]


def probes(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    return items(cluster, "trainingjob", namespace, labelSelector=LABEL_PROBE_OF)


def stored(cluster: Cluster, namespace: str) -> list[str]:
    """The keys below the prefix of the job."""
    s3 = boto3.client(
        "s3",
        endpoint_url=cluster.s3.endpoint,
        aws_access_key_id=cluster.s3.access_key,
        aws_secret_access_key=cluster.s3.secret_key,
        region_name="us-east-1",
    )
    found = s3.list_objects_v2(Bucket=cluster.s3.bucket, Prefix=f"{namespace}/vit/")
    return [item["Key"] for item in found.get("Contents", [])]


# Breaks if a pace, a time or a cost is wrong; if a tier without a node is an error; if a probe that was killed leaves
# a job for good or is in the way of the next one; or if the storage of the job is touched.
@pytest.mark.thorough
def test_tiers_are_measured_and_nothing_stays(
    cluster: Cluster, namespace: str, operator: OperatorProcess, command: list[str], tmp_path: Path
) -> None:
    killed = subprocess.Popen([*command, "--tier", "cpu", "--steps", "60"], stderr=subprocess.DEVNULL)
    probe = Job(cluster, namespace, "vit-probe-cpu", {})
    wait_for(probe.exists, 60, "the probe")
    running = probe.wait_step(3)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    spec = probe.get()["spec"]
    assert running["tier"] == "cpu"
    assert parse_duration(spec["activeDeadline"]) <= parse_duration("31m")
    assert spec["checkpoint"]["storage"]["s3"]["prefix"] == f"{namespace}/vit/probes/vit-probe-cpu"
    assert parse_duration(spec["ttlAfterFinished"]) <= parse_duration("1m")
    probe.patch({"ttlAfterFinished": "1s"})  # not to wait for a minute
    wait_for(lambda: not probes(cluster, namespace), 40, "the operator to delete the probe that nobody watches")
    assert all("/vit/probes/vit-probe-cpu/" in key for key in stored(cluster, namespace))

    patch = tmp_path / "paces.yaml"
    done = subprocess.run(
        [*command, "-o", "json", "--patch", str(patch)], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "note:" not in done.stderr, done.stderr
    cpu, dedicated, nowhere = json.loads(done.stdout)["tiers"]
    for one, price in ((cpu, 0.40), (dedicated, 3.60)):
        assert (one["outcome"], one["steps"], one["paceIs"]) == ("Measured", 60, "median")
        seconds = parse_duration(one["pace"]).total_seconds()
        assert seconds >= 0.05
        assert float(one["costOfMillionSteps"]) == pytest.approx(price * seconds / 3600 * 1e6, rel=1e-3)
        assert one["samplesPerSecond"] > 0
        assert one["start"] > 0
    assert (nowhere["outcome"], nowhere["pace"]) == ("NoNode", None)
    assert nowhere["message"].startswith("no node within 8s")

    tiers = yaml.safe_load(patch.read_text())["spec"]["capacity"]["tiers"]
    assert [one.get("pace") for one in tiers] == [cpu["pace"], dedicated["pace"], None]
    assert probes(cluster, namespace) == []
    assert stored(cluster, namespace) == []
