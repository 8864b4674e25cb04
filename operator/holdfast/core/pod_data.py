"""What a pod needs for trainer.data: volumes, mounts, and what the launcher has to copy."""

from dataclasses import replace
from typing import Any

from holdfast.api import names
from holdfast.api.data import Data, is_in
from holdfast.api.objects import TrainingJob
from holdfast.api.s3 import CaSource
from holdfast.api.storage import S3Storage
from holdfast.api.trainer import Trainer, Volume
from holdfast_protocol import settings

Manifest = dict[str, Any]


def data_to_copy(job: TrainingJob) -> tuple[settings.Data, ...]:
    """For each entry its address, its folder, where the volume is mounted, and how the store is reached."""
    trainer, s3 = job.spec.trainer, job.spec.checkpoint.storage.s3
    return tuple(_entry(trainer, number, data, s3) for number, data in enumerate(trainer.data))


def _entry(trainer: Trainer, number: int, data: Data, checkpoints: S3Storage | None) -> settings.Data:
    volume, store = _volume_of(trainer, data), data.s3 or checkpoints
    found = settings.Data(source=data.source, to=data.to, mount=volume.mount_path if volume else data.to)
    if store is None:
        return found
    keys, ca = names.KEYS_PATH, names.STORAGE_CA_PATH
    if data.s3:
        keys, ca = f"{names.DATA_KEYS_PATH}/{number}", f"{names.DATA_CA_PATH}/{number}"
    return replace(
        found,
        region=store.region,
        endpoint=store.endpoint,
        keys=keys if store.credentials_secret else None,
        ca=f"{ca}/{names.CA_KEY}" if store.ca else None,
        proxy=store.proxy,
        addressing=store.addressing,
    )


def data_mounts(trainer: Trainer) -> list[Manifest]:
    """What the trainer mounts besides its own volumes: a folder for data that is in none of them, and keys."""
    mounts: list[Manifest] = []
    for number, data in enumerate(trainer.data):
        if _volume_of(trainer, data) is None:
            mounts.append({"name": f"{names.DATA_VOLUME}-{number}", "mountPath": data.to})
        if data.s3 and data.s3.credentials_secret:
            path = f"{names.DATA_KEYS_PATH}/{number}"
            mounts.append({"name": f"{names.DATA_KEYS_VOLUME}-{number}", "mountPath": path, "readOnly": True})
        if data.s3 and data.s3.ca:
            path = f"{names.DATA_CA_PATH}/{number}"
            mounts.append({"name": f"{names.DATA_CA_VOLUME}-{number}", "mountPath": path, "readOnly": True})
    return mounts


def data_volumes(trainer: Trainer) -> list[Manifest]:
    """The volumes of `data_mounts`."""
    volumes: list[Manifest] = []
    for number, data in enumerate(trainer.data):
        if _volume_of(trainer, data) is None:
            volumes.append({"name": f"{names.DATA_VOLUME}-{number}", "emptyDir": {}})
        if data.s3 and data.s3.credentials_secret:
            # Not optional: a kubelet waits for the Secret. With a list of keys it would need a session token too.
            source = {"secretName": data.s3.credentials_secret, "defaultMode": 0o444}
            volumes.append({"name": f"{names.DATA_KEYS_VOLUME}-{number}", "secret": source})
        if data.s3 and data.s3.ca:
            volumes.append(ca_volume(f"{names.DATA_CA_VOLUME}-{number}", data.s3.ca))
    return volumes


def ca_volume(name: str, ca: CaSource) -> Manifest:
    """The certificates as a file, which every user of the pod can read. A kubelet waits for the object and its key."""
    key = ca.config_map or ca.secret
    assert key is not None  # exactly one is set
    source = {"items": [{"key": key.key, "path": names.CA_KEY}], "defaultMode": 0o444}
    if ca.config_map:
        return {"name": name, "configMap": {"name": key.name, **source}}
    return {"name": name, "secret": {"secretName": key.name, **source}}


def _volume_of(trainer: Trainer, data: Data) -> Volume | None:
    """The volume of trainer.volumes in which the data lies; None if the pod gets an emptyDir for it."""
    found = [volume for volume in trainer.volumes if is_in(data.to, volume.mount_path)]
    return max(found, key=lambda volume: len(volume.mount_path), default=None)
