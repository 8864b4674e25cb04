"""Data near the node: it is copied before the program starts, once for all attempts that use the volume."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from rich.console import Console
from tests.support.cluster.local_cluster import apply
from tests.support.cluster.training_jobs import Job, Pool, Raw, submit
from tests.support.operator.operator_process import OperatorProcess

from holdfast.api.objects import TrainingJob
from holdfast_cli.jobs import describe
from holdfast_local.cluster import Cluster
from holdfast_train.staging.folder import part_name

MIB = 1 << 20
SHARDS = {"shard-0": b"0" * 3 * MIB, "nested/shard-1": b"1" * MIB}
PROGRAM = "from pathlib import Path as P; print('found', *(len(P('/cache/set', n).read_bytes()) for n in {names}))"


@pytest.fixture
def cache(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """The folder of a local volume, which the claim `cache` is bound to."""
    folder = tmp_path / "cache"
    folder.mkdir()
    place = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    size = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "capacity": {"storage": "1Gi"}, **size, "local": {"path": str(folder)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
        "claimRef": {"namespace": namespace, "name": "cache"},
    }  # fmt: skip
    name = f"cache-{namespace}"
    apply(cluster, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume})
    claim = {**size, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "cache"}, "spec": claim}
    apply(cluster, body, namespace=namespace)
    yield folder
    cluster.kubectl("delete", "pv", name, "--wait=false")


def put(cluster: Cluster, prefix: str) -> None:
    """Write SHARDS below the prefix."""
    s3 = cluster.s3
    client = boto3.client(
        "s3", endpoint_url=s3.endpoint, aws_access_key_id=s3.access_key, aws_secret_access_key=s3.secret_key,
        region_name=s3.region, config=Config(s3={"addressing_style": "path"}, proxies={}),
    )  # fmt: skip
    for name, data in SHARDS.items():
        client.put_object(Bucket=s3.bucket, Key=f"{prefix}/{name}", Body=data)


@contextmanager
def another_pod_writes(folder: Path, name: str) -> Iterator[None]:
    """Hold a file as a pod does that writes it: other pods wait for it."""
    path = folder / name
    path.parent.mkdir(parents=True)
    with (path.parent / part_name(name)).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shown(job: Job) -> str:
    """What `holdfast describe` says."""
    console = Console(width=160, force_terminal=False)
    with console.capture() as screen:
        describe.show(console, TrainingJob.parse(job.get()), [], datetime.now(UTC))
    return " ".join(screen.get().split())


def copies(status: Raw, attempt: int) -> bool:
    """True if this attempt has copied all but the file that is held."""
    said = "staging data: 3.0 of 4.0 MiB"
    return status.get("attempt") == attempt and (status.get("decision") or {}).get("message") == said


# Breaks if the program starts without its data, a notice does not end the copy, the next attempt fetches again what is
# there, or nobody sees how far the copy is.
def test_data_is_copied_once_for_all_attempts(
    cluster: Cluster, namespace: str, operator: OperatorProcess, pool: Pool, cache: Path
) -> None:
    prefix = f"{namespace}/data"
    put(cluster, prefix)
    trainer = {
        "volumes": [{"name": "cache", "mountPath": "/cache", "persistentVolumeClaim": {"claimName": "cache"}}],
        "data": [{"from": f"s3://{cluster.s3.bucket}/{prefix}", "to": "/cache/set"}],
    }
    command = ["python", "-c", PROGRAM.format(names=list(SHARDS))]
    with another_pod_writes(cache / "set", "nested/shard-1"):
        job = submit(cluster, namespace, [pool.tier("spot")], command, trainer={"command": command, **trainer})
        seen = job.wait("a copy", lambda status: copies(status, 1))
        assert (seen["phase"], seen["reason"]) == ("Starting", "StagingData")
        assert "The job waits: staging data: 3.0 of 4.0 MiB." in shown(job)
        assert "StagingData" in cluster.kubectl("get", "tj", "-n", namespace, "-o", "wide")

        cluster.reclaim(seen["node"], timedelta(seconds=20))

        job.wait("a copy in the next attempt", lambda status: copies(status, 2))
        assert "fetched" not in job.logs(2), "it waits for the file of the other pod"
    done = job.wait_phase("Completed", "Failed")
    first, last = done["history"]
    assert (first["kind"], first["reason"], last["kind"]) == ("Interruption", "SpotInterruption", "Completed")
    log = job.logs(2)
    assert "4.0 MiB are there; 1.0 MiB of them were fetched" in log
    assert f"found {3 * MIB} {MIB}" in log
