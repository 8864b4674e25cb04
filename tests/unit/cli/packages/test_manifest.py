"""The job that packages another one's model: what it takes over, and what it must not."""

from datetime import UTC, datetime
from typing import Any

from holdfast.api.objects import TrainingJob
from holdfast.api.profile import ProfileTier
from holdfast_cli.packages.manifest import Wish, address, job_name, lasting_places, package_job

NOW = datetime(2026, 11, 25, 6, 0, 0, 5, tzinfo=UTC)
S3 = {"bucket": "runs", "prefix": "vision/vit", "endpoint": "http://minio.example:9000", "credentialsSecret": "s3"}
WISH = Wish("s3://runs/vision/vit/manifests/1.json", "s3://runs/p/x", "train:problem", ["--fix=batch=1"])
TRAINER: dict[str, Any] = {
    "image": "registry.example/vit:1",
    "imagePullSecrets": [{"name": "pull"}],
    "command": ["torchrun", "train.py"],
    "args": ["--batch", "64"],
    "env": [{"name": "DATA", "value": "/data"}],
    "volumes": [{"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "data"}}],
    "data": [{"from": "s3://datasets/faces", "to": "/faces"}],
    "nodes": 4,
    "acceleratorsPerNode": 8,
    "resources": {"cpu": "16", "memory": "64Gi"},
    "tracking": {"wandb": True},
}
TIERS = (
    {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pace": "2s", "pricePerNodeHour": "3.06"},
    {"name": "cpu", "kind": "CPU", "nodeSelector": {"pool": "cpu"}, "runtimeClassName": "nvidia"},
)


def job(storage: dict[str, Any] | None = None, **trainer: Any) -> TrainingJob:
    checkpoint = {"storage": storage or {"s3": S3}, "peers": True}
    spec = {"trainer": {**TRAINER, **trainer}, "capacity": {"profile": "gpus"}, "checkpoint": checkpoint}
    return TrainingJob.parse({"metadata": {"name": "vit", "namespace": "vision"}, "spec": spec})


def made(found: TrainingJob, wish: Wish = WISH) -> dict[str, Any]:
    manifest = package_job(found, [ProfileTier.model_validate(tier) for tier in TIERS], wish, NOW)
    TrainingJob.parse(manifest)
    return manifest


# Breaks if the job lacks what the program needs to be imported, or asks for the accelerators of the training.
def test_it_has_the_program_and_not_its_size() -> None:
    manifest = made(job())
    assert manifest["metadata"] == {"name": "vit-package", "namespace": "vision"}
    trainer = manifest["spec"]["trainer"]
    assert {key: trainer[key] for key in ("image", "imagePullSecrets", "env", "data", "resources")} == {
        key: TRAINER[key] for key in ("image", "imagePullSecrets", "env", "data", "resources")
    }
    assert trainer["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data"
    assert trainer["command"] == [
        "holdfast-train", "package", WISH.checkpoint, WISH.destination, "--problem=train:problem", "--fix=batch=1",
    ]  # fmt: skip
    assert made(job(code={"sha256": "ab" * 32}))["spec"]["trainer"]["code"] == {"sha256": "ab" * 32}
    parsed = TrainingJob.parse(manifest).spec
    assert (parsed.trainer.nodes, parsed.trainer.accelerators_per_node, parsed.trainer.args) == (1, 0, ())
    assert (parsed.trainer.tracking.wandb, parsed.checkpoint.peers) == (False, False)


def test_cpu_tiers_come_first_without_what_only_a_profile_may_say() -> None:
    tiers = made(job())["spec"]["capacity"]["tiers"]
    assert [tier["name"] for tier in tiers] == ["cpu", "spot"]
    assert tiers[0] == {"name": "cpu", "kind": "CPU", "nodeSelector": {"pool": "cpu"}}
    assert tiers[1] == {"name": "spot", "kind": "Spot", "accelerator": "nvidia.com/gpu", "pricePerNodeHour": "3.06"}


# Breaks if the new job shares the log of the old one, which is complete, or of an earlier package.
def test_it_has_a_prefix_of_its_own_with_the_same_keys() -> None:
    storage = made(job())["spec"]["checkpoint"]["storage"]
    prefix = "vision/vit/packages/.jobs/vit-package-20261125060000000005"
    assert storage["s3"].items() >= {**S3, "prefix": prefix}.items()
    claim = {"volumeClaim": {"name": "runs", "path": "vit"}}
    assert made(job(claim))["spec"]["checkpoint"]["storage"] == {
        "volumeClaim": {"name": "runs", "path": "vit/packages/.jobs/vit-package-20261125060000000005"}
    }
    assert address(job(claim), 7) == "file:///holdfast/checkpoints/vit/packages/vit-000000000007"
    assert address(job(), 7) == "s3://runs/vision/vit/packages/vit-000000000007"


# Breaks if a package can be written to the disk of a pod, which is gone when the pod ends.
def test_places_that_outlive_a_pod() -> None:
    assert lasting_places(job()) == ["s3://", "file:///data/"]
    claim = {"volumeClaim": {"name": "runs", "path": "vit"}}
    scratch = [{"name": "scratch", "mountPath": "/scratch", "emptyDir": {}}]
    assert lasting_places(job(claim, volumes=scratch)) == ["s3://", "file:///holdfast/checkpoints/"]
    read = [{**TRAINER["volumes"][0], "readOnly": True}]
    assert lasting_places(job(volumes=read)) == ["s3://"]


def test_other_resources() -> None:
    wish = Wish("a", "b", "c:d", resources={"memory": "4Gi"})
    assert made(job(), wish)["spec"]["trainer"]["resources"] == {"cpu": "16", "memory": "4Gi"}


# Breaks if the name of a job is longer than a pod's labels allow, or if two long names become one.
def test_long_names() -> None:
    assert job_name("a" * 32) == "a" * 32 + "-package"
    one, other = job_name("a" * 33), job_name("a" * 34)
    assert len(one) == len(other) == 40
    assert one != other
    assert one.endswith("-package")
