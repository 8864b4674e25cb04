"""The part of a TrainingJob's spec that says what runs: an allow-list of pod fields."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from holdfast.api.lists import KeyedBy
from holdfast.api.model import Model
from holdfast.api.rules import Rule, at_most_one, exactly_one
from holdfast.api.scalars import Count, Flag, Quantity, quantity_value
from holdfast.api.strings import (
    AbsolutePath,
    AnyText,
    DataKey,
    EnvName,
    EnvPrefix,
    Image,
    Label,
    LongText,
    MountPath,
    ObjectName,
    PodField,
    RelativePath,
)


class KeyRef(Model):
    """A key of a Secret or a ConfigMap in the job's namespace."""

    name: ObjectName
    """Name of the Secret or ConfigMap."""
    key: DataKey
    """Key in it."""
    optional: Flag = False
    """True if the object or the key may be missing."""


class FieldRef(Model):
    """A field of the pod, as the downward API names it."""

    field_path: PodField
    """Path of the field, such as status.podIP."""


class EnvSource(Model):
    """Where the value of an environment variable comes from; exactly one is set."""

    secret_key_ref: KeyRef | None = None
    """A key of a Secret."""
    config_map_key_ref: KeyRef | None = None
    """A key of a ConfigMap."""
    field_ref: FieldRef | None = None
    """A field of the pod."""

    rules: ClassVar[tuple[Rule, ...]] = (exactly_one("secretKeyRef", "configMapKeyRef", "fieldRef"),)


class EnvVar(Model):
    """One environment variable of the trainer."""

    name: EnvName
    """Name of the variable; names that start with HOLDFAST_ are taken."""
    value: LongText | None = None
    """Its value."""
    value_from: EnvSource | None = None
    """Where its value comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        at_most_one("value", "valueFrom"),
        Rule(
            allowed="names that start with HOLDFAST_ are taken by Holdfast: choose another",
            cel="!self.name.startsWith('HOLDFAST_')",
            holds=lambda env: not env.name.startswith("HOLDFAST_"),
            got_cel="self.name",
            got=lambda env: env.name,
            field=".name",
        ),
    )


class LocalRef(Model):
    """The name of an object in the job's namespace."""

    name: ObjectName
    """Name of the object."""


class EnvFrom(Model):
    """All keys of a Secret or ConfigMap as environment variables; exactly one is set."""

    prefix: EnvPrefix = ""
    """Put before each key."""
    secret_ref: LocalRef | None = None
    """A Secret."""
    config_map_ref: LocalRef | None = None
    """A ConfigMap."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("secretRef", "configMapRef"),
        Rule(
            allowed="names that start with HOLDFAST_ are taken by Holdfast: choose another prefix",
            cel="!has(self.prefix) || !self.prefix.startsWith('HOLDFAST_')",
            holds=lambda source: not source.prefix.startswith("HOLDFAST_"),
            got_cel="self.prefix",
            got=lambda source: source.prefix,
            field=".prefix",
        ),
    )


class EmptyDir(Model):
    """Scratch space that lives as long as the pod."""

    medium: Literal["", "Memory"] = ""
    """Memory keeps it in the node's memory, where it counts as the trainer's."""
    size_limit: Quantity | None = None
    """The pod is evicted when it holds more, such as 10Gi."""


class ClaimRef(Model):
    """A PersistentVolumeClaim in the job's namespace."""

    claim_name: ObjectName
    """Name of the claim."""
    read_only: Flag = False
    """True mounts it for reading only."""


class ConfigMapSource(Model):
    """A ConfigMap as files."""

    name: ObjectName
    """Name of the ConfigMap."""
    optional: Flag = False
    """True if it may be missing."""


class SecretSource(Model):
    """A Secret as files."""

    secret_name: ObjectName
    """Name of the Secret."""
    optional: Flag = False
    """True if it may be missing."""


