"""What a pod gets for trainer.data: volumes, mounts, and what its launcher is told."""

from tests.support.decisions.snapshots import CONFIG, attempt, job
from tests.support.trainer.pod_settings import settings_of

from holdfast.core.made_from import hash_of, made_from
from holdfast.core.pod_manifest import build_pod
from holdfast_protocol.document import encode

IMAGES = {"from": "s3://datasets/images", "to": "/images"}
STORE = {"bucket": "runs", "prefix": "vision/vit", "endpoint": "http://s3.example", "credentialsSecret": "keys"}
CLAIM = {"name": "cache", "mountPath": "/cache", "persistentVolumeClaim": {"claimName": "c"}}


def build(*data, volumes=(), storage=None):
    trainer = {"image": "registry.example/train:1", "command": ["x"], "data": list(data), "volumes": list(volumes)}
    checkpoint = {"storage": storage or {"s3": STORE}}
    return build_pod(job(trainer=trainer, checkpoint=checkpoint), attempt(1), CONFIG, 7200.0)["spec"]


def told(pod, container="containers"):
    """What the launcher is told, None if it is told nothing."""
    return [encode(one) for one in settings_of(pod[container][0]).data] or None


def mounts(pod):
    return {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}


def volumes(pod):
    return {volume["name"]: volume for volume in pod["volumes"]}


def test_data_without_a_volume_gets_a_folder_of_the_pod():
    pod = build(IMAGES)
    assert mounts(pod)["/images"] == {"name": "holdfast-data-0", "mountPath": "/images"}
    assert volumes(pod)["holdfast-data-0"] == {"name": "holdfast-data-0", "emptyDir": {}}
    assert told(pod) == [
        {"from": "s3://datasets/images", "to": "/images", "mount": "/images", "region": "us-east-1",
         "endpoint": "http://s3.example", "keys": "/holdfast/keys", "addressing": "Auto"},
    ]  # fmt: skip
    assert told(pod, "initContainers"), "the init container copies the library for it"


# Breaks if data hides the volume in which it is to stay.
def test_data_in_a_volume_needs_no_other_one():
    inner = {"name": "inner", "mountPath": "/cache/inner", "emptyDir": {}}
    pod = build({**IMAGES, "to": "/cache/inner/images"}, {**IMAGES, "to": "/cached"}, volumes=[CLAIM, inner])
    assert [one["mount"] for one in told(pod)] == ["/cache/inner", "/cached"]
    assert "/cache/inner/images" not in mounts(pod)
    assert "holdfast-data-0" not in volumes(pod)
    assert mounts(pod)["/cached"]["name"] == "holdfast-data-1"


def test_data_of_another_store():
    other = {"endpoint": "https://data.example", "region": "eu-1", "credentialsSecret": "reader"}
    pod = build(IMAGES, {**IMAGES, "to": "/other", "s3": other}, {**IMAGES, "to": "/public", "s3": {}})
    first, second, third = told(pod)
    assert first["keys"] == "/holdfast/keys"
    assert (second["endpoint"], second["region"], second["keys"]) == (
        "https://data.example", "eu-1", "/holdfast/data-keys/1",
    )  # fmt: skip
    assert third == {
        "from": "s3://datasets/images", "to": "/public", "mount": "/public", "region": "us-east-1",
        "addressing": "Auto",
    }  # fmt: skip
    assert mounts(pod)["/holdfast/data-keys/1"]["readOnly"]
    assert volumes(pod)["holdfast-data-keys-1"]["secret"] == {"secretName": "reader", "defaultMode": 0o444}


def test_checkpoints_on_a_volume_say_nothing_of_a_store():
    pod = build(IMAGES, storage={"volumeClaim": {"name": "c", "path": "p"}})
    assert told(pod) == [{"from": "s3://datasets/images", "to": "/images", "mount": "/images", "addressing": "Auto"}]


def test_the_way_to_a_store_is_that_of_the_checkpoints_or_its_own():
    way = {"ca": {"configMap": {"name": "company"}}, "proxy": "http://p:1", "addressing": "Virtual"}
    checkpoints = {"s3": {**STORE, **way, "endpoint": "https://s3.example"}}
    other = {"ca": {"secret": {"name": "other", "key": "root.pem"}}}
    pod = build(IMAGES, {**IMAGES, "to": "/other", "s3": other}, storage=checkpoints)
    first, second = told(pod)
    found = [(one["ca"], one.get("proxy"), one["addressing"]) for one in (first, second)]
    assert found == [
        ("/holdfast/storage-ca/ca.crt", "http://p:1", "Virtual"), ("/holdfast/data-ca/1/ca.crt", None, "Auto"),
    ]  # fmt: skip
    assert mounts(pod)["/holdfast/data-ca/1"] == {
        "name": "holdfast-data-ca-1", "mountPath": "/holdfast/data-ca/1", "readOnly": True,
    }  # fmt: skip
    assert volumes(pod)["holdfast-data-ca-1"]["secret"] == {
        "secretName": "other", "items": [{"key": "root.pem", "path": "ca.crt"}], "defaultMode": 0o444,
    }  # fmt: skip


# Breaks if an operator that knows this field takes each running job for one with another program.
def test_a_job_without_data_is_as_before():
    assert told(build()) is None
    assert hash_of(made_from(job().spec)) == "c6ebd2133fa06fba"
