"""`holdfast rehearse -f` as a person types it: a program as it is, interrupted in four ways on a tier of a cluster."""

import csv
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
from tests.support.cluster.training_jobs import Pool, job_manifest, s3_secret
from tests.support.trainer.stores import REPOSITORY
from tests.support.waiting import wait_for

from holdfast.api.names import LABEL_REHEARSAL_OF
from holdfast_local.cluster import Cluster

pytestmark = [pytest.mark.training, pytest.mark.usefixtures("operator")]
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
PROGRAM = str(REPOSITORY / "tests/support/trainer/strangers/saves_by_name.py")
KINDS = ["notice", "crash", "crash-in-save", "lost-node"]
PACE, EVERY, SLOW = 0.6, 5, 0.5  # seconds a step, steps between two saves, seconds a save: 3 s of quiet between two


def written(cluster: Cluster, namespace: str, pool: Pool, file: Path, steps: int, **trainer: Any) -> None:
    """A job in `file` that trains so many steps, and whose saves are committed one by one."""
    tier = pool.tier("spot", acquireTimeout="60s", nodeSelector={"test/pool": pool.name})
    command = ["python", PROGRAM, "/outputs", *map(str, (steps, PACE, EVERY, SLOW))]
    volumes = [{"name": "outputs", "mountPath": "/outputs", "emptyDir": {}}]
    manifest = job_manifest(
        cluster, namespace, "vit", [pool.tier("cpu"), tier], command, trainer={"volumes": volumes, **trainer},
        checkpoint={"folder": "/outputs"}, progress={"patterns": ["step {step} loss {loss}"]}, goal={"steps": steps},
    )  # fmt: skip
    apply(cluster, s3_secret(cluster), namespace=namespace)
    file.write_text(yaml.safe_dump(manifest))


def rehearsals(cluster: Cluster, namespace: str) -> list[str]:
    found = items(cluster, "trainingjob", namespace, labelSelector=f"{LABEL_REHEARSAL_OF}=vit")
    return sorted(one["metadata"]["name"] for one in found)


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


def losses_of(command: list[str], job: str, file: Path) -> dict[int, str]:
    """The losses of the steps that were not lost, by step."""
    subprocess.run([HOLDFAST, "checkpoints", "history", job, *command, "--csv", str(file)], check=True, timeout=60)
    with file.open(encoding="utf-8", newline="") as lines:
        return {int(row["step"]): row["loss"] for row in csv.DictReader(lines) if row["loss"] and row["lost"] != "1"}


def contents(folder: Path) -> dict[str, Any]:
    """Each save of the folder, and each number in its tensors."""
    import torch

    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.pt")):
        state = torch.load(path, weights_only=True)
        moments = [value for one in state["optimizer"]["state"].values() for value in one.values()]
        tensors = [*state["model"].values(), *moments, state["rng"]]
        found[path.name] = (state["step"], [tensor.tolist() for tensor in tensors])
    return found


def rehearse(  # noqa: PLR0917 - fixtures
    cluster: Cluster, namespace: str, tmp_path: Path, steps: int, tier: str, nodes: int = 1
) -> None:
    """All four interruptions leave the same files and losses; then a command that is killed removes all of it."""
    where = ["-n", namespace, "--kubeconfig", str(cluster.admin_kubeconfig)]
    command = [HOLDFAST, "rehearse", "-f", str(tmp_path / "job.yaml"), "--tier", tier, *where]
    kept = tmp_path / "kept"
    done = subprocess.run(
        [*command, "--keep", str(kept), "-o", "json"], check=False, capture_output=True, text=True, timeout=800
    )
    print(done.stderr)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    answer = json.loads(done.stdout)
    print(json.dumps(answer, indent=1))
    assert answer["notTried"] == {}
    assert [one["kind"] for one in answer["interruptions"]] == KINDS
    assert all(0 < one["wentOnFrom"] <= one["atStep"] for one in answer["interruptions"])
    assert [start["exitCode"] for start in answer["starts"]] == [None] * 4 + [0]

    made = rehearsals(cluster, namespace)
    assert made[:2] == ["vit-rehearsal-1", "vit-rehearsal-2"]
    folders = sorted(path.name for path in (kept / "undisturbed").iterdir())
    assert folders == [f"folder-{node}" for node in range(nodes)]
    for node, folder in enumerate(folders):
        alone, again = (contents(kept / run / folder) for run in ("undisturbed", "interrupted"))
        assert f"rank-{node}-step-{steps:05}.pt" in alone
        assert again == alone
    first, second = (losses_of(where, f"vit-rehearsal-{number}", tmp_path / f"{number}.csv") for number in (1, 2))
    both = first.keys() & second.keys()
    assert len(both) > steps / 8
    assert {step: first[step] for step in both} == {step: second[step] for step in both}

    stopped = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: rehearsals(cluster, namespace) == ["vit-rehearsal-1"], 60, "the first run of another rehearsal")
    stopped.send_signal(signal.SIGTERM)
    _, said = stopped.communicate(timeout=60)
    assert f"removed {len(made)} of an earlier rehearsal" in said
    assert (stopped.returncode, "note:" in said) == (130, False), said
    assert rehearsals(cluster, namespace) == []
    assert stored(cluster, namespace) == []


# Breaks if a program goes on from another state than it had saved, if an interruption does not come when it should, if
# a half-written save is put back, or if something stays in the cluster.
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_job_is_rehearsed_on_a_tier(cluster: Cluster, namespace: str, pool: Pool, tmp_path: Path) -> None:
    written(cluster, namespace, pool, tmp_path / "job.yaml", 40, acceleratorsPerNode=0)
    rehearse(cluster, namespace, tmp_path, 40, "cpu")


# Breaks if a crash of one node leaves the other one in the attempt before, or if the nodes go on from two moments.
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_a_job_on_two_nodes_is_rehearsed(cluster: Cluster, namespace: str, pool: Pool, tmp_path: Path) -> None:
    written(cluster, namespace, pool, tmp_path / "job.yaml", 40, nodes=2, acceleratorsPerNode=1)
    rehearse(cluster, namespace, tmp_path, 40, "spot", nodes=2)