class Volume(Model):
    """A volume and where it is mounted in the trainer; exactly one source is set."""

    name: Label
    """Name of the volume; names that start with holdfast- are taken."""
    mount_path: MountPath
    """Where the trainer finds it; /holdfast and below are taken."""
    sub_path: RelativePath | None = None
    """Folder in the volume to mount, the whole volume if it is not set."""
    read_only: Flag = False
    """True mounts it for reading only."""
    empty_dir: EmptyDir | None = None
    """Scratch space that lives as long as the pod."""
    config_map: ConfigMapSource | None = None
    """A ConfigMap as files."""
    secret: SecretSource | None = None
    """A Secret as files."""
    persistent_volume_claim: ClaimRef | None = None
    """A PersistentVolumeClaim."""

    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("emptyDir", "configMap", "secret", "persistentVolumeClaim"),
        Rule(
            allowed="names that start with holdfast- are taken by Holdfast: choose another",
            cel="!self.name.startsWith('holdfast-')",
            holds=lambda volume: not volume.name.startswith("holdfast-"),
            got_cel="self.name",
            got=lambda volume: volume.name,
            field=".name",
        ),
        Rule(
            allowed="/holdfast and everything below is taken by Holdfast: choose another path",
            cel="self.mountPath != '/holdfast' && !self.mountPath.startsWith('/holdfast/')",
            holds=lambda volume: volume.mount_path != "/holdfast" and not volume.mount_path.startswith("/holdfast/"),
            got_cel="self.mountPath",
            got=lambda volume: volume.mount_path,
            field=".mountPath",
        ),
    )


def _positive(field: str, attribute: str) -> Rule:
    text = f"string(self.{field})"
    return Rule(
        allowed=f"{field} must be above 0",
        cel=f"quantity({text}).isGreaterThan(quantity('0'))",
        holds=lambda resources: quantity_value(getattr(resources, attribute)) > 0,
        got_cel=text,
        got=lambda resources: str(getattr(resources, attribute)),
        field=f".{field}",
    )


class Resources(Model):
    """What the trainer asks for on its node, accelerators aside. Requests equal limits."""

    cpu: Quantity = "1"
    """Processor cores, such as 16 or 500m."""
    memory: Quantity = "1Gi"
    """Memory, such as 120Gi."""
    shared_memory: Quantity | None = None
    """Size of /dev/shm, which data loaders need, such as 16Gi; the container runtime's 64Mi if it is not set."""

    rules: ClassVar[tuple[Rule, ...]] = (_positive("cpu", "cpu"), _positive("memory", "memory"))


class SecurityContext(Model):
    """The part of a pod's security context that a job may choose."""

    run_as_user: Count | None = None
    """User id of the program. With one that is not 0 the pod satisfies pod security `restricted`, else `baseline`."""
    run_as_group: Count | None = None
    """Group id of the program."""
    fs_group: Count | None = None
    """Group that owns the volumes."""


def _mounted_twice(trainer: "Trainer") -> list[str]:
    paths = [volume.mount_path for volume in trainer.volumes]
    return [path for path in paths if paths.count(path) > 1]


_TWICE = "self.volumes.filter(v, !self.volumes.exists_one(w, w.mountPath == v.mountPath))"


class Trainer(Model):
    """What runs: an allow-list of pod fields, not a pod template."""

    image: Image
    """Container image of the program; it has Python 3.9 or newer as python3."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled; the cluster's default if it is not set."""
    image_pull_secrets: Annotated[tuple[LocalRef, ...], Field(max_length=16), KeyedBy("name")] = ()
    """Secrets for pulling the image."""
    command: Annotated[tuple[AnyText, ...], Field(max_length=64)] = ()
    """The program and its first arguments, such as [torchrun, train.py]."""
    args: Annotated[tuple[AnyText, ...], Field(max_length=256)] = ()
    """Further arguments."""
    working_dir: AbsolutePath | None = None
    """Folder in which the program starts; the image's if it is not set."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=256), KeyedBy("name")] = ()
    """Environment variables."""
    env_from: Annotated[tuple[EnvFrom, ...], Field(max_length=32)] = ()
    """Secrets and ConfigMaps whose keys become environment variables."""
    volumes: Annotated[tuple[Volume, ...], Field(max_length=32), KeyedBy("name")] = ()
    """Volumes of the program."""
    accelerators_per_node: Annotated[int, Field(strict=True, ge=0, le=64)] = 1
    """Accelerators that the program gets on a node of a tier that has them; 0 for a program that needs none."""
    resources: Resources = Resources()
    """What the program needs on its node besides accelerators."""
    security_context: SecurityContext = SecurityContext()
    """User and groups of the program."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            allowed="no two volumes may have the same mountPath",
            cel=f"!has(self.volumes) || {_TWICE}.size() == 0",
            holds=lambda trainer: not _mounted_twice(trainer),
            got=lambda trainer: _mounted_twice(trainer)[0],
            field=".volumes",
        ),
    )
