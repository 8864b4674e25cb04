"""The objects that a job needs in its namespace: Secrets, ConfigMaps, PersistentVolumeClaims. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.api.job import TrainingJobSpec
from holdfast.api.s3 import S3Server
from holdfast.api.storage import Storage
from holdfast.api.trainer import Trainer


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that the job names in `field`. An `optional` one may be missing."""

    field: str
    kind: str
    name: str
    keys: tuple[str, ...] = ()
    optional: bool = False


PLURALS = {"Secret": "secrets", "ConfigMap": "configmaps", "PersistentVolumeClaim": "persistentvolumeclaims"}
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def references(spec: TrainingJobSpec) -> Iterator[Reference]:
    """Every object that the job names, in the order of its fields."""
    yield from _environment(spec.trainer)
    yield from _volumes(spec.trainer)
    for index, secret in enumerate(spec.trainer.image_pull_secrets):
        yield Reference(f"spec.trainer.imagePullSecrets[{index}]", "Secret", secret.name)
    for index, data in enumerate(spec.trainer.data):
        if data.s3:
            yield from _server(f"spec.trainer.data[{index}].s3", data.s3)
    yield from _storage(spec.checkpoint.storage)


def _environment(trainer: Trainer) -> Iterator[Reference]:
    for index, variable in enumerate(trainer.env):
        source, where = variable.value_from, f"spec.trainer.env[{index}].valueFrom"
        if source and (key := source.secret_key_ref):
            yield Reference(f"{where}.secretKeyRef", "Secret", key.name, (key.key,), key.optional)
        if source and (key := source.config_map_key_ref):
            yield Reference(f"{where}.configMapKeyRef", "ConfigMap", key.name, (key.key,), key.optional)
    for index, every in enumerate(trainer.env_from):
        if every.secret_ref:
            yield Reference(f"spec.trainer.envFrom[{index}].secretRef", "Secret", every.secret_ref.name)
        if every.config_map_ref:
            yield Reference(f"spec.trainer.envFrom[{index}].configMapRef", "ConfigMap", every.config_map_ref.name)


def _volumes(trainer: Trainer) -> Iterator[Reference]:
    for index, volume in enumerate(trainer.volumes):
        where = f"spec.trainer.volumes[{index}]"
        if source := volume.secret:
            yield Reference(f"{where}.secret", "Secret", source.secret_name, (), source.optional)
        if files := volume.config_map:
            yield Reference(f"{where}.configMap", "ConfigMap", files.name, (), files.optional)
        if claim := volume.persistent_volume_claim:
            yield Reference(f"{where}.persistentVolumeClaim", "PersistentVolumeClaim", claim.claim_name)


def _server(where: str, s3: S3Server) -> Iterator[Reference]:
    if s3.credentials_secret:
        yield Reference(f"{where}.credentialsSecret", "Secret", s3.credentials_secret, CREDENTIALS)
    if s3.ca and (key := s3.ca.config_map):
        yield Reference(f"{where}.ca.configMap", "ConfigMap", key.name, (key.key,))
    if s3.ca and (key := s3.ca.secret):
        yield Reference(f"{where}.ca.secret", "Secret", key.name, (key.key,))


def _storage(storage: Storage) -> Iterator[Reference]:
    where = "spec.checkpoint.storage"
    if storage.s3:
        yield from _server(f"{where}.s3", storage.s3)
    if storage.volume_claim:
        yield Reference(f"{where}.volumeClaim", "PersistentVolumeClaim", storage.volume_claim.name)
