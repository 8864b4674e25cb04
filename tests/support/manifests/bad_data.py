"""Mistakes in the data that is copied into the pods."""

from typing import Any, Final

from tests.support.manifests.good_manifests import Bad

_TRAINER = "spec/trainer"


def _data(*entries: dict[str, Any], volume: dict[str, Any] | None = None) -> dict[str, Any]:
    """Entries of trainer.data, each from s3://datasets/images to /images; `volume` replaces the volume on /data."""
    found = [{"from": "s3://datasets/images", "to": "/images", **entry} for entry in entries]
    change: dict[str, Any] = {f"{_TRAINER}/data": found}
    return change if volume is None else {**change, f"{_TRAINER}/volumes": [{"name": "cache", **volume}]}


BAD_DATA: Final[tuple[Bad, ...]] = (
    Bad("data-no-source", {f"{_TRAINER}/data": [{"to": "/images"}]}, "spec.trainer.data[0].from", "", "Required value",
        "required"),
    Bad("data-from-a-file", _data({"from": "file:///images"}), "spec.trainer.data[0].from", "file:///images",
        "should match", "such as s3://bucket/prefix"),
    Bad("data-whole-bucket", _data({"from": "s3://datasets"}), "spec.trainer.data[0].from", "s3://datasets",
        "should match", "such as s3://bucket/prefix"),
    Bad("data-from-dotdot", _data({"from": "s3://datasets/../x"}), "spec.trainer.data[0].from", "s3://datasets/../x",
        "should match", "such as s3://bucket/prefix"),
    Bad("data-relative", _data({"to": "images"}), "spec.trainer.data[0].to", "images", "should match",
        "an absolute path"),
    Bad("data-on-root", _data({"to": "/"}), "spec.trainer.data[0].to", '"/"', "should match", "not /"),
    Bad("data-dotdot", _data({"to": "/images/../holdfast"}), "spec.trainer.data[0].to", "/images/../holdfast",
        "should match", "without '.', '..'"),
    Bad("data-in-our-folder", _data({"to": "/holdfast/bin"}), "spec.trainer.data[0].to", "/holdfast/bin",
        "choose another path"),
    Bad("data-in-shared-memory", _data({"to": "/dev/shm"}), "spec.trainer.data[0].to", "/dev/shm",
        "choose another path"),
    Bad("data-twice", _data({}, {}), "spec.trainer.data", "/images", "Duplicate value",
        "no two items may have the same to"),
    Bad("data-nested", _data({}, {"to": "/images/small"}), "spec.trainer.data", "", "must not be inside another one",
        "/images/small: a folder of data must not be inside another one"),
    Bad("data-over-a-volume", _data({}, volume={"mountPath": "/images/cache", "emptyDir": {}}), "spec.trainer.volumes",
        "", "no volume may be mounted below a folder of data", "/images/cache: no volume may be mounted below"),
    Bad("data-in-a-secret", _data({}, volume={"mountPath": "/images", "secret": {"secretName": "a"}}),
        "spec.trainer.data", "", "needs a volume that can be written", "/images: data needs a volume"),
    Bad("data-in-a-read-only-mount", _data({}, volume={"mountPath": "/images", "emptyDir": {}, "readOnly": True}),
        "spec.trainer.data", "", "needs a volume that can be written", "/images: data needs a volume"),
    Bad("data-in-a-read-only-claim",
        _data({"to": "/images/a"},
              volume={"mountPath": "/images", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}),
        "spec.trainer.data", "", "needs a volume that can be written", "/images/a: data needs a volume"),
    Bad("data-too-many", _data(*({"to": f"/images-{number}"} for number in range(9))), "spec.trainer.data", "9",
        "at most 8 items", "at most 8 items"),
    Bad("data-endpoint-with-password", _data({"s3": {"endpoint": "https://me:secret@minio.example"}}),
        "spec.trainer.data[0].s3.endpoint", "", "should match", "without user, password and query"),
)  # fmt: skip
